//! Pods that say that they are about to be disrupted, and are not: after a while they stop saying so.
//!
//! An evicting client sets the condition first and deletes the pod then. One that dies in between leaves a condition that is not true.

use crate::{meta, pods, prelude::*};

/// A condition is trusted for this time.
const BELIEVED_SECS: i64 = 120;
const MARK: &str = "DisruptionTarget";
/// The kubelet marks a pod that it ends itself; how long that takes is up to the pod.
const BY_KUBELET: &str = "TerminationByKubelet";

/// Resets the condition `DisruptionTarget` of pods that were not deleted in time.
pub const RULES: Rules = Rules { name: "stale-disruption", needs: &[&resource::PODS], concerns, decide };

fn concerns(_: &World, change: &Change, keys: &mut Vec<Key>) {
    if let Some(Object::Pod(pod)) = &change.new
        && marked_at(pod).is_some()
    {
        keys.push(Key::of(&pod.metadata));
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(pod) = context.world.pods().get(context.key) else { return };
    let Some(marked) = marked_at(pod) else { return };
    let until = marked.plus_secs(BELIEVED_SECS);
    if until > context.now {
        plan.look_again(until);
    } else if let Some(write) = pods::with_condition(context.now, pod, MARK, "False", "", "") {
        plan.write(write);
    }
}

/// When a pod was marked that neither leaves nor has ended.
fn marked_at(pod: &Pod) -> Option<Timestamp> {
    let mark = pods::condition(pod, MARK)
        .filter(|mark| mark.status == "True" && mark.reason.as_deref() != Some(BY_KUBELET))?;
    let stays = !meta::is_leaving(&pod.metadata) && !pods::is_finished(pod);
    let at = mark.last_transition_time.as_ref().map(meta::timestamp);
    stays.then(|| at.unwrap_or_else(|| meta::created(&pod.metadata)))
}
