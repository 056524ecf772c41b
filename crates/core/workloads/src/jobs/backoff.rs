//! When pods are made again after some failed.

use k8s_openapi::api::batch::v1::Job;

use super::{FINALIZER, counting, counting::Tally};
use crate::{
    failure_run::{Counted, FailureRun, Present},
    meta, pods,
    prelude::*,
};

/// The pause after the first failure in a row; it doubles with each.
const PAUSE_SECS_MIN: i64 = 10;
/// The longest pause.
const PAUSE_SECS_MAX: i64 = 600;

/// The failures in a row of a job, those of pods that were deleted included.
pub(super) fn run(context: &Context<'_>, job: &Job, all: &[Arc<Pod>], tally: &Tally) -> FailureRun {
    let successes = all.iter().filter(|pod| pods::phase(pod) == "Succeeded");
    let success = successes.map(|pod| ended_at(pod)).max().unwrap_or(Timestamp::EPOCH);
    let lost = all.iter().filter(|pod| is_lost(job, pod)).map(|pod| ended_at(pod));
    let since: Vec<Timestamp> = lost.filter(|at| *at > success).collect();
    let present = Present {
        failures: i32::try_from(since.len()).unwrap_or(i32::MAX),
        last: since.iter().max().copied(),
    };
    let counted = Counted { failed: tally.failed_total(), succeeded: tally.succeeded_total() };
    FailureRun::after(context.failure_run, context.now, meta::uid(&job.metadata), counted, present)
}

/// Whether a pod is there and has failed. One that is not needed any more is deleted without its finalizer, and has not.
fn is_lost(job: &Job, pod: &Pod) -> bool {
    let deleted = meta::has_finalizer(&pod.metadata, FINALIZER) && counting::has_failed(job, pod);
    pods::phase(pod) == "Failed" || deleted
}

/// When pods may be made again; nothing without failures.
pub(super) fn next_attempt(run: &FailureRun) -> Option<Timestamp> {
    run.last_of().map(|(last, failures)| pause_after(last, failures))
}

/// The time of the next attempt after `failures` failures in a row, the last of them at `last`.
pub(super) fn pause_after(last: Timestamp, failures: i32) -> Timestamp {
    let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(0).min(10);
    last.plus_secs((PAUSE_SECS_MIN << doublings).min(PAUSE_SECS_MAX))
}

/// When a pod ended: when its last container did, or what comes closest to knowing.
pub(super) fn ended_at(pod: &Pod) -> Timestamp {
    containers_ended_at(pod)
        .or_else(|| unready_since(pod))
        .or_else(|| meta::leaving_since(&pod.metadata))
        .unwrap_or_else(|| meta::created(&pod.metadata))
}

/// When the last container ended, if all have: those that run beside the others from the start as well.
fn containers_ended_at(pod: &Pod) -> Option<Timestamp> {
    let first = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let beside: BTreeSet<&str> = first
        .filter(|container| container.restart_policy.as_deref() == Some("Always"))
        .map(|container| container.name.as_str())
        .collect();
    let status = pod.status.as_ref()?;
    let sidecars = status.init_container_statuses.iter().flatten();
    let sidecars = sidecars.filter(|container| beside.contains(container.name.as_str()));
    let mut last = None;
    for container in status.container_statuses.iter().flatten().chain(sidecars) {
        let ended = container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?;
        last = last.max(Some(meta::timestamp(ended)));
    }
    last
}

fn unready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = pods::condition(pod, "Ready").filter(|ready| ready.status == "False")?;
    ready.last_transition_time.as_ref().map(meta::timestamp)
}
