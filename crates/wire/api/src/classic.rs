//! Objects of classic dynamic resource allocation, `cdi.k8s.io/v1alpha1`, and the classic claims of pods.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_classic::{
    AllocationMode, ClaimSpec, ClaimStatus, ContainerClaims, DriverScheduling, Phase, Pod, PodClaim,
    PodClaimSource, Reference, ResourceClaim, ResourceClass, SchedulerScheduling, Template,
};
use lazaret_model::{ObjectKey, Text};
use serde_json::{Map, Value, json};

use crate::{
    allocation::node_selector_to_wire,
    convert::node_selector,
    decode::read_quietly,
    fields,
    wire::{self, Instant, Nullable, OwnerReference, Raw},
};

/// The group of classic claims and their classes.
pub const CLASSIC_GROUP: &str = "cdi.k8s.io";

fields! {
    struct WireClass {
        metadata: Nullable<Metadata> = "metadata",
        driver_name: Nullable<String> = "driverName",
        parameters: Option<Raw> = "parameters",
    }

    struct WireClaim {
        metadata: Nullable<Metadata> = "metadata",
        spec: Nullable<WireSpec> = "spec",
        status: Nullable<WireStatus> = "status",
    }

    struct Metadata {
        name: Nullable<String> = "name",
        namespace: Nullable<String> = "namespace",
        uid: Nullable<String> = "uid",
        resource_version: Nullable<String> = "resourceVersion",
        deletion_timestamp: Option<Instant> = "deletionTimestamp",
        finalizers: Nullable<Vec<String>> = "finalizers",
        owner_references: Nullable<Vec<OwnerReference>> = "ownerReferences",
    }

    struct WireSpec {
        resource_class_name: Nullable<String> = "resourceClassName",
        parameters: Option<Raw> = "parameters",
        allocation_mode: Nullable<String> = "allocationMode",
    }

    struct WireStatus {
        phase: Nullable<String> = "phase",
        driver_name: Nullable<String> = "driverName",
        scheduling: Nullable<Scheduling> = "scheduling",
        attributes: Nullable<BTreeMap<String, Nullable<String>>> = "attributes",
        user_limit: Nullable<i64> = "userLimit",
        reserved_for: Nullable<Vec<OwnerReference>> = "reservedFor",
    }

    struct Scheduling {
        scheduler: Nullable<OfScheduler> = "scheduler",
        driver: Nullable<OfDriver> = "driver",
    }

    struct OfScheduler {
        selected_node: Nullable<String> = "selectedNode",
        potential_nodes: Nullable<Vec<String>> = "potentialNodes",
    }

    struct OfDriver {
        unsuitable_nodes: Nullable<Vec<String>> = "unsuitableNodes",
        available_on_nodes: Option<wire::NodeSelector> = "availableOnNodes",
    }

    struct WirePod {
        metadata: Nullable<Metadata> = "metadata",
        spec: Nullable<WirePodSpec> = "spec",
        status: Nullable<WirePodStatus> = "status",
    }

    struct WirePodSpec {
        node_name: Nullable<String> = "nodeName",
        resource_claims: Nullable<Vec<WirePodClaim>> = "resourceClaims",
        init_containers: Nullable<Vec<Container>> = "initContainers",
        containers: Nullable<Vec<Container>> = "containers",
        ephemeral_containers: Nullable<Vec<Container>> = "ephemeralContainers",
    }

    struct WirePodStatus {
        phase: Nullable<String> = "phase",
    }

    struct Container {
        resources: Nullable<Resources> = "resources",
    }

    struct Resources {
        claims: Nullable<Vec<ContainerClaim>> = "claims",
    }

    struct ContainerClaim {
        name: Nullable<String> = "name",
    }

    struct WirePodClaim {
        name: Nullable<String> = "name",
        classic_claim_name: Option<String> = "classicClaimName",
        template: Option<WireTemplate> = "template",
    }

    struct WireTemplate {
        metadata: Nullable<TemplateMetadata> = "metadata",
        spec: Nullable<WireSpec> = "spec",
    }

    struct TemplateMetadata {
        labels: Nullable<BTreeMap<String, Nullable<String>>> = "labels",
        annotations: Nullable<BTreeMap<String, Nullable<String>>> = "annotations",
    }
}

/// A class; `None`: it cannot be understood.
#[must_use]
pub fn read_classic_class(json: &[u8]) -> Option<ResourceClass> {
    let WireClass { metadata, driver_name, parameters } = read_quietly(json)?;
    Some(ResourceClass {
        name: metadata.0.name.0.into(),
        driver_name: driver_name.0.into(),
        parameters: raw(parameters),
    })
}

/// A claim; `None`: it cannot be understood.
#[must_use]
pub fn read_classic_claim(json: &[u8]) -> Option<ResourceClaim> {
    let WireClaim { metadata, spec, status } = read_quietly(json)?;
    let metadata = metadata.0;
    Some(ResourceClaim {
        key: ObjectKey { namespace: metadata.namespace.0.into(), name: metadata.name.0.into() },
        uid: metadata.uid.0.into(),
        version: metadata.resource_version.0.into(),
        deleting: metadata.deletion_timestamp.is_some(),
        finalizers: texts(metadata.finalizers.0),
        owners: metadata.owner_references.0.into_iter().map(reference).collect(),
        spec: Arc::new(claim_spec(spec.0)?),
        status: claim_status(status.0)?,
    })
}

/// A pod with its classic claims, and no others; `None`: it cannot be understood.
#[must_use]
pub fn read_classic_pod(json: &[u8]) -> Option<Pod> {
    let WirePod { metadata, spec, status } = read_quietly(json)?;
    let (metadata, spec) = (metadata.0, spec.0);
    let claims = pod_claims(spec.resource_claims.0)?;
    let entries: Vec<Text> = claims.iter().map(|claim| claim.name.clone()).collect();
    let lists = [
        ("initContainers", spec.init_containers.0),
        ("containers", spec.containers.0),
        ("ephemeralContainers", spec.ephemeral_containers.0),
    ];
    let containers = lists.into_iter().flat_map(|(field, list)| {
        list.into_iter().enumerate().map(move |(at, container)| (format!("spec.{field}[{at}]"), container))
    });
    let containers = containers.map(|(path, container)| {
        let names = container.resources.0.claims.0.into_iter().map(|claim| Text::from(claim.name.0));
        ContainerClaims { path: path.into(), claims: names.filter(|name| entries.contains(name)).collect() }
    });
    Some(Pod {
        key: ObjectKey { namespace: metadata.namespace.0.into(), name: metadata.name.0.into() },
        uid: metadata.uid.0.into(),
        containers: containers.filter(|container| !container.claims.is_empty()).collect(),
        claims,
        node: Some(spec.node_name.0).filter(|node| !node.is_empty()).map(Text::from),
        ended: matches!(status.0.phase.0.as_str(), "Succeeded" | "Failed"),
        deleting: metadata.deletion_timestamp.is_some(),
    })
}

/// The classic ones among the claims in the spec of a pod; `None`: they cannot be understood.
#[must_use]
pub fn read_classic_pod_claims(pod_spec: &[u8]) -> Option<Vec<PodClaim>> {
    let spec: WirePodSpec = read_quietly(pod_spec)?;
    pod_claims(spec.resource_claims.0)
}

/// A status as the API writes it. An absent field is written as null, so that a merge patch removes it.
#[must_use]
pub fn classic_status_to_json(status: &ClaimStatus) -> Value {
    let ClaimStatus { phase, driver_name, scheduler, driver, attributes, user_limit, reserved_for } = status;
    let names = |nodes: &[Text]| -> Value { nodes.iter().map(|node| Value::from(node.as_str())).collect() };
    let or_null = |value: Value, is_empty: bool| if is_empty { Value::Null } else { value };
    let of_scheduler = json!({
        "selectedNode": scheduler.selected_node.as_ref().map(Text::as_str),
        "potentialNodes": or_null(names(&scheduler.potential_nodes), scheduler.potential_nodes.is_empty()),
    });
    let of_driver = json!({
        "unsuitableNodes": or_null(names(&driver.unsuitable_nodes), driver.unsuitable_nodes.is_empty()),
        "availableOnNodes": driver.available_on_nodes.as_deref().map(node_selector_to_wire),
    });
    let is_empty = |map: &Value| map.as_object().is_some_and(|map| map.values().all(Value::is_null));
    let (no_scheduler, no_driver) = (is_empty(&of_scheduler), is_empty(&of_driver));
    let scheduling = json!({
        "scheduler": or_null(of_scheduler, no_scheduler),
        "driver": or_null(of_driver, no_driver),
    });
    let attributes: Map<String, Value> = attributes
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), Value::from(value.as_str())))
        .collect();
    json!({
        "phase": phase_name(*phase),
        "driverName": or_null(driver_name.as_str().into(), driver_name.is_empty()),
        "scheduling": or_null(scheduling, no_scheduler && no_driver),
        "attributes": or_null(attributes.clone().into(), attributes.is_empty()),
        "userLimit": user_limit,
        "reservedFor": or_null(reserved_for.iter().map(reference_to_json).collect(), reserved_for.is_empty()),
    })
}

/// A JSON patch that writes the whole status of the claim with this UID and version. With others it is a conflict.
#[must_use]
pub fn classic_status_patch(uid: &str, version: &str, status: &ClaimStatus) -> String {
    let set = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    json!([
        set("/metadata/uid", uid.into()),
        set("/metadata/resourceVersion", version.into()),
        set("/status", classic_status_to_json(status)),
    ])
    .to_string()
}

/// A JSON patch that writes all finalizers of the claim with this UID and version. With others it is a conflict.
#[must_use]
pub fn classic_finalizers_patch(uid: &str, version: &str, finalizers: &[Text]) -> String {
    let set = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let finalizers = finalizers.iter().map(|name| Value::from(name.as_str())).collect();
    json!([
        set("/metadata/uid", uid.into()),
        set("/metadata/resourceVersion", version.into()),
        set("/metadata/finalizers", finalizers),
    ])
    .to_string()
}

/// The spec of a claim as the API writes it.
#[must_use]
pub fn classic_spec_to_json(spec: &ClaimSpec) -> Value {
    let mut wire =
        json!({"resourceClassName": spec.class_name.as_str(), "allocationMode": mode_name(spec.mode)});
    if let Ok(parameters) = serde_json::from_str::<Value>(&spec.parameters) {
        wire["parameters"] = parameters;
    }
    wire
}

/// An owner reference as the API writes it.
#[must_use]
pub fn reference_to_json(reference: &Reference) -> Value {
    json!({
        "apiVersion": reference.api_version.as_str(),
        "kind": reference.kind.as_str(),
        "name": reference.name.as_str(),
        "uid": reference.uid.as_str(),
    })
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Allocated => "Allocated",
        Phase::Reallocate => "Reallocate",
    }
}

fn mode_name(mode: AllocationMode) -> &'static str {
    match mode {
        AllocationMode::Immediate => "Immediate",
        AllocationMode::Delayed => "Delayed",
    }
}

/// `None`: a mode that this version does not know.
fn claim_spec(wire: WireSpec) -> Option<ClaimSpec> {
    Some(ClaimSpec {
        class_name: wire.resource_class_name.0.into(),
        parameters: raw(wire.parameters),
        mode: match wire.allocation_mode.0.as_str() {
            "" | "Delayed" => AllocationMode::Delayed,
            "Immediate" => AllocationMode::Immediate,
            _ => return None,
        },
    })
}

/// `None`: a phase that this version does not know.
fn claim_status(wire: WireStatus) -> Option<ClaimStatus> {
    let Scheduling { scheduler, driver } = wire.scheduling.0;
    Some(ClaimStatus {
        phase: match wire.phase.0.as_str() {
            "" | "Pending" => Phase::Pending,
            "Allocated" => Phase::Allocated,
            "Reallocate" => Phase::Reallocate,
            _ => return None,
        },
        driver_name: wire.driver_name.0.into(),
        scheduler: SchedulerScheduling {
            selected_node: Some(scheduler.0.selected_node.0).filter(|node| !node.is_empty()).map(Text::from),
            potential_nodes: texts(scheduler.0.potential_nodes.0).into(),
        },
        driver: DriverScheduling {
            unsuitable_nodes: texts(driver.0.unsuitable_nodes.0).into(),
            available_on_nodes: driver.0.available_on_nodes.map(node_selector).map(Arc::new),
        },
        attributes: wire
            .attributes
            .0
            .into_iter()
            .map(|(name, value)| (name.into(), value.0.into()))
            .collect(),
        user_limit: if wire.user_limit.0 == 0 { 1 } else { wire.user_limit.0 },
        reserved_for: wire.reserved_for.0.into_iter().map(reference).collect(),
    })
}

fn pod_claims(wire: Vec<WirePodClaim>) -> Option<Vec<PodClaim>> {
    let mut claims = Vec::new();
    for entry in wire {
        if entry.template.is_none() && entry.classic_claim_name.is_none() {
            continue;
        }
        let template = match entry.template {
            Some(template) => Some(Arc::new(self::template(template)?)),
            None => None,
        };
        let source = match (entry.classic_claim_name, template) {
            (Some(name), Some(template)) => Some(PodClaimSource::Both(name.into(), template)),
            (Some(name), None) => Some(PodClaimSource::Named(name.into())),
            (None, Some(template)) => Some(PodClaimSource::Template(template)),
            (None, None) => None,
        };
        claims.push(PodClaim { name: entry.name.0.into(), source });
    }
    Some(claims)
}

fn template(wire: WireTemplate) -> Option<Template> {
    let map = |map: BTreeMap<String, Nullable<String>>| {
        map.into_iter().map(|(key, value)| (key.into(), value.0.into())).collect()
    };
    Some(Template {
        labels: map(wire.metadata.0.labels.0),
        annotations: map(wire.metadata.0.annotations.0),
        other_metadata: Vec::new(),
        spec: Arc::new(claim_spec(wire.spec.0)?),
    })
}

fn reference(wire: OwnerReference) -> Reference {
    Reference {
        api_version: wire.api_version.0.into(),
        kind: wire.kind.0.into(),
        name: wire.name.0.into(),
        uid: wire.uid.0.into(),
    }
}

/// JSON as it was written; empty when there is none.
fn raw(value: Option<Raw>) -> Text {
    value.map(|raw| raw.0.get().into()).filter(|text: &Text| text.as_str() != "null").unwrap_or_default()
}

fn texts(list: Vec<String>) -> Vec<Text> {
    list.into_iter().map(Text::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_read_and_its_status_written_as_it_was() {
        let status = json!({
            "phase": "Allocated", "driverName": "gpu.acme.com", "userLimit": 2,
            "scheduling": {"scheduler": null, "driver": {"unsuitableNodes": null, "availableOnNodes": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}],
            }}},
            "attributes": {"device": "gpu-7"},
            "reservedFor": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
        });
        let claim = json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "1", "resourceVersion": "7", "finalizers": ["a/b"]},
            "spec": {"resourceClassName": "acme-gpu", "parameters": {"memory": "2Gi"}, "allocationMode": "Immediate"},
            "status": status,
        });
        let read = read_classic_claim(claim.to_string().as_bytes()).unwrap();
        assert_eq!((read.key.to_string(), &*read.version, read.deleting), ("n/c".to_owned(), "7", false));
        assert_eq!((read.status.phase, read.status.user_limit), (Phase::Allocated, 2));
        assert_eq!(classic_status_to_json(&read.status), status);
        assert_eq!(classic_spec_to_json(&read.spec), claim["spec"]);
    }

    #[test]
    fn an_empty_status_says_pending_and_clears_the_rest() {
        let written = classic_status_to_json(&ClaimStatus::default());
        assert_eq!(
            written,
            json!({
                "phase": "Pending", "driverName": null, "scheduling": null, "attributes": null, "userLimit": 1,
                "reservedFor": null,
            })
        );
        let read = read_classic_claim(br#"{"metadata": {"name": "c"}, "spec": {}}"#).unwrap();
        assert_eq!(read.status, ClaimStatus::default());
    }

    #[test]
    fn a_pod_has_classic_claims_by_template_and_by_name() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {
                "resourceClaims": [
                    {"name": "today", "resourceClaimName": "structured"},
                    {"name": "gpu", "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"resourceClassName": "acme-gpu"}}},
                    {"name": "shared", "classicClaimName": "c"},
                ],
                "containers": [{"name": "x", "resources": {"claims": [{"name": "today"}, {"name": "gpu"}]}}],
            },
        });
        let read = read_classic_pod(pod.to_string().as_bytes()).unwrap();
        let names: Vec<_> = read.claim_keys().iter().map(ToString::to_string).collect();
        assert_eq!(names, ["n/p-gpu", "n/c"]);
        assert_eq!(read.containers[0].claims, [Text::from("gpu")]);
        let claims = read_classic_pod_claims(pod["spec"].to_string().as_bytes()).unwrap();
        assert_eq!(claims, read.claims);
    }

    #[test]
    fn a_phase_or_a_mode_that_nobody_knows_cannot_be_understood() {
        let claim = |spec: Value, status: Value| {
            read_classic_claim(
                json!({"metadata": {"name": "c"}, "spec": spec, "status": status}).to_string().as_bytes(),
            )
        };
        assert!(claim(json!({"allocationMode": "Later"}), json!({})).is_none());
        assert!(claim(json!({}), json!({"phase": "Lost"})).is_none());
        assert!(claim(json!({"allocationMode": "Delayed"}), json!({"phase": "Pending"})).is_some());
    }
}
