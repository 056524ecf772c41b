//! Groups of pods, and nodes.

use lazaret_model::{Effect, Node, PodGroup, Taint};

use super::{
    Result, each, meta,
    pod::{pod_claim, resolve},
    texts,
};
use crate::{field::Path, wire};

/// The taint that goes with a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) fn pod_group(wire: wire::PodGroup) -> Result<PodGroup> {
    let mut metadata = wire.metadata.0;
    let (spec, statuses) = (wire.spec.0, wire.status.0.resource_claim_statuses.0);
    let path = Path::ROOT.field("spec");
    Ok(PodGroup {
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        deleting: metadata.deletion_timestamp.is_some(),
        claims: resolve(each(spec.resource_claims.0, &path.field("resourceClaims"), pod_claim)?, &statuses),
        gang: spec.scheduling_policy.0.gang.map(|gang| gang.min_count.0),
    })
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
