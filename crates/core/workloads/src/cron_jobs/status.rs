//! The status of a cron job: which jobs run, when the last was made, when one last succeeded.

use k8s_openapi::api::batch::v1::{CronJob, Job};

use super::SCHEDULED;
use crate::{jobs, meta, prelude::*, writes};

/// For which time a job was made last, as far as the status or a job knows.
pub(super) fn last_scheduled(cron: &CronJob, mine: &[Arc<Job>]) -> Option<Timestamp> {
    let recorded =
        cron.status.as_ref().and_then(|status| status.last_schedule_time.as_ref()).map(meta::timestamp);
    let made = mine.iter().filter_map(|job| {
        let time: jiff::Timestamp = meta::annotation(&job.metadata, SCHEDULED)?.parse().ok()?;
        Some(Timestamp::from_millis(time.as_millisecond()))
    });
    made.chain(recorded).max()
}

/// Writes the status, if it says something else.
pub(super) fn report(cron: &CronJob, mine: &[Arc<Job>], plan: &mut Plan) {
    let old = cron.status.clone().unwrap_or_default();
    let mut running: Vec<&Arc<Job>> =
        mine.iter().filter(|job| !jobs::is_finished(job) && !meta::is_leaving(&job.metadata)).collect();
    running.sort_by_cached_key(|job| meta::name(&job.metadata).to_owned());
    let known = old.active.unwrap_or_default();
    let same_jobs = known.len() == running.len()
        && known.iter().zip(&running).all(|(reference, job)| reference.uid == job.metadata.uid);
    let scheduled = last_scheduled(cron, mine);
    let succeeded = mine
        .iter()
        .filter(|job| jobs::has_ended(job, "Complete"))
        .filter_map(|job| job.status.as_ref()?.completion_time.as_ref().map(meta::timestamp));
    let succeeded = succeeded.chain(old.last_successful_time.as_ref().map(meta::timestamp)).max();
    let same = same_jobs
        && old.last_schedule_time.as_ref().map(meta::timestamp) == scheduled
        && old.last_successful_time.as_ref().map(meta::timestamp) == succeeded;
    if same {
        return;
    }
    let reference = |job: &&Arc<Job>| {
        json!({
            "apiVersion": resource::JOBS.api_version(), "kind": resource::JOBS.kind,
            "namespace": job.metadata.namespace, "name": job.metadata.name, "uid": job.metadata.uid,
            "resourceVersion": job.metadata.resource_version,
        })
    };
    let active: Vec<Value> = running.iter().map(reference).collect();
    let status = json!({
        "active": if active.is_empty() { Value::Null } else { json!(active) },
        "lastScheduleTime": scheduled.map(meta::wire_time),
        "lastSuccessfulTime": succeeded.map(meta::wire_time),
    });
    plan.write(writes::status(&resource::CRON_JOBS, &cron.metadata, status));
}
