//! The status of a stateful set.

use k8s_openapi::api::apps::v1::StatefulSet;

use super::{revision_of, revisions::Revisions};
use crate::{
    meta, pods,
    prelude::*,
    writes::{self, count, unless_zero},
};

pub(super) fn report(
    context: &Context<'_>,
    set: &StatefulSet,
    all: &[Arc<Pod>],
    revisions: &Revisions,
    plan: &mut Plan,
) {
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let update = meta::name(&revisions.update.metadata);
    let mut current = meta::name(&revisions.current.metadata);
    let running = |pod: &Pod| pods::phase(pod) == "Running" && pods::is_ready(pod);
    let stays = |pod: &Pod| !meta::is_leaving(&pod.metadata);
    // Finished pods make room for others: they are not replicas.
    let here: Vec<&Arc<Pod>> = all.iter().filter(|pod| !pods::is_finished(pod)).collect();
    let replicas = count(&here);
    let ready = count(here.iter().filter(|pod| running(pod)));
    let available =
        count(here.iter().filter(|pod| running(pod) && pods::is_available(context.now, pod, min_ready)));
    let updated = count(here.iter().filter(|pod| stays(pod) && revision_of(pod) == update));
    let mut on_current = count(here.iter().filter(|pod| stays(pod) && revision_of(pod) == current));
    // The update is over: what was new is now current. A pod that has failed or is missing may still be of the old template.
    let wanted = set.spec.replicas.unwrap_or(1);
    if [replicas, updated, ready] == [wanted; 3] {
        current = update;
        on_current = updated;
    }
    let old = set.status.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.unwrap_or(0);
    let same = old.replicas == replicas
        && number(old.ready_replicas) == ready
        && number(old.available_replicas) == available
        && number(old.updated_replicas) == updated
        && number(old.current_replicas) == on_current
        && old.current_revision.as_deref() == Some(current)
        && old.update_revision.as_deref() == Some(update)
        && old.observed_generation == set.metadata.generation;
    if same {
        return;
    }
    let status = json!({
        "observedGeneration": set.metadata.generation,
        "replicas": replicas,
        "readyReplicas": unless_zero(ready),
        "availableReplicas": available,
        "updatedReplicas": unless_zero(updated),
        "currentReplicas": unless_zero(on_current),
        "currentRevision": current,
        "updateRevision": update,
        "collisionCount": number(old.collision_count),
    });
    plan.write(writes::status(&resource::STATEFUL_SETS, &set.metadata, status));
}
