//! Commands by which people act on incidents.

use serde_json::{Value, json};

use crate::{
    support::wait_until,
    up::{POLICIES, RULES, SIGNALS, SLICES, Up, policy, texts},
};

#[test]
fn a_report_whose_key_or_device_cannot_be_one_is_refused_by_command_and_server() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    for (device, signal, words) in [
        ("node-1/gpu-1", "bad key!", "key \"bad key!\" of the signal: "),
        ("node-1/gpu-1", "=loud", "key \"\" of the signal: "),
        ("node-1/gpu-1", "a/b/c", "key \"a/b/c\" of the signal: "),
        ("node-1/gpu-1", "fan=lo\u{7}ud", "value \"lo\\u{7}ud\" of the signal: "),
        ("gpu.example.com/node-1/GPU!", "fan", "device \"GPU!\": "),
    ] {
        let refused = up.device(&["report", device, signal, "--reason", "heard it"]);
        let why = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && why.contains(words), "{signal}: {why}");
    }
    let signal = |key: &str, source: &str| {
        let device = json!({"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-1"});
        json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceSignal", "metadata": {"generateName": "s-"},
            "spec": {"device": device, "key": key, "source": source},
        })
    };
    let why = up.try_send("POST", SIGNALS, &signal("bad key!", "Person")).unwrap_err();
    assert!(why.contains("spec.key") && why.contains("must be a name"), "{why}");
    // Alerts have the names that a user gave them.
    up.send("POST", SIGNALS, &signal("GPU fell off the bus", "Alert"));
    up.said(&["report", "gpu.example.com/node-1/gpu-9", "fan", "--reason", "it was there yesterday"]);
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
    assert!(
        !refused.status.success() && why.contains("only a device that is Repairing, Abandoned, in Probation"),
        "{why}"
    );
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
