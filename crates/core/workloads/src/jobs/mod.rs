//! Jobs: pods that run to completion, `completions` in all and `parallelism` at a time.
//!
//! A pod that ended is counted once, however often its news come: it carries a finalizer until the job's status has
//! taken note of it, and leaves the status' list of those not yet counted when the finalizer is off.

mod backoff;
mod counting;
mod create;
mod failure_policy;
mod finish;
mod indexes;
mod per_index;
mod status;

use k8s_openapi::api::batch::v1::Job;

use lazaret_invariant::invariant;

use crate::{
    claim::{claim, concerned},
    limits::Limits,
    meta, pods,
    prelude::*,
    rank, writes,
    writes::{count, size},
};
use counting::Tally;

pub(crate) use finish::is_finished;

/// Whether a job has ended like this: `Complete` or `Failed`.
pub(crate) fn has_ended(job: &Job, how: &str) -> bool {
    finish::condition(job, how).is_some()
}

const COMPONENT: &str = "job-controller";
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const MANAGER: &str = "kubernetes.io/job-controller";
/// Pods created or deleted in one decision.
const BURST_MAX: usize = 500;

/// Runs the pods of Jobs and counts how they end.
pub const RULES: Rules = Rules { name: "job", needs: &[&resource::JOBS, &resource::PODS], concerns, decide };

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::Job(job)) => keys.push(Key::of(&job.metadata)),
        Some(Object::Pod(_)) => {
            let labels = |job: &Job| job.spec.as_ref().and_then(|spec| spec.selector.clone());
            // Selectors of jobs name a UID: only a reference ties a pod to one, unless the selector was written by hand.
            concerned(world.jobs(), &resource::JOBS, change, |_| None, keys);
            if let Some(new) = change.new.as_ref().filter(|new| meta::controller_of(new.metadata()).is_none())
            {
                let namespace = new.metadata().namespace.as_deref().unwrap_or_default();
                let named = new.metadata().labels.as_ref().and_then(|labels| labels.get(JOB_NAME));
                keys.extend(named.map(|name| Key::new(namespace, name.as_str())));
                let takes = |job: &Job| {
                    labels(job).is_some_and(|labels| crate::selector::matches(&labels, new.metadata()))
                };
                let takers = world.jobs().within(namespace).filter(|(_, job)| takes(job));
                keys.extend(takers.map(|(key, _)| key.clone()));
            }
        }
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let job = context.world.jobs().get(context.key);
    release_strangers(context, job, plan);
    let Some(job) = job else { return };
    // The API server requires one.
    let Some(spec) = &job.spec else { return };
    if spec.managed_by.as_deref().is_some_and(|manager| manager != MANAGER) {
        return;
    }
    // The API server gives it one.
    let Some(selector) = &spec.selector else { return };
    let kinds = (&resource::JOBS, &resource::PODS);
    let claimed = claim(context.world.pods(), kinds, &job.metadata, selector, |_: &Pod| true);
    if finish::is_finished(job) {
        claimed.mine.iter().for_each(|pod| release(pod, plan));
        // DEVIATION(late-pods): the request that made such a pod had no answer, and was carried out late.
        let is_own = |pod: &Pod| {
            meta::controller_of(&pod.metadata).is_some_and(|owner| owner.uid == meta::uid(&job.metadata))
        };
        let late = claimed.mine.iter().filter(|pod| pods::is_active(pod) && is_own(pod));
        late.take(BURST_MAX).for_each(|pod| delete(job, pod, plan));
        finish::expire(context, job, plan);
        return;
    }
    claimed.writes.into_iter().for_each(|write| plan.write(write));
    let mut tally = Tally::of(job, &claimed.mine);
    tally.count(job, &claimed.mine, plan);
    if tally.per_index.is_none() {
        let run = backoff::run(context, job, &claimed.mine, &tally);
        tally.next_attempt = backoff::next_attempt(&run);
        plan.remember_failures(run);
    }
    let target = finish::target(context, job, &claimed.mine, &tally);
    let active: Vec<Arc<Pod>> = claimed.mine.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    if !meta::is_leaving(&job.metadata) {
        match &target {
            Some(target) => {
                let end = if target.success { withdraw } else { delete };
                active.iter().take(BURST_MAX).for_each(|pod| end(job, pod, plan));
            }
            None => manage(context, job, &claimed.mine, active, &tally, plan),
        }
    }
    status::report(context, job, &claimed.mine, &tally, target, plan);
    if let Some(at) = finish::deadline(job).filter(|at| *at > context.now) {
        plan.look_again(at);
    }
}

/// Makes and deletes pods, so that as many run as may.
fn manage(
    context: &Context<'_>,
    job: &Job,
    all: &[Arc<Pod>],
    mut active: Vec<Arc<Pod>>,
    tally: &Tally,
    plan: &mut Plan,
) {
    let Some(spec) = invariant!(&job.spec, "a job that gets pods has a spec") else { return };
    let parallelism = size(spec.parallelism.unwrap_or(1));
    let left = spec.completions.map(|completions| size(completions - tally.succeeded_total()));
    let wanted = match left {
        _ if spec.suspend == Some(true) => 0,
        None if tally.succeeded_total() > 0 => active.len(),
        None => parallelism,
        Some(left) => left.min(parallelism),
    };
    let doubles = if tally.indexed { indexes::doubles(spec, &active) } else { Vec::new() };
    if active.len() > wanted || !doubles.is_empty() {
        rank::sort_for_deletion(context.now, &mut active, &[]);
        let named: BTreeSet<&str> = doubles.iter().map(String::as_str).collect();
        active.sort_by_key(|pod| !named.contains(meta::name(&pod.metadata)));
        let surplus = active.len().saturating_sub(wanted).max(doubles.len());
        active.iter().take(surplus.min(BURST_MAX)).for_each(|pod| withdraw(job, pod, plan));
        return;
    }
    let leaving = all.iter().filter(|pod| pods::is_terminating(pod)).count();
    let waits = spec.pod_replacement_policy.as_deref() == Some("Failed") || spec.pod_failure_policy.is_some();
    let room = wanted.min(context.limits.owner_pods_max);
    if let Some(why) = context.limits.refusal(wanted) {
        Limits::write_event_once(context, note(job, EventType::Warning, "FailedCreate", why), plan);
    }
    let missing = room.saturating_sub(active.len() + if waits { leaving } else { 0 });
    if missing == 0 || spec.suspend == Some(true) {
        return;
    }
    if let Some(at) = tally.next_attempt.filter(|at| *at > context.now) {
        plan.look_again(at);
        return;
    }
    create::pods(context, job, all, tally, missing.min(BURST_MAX), plan);
}

/// Takes off the finalizer, if it is on.
fn release(pod: &Pod, plan: &mut Plan) {
    if meta::has_finalizer(&pod.metadata, FINALIZER) {
        let left: Vec<&String> =
            pod.metadata.finalizers.iter().flatten().filter(|name| *name != FINALIZER).collect();
        let left = if left.is_empty() { Value::Null } else { json!(left) };
        let body = json!({"metadata": {"finalizers": left}});
        plan.write(writes::patch(&resource::PODS, &pod.metadata, body));
    }
}

/// Pods of a deleted job, or of one that had this name before, or of none at all: no job will count them.
fn release_strangers(context: &Context<'_>, job: Option<&Arc<Job>>, plan: &mut Plan) {
    let uid = job.map(|job| meta::uid(&job.metadata));
    let selector = job.and_then(|job| job.spec.as_ref()?.selector.as_ref());
    let adopts = |pod: &Pod| selector.is_some_and(|labels| crate::selector::matches(labels, &pod.metadata));
    let index = context.world.pod_index();
    let named = index.labelled(&context.key.namespace, JOB_NAME, &context.key.name);
    for pod in named.into_iter().flatten().filter_map(|key| context.world.pods().get(key)) {
        let owner = meta::controller_of(&pod.metadata).map(|owner| owner.uid.as_str());
        let stranger = if owner.is_some() { owner != uid } else { !adopts(pod) };
        if stranger && plan.writes.len() < BURST_MAX {
            release(pod, plan);
        }
    }
}

/// Deletes a pod that is not needed any more: it has not failed, and is not counted.
fn withdraw(job: &Job, pod: &Pod, plan: &mut Plan) {
    release(pod, plan);
    delete(job, pod, plan);
}

fn delete(job: &Job, pod: &Pod, plan: &mut Plan) {
    let message = format!("Deleted pod: {}", meta::name(&pod.metadata));
    plan.write_and_tell(
        writes::delete(&resource::PODS, &pod.metadata),
        note(job, EventType::Normal, "SuccessfulDelete", message),
    );
}

fn note(job: &Job, kind: EventType, reason: &'static str, message: String) -> Note {
    Note {
        resource: &resource::JOBS,
        key: Key::of(&job.metadata),
        uid: meta::uid(&job.metadata).to_owned(),
        kind,
        reason,
        message,
        component: COMPONENT,
    }
}

/// How many of the pods are on their way out.
fn terminating(all: &[Arc<Pod>]) -> i32 {
    count(all.iter().filter(|pod| pods::is_terminating(pod)))
}
