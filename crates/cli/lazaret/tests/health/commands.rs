//! Commands about guards and incidents, as they succeed: what they say, and what follows from it.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    sync::mpsc,
};

use serde_json::{Value, json};

use crate::{
    support::{LAZARET, PATIENCE, wait_until},
    up::{DRIVER, GUARDS, PODS, POLICIES, RULES, SLICES, Up, policy, texts},
};

fn start(folder: &std::path::Path) -> Up {
    let up = Up::start(folder);
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up
}

fn rule(name: &str, device: &str) -> Value {
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": {"name": name},
        "spec": {
            "deviceSelector": {"driver": DRIVER, "pool": "node-1", "device": device},
            "taint": {"key": "example.com/out", "effect": "NoExecute"},
        },
    })
}

fn is_leaving(up: &Up, pod: &str) -> bool {
    up.try_send("GET", &format!("{PODS}/{pod}"), &Value::Null)
        .map_or(true, |pod| !pod["metadata"]["deletionTimestamp"].is_null())
}

/// The reason why the evictions of a rule are blocked, from its condition.
fn blocked_by(up: &Up, name: &str) -> String {
    let rule = up.send("GET", &format!("{RULES}/{name}"), &Value::Null);
    let conditions = rule["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_it = |one: &&Value| one["type"] == "EvictionBlocked" && one["status"] == "True";
    conditions.iter().find(is_it).map(|one| one["reason"].as_str().unwrap().to_owned()).unwrap_or_default()
}

#[test]
fn a_pause_holds_evictions_and_resume_lets_them_begin() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let device = up.pod("trainer");
    let said = up.said(&["pause", "--reason", "a release"]);
    assert_eq!(said, "guard pause paused until `kubectl device resume`: no eviction begins\n");
    up.send("POST", RULES, &rule("out", &device));
    wait_until("the eviction is blocked", || blocked_by(&up, "out") == "Paused");
    let why = up.said(&["why", "trainer"]);
    assert!(why.contains("is blocked (Paused): ") && why.contains("a release"), "{why}");
    assert!(!is_leaving(&up, "trainer"));
    let listed = up.said(&["guard", "list"]);
    assert!(listed.contains("pause") && listed.contains("a release"), "{listed}");
    assert_eq!(up.said(&["resume"]), "guard pause resumed\n");
    wait_until("the pod leaves", || is_leaving(&up, "trainer"));
    assert!(up.list(GUARDS).is_empty(), "the guard said nothing else");
}

/// A guard whose only window opens at `hours` after the hour that the server has now, for half a day.
fn nights(up: &Up, hours: usize) -> Value {
    let namespace = up.send("GET", "/api/v1/namespaces/default", &Value::Null);
    let now = namespace["metadata"]["creationTimestamp"].as_str().unwrap().to_owned();
    let hour: usize = now[11..13].parse().unwrap();
    let start = format!("{:02}:00", (hour + hours) % 24);
    json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "nights"},
        "spec": {"windows": [{"start": start, "duration": "10h", "timeZone": "UTC"}]},
    })
}

#[test]
fn outside_a_guard_s_window_nothing_begins_and_all_of_it_goes_on_when_one_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let device = up.pod("trainer");
    up.send("POST", GUARDS, &nights(&up, 8));
    let window =
        |up: &Up| up.send("GET", &format!("{GUARDS}/nights"), &Value::Null)["status"]["window"].clone();
    wait_until("the guard says when it opens", || {
        let said = window(&up);
        said["open"] == false && said["opensAt"].is_string()
    });
    let opens_at = window(&up)["opensAt"].as_str().unwrap().to_owned();
    let listed = up.said(&["guard", "list"]);
    assert!(listed.contains(&format!("opens {opens_at}")), "{listed}");
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "heard it"]);
    up.send("POST", RULES, &rule("out", &device));
    wait_until("the eviction is blocked", || blocked_by(&up, "out") == "Window");
    let why = "no window of DisruptionGuard nights is open";
    wait_until("the quarantine is held", || {
        let held = up.incident()["status"]["held"].clone();
        held["reason"] == "Window" && held["message"] == why
    });
    let said = up.said(&["why", "trainer"]);
    assert!(said.contains("is blocked (Window): ") && said.contains(why), "{said}");
    let planned = up.said(&["plan", &format!("node-1/{device}"), "example.com/fan:NoExecute"]);
    assert!(planned.contains(why), "{planned}");
    assert!(!is_leaving(&up, "trainer"));
    assert_eq!(up.incident()["status"]["stage"], "Suspect");

    // A restart changes nothing, and a window that is open lets all of it begin.
    let up = up.kill();
    wait_until("it leads again", || blocked_by(&up, "out") == "Window");
    assert!(!is_leaving(&up, "trainer"));
    let open = nights(&up, 22);
    up.send("PATCH", &format!("{GUARDS}/nights"), &json!({"spec": open["spec"]}));
    wait_until("the pod leaves", || is_leaving(&up, "trainer"));
    up.until_stage("Quarantined");
    wait_until("the guard says that it is open", || window(&up) == json!({"open": true}));
}

#[test]
fn a_tripped_breaker_holds_evictions_until_it_is_reset() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let device = up.pod("trainer");
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "none"},
        "spec": {"breaker": {"maxOutOfService": 0}},
    });
    up.send("POST", GUARDS, &guard);
    wait_until("the guard is counted", || {
        let guard = up.send("GET", &format!("{GUARDS}/none"), &Value::Null);
        guard["status"]["breaker"]["total"] == 2
    });
    up.send("POST", RULES, &rule("out", &device));
    wait_until("the eviction is blocked", || blocked_by(&up, "out") == "Breaker");
    assert!(!is_leaving(&up, "trainer"));
    wait_until("the breaker is said to be tripped", || {
        let listed: Value = serde_json::from_str(&up.said(&["guard", "list", "-o", "json"])).unwrap();
        listed["items"][0]["tripped"] == true && listed["items"][0]["outOfService"] == "1 of 2"
    });
    let said = up.said(&["guard", "reset", "none", "--reason", "one may go"]);
    assert_eq!(said, "breaker of guard none reset\n");
    wait_until("the pod leaves", || is_leaving(&up, "trainer"));
    let history = up.said(&["history", "--export", "jsonl"]);
    assert!(history.contains("one may go"), "{history}");
}

#[test]
fn a_rule_that_is_held_takes_effect_once_it_is_approved() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let device = up.pod("trainer");
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "ask"},
        "spec": {"confirmAbove": {"pods": 0}},
    });
    up.send("POST", GUARDS, &guard);
    up.send("POST", RULES, &rule("out", &device));
    wait_until("the rule is held", || blocked_by(&up, "out") == "Held");
    assert!(!is_leaving(&up, "trainer"));
    let seen = up.said(&["approve", "out", "--dry-run"]);
    assert!(seen.contains("approved for 1 pod in 1 namespace on 1 device (dry run)"), "{seen}");
    assert_eq!(blocked_by(&up, "out"), "Held", "nothing was changed");
    let said = up.said(&["approve", "out", "--reason", "announced"]);
    assert!(said.contains("DeviceTaintRule out approved for 1 pod in 1 namespace on 1 device"), "{said}");
    wait_until("the pod leaves", || is_leaving(&up, "trainer"));
}

/// A command that goes on, ended with this.
struct Watching(std::process::Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn incidents_are_listed_described_and_watched() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    let mut watching = Watching(
        Command::new(LAZARET)
            .args(["device", "incidents", "-w"])
            .env("KUBECONFIG", up.folder.join("kubeconfig"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let (sender, lines) = mpsc::channel();
    let output = BufReader::new(watching.0.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let told = |words: &str| {
        let mut next = || lines.recv_timeout(PATIENCE).ok();
        core::iter::from_fn(&mut next).any(|line| line.contains(words))
    };
    assert!(told("NAME"), "the head of the table comes first");
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "heard it"]);
    assert!(told("Quarantined"));
    let name = up.said(&["incidents", "-o", "name"]);
    let name = name.trim().strip_prefix("deviceincident.lazaret.dev/").unwrap();
    let listed = up.said(&["incidents"]);
    assert!(listed.contains(name) && listed.contains("gpu.example.com/node-1/gpu-1"), "{listed}");
    for word in [name, "node-1/gpu-1"] {
        let described = up.said(&["incidents", word]);
        assert!(described.contains("Quarantined") && described.contains("heard it"), "{described}");
    }
    let yaml = up.said(&["incidents", name, "-o", "yaml"]);
    assert!(yaml.contains("kind: DeviceIncident"), "{yaml}");
    up.said(&["abandon", name, "--reason", "no spare"]);
    assert!(told("Abandoned"));
}

#[test]
fn a_drain_by_hand_is_told_by_the_incident_of_the_device() {
    let folder = tempfile::tempdir().unwrap();
    let up = start(folder.path());
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    let device = format!("node-1/{}", up.pod("trainer"));
    let stops_soon = json!({"metadata": {"annotations": {"hollow.lazaret.dev/stop-after": "0s"}}});
    up.send("PATCH", &format!("{PODS}/trainer"), &stops_soon);
    up.said(&["report", &device, "example.com/fan", "--reason", "heard it"]);
    up.until_stage("Quarantined");
    let words = ["drain", &device, "--reason", "board goes back", "--yes", "--timeout", "150s", "-o", "json"];
    let result: Value = serde_json::from_str(&up.said(&words)).unwrap();
    assert_eq!((&result["outcome"], &result["gone"]), (&json!("Drained"), &json!(["default/trainer"])));
    let told = result["incidents"][0].as_str().unwrap();
    assert!(
        told.contains(&device) && told.contains(" is Quarantined by ") && told.contains(", waits for "),
        "{told}"
    );
    wait_until("the incident says who drained and why", || {
        let timeline = up.incident()["status"]["timeline"].clone();
        texts(&timeline, "cause").iter().any(|cause| cause.contains("acknowledged: drained: board goes back"))
    });
    up.said(&["uncordon", &device]);
    assert_eq!(up.incident()["status"]["stage"], "Quarantined", "the policy still wants it out of service");
}
