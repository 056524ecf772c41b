//! Devices that fall ill and get well again on `lazaret up`, by a policy, whatever happens to the process meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use serde_json::{Value, json};
use support::{LAZARET, wait_until};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const INCIDENTS: &str = "/apis/lazaret.dev/v1alpha1/deviceincidents";
const SIGNALS: &str = "/apis/lazaret.dev/v1alpha1/devicesignals";
const DRAINS: &str = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DRIVER: &str = "gpu.example.com";

/// A control plane with simulated nodes whose store outlives it.
struct Up {
    process: Child,
    runtime: tokio::runtime::Runtime,
    client: kube::Client,
    folder: std::path::PathBuf,
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Up {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(LAZARET)
            .args(["up", "--nodes", "1", "--devices", "2", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().unwrap().starts_with("kubeconfig: ")).unwrap().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let path = folder.join("kubeconfig");
        let client = runtime.block_on(async {
            let file = kube::config::Kubeconfig::read_from(path).unwrap();
            let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await.unwrap();
            kube::Client::try_from(config).unwrap()
        });
        Self { process, runtime, client, folder: folder.to_owned() }
    }

    /// Ends it as a power failure would, and starts it again.
    fn kill(self) -> Self {
        let folder = self.folder.clone();
        drop(self);
        Self::start(&folder)
    }

    fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(if body.is_null() { vec![] } else { body.to_string().into_bytes() })
            .unwrap();
        self.runtime.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        self.try_send(method, path, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    fn list(&self, path: &str) -> Vec<Value> {
        self.send("GET", path, &Value::Null)["items"].as_array().cloned().unwrap_or_default()
    }

    fn device(&self, words: &[&str]) -> Output {
        let kubeconfig = self.folder.join("kubeconfig");
        Command::new(LAZARET).arg("device").args(words).env("KUBECONFIG", kubeconfig).output().unwrap()
    }

    /// What a command of `kubectl device` prints; it must succeed.
    fn said(&self, words: &[&str]) -> String {
        let output = self.device(words);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The driver's taint on a device, as the slice has it.
    fn is_reported(&self, device: &str) -> bool {
        let slices = self.list(SLICES);
        let devices = slices.iter().flat_map(|slice| slice["spec"]["devices"].as_array().unwrap());
        devices.filter(|one| one["name"] == device).any(|one| !one["taints"].is_null())
    }

    fn fail(&self, device: &str) {
        self.said(&["fail", &format!("node-1/{device}"), "--effect", "None"]);
        wait_until("the driver reports it", || self.is_reported(device));
    }

    fn recover(&self, device: &str) {
        self.said(&["recover", &format!("node-1/{device}")]);
        wait_until("the driver reports no more", || !self.is_reported(device));
    }

    /// The first of the stored counts of the policy.
    fn counts(&self) -> Value {
        self.send("GET", &format!("{POLICIES}/gpus"), &Value::Null)["status"]["counts"][0].clone()
    }

    fn incident(&self) -> Value {
        self.list(INCIDENTS).into_iter().next().unwrap_or_default()
    }

    fn until_stage(&self, stage: &str) -> Value {
        let mut last = Value::Null;
        wait_until(&format!("the incident is {stage}"), || {
            last = self.incident();
            last["status"]["stage"] == stage
        });
        last
    }

    /// Lets the pods of jobs run that wait for it.
    fn release_jobs(&self) {
        let is_held = |pod: &Value| !pod["spec"]["schedulingGates"].is_null();
        let mut released = 0;
        wait_until("a pod of a job waits to be released", || {
            for pod in self.list(PODS).iter().filter(|pod| is_held(pod)) {
                let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
                self.send("PATCH", &path, &json!({"spec": {"schedulingGates": null}}));
                released += 1;
            }
            released > 0
        });
    }

    /// A pod with one device, which does not stop by itself; which one it got.
    fn pod(&self, name: &str) -> String {
        let claim = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [
            {"name": "gpu", "exactly": {"deviceClassName": DRIVER}},
        ]}}});
        self.send("POST", CLAIMS, &claim);
        let pod = json!({
            "metadata": {"name": name, "annotations": {"hollow.lazaret.dev/stop-after": "1h"}},
            "spec": {
                "terminationGracePeriodSeconds": 3600,
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            },
        });
        self.send("POST", PODS, &pod);
        wait_until("the pod runs", || {
            self.send("GET", &format!("{PODS}/{name}"), &Value::Null)["status"]["phase"] == "Running"
        });
        let claim = self.send("GET", &format!("{CLAIMS}/{name}"), &Value::Null);
        claim["status"]["allocation"]["devices"]["results"][0]["device"].as_str().unwrap().to_owned()
    }
}

fn job(run_for: &str) -> Value {
    json!({"spec": {"template": {
        "metadata": {"annotations": {"hollow.lazaret.dev/run-for": run_for}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }}})
}

fn policy() -> Value {
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "gpus"},
        "spec": {
            "deviceSelector": {"deviceClassName": DRIVER},
            "rules": [
                {
                    "name": "flapping", "stage": "Drained", "taint": {"value": "flapping"},
                    "when": "signal.source == 'Taint' && signal.key == 'gpu.example.com/unhealthy'",
                    "count": {"atLeast": 3, "within": "10m"},
                },
                {"name": "loud", "stage": "Quarantined", "when": "signal.key == 'example.com/fan'"},
            ],
            "clearAfter": "1s",
            "eviction": {"evictionsPerSecond": 5, "mode": "EvictThenDelete", "deadlineSeconds": 60, "maxConcurrent": 2},
            "repair": {"steps": [{"name": "reset", "job": {"template": job("4s")}, "timeoutSeconds": 600}]},
            "recovery": {"probation": "2s", "validation": {"template": job("2s")}},
            "mode": "Enforce",
        },
    })
}

/// The same with jobs that wait to be released: a stage is over when the test says so, and none can be missed.
fn held(mut policy: Value) -> Value {
    for path in ["/spec/repair/steps/0/job/template", "/spec/recovery/validation/template"] {
        let spec = policy.pointer_mut(path).unwrap().pointer_mut("/spec/template/spec").unwrap();
        spec["schedulingGates"] = json!([{"name": "example.com/released"}]);
    }
    policy
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|entry| entry[field].as_str().unwrap()).collect()
}

#[test]
fn a_flapping_gpu_is_drained_reset_validated_and_brought_back_though_the_process_is_killed_in_each_stage() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    let foreign = json!({"metadata": {"name": "theirs"}, "spec": {
        "deviceSelector": {"driver": DRIVER, "pool": "node-1"}, "taint": {"key": "example.com/x", "effect": "None"},
    }});
    let foreign = up.send("POST", RULES, &foreign);
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", POLICIES, &held(policy()));
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
                up.send("DELETE", &format!("{PODS}/trainer"), &json!({"gracePeriodSeconds": 0}));
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

#[test]
fn people_report_acknowledge_abandon_and_repair() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    up.said(&["report", "node-1/gpu-1", "example.com/fan=loud", "--reason", "heard it"]);
    let incident = up.until_stage("Quarantined");
    let cause = incident["spec"]["cause"].as_str().unwrap();
    assert!(cause.starts_with("rule loud: heard it (reported by "), "{cause}");
    wait_until("the signal was taken in", || up.list(SIGNALS).is_empty());
    wait_until("the device is tainted", || {
        up.list(RULES).iter().any(|rule| rule["spec"]["taint"]["effect"] == "NoSchedule")
    });
    let listed = up.said(&["incidents"]);
    assert!(listed.contains("gpu.example.com/node-1/gpu-1") && listed.contains("gpus/loud"), "{listed}");
    let refused = up.device(&["repaired", "node-1/gpu-1"]);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("Repairing or Abandoned"), "{why}");
    up.said(&["abandon", "node-1/gpu-1", "--reason", "for good"]);
    up.until_stage("Abandoned");
    up.said(&["acknowledge", "node-1/gpu-1", "--reason", "seen"]);
    wait_until("it is acknowledged", || up.incident()["status"]["acknowledgedBy"].is_string());
    up.said(&["repaired", "node-1/gpu-1", "--reason", "new fan"]);
    let cleared = up.until_stage("Cleared");
    let causes = texts(&cleared["status"]["timeline"], "cause").join("; ");
    for cause in [
        "abandoned: for good",
        "acknowledged: seen",
        "repaired: new fan",
        "validation passed",
        "probation is over",
    ] {
        assert!(causes.contains(cause), "{cause} is not among {causes}");
    }
    let json: Value = serde_json::from_str(&up.said(&["incidents", "--all", "-o", "json"])).unwrap();
    assert_eq!(json["items"][0]["status"]["stage"], "Cleared");
    let none = up.said(&["incidents", "-o", "name"]);
    assert_eq!(none, "");
}

#[test]
fn a_policy_that_would_quarantine_everything_is_held_by_a_guard_and_goes_on_when_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "half"},
        "spec": {"breaker": {"maxOutOfService": 1}},
    });
    up.send("POST", GUARDS, &guard);
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    for device in ["gpu-0", "gpu-1"] {
        up.said(&["report", &format!("node-1/{device}"), "example.com/fan", "--reason", "heard it"]);
    }
    let stages = |up: &Up| {
        let mut stages: Vec<String> =
            up.list(INCIDENTS).iter().map(|one| one["status"]["stage"].to_string()).collect();
        stages.sort();
        stages.join(" ")
    };
    wait_until("one is quarantined and one waits", || stages(&up) == r#""Quarantined" "Suspect""#);
    let held =
        |up: &Up| up.list(INCIDENTS).into_iter().find(|one| one["status"]["stage"] == "Suspect").unwrap();
    let status = held(&up)["status"].clone();
    let why = "DisruptionGuard half: 1 of 2 devices out of service, 1 permitted";
    assert_eq!(
        (&status["held"]["stage"], &status["held"]["reason"]),
        (&json!("Quarantined"), &json!("Breaker"))
    );
    assert_eq!((&status["held"]["message"], &status["waitsFor"]), (&json!(why), &json!(why)));
    wait_until("one is tainted, and told of the other", || {
        let rules = up.list(RULES);
        let effects: Vec<&Value> = rules.iter().map(|rule| &rule["spec"]["taint"]["effect"]).collect();
        effects.len() == 2 && effects.contains(&&json!("NoSchedule")) && effects.contains(&&json!("None"))
    });
    up = up.kill();
    wait_until("it leads again", || !up.list(INCIDENTS).is_empty());
    let listed = up.said(&["incidents"]);
    assert!(listed.contains("DisruptionGuard half"), "{listed}");
    assert_eq!(stages(&up), r#""Quarantined" "Suspect""#, "a restart changes nothing");
    let history = up.said(&["history", "--export", "cloudevents"]);
    let events: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_held = |event: &&Value| {
        let reason = event["data"]["reason"].as_str().unwrap_or_default();
        event["type"] == "dev.lazaret.incident.changed" && reason == format!("Quarantined is held: {why}")
    };
    assert_eq!(events.iter().filter(is_held).count(), 1, "{history}");
    up.send("DELETE", &format!("{GUARDS}/half"), &Value::Null);
    wait_until("both are quarantined", || stages(&up) == r#""Quarantined" "Quarantined""#);
}

/// What is changed in the spec of a policy.
type Change = fn(&mut Value);

#[test]
fn a_policy_that_makes_no_sense_is_refused_with_the_field_and_one_that_observes_touches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let with = |change: Change| {
        let mut policy = policy();
        change(&mut policy["spec"]);
        up.try_send("POST", POLICIES, &policy).unwrap_err()
    };
    let rows: [(Change, &str); 10] = [
        (
            |spec| {
                spec["rules"][1] = spec["rules"][0].clone();
                (spec["rules"][1]["name"], spec["rules"][1]["stage"]) = ("other".into(), "Suspect".into());
            },
            "rule flapping means the same signals",
        ),
        (|spec| spec["rules"][0]["when"] = "signal.colour == 'red'".into(), "undefined field 'colour'"),
        (|spec| spec["rules"][0]["when"] = "signal.key".into(), "must evaluate to bool"),
        (|spec| spec["clearAfter"] = "soon".into(), "spec.clearAfter"),
        (|spec| spec["eviction"] = json!({"mode": "Soon"}), "spec.eviction.mode"),
        (|spec| spec["eviction"] = json!({"mode": "EvictThenDelete"}), "deadlineSeconds is required"),
        (|spec| spec["eviction"] = json!({"colour": "red"}), "spec.eviction.colour"),
        (
            |spec| {
                spec["repair"]["steps"][0]["request"] =
                    json!({"apiVersion": "v1", "kind": "Pod", "template": {}})
            },
            "one of them",
        ),
        (|spec| spec["deviceSelector"] = json!({}), "spec.recovery.validation.deviceClassName"),
        (|spec| spec["rules"][1]["name"] = "flapping".into(), "Duplicate value"),
    ];
    for (change, wanted) in rows {
        let refused = with(change);
        assert!(refused.contains(wanted), "{wanted} is not in {refused}");
    }
    let mut observing = policy();
    observing["spec"].as_object_mut().unwrap().remove("mode");
    let stored = up.send("POST", POLICIES, &observing);
    assert_eq!(
        (&stored["spec"]["mode"], &stored["spec"]["identityAttribute"]),
        (&json!("Observe"), &json!("uuid"))
    );
    wait_until("the policy says that it is acted on", || {
        let policy = up.send("GET", &format!("{POLICIES}/gpus"), &Value::Null);
        policy["status"]["conditions"][0]["status"] == "True"
    });
    up.said(&["report", "node-1/gpu-0", "example.com/fan", "--reason", "heard it"]);
    up.until_stage("Cleared");
    assert!(up.list(RULES).is_empty() && up.list(DRAINS).is_empty() && up.list(JOBS).is_empty());
    let by_hand = json!({"spec": {"policy": "another"}});
    let name = up.incident()["metadata"]["name"].as_str().unwrap().to_owned();
    let refused = up.try_send("PATCH", &format!("{INCIDENTS}/{name}"), &by_hand).unwrap_err();
    assert!(refused.contains("is what it was when the incident was opened"), "{refused}");
}

/// What the status of a policy says, once it says that of its spec.
fn verdict(up: &Up, policy: &str, reason: &str) -> String {
    let mut message = String::new();
    wait_until(&format!("policy {policy} says {reason}"), || {
        let policy = up.send("GET", &format!("{POLICIES}/{policy}"), &Value::Null);
        let condition = &policy["status"]["conditions"][0];
        message = condition["message"].as_str().unwrap_or_default().to_owned();
        condition["reason"] == reason && condition["observedGeneration"] == policy["metadata"]["generation"]
    });
    message
}

#[test]
fn a_policy_that_would_quarantine_everything_or_contradicts_another_is_not_enforced_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let devices = json!([own_device("a", 9), own_device("b", 9), own_device("c", 9)]);
    up.send("POST", SLICES, &slice(&devices));
    let rows = |name: &str, stage: &str, mode: &str| {
        let when = "signal.key == 'own.example.com/remappedRows' && int(signal.value) > 8";
        json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": name},
            "spec": {
                "deviceSelector": {"driver": "own.example.com"}, "mode": mode,
                "rules": [{"name": "rows", "when": when, "stage": stage}],
            },
        })
    };
    up.send("POST", POLICIES, &rows("all", "Quarantined", "Observe"));
    verdict(&up, "all", "Accepted");
    wait_until("all devices are seen to be ill", || up.list(INCIDENTS).len() == 3);
    let enforce = json!({"spec": {"mode": "Enforce"}});
    up.send("PATCH", &format!("{POLICIES}/all"), &enforce);
    let why = verdict(&up, "all", "WouldQuarantineEverything");
    assert!(why.starts_with("all 3 devices that it selects would be taken out of service"), "{why}");
    up = up.kill();
    verdict(&up, "all", "WouldQuarantineEverything");
    up.send("POST", POLICIES, &rows("other", "Suspect", "Enforce"));
    let why = verdict(&up, "other", "Contradiction");
    assert!(why.contains("rule rows of DeviceHealthPolicy all"), "{why}");
    let is_touched = |one: &Value| one["status"]["enforced"] == true;
    assert!(up.list(RULES).is_empty() && !up.list(INCIDENTS).iter().any(is_touched), "nothing was touched");
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "some"},
        "spec": {"breaker": {"maxOutOfService": 1}},
    });
    up.send("POST", GUARDS, &guard);
    verdict(&up, "all", "Accepted");
    wait_until("as many are quarantined as the guard permits", || {
        let rules = up.list(RULES);
        rules.iter().filter(|rule| rule["spec"]["taint"]["effect"] == "NoSchedule").count() == 1
    });
    up.send("DELETE", &format!("{POLICIES}/all"), &Value::Null);
    verdict(&up, "other", "Accepted");
}

/// A slice of a driver that only the test speaks for.
fn slice(devices: &Value) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "own"},
        "spec": {
            "driver": "own.example.com", "nodeName": "node-1", "devices": devices,
            "pool": {"name": "own", "generation": 1, "resourceSliceCount": 1},
        },
    })
}

fn own_device(name: &str, rows: i64) -> Value {
    json!({"name": name, "attributes": {"uuid": {"string": format!("uuid-{name}")}, "remappedRows": {"int": rows}}})
}

fn policy_of_signals() -> Value {
    let rule = |name: &str, when: &str| json!({"name": name, "when": when, "stage": "Quarantined"});
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "all"},
        "spec": {"mode": "Enforce", "rules": [
            rule("rows", "signal.key == 'own.example.com/remappedRows' && int(signal.value) > 8"),
            rule("gone", "signal.source == 'Vanished' && signal.value == 'False'"),
            rule("pod", "signal.source == 'Health' && signal.value == 'Unhealthy'"),
            rule("fabric", "signal.source == 'Node' && signal.key == 'FabricDown' && signal.value == 'True' && signal.device == 'c'"),
        ]},
    })
}

#[test]
fn attributes_nodes_pods_and_vanished_devices_give_signals_and_an_incident_follows_the_hardware() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", POLICIES, &policy_of_signals());
    let devices = json!([own_device("a", 0), own_device("b", 0), own_device("c", 0)]);
    up.send("POST", SLICES, &slice(&devices));
    let open = |rule: &str| {
        let mut found = Value::Null;
        wait_until(&format!("there is an incident by rule {rule}"), || {
            let is_it = |one: &Value| one["spec"]["rule"] == rule && one["status"]["stage"] == "Quarantined";
            found = up.list(INCIDENTS).into_iter().find(is_it).unwrap_or_default();
            !found.is_null()
        });
        found
    };
    let change = |devices: &Value| {
        up.send("PATCH", &format!("{SLICES}/own"), &json!({"spec": {"devices": devices}}));
    };
    change(&json!([own_device("a", 9), own_device("b", 0), own_device("c", 0)]));
    let incident = open("rows");
    assert_eq!(
        (&incident["spec"]["device"]["device"], &incident["spec"]["hardwareID"]),
        (&json!("a"), &json!("uuid-a"))
    );
    let tainted = |device: &str| {
        wait_until(&format!("{device} alone is tainted for it"), || {
            let name = &incident["metadata"]["name"];
            let rules = up.list(RULES).into_iter().filter(|rule| rule["metadata"]["name"] == *name);
            rules.map(|rule| rule["spec"]["deviceSelector"]["device"].clone()).eq([json!(device)])
        });
    };
    tainted("a");
    // The same board under another name, and one that is not published any more.
    let mut renamed = own_device("a", 9);
    renamed["name"] = "z".into();
    change(&json!([renamed, own_device("c", 0)]));
    tainted("z");
    wait_until("the incident names it too", || open("rows")["status"]["device"]["device"] == "z");
    assert_eq!(open("gone")["spec"]["device"]["device"], "b");
    let node = "/api/v1/nodes/node-1/status";
    let mut conditions = up.send("GET", "/api/v1/nodes/node-1", &Value::Null)["status"]["conditions"].clone();
    conditions
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "FabricDown", "status": "True", "reason": "Switch"}));
    up.send("PATCH", node, &json!({"status": {"conditions": conditions}}));
    assert_eq!(open("fabric")["spec"]["device"]["device"], "c");
    let device = up.pod("trainer");
    let mut statuses =
        up.send("GET", &format!("{PODS}/trainer"), &Value::Null)["status"]["containerStatuses"].clone();
    let id = format!("{DRIVER}/node-1/{device}");
    statuses[0]["allocatedResourcesStatus"] =
        json!([{"name": "claim:gpu", "resources": [{"resourceID": id, "health": "Unhealthy"}]}]);
    up.send("PATCH", &format!("{PODS}/trainer/status"), &json!({"status": {"containerStatuses": statuses}}));
    assert_eq!(open("pod")["spec"]["device"]["device"], device);
    assert_eq!(up.list(INCIDENTS).len(), 4, "one for each");
    // Who deletes an incident brings its device back.
    let name = open("fabric")["metadata"]["name"].as_str().unwrap().to_owned();
    conditions.as_array_mut().unwrap().pop();
    up.send("PATCH", node, &json!({"status": {"conditions": conditions}}));
    up.send("DELETE", &format!("{INCIDENTS}/{name}"), &Value::Null);
    wait_until("its taint is gone", || up.list(RULES).iter().all(|rule| rule["metadata"]["name"] != *name));
}
