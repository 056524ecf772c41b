//! Pods, groups of pods, and nodes.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{
    ClaimSource, Effect, EvictionSay, Node, NodeRequirements, Pod, PodClaim, PodGroup, PodPhase, Taint, Text,
    Toleration,
};

use super::{Result, claim, each, meta, non_empty, required, texts};
use crate::{
    field::Path,
    mark::{EVICTION_GROUP, EVICTION_MARK, EVICTION_SAY, read_eviction_mark},
    wire,
};

/// The taint that goes with a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taints that every pod is made to tolerate for some minutes once it runs. They say nothing about where it may start.
const TOLERATED_BY_ALL: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub(crate) fn pod(wire: wire::Pod) -> Result<Pod> {
    let mut metadata = wire.metadata.0;
    let (spec, status) = (wire.spec.0, wire.status.0);
    let path = Path::ROOT.field("spec");
    let statuses = status.resource_claim_statuses.0;
    let evicted_by = metadata.annotations.0.get(EVICTION_MARK).and_then(|text| read_eviction_mark(&text.0));
    let said = metadata.annotations.0.get(EVICTION_SAY).and_then(|text| EvictionSay::parse(&text.0));
    let group = metadata.labels.0.remove(EVICTION_GROUP).and_then(|text| non_empty(text.0));
    let node_requirements = node_requirements(spec.node_selector.0, spec.affinity.0, spec.tolerations.0);
    Ok(Pod {
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        node: non_empty(spec.node_name.0),
        phase: phase(&status.phase.0),
        deleting_since: metadata.deletion_timestamp.map(|time| time.0),
        claims: pod_claims(spec.resource_claims.0, &statuses, &path.field("resourceClaims"))?,
        extended_claim: non_empty(status.extended_resource_claim_status.0.resource_claim_name.0),
        group: spec.scheduling_group.0.pod_group_name.and_then(non_empty),
        priority: spec.priority.0,
        created: metadata.creation_timestamp.map(|time| time.0),
        owner: meta::controller(metadata.owner_references.0),
        conditions: status.conditions.0.into_iter().map(meta::condition).collect(),
        eviction_say: said,
        eviction_group: group,
        evicted_by,
        node_requirements,
    })
}

/// Most pods have none.
fn node_requirements(
    labels: BTreeMap<String, wire::Nullable<String>>,
    affinity: wire::Affinity,
    tolerations: Vec<wire::Toleration>,
) -> Option<Arc<NodeRequirements>> {
    let usual = |toleration: &Toleration| {
        TOLERATED_BY_ALL.contains(&&*toleration.key) && toleration.effect == Some(Effect::NoExecute)
    };
    let found = NodeRequirements {
        labels: labels.into_iter().map(|(key, value)| (key.into(), value.0.into())).collect(),
        affinity: affinity
            .node_affinity
            .0
            .required_during_scheduling_ignored_during_execution
            .map(meta::node_selector),
        tolerations: tolerations.into_iter().map(claim::toleration).filter(|one| !usual(one)).collect(),
    };
    (found != NodeRequirements::default()).then(|| Arc::new(found))
}

pub(crate) fn pod_group(wire: wire::PodGroup) -> Result<PodGroup> {
    let mut metadata = wire.metadata.0;
    let (spec, statuses) = (wire.spec.0, wire.status.0.resource_claim_statuses.0);
    let path = Path::ROOT.field("spec");
    Ok(PodGroup {
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        deleting: metadata.deletion_timestamp.is_some(),
        claims: each(spec.resource_claims.0, &path.field("resourceClaims"), |wire, path| {
            pod_claim(wire, &statuses, path)
        })?,
        gang: spec.scheduling_policy.0.gang.map(|gang| gang.min_count.0),
    })
}

fn phase(name: &str) -> PodPhase {
    match name {
        "" | "Pending" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

/// Claims of `resource.k8s.io`. Classic ones are read by [`crate::read_classic_pod`].
fn pod_claims(
    wire: Vec<wire::PodClaim>,
    statuses: &[wire::PodClaimStatus],
    path: &Path<'_>,
) -> Result<Vec<PodClaim>> {
    let entries = wire.into_iter().enumerate();
    let structured =
        entries.filter(|(_, entry)| entry.template.is_none() && entry.classic_claim_name.is_none());
    structured.map(|(at, entry)| pod_claim(entry, statuses, &path.index(at))).collect()
}

fn pod_claim(wire: wire::PodClaim, statuses: &[wire::PodClaimStatus], path: &Path<'_>) -> Result<PodClaim> {
    let name = required(wire.name.0, &path.field("name"))?;
    let source = match (wire.resource_claim_name, wire.resource_claim_template_name) {
        (Some(_), Some(_)) => {
            let fields = "resourceClaimName or resourceClaimTemplateName";
            return Err(path.error(format!("has either {fields}, not both")));
        }
        (Some(claim), None) => ClaimSource::Claim(claim.into()),
        (None, Some(template)) => {
            let status = statuses.iter().find(|status| status.name.0 == *name);
            let claim = |status: &wire::PodClaimStatus| status.resource_claim_name.as_deref().map(Text::from);
            ClaimSource::Template { template: template.into(), resolved: status.map(claim) }
        }
        (None, None) => ClaimSource::Unknown,
    };
    Ok(PodClaim { name, source })
}

pub(crate) fn node(wire: wire::Node) -> Result<Node> {
    let mut metadata = wire.metadata.0;
    let labels = std::mem::take(&mut metadata.labels.0);
    let spec = wire.spec.0;
    let mut taints: Vec<Taint> = spec.taints.0.into_iter().map(node_taint).collect();
    if spec.unschedulable.0 && !taints.iter().any(|taint| taint.key == UNSCHEDULABLE) {
        taints.push(Taint { key: UNSCHEDULABLE.into(), effect: Effect::NoSchedule, ..Taint::default() });
    }
    Ok(Node {
        name: meta::name(&mut metadata)?,
        labels: labels.into_iter().map(|(key, value)| (key.into(), value.0.into())).collect(),
        declared_features: texts(wire.status.0.declared_features.0),
        taints,
    })
}

fn node_taint(wire: wire::Taint) -> Taint {
    Taint {
        key: wire.key.0.into(),
        value: wire.value.0.into(),
        effect: Effect::from_name(&wire.effect.0),
        time_added: wire.time_added.map(|time| time.0),
        ..Taint::default()
    }
}
