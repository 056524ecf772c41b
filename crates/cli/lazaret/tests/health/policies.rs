//! Policies that guards hold, that make no sense, or that would take everything out of service.

use std::path::Path;

use lazaret_store::{Op, Options, RangeOptions, Store};
use serde_json::{Value, json};

use crate::{
    signals::{own_device, slice},
    support::wait_until,
    up::{DRAINS, DRIVER, GUARDS, INCIDENTS, JOBS, POLICIES, RULES, SIGNALS, SLICES, Up, policy},
};

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

/// Two policies taint one device with different keys. Another client's taint of the same key stays.
#[test]
fn each_rule_taints_with_the_key_that_it_names_and_what_is_taken_back_is_that_alone() {
    const ONE: &str = "one.example.com/ill";
    const TWO: &str = "two.example.com/ill";
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let names = json!({"driver": DRIVER, "pool": "node-1", "device": "gpu-0"});
    let foreign = json!({"metadata": {"name": "theirs"}, "spec": {
        "deviceSelector": names, "taint": {"key": TWO, "effect": "None"},
    }});
    up.send("POST", RULES, &foreign);
    let policy = |name: &str, key: &str, signal: &str, stage: &str| {
        let when = format!("signal.key == '{signal}'");
        let rule = json!({"name": "r", "when": when, "stage": stage, "taint": {"key": key, "value": "ill"}});
        json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": name},
            "spec": {"rules": [rule], "clearAfter": "1h", "mode": "Enforce"},
        })
    };
    up.send("POST", POLICIES, &policy("one", ONE, "example.com/warm", "Suspect"));
    up.send("POST", POLICIES, &policy("two", TWO, "example.com/dead", "Quarantined"));
    let taints = |up: &Up| {
        let ours = |rule: &&Value| rule["metadata"]["name"] != "theirs";
        let rules = up.list(RULES);
        let mut taints = rules.iter().filter(ours).map(|rule| rule["spec"]["taint"].clone());
        (taints.next().unwrap_or_default(), taints.count())
    };
    let tainted = |key: &str, effect: &str| {
        wait_until(&format!("the device has the taint {key}:{effect}"), || {
            let (taint, others) = taints(&up);
            (&taint["key"], &taint["effect"], others) == (&json!(key), &json!(effect), 0)
        });
    };
    up.said(&["report", "node-1/gpu-0", "example.com/warm", "--reason", "felt it"]);
    tainted(ONE, "None");
    up.said(&["report", "node-1/gpu-0", "example.com/dead", "--reason", "seen it"]);
    tainted(TWO, "NoSchedule");
    let said = up.said(&["incidents", "gpu-0"]);
    assert!(said.contains(&format!("{TWO}=ill")), "{said}");
    // The policy names another key: an open incident keeps its own, over a restart as well.
    let other =
        json!({"spec": policy("two", "three.example.com/ill", "example.com/dead", "Quarantined")["spec"]});
    up.send("PATCH", &format!("{POLICIES}/two"), &other);
    let up = up.kill();
    wait_until("it leads again", || !up.list(INCIDENTS).is_empty());
    assert_eq!((taints(&up).0["key"].clone(), taints(&up).1), (json!(TWO), 0));
    let name = up.incident()["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(up.incident()["status"]["taintKey"], TWO);
    up.send("DELETE", &format!("{INCIDENTS}/{name}"), &Value::Null);
    wait_until("only what is somebody else's is left", || up.list(RULES).len() == 1);
    assert_eq!(up.list(RULES)[0]["metadata"]["name"], "theirs");
}

/// A change of a policy's spec.
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
    let rows: [(Change, &str); 13] = [
        (|spec| spec["rules"][0]["taint"] = json!({"key": "no key"}), "spec.rules[0].taint.key"),
        (|spec| spec["rules"][0]["taint"] = json!({"key": "a..b/c"}), "spec.rules[0].taint.key"),
        (|spec| spec["identityAttribute"] = "bad key!".into(), "spec.identityAttribute"),
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

/// The message in a policy's status, once the status is about the current spec.
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

/// Changes an object while no server runs.
pub(crate) fn rewrite_stored(folder: &Path, plural: &str, name: &str, change: impl FnOnce(String) -> String) {
    let store = Store::open(folder.join("store"), Options::default()).unwrap();
    let all = store.range("/", &RangeOptions::default()).unwrap().items;
    let is_it = |item: &&std::sync::Arc<lazaret_store::Item>| {
        let key = String::from_utf8_lossy(item.key.as_ref()).into_owned();
        key.contains(plural) && key.ends_with(&format!("/{name}"))
    };
    let found = all.iter().find(is_it).unwrap();
    let text = change(String::from_utf8(found.value.to_vec()).unwrap());
    let (before, rest) = text.split_once("\"resourceVersion\":\"").unwrap();
    let (_, after) = rest.split_once('"').unwrap();
    let value = lazaret_store::Value::Stamped {
        before: format!("{before}\"resourceVersion\":\"").into(),
        after: format!("\"{after}").into(),
    };
    store.txn_blocking(vec![Op::update(found.key.clone(), found.modified, value)]).unwrap();
    store.close();
}

#[test]
fn a_stored_policy_that_cannot_be_understood_says_so_and_its_devices_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut patient = policy();
    patient["spec"]["clearAfter"] = "1h".into();
    up.send("POST", POLICIES, &patient);
    verdict(&up, "gpus", "Accepted");
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "heard it"]);
    up.until_stage("Quarantined");
    let tainted = |up: &Up| up.list(RULES).iter().any(|rule| rule["spec"]["taint"]["effect"] == "NoSchedule");
    wait_until("the device is tainted", || tainted(&up));
    drop(up);
    // As it is found by a version that has become stricter.
    rewrite_stored(folder.path(), "devicehealthpolicies", "gpus", |text| {
        let from = "signal.key == 'example.com/fan'";
        assert!(text.contains(from), "{text}");
        text.replace(from, "signal.colour == 'red'")
    });
    up = Up::start(folder.path());
    let why = verdict(&up, "gpus", "Invalid");
    assert!(why.contains("spec.rules[1].when") && why.contains("undefined field 'colour'"), "{why}");
    let condition =
        up.send("GET", &format!("{POLICIES}/gpus"), &Value::Null)["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["status"]), (&json!("Accepted"), &json!("False")));
    up.said(&["report", "node-1/gpu-0", "example.com/fan", "--reason", "this one, too"]);
    wait_until("the report is taken in", || up.list(SIGNALS).is_empty());
    assert_eq!(up.list(INCIDENTS).len(), 1, "a policy that is not understood opens none");
    assert!(tainted(&up) && up.incident()["status"]["stage"] == "Quarantined", "what was begun stays");
    up.send("PATCH", &format!("{POLICIES}/gpus"), &json!({"spec": {"rules": patient["spec"]["rules"]}}));
    verdict(&up, "gpus", "Accepted");
    up.said(&["abandon", "node-1/gpu-1", "--reason", "no spare"]);
    up.until_stage("Abandoned");
}
