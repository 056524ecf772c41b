//! Pods as the scheduler sees them.

use std::sync::Arc;

use lazaret_api::read_classic_pod;
use lazaret_model::{ConditionStatus, Pod as Known, Timestamp};
use lazaret_runtime::Object;
use lazaret_scheduler::{Amounts, Pod, Unscheduled, node_allocatable_extra};

use crate::{Sources, classic::may_have_claims};

/// A pod to be scheduled or already bound; `None` when its classic claims cannot be decoded.
pub(super) fn pod(known: &Known, object: &Object, sources: Sources) -> Option<Pod> {
    let unscheduled = known
        .conditions
        .iter()
        .find(|condition| condition.kind == "PodScheduled")
        .filter(|condition| condition.status == ConditionStatus::False);
    let classic = sources.has_classic() && may_have_claims(object.json());
    Some(Pod {
        key: known.key.clone(),
        uid: known.uid.clone(),
        labels: Arc::clone(&known.labels),
        owner: known.owner.clone(),
        node: known.node.clone(),
        phase: known.phase,
        deleting: known.deleting_since.is_some(),
        created: known.created.unwrap_or(Timestamp::EPOCH),
        started: known.started,
        nominated: known.nominated.clone(),
        unscheduled: unscheduled.map(|condition| Unscheduled {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
        }),
        claims: known.claims.clone(),
        classic: if classic { read_classic_pod(object.json())?.claims } else { Vec::new() },
        extended_claim: known.extended_claim.clone(),
        // Where groups are not watched, pods are scheduled without them.
        group: known.group.clone().filter(|_| sources.has_groups()),
        extra: extra(known),
        spec: Arc::clone(&known.spec),
    })
}

/// The resources of its node that a pod takes beside its requests.
fn extra(known: &Known) -> Option<Arc<Amounts>> {
    let statuses = &known.rare.as_ref().filter(|rare| !rare.node_allocatable.is_empty())?.node_allocatable;
    Some(Arc::new(node_allocatable_extra(statuses, &known.spec)))
}
