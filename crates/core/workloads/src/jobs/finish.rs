//! When a job is over, how, and when it goes.

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec};

use super::{counting::Tally, indexes, per_index::PerIndex, terminating};
use crate::{meta, pods, prelude::*, writes::count};

/// How a job ends, decided before its last pods have gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) success: bool,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Target {
    fn failure(reason: &str, message: impl Into<String>) -> Self {
        Self { success: false, reason: reason.to_owned(), message: message.into() }
    }

    /// The condition that says how it will end.
    pub(super) const fn announcement(&self) -> &'static str {
        if self.success { "SuccessCriteriaMet" } else { "FailureTarget" }
    }

    /// The condition that says how it has ended.
    pub(super) const fn end(&self) -> &'static str {
        if self.success { "Complete" } else { "Failed" }
    }
}

pub(super) fn condition<'a>(job: &'a Job, kind: &str) -> Option<&'a JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// Whether nothing will happen any more.
pub(crate) fn is_finished(job: &Job) -> bool {
    condition(job, "Complete").or(condition(job, "Failed")).is_some()
}

/// Whether it is known how the job ends.
pub(super) fn is_announced(job: &Job) -> bool {
    condition(job, "FailureTarget").or(condition(job, "SuccessCriteriaMet")).is_some()
}

/// How the job ends, if that is known. A target that the status announces does not change.
pub(super) fn target(context: &Context<'_>, job: &Job, all: &[Arc<Pod>], tally: &Tally) -> Option<Target> {
    for (kind, success) in [("FailureTarget", false), ("SuccessCriteriaMet", true)] {
        if let Some(known) = condition(job, kind) {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            return Some(Target { success, reason: text(&known.reason), message: text(&known.message) });
        }
    }
    let spec = job.spec.as_ref()?;
    if let Some(why) = &tally.doom {
        return Some(Target::failure("PodFailurePolicy", why.clone()));
    }
    let limit = spec.backoff_limit.unwrap_or(6);
    if tally.failed_total() > limit || restarts(job, all).is_some_and(|restarts| restarts >= limit.max(1)) {
        return Some(Target::failure("BackoffLimitExceeded", "Job has reached the specified backoff limit"));
    }
    if spec.suspend != Some(true) && deadline(job).is_some_and(|at| at <= context.now) {
        return Some(Target::failure("DeadlineExceeded", "Job was active longer than specified deadline"));
    }
    if let Some(target) =
        tally.per_index.as_ref().and_then(|per_index| too_many_failed(spec, per_index, tally))
    {
        return Some(target);
    }
    if let Some(message) =
        spec.success_policy.as_ref().and_then(|policy| indexes::met_criterion(policy, &tally.completed))
    {
        return Some(Target { success: true, reason: "SuccessPolicy".to_owned(), message });
    }
    let running = count(all.iter().filter(|pod| pods::is_active(pod)));
    let complete = match spec.completions {
        None => tally.succeeded_total() > 0 && running == 0 && terminating(all) == 0,
        Some(completions) => tally.succeeded_total() >= completions,
    };
    let message = "Reached expected number of succeeded pods".to_owned();
    (complete && (spec.suspend != Some(true) || running == 0)).then(|| Target {
        success: true,
        reason: "CompletionsReached".to_owned(),
        message,
    })
}

/// How a job with a limit for each index ends: as soon as more indexes failed than may, or when none is left to be tried.
fn too_many_failed(spec: &JobSpec, per_index: &PerIndex, tally: &Tally) -> Option<Target> {
    let failed = count(&per_index.failed);
    if spec.max_failed_indexes.is_some_and(|most| failed > most) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Target::failure("MaxFailedIndexesExceeded", message));
    }
    let all_tried = failed + count(&tally.completed) >= spec.completions.unwrap_or(0);
    (failed > 0 && all_tried).then(|| Target::failure("FailedIndexes", "Job has failed indexes"))
}

/// How often containers were restarted in place, where that is what pods do instead of failing.
fn restarts(job: &Job, all: &[Arc<Pod>]) -> Option<i32> {
    let policy = job.spec.as_ref()?.template.spec.as_ref()?.restart_policy.as_deref();
    if policy != Some("OnFailure") {
        return None;
    }
    let running = all.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let statuses = running.filter_map(|pod| pod.status.as_ref()).flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    Some(statuses.map(|container| container.restart_count).sum())
}

/// When the job may no longer run.
pub(super) fn deadline(job: &Job) -> Option<Timestamp> {
    let secs = job.spec.as_ref()?.active_deadline_seconds?;
    let start = job.status.as_ref()?.start_time.as_ref()?;
    Some(meta::timestamp(start).plus_secs(secs))
}

/// Deletes a finished job when its time has come.
pub(super) fn expire(context: &Context<'_>, job: &Job, plan: &mut Plan) {
    let secs = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let end = condition(job, "Complete").or(condition(job, "Failed"));
    let end = end.and_then(|condition| condition.last_transition_time.as_ref());
    // It has no time to live, or has not ended.
    let (Some(secs), Some(end)) = (secs, end) else { return };
    if meta::is_leaving(&job.metadata) {
        return;
    }
    let at = meta::timestamp(end).plus_secs(i64::from(secs));
    if at > context.now {
        plan.look_again(at);
        return;
    }
    plan.write(Write::Delete {
        resource: &resource::JOBS,
        key: Key::of(&job.metadata),
        uid: meta::uid(&job.metadata).to_owned(),
        resource_version: job.metadata.resource_version.clone(),
        propagation: Propagation::Foreground,
        grace: None,
    });
}
