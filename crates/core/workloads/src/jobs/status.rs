//! The status of a job.

use k8s_openapi::{
    api::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods},
    apimachinery::pkg::apis::meta::v1::Time,
};

use super::{counting::Tally, finish::Target, indexes, note, terminating};
use crate::{
    meta, pods,
    prelude::*,
    writes::{self, count, unless_zero},
};

pub(super) fn report(
    context: &Context<'_>,
    job: &Job,
    all: &[Arc<Pod>],
    tally: &Tally,
    target: Option<Target>,
    plan: &mut Plan,
) {
    let old = job.status.clone().unwrap_or_default();
    let now = meta::wire_time(context.now);
    let suspended = job.spec.as_ref().is_some_and(|spec| spec.suspend == Some(true));
    let active: Vec<_> = all.iter().filter(|pod| pods::is_active(pod)).collect();
    let mut new = JobStatus {
        active: Some(count(&active)),
        ready: Some(count(active.iter().filter(|pod| pods::is_ready(pod)))),
        terminating: Some(terminating(all)),
        succeeded: Some(tally.succeeded),
        failed: Some(tally.failed),
        completed_indexes: tally.indexed.then(|| indexes::format(&tally.completed)),
        failed_indexes: tally.per_index.as_ref().map(|per_index| indexes::format(&per_index.failed)),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            succeeded: listed(&tally.uncounted_succeeded),
            failed: listed(&tally.uncounted_failed),
        }),
        ..old.clone()
    };
    let mut event = suspend(&mut new, suspended, &now)
        .map(|(reason, message)| note(job, EventType::Normal, reason, message.to_owned()));
    if let Some(target) = target {
        let (reason, message) = (target.reason.as_str(), target.message.as_str());
        set(&mut new, target.announcement(), "True", reason, message, &now);
        // Nothing of it runs any more, and all is counted: it has ended.
        if active.is_empty() && terminating(all) == 0 && tally.is_settled() {
            set(&mut new, target.end(), "True", reason, message, &now);
            if target.success {
                new.completion_time = Some(now);
                event = Some(note(job, EventType::Normal, "Completed", "Job completed".to_owned()));
            } else {
                let reason = match reason {
                    "DeadlineExceeded" => "DeadlineExceeded",
                    "PodFailurePolicy" => "PodFailurePolicy",
                    "MaxFailedIndexesExceeded" => "MaxFailedIndexesExceeded",
                    "FailedIndexes" => "FailedIndexes",
                    _ => "BackoffLimitExceeded",
                };
                event = Some(note(job, EventType::Warning, reason, target.message));
            }
        }
    }
    if normal(&new) == normal(&old) {
        return;
    }
    let write = writes::status(&resource::JOBS, &job.metadata, body(&new));
    match event {
        Some(note) => plan.write_and_tell(write, note),
        None => plan.write(write),
    }
}

/// A suspended job has no start time; it starts anew when it is resumed. Returns the reason and message of the event.
fn suspend(status: &mut JobStatus, suspended: bool, now: &Time) -> Option<(&'static str, &'static str)> {
    if suspended {
        if set(status, "Suspended", "True", "JobSuspended", "Job suspended", now) {
            status.start_time = None;
            return Some(("Suspended", "Job suspended"));
        }
        return None;
    }
    let was =
        status.conditions.iter().flatten().any(|known| known.type_ == "Suspended" && known.status == "True");
    if was {
        set(status, "Suspended", "False", "JobResumed", "Job resumed", now);
        status.start_time = Some(now.clone());
    }
    if status.start_time.is_none() {
        status.start_time = Some(now.clone());
    }
    was.then_some(("Resumed", "Job resumed"))
}

/// Says something, unless it was said already. Returns whether it is new.
fn set(status: &mut JobStatus, kind: &str, value: &str, reason: &str, message: &str, now: &Time) -> bool {
    let conditions = status.conditions.get_or_insert_default();
    if conditions.iter().any(|known| known.type_ == kind && known.status == value) {
        return false;
    }
    conditions.retain(|known| known.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    });
    true
}

fn listed(uids: &BTreeSet<String>) -> Option<Vec<String>> {
    (!uids.is_empty()).then(|| uids.iter().cloned().collect())
}

/// A status where zero and nothing are the same.
fn normal(status: &JobStatus) -> JobStatus {
    let plain = |number: Option<i32>| number.filter(|number| *number != 0);
    let waiting = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let sorted = |list: Option<Vec<String>>| {
        let mut list = list.unwrap_or_default();
        list.sort();
        Some(list)
    };
    JobStatus {
        active: plain(status.active),
        succeeded: plain(status.succeeded),
        failed: plain(status.failed),
        completed_indexes: status.completed_indexes.clone().filter(|text| !text.is_empty()),
        uncounted_terminated_pods: Some(UncountedTerminatedPods {
            succeeded: sorted(waiting.succeeded),
            failed: sorted(waiting.failed),
        }),
        conditions: Some(status.conditions.clone().unwrap_or_default()),
        ..status.clone()
    }
}

fn body(status: &JobStatus) -> Value {
    let plain = |number: Option<i32>| unless_zero(number.unwrap_or(0));
    let waiting = status.uncounted_terminated_pods.clone().unwrap_or_default();
    json!({
        "active": plain(status.active),
        "ready": status.ready,
        "terminating": status.terminating,
        "succeeded": plain(status.succeeded),
        "failed": plain(status.failed),
        "completedIndexes": status.completed_indexes.clone().filter(|text| !text.is_empty()),
        "failedIndexes": status.failed_indexes,
        "uncountedTerminatedPods": {"succeeded": waiting.succeeded, "failed": waiting.failed},
        "startTime": status.start_time,
        "completionTime": status.completion_time,
        "conditions": status.conditions,
    })
}
