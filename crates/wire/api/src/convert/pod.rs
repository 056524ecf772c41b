//! Pods.

use std::sync::Arc;

use lazaret_model::{
    ClaimSource, DeviceHealth, Effect, EvictionPreference, Labels, NodeAllocatableStatus, NodeRequirements,
    Overhead, Pod, PodClaim, PodPhase, PodSpec, RarePodFields, Text, Toleration,
};

use super::{Result, meta, non_empty, pod_spec::pod_spec, required, texts};
use crate::{
    field::Path,
    mark::{EVICTION_GROUP, EVICTION_MARK, EVICTION_SAY, REPLACEMENT_MARK, read_eviction_mark},
    wire,
};

/// Taints that every pod is made to tolerate for some minutes once it runs. They say nothing about where it may start.
const TOLERATED_BY_ALL: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// The annotation of the kubelet's own pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The fields that pods of one template have in common.
#[derive(Debug)]
pub struct PodTemplate {
    labels: Arc<Labels>,
    spec: Arc<PodSpec>,
    /// Without the names of claims that were made from templates.
    claims: Vec<PodClaim>,
    group: Option<Text>,
    eviction_group: Option<Text>,
    node_requirements: Option<Arc<NodeRequirements>>,
}

pub(crate) fn pod_template(metadata: &wire::ObjectMeta, mut spec: wire::PodSpec) -> Result<PodTemplate> {
    let labels = metadata.labels.0.iter();
    let labels: Labels = labels.map(|(key, value)| (key.as_str().into(), value.0.as_str().into())).collect();
    let claims = std::mem::take(&mut spec.resource_claims.0);
    let group = spec.scheduling_group.0.pod_group_name.take().and_then(non_empty);
    let spec = pod_spec(&meta::namespace(metadata), &labels, spec);
    Ok(PodTemplate {
        claims: pod_claims(claims, &Path::ROOT.field("spec").field("resourceClaims"))?,
        group,
        eviction_group: labels.get(EVICTION_GROUP).filter(|group| !group.is_empty()).cloned(),
        node_requirements: node_requirements(&spec),
        labels: Arc::new(labels),
        spec: Arc::new(spec),
    })
}

/// A pod of this template.
pub(crate) fn pod(
    mut metadata: wire::ObjectMeta,
    node: String,
    template: &PodTemplate,
    status: wire::PodStatus,
) -> Result<Pod> {
    let annotation = |name: &str| metadata.annotations.0.get(name).map(|text| text.0.as_str());
    let claims = resolve(template.claims.clone(), &status.resource_claim_statuses.0);
    let rare = RarePodFields {
        mirror: annotation(MIRROR).is_some(),
        kept_by: kept_by(&metadata),
        replacement: annotation(REPLACEMENT_MARK).map(Text::from),
        node_allocatable: status.node_allocatable.0.into_iter().map(node_allocatable).collect(),
        device_health: device_health(
            status.container_statuses.0.into_iter().chain(status.init_container_statuses.0),
            &claims,
        ),
    };
    Ok(Pod {
        evicted_by: annotation(EVICTION_MARK).and_then(read_eviction_mark),
        eviction_preference: annotation(EVICTION_SAY).and_then(EvictionPreference::parse),
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        labels: Arc::clone(&template.labels),
        spec: Arc::clone(&template.spec),
        node: non_empty(node),
        phase: phase(&status.phase.0),
        deleting_since: metadata.deletion_timestamp.map(|time| time.0),
        claims,
        extended_claim: non_empty(status.extended_resource_claim_status.0.resource_claim_name.0),
        group: template.group.clone(),
        priority: template.spec.priority,
        created: metadata.creation_timestamp.map(|time| time.0),
        started: status.start_time.map(|time| time.0),
        nominated: non_empty(status.nominated_node_name.0),
        owner: meta::controller(metadata.owner_references.0),
        conditions: status.conditions.0.into_iter().map(meta::condition).collect(),
        eviction_group: template.eviction_group.clone(),
        node_requirements: template.node_requirements.clone(),
        rare: (rare != RarePodFields::default()).then(|| Box::new(rare)),
    })
}

/// The finalizer that alone keeps a pod which is terminating: its node has ended it.
fn kept_by(metadata: &wire::ObjectMeta) -> Option<Text> {
    let is_over = metadata.deletion_timestamp.is_some() && metadata.deletion_grace_period_seconds == Some(0);
    metadata.finalizers.0.first().filter(|_| is_over).map(|finalizer| finalizer.as_str().into())
}

/// Most pods have none.
fn node_requirements(spec: &PodSpec) -> Option<Arc<NodeRequirements>> {
    let usual = |toleration: &&Toleration| {
        TOLERATED_BY_ALL.contains(&&*toleration.key) && toleration.effect == Some(Effect::NoExecute)
    };
    let found = NodeRequirements {
        labels: spec.node_selector.clone(),
        affinity: spec.node_affinity.clone(),
        tolerations: spec.tolerations.iter().filter(|one| !usual(one)).cloned().collect(),
    };
    (found != NodeRequirements::default()).then(|| Arc::new(found))
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
fn pod_claims(wire: Vec<wire::PodClaim>, path: &Path<'_>) -> Result<Vec<PodClaim>> {
    let entries = wire.into_iter().enumerate();
    let structured =
        entries.filter(|(_, entry)| entry.template.is_none() && entry.classic_claim_name.is_none());
    structured.map(|(at, entry)| pod_claim(entry, &path.index(at))).collect()
}

/// An entry of `resourceClaims`, without the name of a claim that was made for it.
pub(super) fn pod_claim(wire: wire::PodClaim, path: &Path<'_>) -> Result<PodClaim> {
    let name = required(wire.name.0, &path.field("name"))?;
    let source = match (wire.resource_claim_name, wire.resource_claim_template_name) {
        (Some(_), Some(_)) => {
            let fields = "resourceClaimName or resourceClaimTemplateName";
            return Err(path.error(format!("has either {fields}, not both")));
        }
        (Some(claim), None) => ClaimSource::Claim(claim.into()),
        (None, Some(template)) => ClaimSource::Template { template: template.into(), resolved: None },
        (None, None) => ClaimSource::Unknown,
    };
    Ok(PodClaim { name, source })
}

/// The same entries with the names of the claims that were made for them.
pub(super) fn resolve(mut claims: Vec<PodClaim>, statuses: &[wire::PodClaimStatus]) -> Vec<PodClaim> {
    for PodClaim { name, source } in &mut claims {
        if let ClaimSource::Template { resolved, .. } = source {
            let status = statuses.iter().find(|status| status.name.0 == **name);
            *resolved = status.map(|status| status.resource_claim_name.as_deref().map(Text::from));
        }
    }
    claims
}

fn node_allocatable(wire: wire::NodeAllocatableStatus) -> NodeAllocatableStatus {
    let mapping = wire.mapping.0.into_iter();
    let overhead = wire.overhead.0.into_iter().map(|cost| {
        let overhead = Overhead {
            per_pod: cost.per_pod.map(|amount| amount.0),
            per_container: cost.per_container.map(|amount| amount.0),
        };
        (cost.name.0.into(), overhead)
    });
    NodeAllocatableStatus {
        claim: wire.resource_claim_name.0.into(),
        containers: texts(wire.containers.0),
        mapping: mapping.filter_map(|mapped| Some((mapped.name.0.into(), mapped.quantity?.0))).collect(),
        overhead: overhead.collect(),
    }
}

fn device_health(
    containers: impl Iterator<Item = wire::ContainerStatus>,
    claims: &[PodClaim],
) -> Vec<DeviceHealth> {
    let mut all: Vec<DeviceHealth> = Vec::new();
    for allocated in containers.flat_map(|container| container.allocated.0) {
        // As kubelet writes it: claim:ENTRY or claim:ENTRY/REQUEST.
        let Some(rest) = allocated.name.0.strip_prefix("claim:") else { continue };
        let (entry, request) = match rest.split_once('/') {
            Some((entry, request)) => (entry, Some(Text::from(request))),
            None => (rest, None),
        };
        let Some(claim) = claims.iter().find(|claim| *claim.name == *entry).and_then(claim_name) else {
            continue;
        };
        for resource in allocated.resources.0 {
            let one = DeviceHealth {
                claim: claim.clone(),
                request: request.clone(),
                resource: resource.resource_id.0.into(),
                health: resource.health.0.into(),
                message: resource.message.0.into(),
            };
            if all.len() < RarePodFields::DEVICE_HEALTH_MAX && !all.contains(&one) {
                all.push(one);
            }
        }
    }
    all
}

fn claim_name(claim: &PodClaim) -> Option<&Text> {
    match &claim.source {
        ClaimSource::Claim(name) | ClaimSource::Template { resolved: Some(Some(name)), .. } => Some(name),
        ClaimSource::Template { resolved: None | Some(None), .. } | ClaimSource::Unknown => None,
    }
}
