//! A limit of failures for each index (`backoffLimitPerIndex`).
//!
//! Each pod says how often its index failed before it. A pod that failed therefore keeps its finalizer until its successor is there, which
//! takes over the count; only then is it counted.

use k8s_openapi::api::batch::v1::Job;

use super::{
    FINALIZER,
    backoff::{self, ended_at},
    counting,
    failure_policy::{Verdict, verdict},
    finish, indexes,
};
use crate::{meta, pods, prelude::*};

const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The failures of a job with a limit for each index.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PerIndex {
    /// Indexes that will not be tried again.
    pub(super) failed: BTreeSet<i32>,
    /// The last pod of each index that awaits a successor.
    pub(super) awaiting: BTreeMap<i32, Arc<Pod>>,
}

impl PerIndex {
    /// Nothing, if the job has no such limit.
    pub(super) fn of(job: &Job, all: &[Arc<Pod>], completed: &BTreeSet<i32>) -> Option<Self> {
        let spec = job.spec.as_ref()?;
        let limit = spec.backoff_limit_per_index?;
        let known = job.status.as_ref().and_then(|status| status.failed_indexes.as_deref());
        let completions = spec.completions.unwrap_or(0);
        let mut failed = indexes::below(completions, indexes::parse(known.unwrap_or_default()));
        let index_of = |pod: &Pod| indexes::of(pod).filter(|index| *index < completions);
        let held = |pod: &&Arc<Pod>| meta::has_finalizer(&pod.metadata, FINALIZER);
        let lost = all.iter().filter(held).filter(|pod| counting::has_failed(job, pod));
        // Pods that are deleted because the job ends have not failed.
        let ended = finish::is_announced(job);
        for pod in lost.clone().filter(|pod| !ended && ends_index(job, pod, limit)) {
            failed.extend(index_of(pod));
        }
        let running: BTreeSet<i32> =
            all.iter().filter(|pod| pods::is_active(pod)).filter_map(|pod| index_of(pod)).collect();
        let mut awaiting: BTreeMap<i32, Arc<Pod>> = BTreeMap::new();
        for pod in lost {
            // It has no index: it was made before the job was indexed, or by another client.
            let Some(index) = index_of(pod) else { continue };
            if completed.contains(&index) || failed.contains(&index) || running.contains(&index) {
                continue;
            }
            let rank = |pod: &Pod| (failures(pod) + ignored_failures(pod), ended_at(pod));
            match awaiting.get(&index) {
                Some(known) if rank(known) > rank(pod) => {}
                Some(_) | None => drop(awaiting.insert(index, pod.clone())),
            }
        }
        Some(Self { failed, awaiting })
    }

    /// Whether a pod is not counted yet, since its successor must learn from it how often the index failed.
    pub(super) fn awaits_successor(&self, pod: &Pod) -> bool {
        let awaiting = indexes::of(pod).and_then(|index| self.awaiting.get(&index));
        awaiting.is_some_and(|known| known.metadata.uid == pod.metadata.uid)
    }

    /// How many of the pods that await a successor count as failures of the job.
    pub(super) fn uncounted(&self, job: &Job) -> usize {
        self.awaiting.values().filter(|pod| verdict(job, pod) != Verdict::Ignore).count()
    }

    /// When the next pod of an index may be made; nothing if it may be made now.
    pub(super) fn next_attempt(&self, index: i32) -> Option<Timestamp> {
        let last = self.awaiting.get(&index)?;
        let failures = failures(last).saturating_add(ignored_failures(last)).saturating_add(1);
        Some(backoff::pause_after(ended_at(last), failures))
    }

    /// The annotations by which the next pod of an index carries the failures of its predecessors.
    pub(super) fn annotations(&self, job: &Job, index: i32) -> Vec<(&'static str, String)> {
        let Some(last) = self.awaiting.get(&index) else { return [(FAILURES, "0".to_owned())].into() };
        let ignored = verdict(job, last) == Verdict::Ignore;
        let count = |known: i32, one_more: bool| known.saturating_add(i32::from(one_more)).to_string();
        let mut annotations = Vec::from([(FAILURES, count(failures(last), !ignored))]);
        if ignored || ignored_failures(last) > 0 {
            annotations.push((IGNORED_FAILURES, count(ignored_failures(last), ignored)));
        }
        annotations
    }
}

/// Whether an index will not be tried again after this pod failed.
fn ends_index(job: &Job, pod: &Pod, limit: i32) -> bool {
    match verdict(job, pod) {
        Verdict::FailIndex => true,
        Verdict::Ignore => false,
        Verdict::Count | Verdict::FailJob(_) => failures(pod) >= limit,
    }
}

fn failures(pod: &Pod) -> i32 {
    count(pod, FAILURES)
}

fn ignored_failures(pod: &Pod) -> i32 {
    count(pod, IGNORED_FAILURES)
}

/// Any client may write annotations: a value that is no count is 0.
fn count(pod: &Pod, name: &str) -> i32 {
    meta::annotation(&pod.metadata, name)
        .and_then(|text| text.parse().ok())
        .filter(|count| *count >= 0)
        .unwrap_or(0)
}
