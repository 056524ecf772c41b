//! Each pod that ended is counted once.

use k8s_openapi::api::batch::v1::Job;

use super::{
    FINALIZER,
    failure_policy::{self, Verdict},
    finish, indexes,
    per_index::PerIndex,
    release,
};
use crate::{meta, pods, prelude::*};

/// Pods that wait to be counted.
const UNCOUNTED_MAX: usize = 500;

/// The finished pods of a job, counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    pub(super) succeeded: i32,
    pub(super) failed: i32,
    /// UIDs of pods that still carry the finalizer, or did when last seen.
    pub(super) uncounted_succeeded: BTreeSet<String>,
    pub(super) uncounted_failed: BTreeSet<String>,
    pub(super) completed: BTreeSet<i32>,
    pub(super) indexed: bool,
    /// Failures by index, if each index has a limit of its own.
    pub(super) per_index: Option<PerIndex>,
    /// Failures that await a successor and are yet to be counted.
    awaiting: usize,
    /// Why a failed pod fails the whole job.
    pub(super) doom: Option<String>,
    /// No pod is made before, after failures in a row.
    pub(super) next_attempt: Option<Timestamp>,
}

impl Tally {
    /// As the status has it.
    pub(super) fn of(job: &Job, _pods: &[Arc<Pod>]) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
        let mode = job.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref());
        let completed = indexes::parse(status.completed_indexes.as_deref().unwrap_or_default());
        Self {
            succeeded: status.succeeded.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            uncounted_succeeded: uncounted.succeeded.unwrap_or_default().into_iter().collect(),
            uncounted_failed: uncounted.failed.unwrap_or_default().into_iter().collect(),
            completed: indexes::below(completions(job), completed),
            indexed: mode == Some("Indexed"),
            per_index: None,
            awaiting: 0,
            doom: None,
            next_attempt: None,
        }
    }

    pub(super) fn succeeded_total(&self) -> i32 {
        self.succeeded + i32::try_from(self.uncounted_succeeded.len()).unwrap_or(i32::MAX)
    }

    pub(super) fn failed_total(&self) -> i32 {
        let uncounted = i32::try_from(self.uncounted_failed.len() + self.awaiting).unwrap_or(i32::MAX);
        self.failed.saturating_add(uncounted)
    }

    /// Whether every pod that ended has been counted.
    pub(super) fn is_settled(&self) -> bool {
        let awaits = self.per_index.as_ref().is_some_and(|per_index| !per_index.awaiting.is_empty());
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty() && !awaits
    }

    /// Counts what the status has noted and nothing holds any more, notes what has ended since, and takes the finalizer
    /// off what the status has noted.
    pub(super) fn count(&mut self, job: &Job, all: &[Arc<Pod>], plan: &mut Plan) {
        let held: BTreeSet<&str> = all
            .iter()
            .filter(|pod| meta::has_finalizer(&pod.metadata, FINALIZER))
            .map(|pod| meta::uid(&pod.metadata))
            .collect();
        self.succeeded += settle(&mut self.uncounted_succeeded, &held);
        self.failed += settle(&mut self.uncounted_failed, &held);
        let done =
            all.iter().filter(|pod| pods::phase(pod) == "Succeeded").filter_map(|pod| indexes::of(pod));
        let completed =
            if self.indexed { done.chain(self.completed.iter().copied()).collect() } else { BTreeSet::new() };
        self.per_index = PerIndex::of(job, all, &completed).filter(|_| self.indexed);
        if let Some(per_index) = &mut self.per_index {
            if meta::is_leaving(&job.metadata) || finish::is_announced(job) {
                // No pod will follow.
                per_index.awaiting.clear();
            }
            self.awaiting = per_index.uncounted(job);
        }
        let noted = self.clone();
        for pod in all.iter().filter(|pod| held.contains(meta::uid(&pod.metadata))) {
            self.note(job, pod, &noted, plan);
        }
        if self.indexed {
            self.succeeded = crate::writes::count(&self.completed);
        }
    }

    fn note(&mut self, job: &Job, pod: &Pod, noted: &Self, plan: &mut Plan) {
        let uid = meta::uid(&pod.metadata);
        let ended = pods::phase(pod) == "Succeeded" || has_failed(job, pod);
        if ended && self.indexed && indexes::of(pod).is_none_or(|index| index >= completions(job)) {
            return release(pod, plan);
        }
        let full = self.uncounted_failed.len() + self.uncounted_succeeded.len() >= UNCOUNTED_MAX;
        if pods::phase(pod) == "Succeeded" {
            match indexes::of(pod).filter(|_| self.indexed) {
                // It was being deleted and counts as failed, however it ended after that.
                _ if noted.uncounted_failed.contains(uid) => release(pod, plan),
                Some(index) if noted.completed.contains(&index) => release(pod, plan),
                Some(index) => {
                    self.completed.insert(index);
                }
                None if noted.uncounted_succeeded.contains(uid) => release(pod, plan),
                None if !full => {
                    self.uncounted_succeeded.insert(uid.to_owned());
                }
                None => {}
            }
            return;
        }
        if !has_failed(job, pod) {
            return;
        }
        let verdict = failure_policy::verdict(job, pod);
        if let Verdict::FailJob(why) = &verdict {
            self.doom.get_or_insert_with(|| why.clone());
        }
        if noted.per_index.as_ref().is_some_and(|per_index| per_index.awaits_successor(pod)) {
            return;
        }
        match verdict {
            _ if noted.uncounted_failed.contains(uid) => release(pod, plan),
            Verdict::Ignore => release(pod, plan),
            Verdict::Count | Verdict::FailIndex if full => {}
            Verdict::Count | Verdict::FailIndex | Verdict::FailJob(_) => {
                self.uncounted_failed.insert(uid.to_owned());
            }
        }
    }
}

/// How often the job is to succeed; any number if that is not said.
fn completions(job: &Job) -> i32 {
    job.spec.as_ref().and_then(|spec| spec.completions).unwrap_or(i32::MAX)
}

/// Takes out what no finalizer holds any more, and says how many that were.
fn settle(uncounted: &mut BTreeSet<String>, held: &BTreeSet<&str>) -> i32 {
    let before = uncounted.len();
    uncounted.retain(|uid| held.contains(uid.as_str()));
    i32::try_from(before - uncounted.len()).unwrap_or(i32::MAX)
}

/// Whether a pod counts as failed. One that is on its way out does, unless replacements wait for its end; and so does each that has not succeeded
/// when the job is to fail, for a pod without a node never ends by itself.
pub(super) fn has_failed(job: &Job, pod: &Pod) -> bool {
    let waits = job.spec.as_ref().is_some_and(|spec| {
        spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some()
    });
    let lost =
        finish::condition(job, "FailureTarget").is_some() || (!waits && meta::is_leaving(&pod.metadata));
    pods::phase(pod) == "Failed" || (lost && pods::phase(pod) != "Succeeded")
}
