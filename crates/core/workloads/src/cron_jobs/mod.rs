//! Cron jobs: a job at each time of a schedule.
//!
//! The time of the last job is known from the jobs themselves, and from the status once it is written: a time that is known by neither makes a
//! job whose name is fixed by that time, so that doing it twice does it once.

mod status;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use lazaret_model::Schedule;

use crate::{jobs, limits::Limits, meta, prelude::*, writes};

const COMPONENT: &str = "cronjob-controller";
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Why a schedule without a time is no schedule: February has no 31st day.
const NEVER_DUE: &str = "time difference between two schedules is less than 1 second";
/// More times than these that passed without a job are worth a warning.
const MISSED_MAX: usize = 100;

/// Creates the jobs of CronJobs and deletes the finished ones beyond their history limits.
pub const RULES: Rules =
    Rules { name: "cronjob", needs: &[&resource::CRON_JOBS, &resource::JOBS], concerns, decide };

fn concerns(_: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::CronJob(cron)) => keys.push(Key::of(&cron.metadata)),
        Some(Object::Job(job)) => {
            let owner = meta::controller_of(&job.metadata)
                .filter(|owner| resource::CRON_JOBS.is(&owner.api_version, &owner.kind));
            let namespace = job.metadata.namespace.clone().unwrap_or_default();
            keys.extend(owner.map(|owner| Key::new(namespace, owner.name.clone())));
        }
        Some(_) | None => {}
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(cron) = context.world.cron_jobs().get(context.key) else { return };
    if meta::is_leaving(&cron.metadata) {
        return;
    }
    let spec = &cron.spec;
    let mine: Vec<Arc<Job>> = context.world.jobs().managed_by(meta::uid(&cron.metadata)).cloned().collect();
    forget_old(cron, &mine, plan);
    status::report(cron, &mine, plan);
    if spec.suspend == Some(true) {
        return;
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(why) => {
            let message = format!("unparseable schedule: {:?} : {why}", spec.schedule);
            Limits::write_event_once(context, warning(cron, "UnparseableSchedule", message), plan);
            return;
        }
    };
    let now = context.now.as_secs();
    match schedule.next(now) {
        Some(next) => plan.look_again(Timestamp::from_secs(next)),
        None => {
            let message = format!("invalid schedule: {} : {NEVER_DUE}", spec.schedule);
            Limits::write_event_once(context, warning(cron, "InvalidSchedule", message), plan);
            return;
        }
    }
    let begin = meta::created(&cron.metadata).as_secs();
    let last = status::last_scheduled(cron, &mine).map_or(begin, |last| last.as_secs());
    let deadline = spec.starting_deadline_seconds.map(|secs| now.saturating_sub(secs));
    let after = deadline.map_or(last, |deadline| last.max(deadline - 1));
    match schedule.latest(after, now) {
        Some(due) => {
            if missed(&schedule, after, due) > MISSED_MAX {
                let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
                plan.write(Write::Event(warning(cron, "TooManyMissedTimes", message.to_owned())));
            }
            start(cron, &mine, Timestamp::from_secs(due), plan);
        }
        None => {
            if let Some(missed) = schedule.latest(last, now) {
                let time = meta::wire_time(Timestamp::from_secs(missed)).0;
                let message = format!("Missed scheduled time to start a job: {time}");
                Limits::write_event_once(context, warning(cron, "MissSchedule", message), plan);
            }
        }
    }
}

/// How many times passed, as far as it matters.
fn missed(schedule: &Schedule, after: i64, due: i64) -> usize {
    core::iter::successors(schedule.next(after), |time| schedule.next(*time))
        .take_while(|time| *time < due)
        .take(MISSED_MAX + 1)
        .count()
}

/// Makes the job of this time, unless the policy says to wait.
fn start(cron: &CronJob, mine: &[Arc<Job>], due: Timestamp, plan: &mut Plan) {
    let spec = &cron.spec;
    let active: Vec<&Arc<Job>> = mine.iter().filter(|job| !jobs::is_finished(job)).collect();
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.write(Write::Event(note(cron, "JobAlreadyActive", message.to_owned())));
            return;
        }
        Some("Replace") => active.iter().for_each(|job| delete(cron, job, plan)),
        Some(_) | None => {}
    }
    let name = format!("{}-{}", meta::name(&cron.metadata), due.as_secs().div_euclid(60));
    let template = spec.job_template.metadata.as_ref();
    let mut annotations = template.and_then(|own| own.annotations.clone()).unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), meta::wire_time(due).0.to_string());
    let body = json!({
        "apiVersion": resource::JOBS.api_version(),
        "kind": resource::JOBS.kind,
        "metadata": {
            "name": name,
            "labels": template.and_then(|own| own.labels.clone()),
            "annotations": annotations,
            "ownerReferences": [meta::controller_reference(&resource::CRON_JOBS, &cron.metadata)],
        },
        "spec": spec.job_template.spec,
    });
    let namespace = cron.metadata.namespace.clone().unwrap_or_default();
    plan.write_and_tell(
        Write::Create { resource: &resource::JOBS, namespace, body: body.into() },
        note(cron, "SuccessfulCreate", format!("Created job {name}")),
    );
}

/// Deletes finished jobs beyond what is to be kept, the oldest first.
fn forget_old(cron: &CronJob, mine: &[Arc<Job>], plan: &mut Plan) {
    let spec = &cron.spec;
    for (kind, limit) in
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        // All are kept.
        let Some(limit) = limit else { continue };
        let ended = |job: &&Arc<Job>| jobs::has_ended(job, kind) && !meta::is_leaving(&job.metadata);
        let mut ended: Vec<&Arc<Job>> = mine.iter().filter(ended).collect();
        ended.sort_by_cached_key(|job| {
            let started =
                job.status.as_ref().and_then(|status| status.start_time.as_ref()).map(meta::timestamp);
            (started.unwrap_or(Timestamp::NEVER), meta::name(&job.metadata).to_owned())
        });
        let surplus = ended.len().saturating_sub(writes::size(limit));
        ended.into_iter().take(surplus).for_each(|job| delete(cron, job, plan));
    }
}

fn delete(cron: &CronJob, job: &Job, plan: &mut Plan) {
    let message = format!("Deleted job {}", meta::name(&job.metadata));
    plan.write_and_tell(
        writes::delete(&resource::JOBS, &job.metadata),
        note(cron, "SuccessfulDelete", message),
    );
}

fn warning(cron: &CronJob, reason: &'static str, message: String) -> Note {
    Note { kind: EventType::Warning, ..note(cron, reason, message) }
}

fn note(cron: &CronJob, reason: &'static str, message: String) -> Note {
    Note {
        resource: &resource::CRON_JOBS,
        key: Key::of(&cron.metadata),
        uid: meta::uid(&cron.metadata).to_owned(),
        kind: EventType::Normal,
        reason,
        message,
        component: COMPONENT,
    }
}
