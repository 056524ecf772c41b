//! Jobs against a model of the API server.

use lazaret_workloads::{Propagation, resource, rules};
use serde_json::{Value, json};

use crate::support::{
    api::stamp,
    rig::{Faults, Pods, Rig},
};

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

/// Deletes the only pod that there is, as a user would.
fn delete_the_pod(rig: &mut Rig) {
    let live = rig.live_pods();
    assert_eq!(live.len(), 1);
    let name = live[0]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.delete(&resource::PODS, &name, Propagation::Background);
}

#[test]
fn a_pod_that_is_made_after_the_end_of_its_job_is_deleted() {
    let mut rig = Rig::new(ALL, 33, Faults::NONE);
    rig.pods = Pods::Succeed;
    rig.create(&resource::JOBS, job(&json!({"completions": 1, "parallelism": 1})));
    rig.settle(600);
    assert_eq!(condition(&rig, "Complete")["status"], "True");
    // The first request for the pod had no answer, and is carried out now.
    rig.pods = Pods::Run;
    let mut late = rig.api.all(&resource::PODS).next().unwrap().clone();
    late["metadata"]["name"] = json!("work-late");
    late["metadata"]["uid"] = Value::Null;
    late["metadata"]["resourceVersion"] = Value::Null;
    late["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    late["status"] = json!({"phase": "Pending"});
    rig.create(&resource::PODS, late);
    rig.settle(60);
    assert_eq!(rig.live_pods().len(), 0);
    assert_eq!(rig.object(&resource::JOBS, "work")["status"]["succeeded"], 1);
}

#[test]
fn a_pod_that_was_counted_as_failed_does_not_succeed_after_that() {
    for mode in ["NonIndexed", "Indexed"] {
        let mut rig = Rig::new(ALL, 32, Faults::NONE);
        rig.pods = Pods::Run;
        rig.create(
            &resource::JOBS,
            job(&json!({"parallelism": 1, "completions": 2, "backoffLimit": 9, "completionMode": mode})),
        );
        rig.pass(5);
        let pod = rig.live_pods()[0].clone();
        let (name, uid) = (pod["metadata"]["name"].as_str().unwrap(), &pod["metadata"]["uid"]);
        // It is being deleted, the job has noted that, and the write that lets go of it was lost.
        rig.api.change(&resource::JOBS, "default", "work", |job| {
            job["status"]["uncountedTerminatedPods"] = json!({"failed": [uid]});
        });
        rig.api.change(&resource::PODS, "default", name, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!(stamp(rig.now));
            pod["status"]["phase"] = json!("Succeeded");
        });
        rig.pass(5);
        let status = &rig.object(&resource::JOBS, "work")["status"];
        assert_eq!((&status["succeeded"], &status["failed"]), (&Value::Null, &json!(1)), "{mode}");
    }
}

#[test]
fn a_pod_that_was_deleted_is_replaced_after_a_pause_that_grows() {
    for (seed, pods) in [(30, Pods::Wait), (31, Pods::Run)] {
        let mut rig = Rig::new(ALL, seed, Faults::NONE);
        rig.pods = pods;
        rig.create(
            &resource::JOBS,
            job(&json!({"parallelism": 1, "completions": 2, "backoffLimit": 9, "completionMode": "Indexed"})),
        );
        rig.pass(5);
        for (failures, pause) in [(1, 10), (2, 20), (3, 40)] {
            delete_the_pod(&mut rig);
            rig.pass(pause - 3);
            assert_eq!(rig.live_pods().len(), 0, "{pause} seconds pass after {failures}");
            rig.pass(5);
            assert_eq!(rig.live_pods().len(), 1, "after {failures}");
            assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failed"], failures);
        }
        // A success ends the row.
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let ended = stamp(rig.now);
        let state = json!({"terminated": {"exitCode": 0, "finishedAt": ended}});
        rig.api.change(&resource::PODS, "default", &name, |pod| {
            pod["status"] = json!({"phase": "Succeeded", "containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
            ]});
        });
        rig.pass(5);
        delete_the_pod(&mut rig);
        rig.pass(7);
        assert_eq!(rig.live_pods().len(), 0, "ten seconds pass again");
        rig.pass(5);
        assert_eq!(rig.live_pods().len(), 1);
    }
}

#[test]
fn pods_that_are_withdrawn_leave_no_pause() {
    let mut rig = Rig::new(ALL, 32, Faults::NONE);
    rig.pods = Pods::Run;
    rig.create(&resource::JOBS, job(&json!({"parallelism": 1})));
    rig.pass(5);
    for suspended in [true, false] {
        rig.api.change(&resource::JOBS, "default", "work", |job| job["spec"]["suspend"] = suspended.into());
        rig.pass(3);
        assert_eq!(rig.live_pods().len(), usize::from(!suspended));
    }
    assert!(rig.object(&resource::JOBS, "work")["status"]["failed"].is_null());
}

#[test]
fn a_controller_that_starts_later_does_not_wait_for_pods_that_it_never_saw() {
    let mut rig = Rig::new(ALL, 33, Faults::NONE);
    rig.pods = Pods::Wait;
    rig.create(&resource::JOBS, job(&json!({"parallelism": 1})));
    rig.pass(5);
    delete_the_pod(&mut rig);
    rig.pass(3);
    assert_eq!(rig.live_pods().len(), 0);
    rig.restart(ALL);
    rig.pass(3);
    assert_eq!(rig.live_pods().len(), 1);
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
    assert_eq!(
        rig.object(&resource::JOBS, "work")["status"]["failed"],
        Value::Null,
        "what is not needed has not failed"
    );
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
    assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failed"], Value::Null, "nothing has failed");
    suspend(&mut rig, false);
    rig.pods = Pods::Succeed;
    rig.settle(120);
    assert_eq!(condition(&rig, "Complete")["status"], "True");
}

#[test]
fn pods_that_are_too_many_are_deleted_and_have_not_failed() {
    for (seed, faults) in [(30, Faults::NONE), (31, Faults::MANY)] {
        let mut rig = Rig::new(ALL, seed, faults);
        let of = |parallelism: i32| move |job: &mut Value| job["spec"]["parallelism"] = json!(parallelism);
        rig.create(&resource::JOBS, job(&json!({"parallelism": 5, "completions": 9, "backoffLimit": 0})));
        for parallelism in [5, 2, 4, 1] {
            rig.api.change(&resource::JOBS, "default", "work", of(parallelism));
            rig.settle(60);
            assert_eq!(rig.live_pods().len(), usize::try_from(parallelism).unwrap());
            let status = &rig.object(&resource::JOBS, "work")["status"];
            assert_eq!((&status["failed"], condition(&rig, "FailureTarget")), (&Value::Null, Value::Null));
        }
    }
}

#[test]
fn pods_that_are_let_be_when_their_job_goes_are_let_go() {
    let mut rig = Rig::new(ALL, 32, Faults::NONE);
    rig.create(&resource::JOBS, job(&json!({})));
    rig.settle(30);
    assert!(rig.api.all(&resource::PODS).all(|pod| pod["metadata"]["finalizers"].is_array()));
    rig.delete(&resource::JOBS, "work", Propagation::Orphan);
    rig.settle(60);
    assert!(rig.object(&resource::JOBS, "work").is_null());
    assert_eq!(rig.live_pods().len(), 2);
    for pod in rig.api.all(&resource::PODS) {
        assert_eq!(
            (&pod["metadata"]["finalizers"], &pod["metadata"]["ownerReferences"]),
            (&Value::Null, &Value::Null)
        );
    }
}

#[test]
fn an_index_beyond_the_last_does_not_count() {
    let mut rig = Rig::new(ALL, 33, Faults::NONE);
    rig.pods = Pods::Succeed;
    rig.create(
        &resource::JOBS,
        job(&json!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "suspend": true})),
    );
    rig.settle(30);
    rig.api.change(&resource::JOBS, "default", "work", |job| {
        job["status"]["completedIndexes"] = json!("0,2");
        job["spec"]["completions"] = json!(2);
        job["spec"]["parallelism"] = json!(1);
        job["spec"]["suspend"] = json!(false);
    });
    rig.settle(60);
    let status = &rig.object(&resource::JOBS, "work")["status"];
    assert_eq!((&status["completedIndexes"], &status["succeeded"]), (&json!("0,1"), &json!(2)));
}

#[test]
fn people_are_told_when_a_job_is_suspended_and_resumed() {
    let mut rig = Rig::new(ALL, 34, Faults::NONE);
    rig.create(&resource::JOBS, job(&json!({"suspend": true})));
    rig.settle(30);
    rig.api.change(&resource::JOBS, "default", "work", |job| job["spec"]["suspend"] = json!(false));
    rig.settle(30);
    let told: Vec<(&str, &str)> = rig
        .api
        .events
        .iter()
        .map(|event| (event.reason, event.message.as_str()))
        .filter(|(reason, _)| !reason.starts_with("Successful"))
        .collect();
    assert_eq!(told, [("Suspended", "Job suspended"), ("Resumed", "Job resumed")]);
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
fn a_job_fails_although_pods_of_it_never_got_a_node() {
    let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5]}}]});
    for (seed, faults, more) in [
        (10, Faults::NONE, json!({"podFailurePolicy": policy})),
        (11, Faults::MANY, json!({"podFailurePolicy": policy})),
        (12, Faults::NONE, json!({"backoffLimit": 0, "podReplacementPolicy": "Failed"})),
        (13, Faults::MANY, json!({"backoffLimit": 0, "podReplacementPolicy": "Failed"})),
    ] {
        let mut rig = Rig::new(ALL, seed, faults);
        rig.pods = Pods::Wait;
        let mut made = job(&more);
        made["spec"]["parallelism"] = json!(3);
        rig.create(&resource::JOBS, made);
        rig.settle(60);
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let state = json!({"terminated": {"exitCode": 5}});
        rig.api.change(&resource::PODS, "default", &name, |pod| {
            pod["status"] = json!({"phase": "Failed", "containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state}]});
        });
        rig.settle(600);
        assert_eq!(condition(&rig, "Failed")["status"], "True", "{more}");
        assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failed"], 3);
        assert_eq!(rig.live_pods().len(), 0);
        let held = |pod: &&Value| !pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        assert_eq!(rig.api.all(&resource::PODS).filter(held).count(), 0);
    }
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

fn annotations<'a>(rig: &'a Rig, index: i32, name: &str) -> Vec<&'a str> {
    let (index, name) = (index.to_string(), format!("batch.kubernetes.io/{name}"));
    let all = rig.api.all(&resource::PODS).map(|pod| &pod["metadata"]["annotations"]);
    let of_index = all.filter(|all| all["batch.kubernetes.io/job-completion-index"] == index);
    let mut found: Vec<&str> = of_index.filter_map(|all| all[&name].as_str()).collect();
    found.sort_unstable();
    found
}

fn indexed(more: &Value) -> Value {
    let mut spec = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimit": i32::MAX, "backoffLimitPerIndex": 1});
    for (name, value) in more.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    job(&spec)
}

#[test]
fn an_index_with_a_limit_of_its_own_fails_alone() {
    let mut rig = Rig::new(ALL, 20, Faults::NONE);
    rig.pods = Pods::FailIfOdd;
    rig.create(&resource::JOBS, indexed(&json!({})));
    rig.pass(5);
    let status = &rig.object(&resource::JOBS, "work")["status"];
    assert_eq!((&status["failedIndexes"], &status["completedIndexes"]), (&json!(""), &json!("0,2")));
    assert_eq!(status["failed"], Value::Null, "a failure is counted when the next attempt is made");
    assert_eq!(rig.api.all(&resource::PODS).count(), 4, "which takes ten seconds");
    rig.settle(60);
    let status = &rig.object(&resource::JOBS, "work")["status"];
    assert_eq!(
        (&status["failedIndexes"], &status["completedIndexes"], &status["failed"], &status["succeeded"]),
        (&json!("1,3"), &json!("0,2"), &json!(4), &json!(2))
    );
    for kind in ["FailureTarget", "Failed"] {
        let found = condition(&rig, kind);
        assert_eq!(
            (&found["reason"], &found["message"]),
            (&json!("FailedIndexes"), &json!("Job has failed indexes"))
        );
    }
    assert_eq!(annotations(&rig, 0, "job-index-failure-count"), ["0"]);
    assert_eq!(annotations(&rig, 1, "job-index-failure-count"), ["0", "1"]);
    assert_eq!(annotations(&rig, 1, "job-index-ignored-failure-count"), [] as [&str; 0]);
    assert!(rig.api.all(&resource::PODS).all(|pod| pod["metadata"]["finalizers"].is_null()));
}

#[test]
fn each_index_waits_longer_after_each_of_its_failures() {
    let mut rig = Rig::new(ALL, 21, Faults::NONE);
    rig.pods = Pods::Wait;
    rig.create(
        &resource::JOBS,
        indexed(&json!({"completions": 1, "parallelism": 1, "backoffLimitPerIndex": 9})),
    );
    rig.settle(5);
    for (failures, pause) in [(1, 10), (2, 20), (3, 40), (4, 80)] {
        let name = rig.live_pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
        let state = json!({"terminated": {"exitCode": 1, "finishedAt": stamp(rig.now)}});
        rig.api.change(&resource::PODS, "default", &name, |pod| {
            pod["status"] = json!({"phase": "Failed", "containerStatuses": [
                {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
            ]});
        });
        rig.pass(pause - 2);
        assert_eq!(rig.live_pods().len(), 0, "{pause} seconds pass");
        rig.pass(5);
        assert_eq!(rig.live_pods().len(), 1);
        let counts = annotations(&rig, 0, "job-index-failure-count");
        assert_eq!(counts.last().copied(), Some(failures.to_string().as_str()));
    }
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let mut rig = Rig::new(ALL, 22, Faults::NONE);
    rig.pods = Pods::Fail;
    rig.create(
        &resource::JOBS,
        indexed(
            &json!({"completions": 6, "parallelism": 1, "backoffLimitPerIndex": 0, "maxFailedIndexes": 2}),
        ),
    );
    rig.settle(60);
    assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failedIndexes"], "0-2");
    assert_eq!(rig.object(&resource::JOBS, "work")["status"]["failed"], 3);
    let failed = condition(&rig, "Failed");
    let message = "Job has exceeded the specified maximal number of failed indexes";
    assert_eq!(
        (&failed["reason"], &failed["message"]),
        (&json!("MaxFailedIndexesExceeded"), &json!(message))
    );
    assert_eq!(rig.api.all(&resource::PODS).count(), 3);
}

#[test]
fn what_runs_when_too_many_indexes_failed_has_not_failed_itself() {
    let mut rig = Rig::new(ALL, 24, Faults::NONE);
    rig.create(&resource::JOBS, indexed(&json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0})));
    rig.settle(10);
    let name = rig.live_pods()[1]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.api.change(&resource::PODS, "default", &name, |pod| pod["status"] = json!({"phase": "Failed"}));
    rig.settle(60);
    let failed = rig.object(&resource::JOBS, "work")["status"]["failedIndexes"].as_str().unwrap().to_owned();
    assert_eq!(failed.len(), 1, "{failed}");
    assert_eq!(condition(&rig, "Failed")["reason"], "MaxFailedIndexesExceeded");
}

#[test]
fn a_rule_ends_an_index_at_once_and_another_lets_it_go_on() {
    let policy = json!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let mut rig = Rig::new(ALL, 23, Faults::NONE);
    let more = json!({"podFailurePolicy": policy, "backoffLimitPerIndex": 3, "completions": 2, "podReplacementPolicy": "Failed"});
    rig.create(&resource::JOBS, indexed(&more));
    rig.settle(30);
    let fail = |rig: &mut Rig, index: &str, status: Value| {
        let is_it = |pod: &&&Value| {
            pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == index
        };
        let name =
            rig.live_pods().iter().find(is_it).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        rig.api.change(&resource::PODS, "default", &name, |pod| pod["status"] = status);
    };
    let disrupted =
        json!({"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}]});
    fail(&mut rig, "0", disrupted);
    rig.pass(15);
    assert_eq!(annotations(&rig, 0, "job-index-failure-count"), ["0", "0"]);
    assert_eq!(annotations(&rig, 0, "job-index-ignored-failure-count"), ["1"]);
    let state = json!({"terminated": {"exitCode": 42}});
    let exit = json!({"phase": "Failed", "containerStatuses": [
        {"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state},
    ]});
    fail(&mut rig, "1", exit);
    rig.pass(30);
    let status = &rig.object(&resource::JOBS, "work")["status"];
    assert_eq!((&status["failedIndexes"], &status["failed"]), (&json!("1"), &json!(1)));
    assert_eq!(rig.live_pods().len(), 1, "the other goes on");
    rig.pods = Pods::Succeed;
    rig.settle(30);
    assert_eq!(condition(&rig, "Failed")["reason"], "FailedIndexes");
}

#[test]
fn whatever_goes_wrong_every_index_ends_and_every_failure_is_counted_once() {
    for seed in 0..60 {
        let mut rig = Rig::new(ALL, seed, Faults::MANY);
        rig.check = never_too_parallel;
        rig.pods = Pods::FailIfOdd;
        let (limit, parallelism) = (rig.rng.below(3), 1 + rig.rng.below(4));
        rig.create(
            &resource::JOBS,
            indexed(&json!({"completions": 5, "parallelism": parallelism, "backoffLimitPerIndex": limit})),
        );
        rig.pass(3);
        if rig.rng.percent(50) {
            rig.restart(ALL);
        }
        rig.settle(3_000);
        let status = &rig.object(&resource::JOBS, "work")["status"];
        assert_eq!(
            (&status["completedIndexes"], &status["failedIndexes"]),
            (&json!("0,2,4"), &json!("1,3")),
            "seed {seed}"
        );
        let failed = rig.api.all(&resource::PODS).filter(|pod| pod["status"]["phase"] == "Failed").count();
        assert_eq!(
            (&status["failed"], failed as u64),
            (&json!(2 * (limit + 1)), 2 * (limit + 1)),
            "seed {seed}"
        );
        let expected: Vec<String> = (0..=limit).map(|count| count.to_string()).collect();
        assert_eq!(annotations(&rig, 1, "job-index-failure-count"), expected, "seed {seed}");
    }
}
