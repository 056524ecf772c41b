//! Jobs against a model of the API server.

use lazaret_workloads::{Propagation, resource, rules};
use serde_json::{Value, json};

use crate::support::rig::{Faults, Pods, Rig};

const ALL: &[lazaret_workloads::Rules] = &[rules::JOBS, rules::GARBAGE];

/// A job as the server would have prepared it.
fn job(more: &Value) -> Value {
    let mut spec = json!({
        "parallelism": 2, "completions": 5, "backoffLimit": 3,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {
            "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "batch.kubernetes.io/job-name": "work"}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/main:1"}]},
        },
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    json!({"metadata": {"name": "work", "namespace": "default"}, "spec": spec})
}

fn condition(rig: &Rig, kind: &str) -> Value {
    let all =
        rig.object(&resource::JOBS, "work")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|condition| condition["type"] == kind).unwrap_or(Value::Null)
}

fn never_too_parallel(rig: &Rig) {
    let most = rig.object(&resource::JOBS, "work")["spec"]["parallelism"].as_u64().unwrap_or(u64::MAX);
    assert!(rig.live_pods().len() as u64 <= most, "{} pods at once", rig.live_pods().len());
}

#[test]
fn a_job_runs_to_its_end_and_counts_each_pod_once() {
    for (seed, faults) in [(1, Faults::NONE), (2, Faults::MANY), (3, Faults::MANY)] {
        let mut rig = Rig::new(ALL, seed, faults);
        rig.check = never_too_parallel;
        rig.pods = Pods::Succeed;
        rig.create(&resource::JOBS, job(&json!({})));
        rig.settle(600);
        let status = &rig.object(&resource::JOBS, "work")["status"];
        assert_eq!(
            (&status["succeeded"], &status["failed"], &status["active"]),
            (&json!(5), &Value::Null, &Value::Null)
        );
        assert_eq!(condition(&rig, "SuccessCriteriaMet")["reason"], "CompletionsReached");
        assert_eq!(condition(&rig, "Complete")["status"], "True");
        assert!(status["completionTime"].is_string() && status["startTime"].is_string());
        assert_eq!(rig.api.all(&resource::PODS).count(), 5);
        assert!(rig.api.all(&resource::PODS).all(|pod| pod["metadata"]["finalizers"].is_null()));
    }
}

#[test]
fn too_many_failures_end_it() {
    let mut rig = Rig::new(ALL, 4, Faults::NONE);
    rig.pods = Pods::Fail;
    rig.create(&resource::JOBS, job(&json!({"parallelism": 1, "backoffLimit": 2})));
    rig.pass(5);
    assert_eq!(rig.api.all(&resource::PODS).count(), 1, "ten seconds pass after the first failure");
    rig.pass(90);
    assert_eq!(condition(&rig, "Failed")["reason"], "BackoffLimitExceeded");
    assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failed"], 3);
    assert_eq!(rig.api.all(&resource::PODS).count(), 3);
}

#[test]
fn an_indexed_job_does_each_number_once() {
    for faults in [Faults::NONE, Faults::MANY] {
        let mut rig = Rig::new(ALL, 5, faults);
        rig.pods = Pods::Succeed;
        rig.check = never_too_parallel;
        rig.create(
            &resource::JOBS,
            job(&json!({"completionMode": "Indexed", "completions": 6, "parallelism": 3})),
        );
        rig.settle(600);
        let status = &rig.object(&resource::JOBS, "work")["status"];
        assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0-5"), &json!(6)));
        let mut indexes: Vec<String> = rig
            .api
            .all(&resource::PODS)
            .map(|pod| {
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        indexes.sort();
        assert_eq!(indexes, ["0", "1", "2", "3", "4", "5"]);
        let pod = rig.api.all(&resource::PODS).next().unwrap();
        assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    }
}

#[test]
fn a_job_that_is_content_with_less_ends_early() {
    let mut rig = Rig::new(ALL, 10, Faults::NONE);
    rig.pods = Pods::Succeed;
    let policy = json!({"rules": [{"succeededIndexes": "0-1"}]});
    rig.create(
        &resource::JOBS,
        job(&json!({"completionMode": "Indexed", "completions": 9, "parallelism": 1, "successPolicy": policy})),
    );
    rig.settle(120);
    assert_eq!(condition(&rig, "Complete")["reason"], "SuccessPolicy");
    let succeeded = rig.object(&resource::JOBS, "work")["status"]["succeeded"].as_u64().unwrap();
    assert!((2..9).contains(&succeeded), "{succeeded}");
    assert_eq!(rig.live_pods().len(), 0);
}

#[test]
fn a_suspended_job_has_no_pods_and_resumes() {
    let mut rig = Rig::new(ALL, 6, Faults::NONE);
    rig.create(&resource::JOBS, job(&json!({"suspend": true})));
    rig.settle(30);
    assert_eq!(rig.live_pods().len(), 0);
    assert_eq!(condition(&rig, "Suspended")["status"], "True");
    let suspend = |rig: &mut Rig, on: bool| {
        rig.api.change(&resource::JOBS, "default", "work", |job| job["spec"]["suspend"] = json!(on));
    };
    suspend(&mut rig, false);
    rig.settle(30);
    assert_eq!(rig.live_pods().len(), 2);
    assert_eq!(condition(&rig, "Suspended")["status"], "False");
    suspend(&mut rig, true);
    rig.settle(30);
    assert_eq!(rig.api.all(&resource::PODS).count(), 0);
    suspend(&mut rig, false);
    rig.pods = Pods::Succeed;
    rig.settle(120);
    assert_eq!(condition(&rig, "Complete")["status"], "True");
}

#[test]
fn a_deadline_ends_it_and_time_removes_it() {
    let mut rig = Rig::new(ALL, 7, Faults::NONE);
    rig.create(&resource::JOBS, job(&json!({"activeDeadlineSeconds": 20, "ttlSecondsAfterFinished": 30})));
    rig.pass(10);
    assert_eq!(rig.live_pods().len(), 2);
    rig.pass(20);
    assert_eq!(condition(&rig, "Failed")["reason"], "DeadlineExceeded");
    assert_eq!(rig.api.all(&resource::PODS).count(), 0);
    rig.pass(60);
    assert!(rig.object(&resource::JOBS, "work").is_null());
}

#[test]
fn rules_about_failures_are_followed() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let mut rig = Rig::new(ALL, 8, Faults::NONE);
    rig.create(&resource::JOBS, job(&json!({"podFailurePolicy": policy, "backoffLimit": 0})));
    rig.settle(30);
    let fail = |rig: &mut Rig, status: Value| {
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        rig.api.change(&resource::PODS, "default", &name, |pod| pod["status"] = status);
    };
    fail(
        &mut rig,
        json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]}),
    );
    rig.pass(30);
    assert_eq!(condition(&rig, "FailureTarget"), Value::Null, "a disruption does not count");
    assert_eq!(rig.live_pods().len(), 2);
    let state = json!({"terminated": {"exitCode": 42}});
    fail(
        &mut rig,
        json!({"phase": "Failed", "containerStatuses": [
            {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
        ]}),
    );
    rig.pass(30);
    assert_eq!(condition(&rig, "Failed")["reason"], "PodFailurePolicy");
    assert!(condition(&rig, "Failed")["message"].as_str().unwrap().contains("exit code 42"));
}

#[test]
fn pods_of_a_deleted_job_are_let_go() {
    let mut rig = Rig::new(ALL, 9, Faults::MANY);
    rig.create(&resource::JOBS, job(&json!({})));
    rig.pass(5);
    rig.delete(&resource::JOBS, "work", Propagation::Background);
    rig.settle(300);
    assert_eq!(rig.api.all(&resource::PODS).count(), 0);
}

#[test]
fn whatever_goes_wrong_a_job_ends_with_the_right_count() {
    for seed in 0..80 {
        let mut rig = Rig::new(ALL, seed, Faults::MANY);
        rig.check = never_too_parallel;
        let indexed = rig.rng.percent(50);
        let (completions, parallelism) = (1 + rig.rng.below(8), 1 + rig.rng.below(4));
        let mode = if indexed { "Indexed" } else { "NonIndexed" };
        rig.create(&resource::JOBS, job(&json!({"completionMode": mode, "completions": completions, "parallelism": parallelism, "backoffLimit": 100})));
        rig.pods = Pods::Fail;
        rig.pass(3);
        rig.pods = Pods::Succeed;
        if rig.rng.percent(50) {
            rig.restart(ALL);
        }
        rig.settle(3_000);
        let status = &rig.object(&resource::JOBS, "work")["status"];
        assert_eq!(status["succeeded"], completions, "seed {seed}: {status}");
        let failed = rig.api.all(&resource::PODS).filter(|pod| pod["status"]["phase"] == "Failed").count();
        assert_eq!(
            status["failed"].as_u64().unwrap_or(0),
            failed as u64,
            "seed {seed}: each failure is counted once"
        );
        assert_eq!(condition(&rig, "Complete")["status"], "True", "seed {seed}");
    }
}
