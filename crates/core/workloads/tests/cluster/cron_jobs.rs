//! Cron jobs against a model of the API server. Time begins on a full minute.

use lazaret_model::Timestamp;
use lazaret_workloads::{resource, rules};
use serde_json::{Value, json};

use crate::support::{
    rig::{Faults, Pods, Rig},
    template,
};

const ALL: &[lazaret_workloads::Rules] = &[rules::CRON_JOBS, rules::JOBS, rules::GARBAGE];

fn cron_job(schedule: &str, policy: &str) -> Value {
    let mut pods = template("tidy");
    pods["spec"]["restartPolicy"] = json!("Never");
    json!({
        "metadata": {"name": "tidy", "namespace": "default"},
        "spec": {
            "schedule": schedule, "concurrencyPolicy": policy, "suspend": false,
            "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {
                "selector": {"matchLabels": {"app": "tidy"}}, "completions": 1, "parallelism": 1, "backoffLimit": 0, "template": pods}},
        },
    })
}

/// Names of all jobs that were ever made.
fn made(rig: &Rig) -> Vec<String> {
    let mut names: Vec<String> = rig
        .api
        .log
        .iter()
        .filter(|entry| entry.resource == &resource::JOBS && !entry.removed)
        .map(|entry| entry.object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.dedup();
    names
}

fn events(rig: &Rig, reason: &str) -> usize {
    rig.api.events.iter().filter(|note| note.reason == reason).count()
}

#[test]
fn a_schedule_without_a_time_is_told_of_once() {
    let mut rig = Rig::new(ALL, 1, Faults::NONE);
    rig.create(&resource::CRON_JOBS, cron_job("59 23 31 2 *", "Allow"));
    rig.pass(10 * 60);
    assert_eq!(events(&rig, "InvalidSchedule"), 1);
    assert_eq!(made(&rig), [""; 0]);
}

#[test]
fn a_job_is_made_at_each_time_and_old_ones_go() {
    for (seed, faults) in [(1, Faults::NONE), (2, Faults::MANY)] {
        let mut rig = Rig::new(ALL, seed, faults);
        rig.pods = Pods::Succeed;
        let begin = rig.now.as_secs().div_euclid(60);
        rig.create(&resource::CRON_JOBS, cron_job("*/2 * * * *", "Allow"));
        rig.pass(11 * 60);
        let wanted: Vec<String> = (begin + 1..=begin + 11)
            .filter(|minute| minute % 2 == 0)
            .map(|minute| format!("tidy-{minute}"))
            .collect();
        assert_eq!(made(&rig), wanted);
        let left = rig.api.all(&resource::JOBS).count();
        let state: Vec<String> = rig
            .api
            .all(&resource::JOBS)
            .map(|job| format!("{} {}", job["metadata"]["name"], job["status"]))
            .collect();
        assert!((2..=3).contains(&left), "{left} jobs are kept: {state:#?}");
        let job = rig.api.all(&resource::JOBS).next().unwrap();
        assert_eq!(
            (&job["metadata"]["labels"]["a"], &job["metadata"]["ownerReferences"][0]["kind"]),
            (&json!("b"), &json!("CronJob"))
        );
        let status = &rig.object(&resource::CRON_JOBS, "tidy")["status"];
        assert!(
            status["lastScheduleTime"].is_string() && status["lastSuccessfulTime"].is_string(),
            "{status}"
        );
    }
}

#[test]
fn policies_say_what_happens_while_a_job_runs() {
    for (policy, jobs, running) in [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 3, 1)] {
        let mut rig = Rig::new(ALL, 3, Faults::NONE);
        rig.now = Timestamp::from_secs(rig.now.as_secs().div_euclid(60) * 60);
        rig.create(&resource::CRON_JOBS, cron_job("* * * * *", policy));
        rig.pass(3 * 60 + 30);
        assert_eq!(made(&rig).len(), jobs, "{policy}");
        let active =
            rig.object(&resource::CRON_JOBS, "tidy")["status"]["active"].as_array().map_or(0, Vec::len);
        assert_eq!(active, running, "{policy}");
    }
}

#[test]
fn a_suspended_one_waits_and_a_deadline_lets_times_pass() {
    let mut rig = Rig::new(ALL, 4, Faults::NONE);
    let mut cron = cron_job("*/5 * * * *", "Allow");
    cron["spec"]["suspend"] = json!(true);
    cron["spec"]["startingDeadlineSeconds"] = json!(30);
    rig.create(&resource::CRON_JOBS, cron);
    rig.pass(16 * 60);
    assert_eq!(made(&rig).len(), 0);
    // Two minutes after the last time: too late for it.
    let late = rig.now.as_secs().div_euclid(300) * 300 + 420;
    rig.now = Timestamp::from_secs(late);
    rig.api.change(&resource::CRON_JOBS, "default", "tidy", |cron| cron["spec"]["suspend"] = json!(false));
    rig.pass(60);
    assert_eq!((made(&rig).len(), events(&rig, "MissSchedule")), (0, 1));
    rig.pass(5 * 60);
    assert_eq!(made(&rig).len(), 1);
}

#[test]
fn after_a_long_sleep_only_the_latest_time_counts() {
    let mut rig = Rig::new(ALL, 5, Faults::NONE);
    rig.pods = Pods::Succeed;
    rig.create(&resource::CRON_JOBS, cron_job("0 * * * *", "Allow"));
    rig.pass(60);
    rig.now = rig.now.plus_secs(400 * 3_600);
    rig.restart(ALL);
    rig.pass(60);
    assert_eq!((made(&rig).len(), events(&rig, "TooManyMissedTimes")), (1, 1));
    rig.restart(ALL);
    rig.pass(60);
    assert_eq!(made(&rig).len(), 1, "once is enough");
}
