//! Pods and the Node, as the API has them.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, PodStatus};
use lazaret_api::{read_awaiting, read_unprepared};
use lazaret_model::{AWAITING_CLASSIC_UNPREPARE, AWAITING_UNPREPARE, REPORTS_UNPREPARED, UNPREPARED};
use lazaret_node::{
    ClaimKind, ClaimName, ContainerClaim, ContainerUse, DeviceHealth, Life, PodClaim, PodView,
    ResourceHealth, ResourceStatus, SeenNode, SeenPod,
};

use crate::pod_object::PodObject;

/// A pod of this node. No containers run: one whose deletion was asked for has stopped.
pub(crate) fn seen(PodObject { pod, classic }: PodObject) -> SeenPod {
    let (metadata, spec, status) =
        (pod.metadata, pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let is_terminal = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let life = match (metadata.deletion_timestamp.is_some(), is_terminal) {
        (true, _) => Life::Deleted,
        (false, true) => Life::Ended,
        (false, false) => Life::Wanted,
    };
    let (mut claims, mut objects) = (Vec::new(), BTreeMap::new());
    for claim in spec.resource_claims.unwrap_or_default() {
        if let Some((name, is_generated)) = classic.get(&claim.name).cloned() {
            let kind = ClaimKind::Classic;
            objects.insert(claim.name, (kind, name.clone()));
            claims.push(PodClaim { kind, name: Some(name), is_generated });
            continue;
        }
        let kind = ClaimKind::Structured;
        let (name, is_generated) = match (claim.resource_claim_name, claim.resource_claim_template_name) {
            (Some(name), _) => (Some(name), false),
            (None, Some(_)) => match generated(&status, &claim.name) {
                // The claim is not needed.
                Some(None) => continue,
                Some(Some(name)) => (Some(name), true),
                None => (None, true),
            },
            (None, None) => (None, false),
        };
        if let Some(name) = &name {
            objects.insert(claim.name, (kind, name.clone()));
        }
        claims.push(PodClaim { kind, name, is_generated });
    }
    if let Some(extended) = &status.extended_resource_claim_status {
        let name = Some(extended.resource_claim_name.clone());
        claims.push(PodClaim { kind: ClaimKind::Structured, name, is_generated: false });
    }
    let init = spec.init_containers.unwrap_or_default().into_iter().map(|container| (container, true));
    let all = init.chain(spec.containers.into_iter().map(|container| (container, false)));
    let containers = all.map(|(container, is_init)| used(container, is_init, &objects, &status)).collect();
    let view = PodView {
        uid: metadata.uid.unwrap_or_default(),
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        claims,
    };
    SeenPod { view, life, containers, shown: shown(&status) }
}

/// The object that was made for a claim of a pod: none yet, none needed, or its name.
#[allow(clippy::option_option, reason = "that is what the API has")]
fn generated(status: &PodStatus, claim: &str) -> Option<Option<String>> {
    let made = status.resource_claim_statuses.iter().flatten().find(|made| made.name == claim)?;
    Some(made.resource_claim_name.clone())
}

fn used(
    container: Container,
    is_init: bool,
    objects: &BTreeMap<String, ClaimName>,
    status: &PodStatus,
) -> ContainerUse {
    let resources = container.resources.unwrap_or_default();
    let own = resources.claims.unwrap_or_default().into_iter().filter_map(|claim| {
        let (kind, object) = objects.get(&claim.name)?.clone();
        let request = claim.request.filter(|request| !request.is_empty());
        Some((Some(claim.name), ContainerClaim { kind, claim: object, request }))
    });
    let requests = resources.requests.unwrap_or_default();
    let asks = |resource: &str| requests.get(resource).is_some_and(|amount| amount.0 != "0");
    let extended = status.extended_resource_claim_status.iter().flat_map(|extended| {
        let mappings = extended.request_mappings.iter();
        mappings.map(|mapping| (extended.resource_claim_name.clone(), mapping))
    });
    let extended = extended
        .filter(|(_, mapping)| mapping.container_name == container.name && asks(&mapping.resource_name))
        .map(|(claim, mapping)| {
            let (kind, request) = (ClaimKind::Structured, Some(mapping.request_name.clone()));
            (None, ContainerClaim { kind, claim, request })
        });
    let claims = own.chain(extended).collect();
    ContainerUse { claims, name: container.name, is_init }
}

fn shown(status: &PodStatus) -> BTreeMap<String, Vec<ResourceStatus>> {
    let of = |container: &ContainerStatus| {
        let statuses = container.allocated_resources_status.iter().flatten();
        let statuses = statuses.filter(|status| status.name.starts_with("claim:"));
        let statuses: Vec<ResourceStatus> = statuses
            .map(|status| ResourceStatus {
                name: status.name.clone(),
                resources: status
                    .resources
                    .iter()
                    .flatten()
                    .map(|resource| ResourceHealth {
                        id: resource.resource_id.clone(),
                        health: match resource.health.as_deref() {
                            Some("Healthy") => DeviceHealth::Healthy,
                            Some("Unhealthy") => DeviceHealth::Unhealthy,
                            Some(_) | None => DeviceHealth::Unknown,
                        },
                        message: resource.message.clone(),
                    })
                    .collect(),
            })
            .collect();
        (container.name.clone(), statuses)
    };
    let all = status.container_statuses.iter().flatten().map(of);
    all.filter(|(_, statuses)| !statuses.is_empty()).collect()
}

/// The Node's annotations about claims that are awaited or unprepared.
pub(crate) fn seen_node(node: Node) -> SeenNode {
    let annotations = node.metadata.annotations.unwrap_or_default();
    let awaiting = [AWAITING_UNPREPARE, AWAITING_CLASSIC_UNPREPARE].into_iter();
    let awaiting = awaiting.filter_map(|name| annotations.get(name)).flat_map(|text| read_awaiting(text));
    let unprepared: BTreeSet<_> =
        annotations.get(UNPREPARED).map(|text| read_unprepared(text)).unwrap_or_default();
    SeenNode {
        reports: annotations.get(REPORTS_UNPREPARED).is_some_and(|value| value == "true"),
        awaiting: awaiting.map(|claim| claim.uid.to_string()).collect(),
        unprepared: unprepared.into_iter().map(|uid| uid.to_string()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(spec: serde_json::Value, status: serde_json::Value) -> SeenPod {
        let pod =
            json!({"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": spec, "status": status});
        seen(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn claims_are_resolved_by_name_template_and_extended_resource() {
        let seen = pod(
            json!({
                "resourceClaims": [
                    {"name": "own", "resourceClaimName": "direct"},
                    {"name": "made", "resourceClaimTemplateName": "t"},
                    {"name": "unneeded", "resourceClaimTemplateName": "t"},
                    {"name": "not-yet", "resourceClaimTemplateName": "t"},
                ],
                "initContainers": [{"name": "i", "resources": {"claims": [{"name": "own"}]}}],
                "containers": [
                    {"name": "a", "resources": {"claims": [{"name": "made", "request": "r"}, {"name": "unneeded"}]}},
                    {"name": "b", "resources": {"requests": {"example.com/gpu": "1", "example.com/no": "0"}}},
                ],
            }),
            json!({
                "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "p-made-x"}, {"name": "unneeded"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "ext", "requestMappings": [
                    {"containerName": "b", "resourceName": "example.com/gpu", "requestName": "r0"},
                    {"containerName": "b", "resourceName": "example.com/no", "requestName": "r1"},
                    {"containerName": "a", "resourceName": "example.com/gpu", "requestName": "r2"},
                ]},
            }),
        );
        let kind = ClaimKind::Structured;
        let named = |name: &str, is_generated| PodClaim { kind, name: Some(name.into()), is_generated };
        let not_yet = PodClaim { kind, name: None, is_generated: true };
        let expected = [named("direct", false), named("p-made-x", true), not_yet, named("ext", false)];
        assert_eq!(seen.view.claims, expected);
        let of = |index: usize| {
            let uses = seen.containers[index].claims.iter();
            let uses =
                uses.map(|(name, used)| (name.as_deref(), used.claim.as_str(), used.request.as_deref()));
            uses.collect::<Vec<_>>()
        };
        assert_eq!(of(0), [(Some("own"), "direct", None)]);
        assert_eq!(of(1), [(Some("made"), "p-made-x", Some("r"))]);
        assert_eq!(of(2), [(None, "ext", Some("r0"))]);
        assert!(seen.containers[0].is_init && !seen.containers[1].is_init);
    }

    #[test]
    fn classic_claims_are_those_that_an_entry_names_or_has_a_template_for() {
        let claims = ["made", "named", "today"].map(|name| json!({"name": name}));
        let seen = pod(
            json!({
                "resourceClaims": [
                    {"name": "today", "resourceClaimName": "same"},
                    {"name": "named", "classicClaimName": "same"},
                    {"name": "made", "template": {"spec": {"resourceClassName": "x"}}},
                ],
                "containers": [{"name": "c", "resources": {"claims": claims}}],
            }),
            json!({}),
        );
        let of = |kind, name: &str, is_generated| PodClaim { kind, name: Some(name.into()), is_generated };
        let expected = [
            of(ClaimKind::Structured, "same", false),
            of(ClaimKind::Classic, "same", false),
            of(ClaimKind::Classic, "p-made", true),
        ];
        assert_eq!(seen.view.claims, expected);
        let uses: Vec<_> =
            seen.containers[0].claims.iter().map(|(_, used)| (used.kind, used.claim.as_str())).collect();
        let expected =
            [(ClaimKind::Classic, "p-made"), (ClaimKind::Classic, "same"), (ClaimKind::Structured, "same")];
        assert_eq!(uses, expected);
        // An entry that cannot be understood is a claim that is not there: the pod does not start as if it had none.
        let odd = json!([{"name": "odd", "template": {"spec": 7}}]);
        let odd = pod(json!({"resourceClaims": odd, "containers": []}), json!({}));
        let missing = PodClaim { kind: ClaimKind::Structured, name: None, is_generated: false };
        assert_eq!(odd.view.claims, [missing]);
    }

    #[test]
    fn a_pod_ends_by_its_phase_or_its_deletion() {
        let life = |phase: &str| pod(json!({"containers": []}), json!({"phase": phase})).life;
        assert_eq!(
            ["Pending", "Running", "Succeeded", "Failed"].map(life),
            [Life::Wanted, Life::Wanted, Life::Ended, Life::Ended]
        );
        let pod =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Failed"}});
        assert_eq!(seen(serde_json::from_value(pod).unwrap()).life, Life::Deleted);
    }
}
