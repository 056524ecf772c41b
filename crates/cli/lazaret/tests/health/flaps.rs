//! A device that flaps: drained, repaired, validated and brought back, whatever happens to the process meanwhile.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    support::wait_until,
    up::{DRAINS, DRIVER, INCIDENTS, JOBS, PODS, POLICIES, RULES, SLICES, Up, held, policy, texts},
};

/// The key of the taint: a validation that did not tolerate it would never get the device.
const FLAPPING: &str = "health.example.com/flapping";

#[test]
fn a_flapping_gpu_is_drained_reset_validated_and_brought_back_though_the_process_is_killed_in_each_stage() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    let foreign = json!({"metadata": {"name": "theirs"}, "spec": {
        "deviceSelector": {"driver": DRIVER, "pool": "node-1"}, "taint": {"key": "example.com/x", "effect": "None"},
    }});
    let foreign = up.send("POST", RULES, &foreign);
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut policy = held(policy());
    policy["spec"]["rules"][0]["taint"] = json!({"key": FLAPPING, "value": "flapping"});
    up.send("POST", POLICIES, &policy);
    let device = up.pod("trainer");
    for count in 1..=2 {
        // A failure that begins and ends before the controller looks is not counted: it recovers once it is.
        up.fail(&device);
        wait_until("what was counted is stored", || {
            let counts = up.counts();
            counts["hits"].as_array().is_some_and(|hits| hits.len() == count)
                && counts["lasting"] != json!([])
        });
        up.recover(&device);
        wait_until("its end is stored", || up.counts()["lasting"] == json!([]));
        up = up.kill();
    }
    assert!(up.list(INCIDENTS).is_empty(), "two are not three");
    up.fail(&device);
    for stage in ["Draining", "Repairing", "Probation"] {
        let incident = up.until_stage(stage);
        if stage == "Draining" {
            wait_until("a policy drains the device", || !up.list(DRAINS).is_empty());
            let spec = up.list(DRAINS)[0]["spec"].clone();
            assert_eq!(spec["taint"]["key"], FLAPPING, "{spec}");
            assert_eq!(spec["taint"]["evictionsPerSecond"], 5, "{spec}");
            let eviction = json!({"mode": "EvictThenDelete", "deadlineSeconds": 60, "maxConcurrent": 2});
            assert_eq!(spec["eviction"], eviction, "{spec}");
            // Counts that are not stored end with the process.
            wait_until("the eviction is stored", || up.incident()["status"]["cost"]["podsEvicted"] == 1);
        }
        if stage == "Repairing" {
            up.recover(&device);
        }
        assert_eq!(incident["status"]["device"]["device"], device);
        up = up.kill();
        match stage {
            "Draining" => {
                up.send("DELETE", &format!("{PODS}/trainer"), &json!({"gracePeriodSeconds": 1}));
            }
            _ => up.release_jobs(),
        }
    }
    let incident = up.until_stage("Cleared");
    let status = &incident["status"];
    let stages = ["Draining", "Repairing", "Probation", "Probation", "Cleared"];
    assert_eq!(texts(&status["timeline"], "stage"), stages, "{status:#}");
    assert_eq!(up.list(INCIDENTS).len(), 1);
    assert_eq!(
        (&status["cost"]["podsEvicted"], &status["cost"]["namespaces"]),
        (&json!(1), &json!(["default"]))
    );
    let times: Vec<&str> = ["detected", "decided", "drained", "repaired", "cleared"]
        .iter()
        .map(|time| status["times"][*time].as_str().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    let causes = texts(&status["timeline"], "cause");
    let count = |words: &str| causes.iter().filter(|cause| cause.contains(words)).count();
    assert_eq!((count("repair reset is done"), count("validation passed")), (1, 1), "{causes:?}");
    wait_until("nothing is left but what is somebody else's", || {
        up.list(DRAINS).is_empty() && up.list(RULES).len() == 1 && up.list(JOBS).is_empty()
    });
    // The status is written by the eviction controller, as that of any rule.
    let theirs = up.send("GET", &format!("{RULES}/theirs"), &Value::Null);
    assert_eq!(theirs["spec"], foreign["spec"], "never touched");
    assert_eq!(theirs["metadata"]["generation"], foreign["metadata"]["generation"], "never touched");
    assert!(up.try_send("GET", &format!("{PODS}/trainer"), &Value::Null).is_err(), "it was evicted");
    let described = up.said(&["incidents", &format!("node-1/{device}")]);
    assert!(described.contains("repair reset is done") && described.contains("1 pod evicted"), "{described}");
    // Both devices are there to be had again.
    up.pod("one");
    up.pod("two");
}

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// One flap makes a device suspect, two quarantine it, three drain it as budgets permit; then a Job resets it and a Job validates it.
fn policy_of_flaps() -> Value {
    let rule = |name: &str, at_least: u32, stage: &str| {
        json!({
            "name": name, "stage": stage, "taint": {"value": "flapping"},
            "when": "signal.source == 'Taint' && signal.key == 'gpu.example.com/unhealthy'",
            "count": {"atLeast": at_least, "within": "1h"},
        })
    };
    let mut policy = held(policy());
    let spec = &mut policy["spec"];
    spec["rules"] =
        json!([rule("once", 1, "Suspect"), rule("twice", 2, "Quarantined"), rule("thrice", 3, "Drained")]);
    spec["clearAfter"] = "1h".into();
    spec["eviction"] = json!({"mode": "Evict", "evictionsPerSecond": 5});
    policy
}

/// The stages that an incident passes through.
const STAGES: [&str; 6] = ["Suspect", "Quarantined", "Draining", "Repairing", "Probation", "Cleared"];

/// One life of an incident. In these stages the process is killed once the stage and what it takes is stored.
struct Flaps {
    up: Up,
    device: String,
    killed: &'static [&'static str],
}

impl Flaps {
    fn begin(folder: &Path, killed: &'static [&'static str]) -> Self {
        let up = Up::start(folder);
        wait_until("the devices are there", || !up.list(SLICES).is_empty());
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "training"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "trainer"}}},
        });
        up.send("POST", BUDGETS, &budget);
        up.send("POST", POLICIES, &policy_of_flaps());
        let device = up.pod("trainer");
        let stops_soon = json!({"hollow.lazaret.dev/stop-after": "1s"});
        let metadata = json!({"labels": {"app": "trainer"}, "annotations": stops_soon});
        up.send("PATCH", &format!("{PODS}/trainer"), &json!({"metadata": metadata}));
        Self { up, device, killed }
    }

    /// The incident is in this stage. Kills the process, if it is to be killed there, and starts it again.
    fn reach(mut self, stage: &str) -> Self {
        self.up.until_stage(stage);
        if self.killed.contains(&stage) {
            self.up = self.up.kill();
            let again = self.up.incident();
            assert_eq!(again["status"]["stage"], stage, "a restart changes nothing: {again:#}");
        }
        self
    }

    /// The driver reports the device, for the time of this number, and what was counted is stored.
    fn flap(&self, time: usize) {
        self.up.fail(&self.device);
        let counted = || {
            let policy = self.up.send("GET", &format!("{POLICIES}/gpus"), &Value::Null);
            let counts = policy["status"]["counts"].as_array().cloned().unwrap_or_default();
            counts.into_iter().find(|one| one["rule"] == "thrice").unwrap_or_default()
        };
        // A failure that begins and ends before the controller looks is not counted, nor is one that ends before it is stored.
        wait_until("what was counted is stored", || {
            let counted = counted();
            counted["hits"].as_array().is_some_and(|hits| hits.len() == time)
                && counted["lasting"] != json!([])
        });
        if time < 3 {
            self.up.recover(&self.device);
            wait_until("its end is stored", || counted()["lasting"] == json!([]));
        }
    }

    /// The pod may not leave before its budget permits it, and leaves then.
    fn leave_when_the_budget_permits(&self) {
        let is_blocked = |policy: &Value| {
            let conditions = policy["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| {
                one["type"] == "EvictionBlocked" && one["status"] == "True" && one["reason"] == "Budget"
            })
        };
        wait_until("the budget keeps the pod", || self.up.list(DRAINS).iter().any(is_blocked));
        // A process that has just started asks the budget once more before it says so again.
        wait_until("the pod is told what keeps it", || {
            let why = self.up.said(&["why", "trainer"]);
            why.contains("eviction by policy ") && why.contains(" is blocked (Budget): ")
        });
        let pod = self.up.send("GET", &format!("{PODS}/trainer"), &Value::Null);
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "a budget is obeyed: {pod:#}");
        self.up.send("DELETE", &format!("{BUDGETS}/training"), &Value::Null);
        // Counts that are not stored end with the process.
        wait_until("the eviction is stored", || self.up.incident()["status"]["cost"]["podsEvicted"] == 1);
    }

    /// All that does not depend on the time.
    fn told(&self) -> Value {
        let status = self.up.incident()["status"].clone();
        let entries = status["timeline"].as_array().unwrap().iter();
        let timeline: Vec<Value> =
            entries.map(|one| json!([one["stage"], one["cause"], one["actor"]])).collect();
        json!({
            "incidents": self.up.list(INCIDENTS).len(),
            "timeline": timeline,
            "podsEvicted": status["cost"]["podsEvicted"],
            "namespaces": status["cost"]["namespaces"],
        })
    }

    fn assert_times(&self) {
        let status = self.up.incident()["status"].clone();
        let times = ["detected", "decided", "drained", "repaired", "cleared"]
            .map(|time| status["times"][time].as_str().unwrap().to_owned());
        assert!(times.is_sorted(), "{times:?}");
        let described = self.up.said(&["incidents", &format!("node-1/{}", self.device)]);
        for words in STAGES.into_iter().chain(["repair reset is done", "validation passed", "1 pod evicted"])
        {
            assert!(described.contains(words), "{words} is not in {described}");
        }
    }
}

/// A driver flaps a GPU; the policy quarantines it, drains it under a budget, a Job resets it, a Job validates it, and it is back.
fn flap_until_it_is_cleared(killed: &'static [&'static str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut flaps = Flaps::begin(folder.path(), killed);
    flaps.flap(1);
    flaps = flaps.reach("Suspect");
    flaps.flap(2);
    flaps = flaps.reach("Quarantined");
    wait_until("new claims are kept off", || {
        flaps.up.list(RULES).iter().any(|rule| rule["spec"]["taint"]["effect"] == "NoSchedule")
    });
    flaps.flap(3);
    flaps = flaps.reach("Draining");
    flaps.leave_when_the_budget_permits();
    flaps = flaps.reach("Repairing");
    flaps.up.recover(&flaps.device);
    flaps.up.release_jobs();
    flaps = flaps.reach("Probation");
    flaps.up.release_jobs();
    flaps = flaps.reach("Cleared");
    wait_until("nothing is left of it", || {
        flaps.up.list(DRAINS).is_empty() && flaps.up.list(RULES).is_empty() && flaps.up.list(JOBS).is_empty()
    });
    flaps.assert_times();
    // Both devices are there to be had again.
    flaps.up.pod("one");
    flaps.up.pod("two");
    flaps.told()
}

#[test]
fn an_incident_whose_process_is_killed_in_every_stage_ends_as_one_whose_process_is_not() {
    let undisturbed = flap_until_it_is_cleared(&[]);
    let stages: Vec<&str> =
        undisturbed["timeline"].as_array().unwrap().iter().map(|one| one[0].as_str().unwrap()).collect();
    let mut passed = stages.clone();
    passed.dedup();
    assert_eq!(passed, STAGES, "{undisturbed:#}");
    assert_eq!(flap_until_it_is_cleared(&STAGES), undisturbed);
}
