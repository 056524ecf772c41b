//! Decisions of writes about devices, as they are recorded.
#![allow(missing_docs)]

use lazaret_json::{Value, json};
use lazaret_kinds::audit::{RecordedWrite, records};

const CONTROLLERS: &str = "system:lazaret:device-health";

fn of(plural: &str, user: &str, old: Option<&Value>, new: Option<&Value>) -> Vec<Value> {
    records(RecordedWrite { plural, user, at: "2026-01-31T12:00:00Z", old, new })
}

/// The decision, its user, and the sentence of each record.
fn lines(records: &[Value]) -> Vec<String> {
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let line = |record: &Value| {
        format!(
            "{} {}: {} [{}]",
            text(record, "what"),
            text(record, "user"),
            text(record, "text"),
            text(record, "reason")
        )
    };
    records.iter().map(line).collect()
}

fn incident(timeline: Value, folded: u64) -> Value {
    json!({
        "metadata": {"name": "gpu-0-c0ffee-1", "uid": "u"},
        "spec": {"device": {"driver": "d", "pool": "p", "device": "gpu-0"}},
        "status": {"stage": "Draining", "enforced": true, "timeline": timeline, "timelineFolded": folded},
    })
}

fn entry(stage: &str) -> Value {
    json!({"at": "2026-01-31T11:00:00Z", "stage": stage, "cause": "rule hot", "actor": "policy p"})
}

#[test]
fn every_entry_of_a_timeline_is_recorded_once_however_many_are_folded_away() {
    let bare = incident(Value::Null, 0);
    assert!(of("deviceincidents", CONTROLLERS, None, Some(&bare)).is_empty());
    let one = incident(json!([entry("Suspect")]), 0);
    let first = of("deviceincidents", CONTROLLERS, Some(&bare), Some(&one));
    assert_eq!(
        lines(&first),
        ["Incident system:lazaret:device-health: d/p/gpu-0 Suspect (incident gpu-0-c0ffee-1) [rule hot]"]
    );
    assert_eq!(first[0]["at"], "2026-01-31T11:00:00Z", "when it happened, not when it was written");
    assert_eq!((&first[0]["number"], &first[0]["device"]), (&json!(0), &json!("d/p/gpu-0")));
    assert!(of("deviceincidents", CONTROLLERS, Some(&one), Some(&one)).is_empty());
    // Two entries were folded away meanwhile: the last two are the fourth and the fifth.
    let before = incident(json!([entry("Suspect"), entry("Draining")]), 2);
    let after = incident(json!([entry("Suspect"), entry("Draining"), entry("Repairing")]), 3);
    let numbers: Vec<u64> = of("deviceincidents", CONTROLLERS, Some(&before), Some(&after))
        .iter()
        .filter_map(|record| record["number"].as_u64())
        .collect();
    assert_eq!(numbers, [4, 5]);
}

#[test]
fn what_people_do_to_incidents_is_recorded_under_the_name_that_the_server_knows() {
    let old = incident(json!([entry("Suspect")]), 0);
    let mut new = old.clone();
    new["spec"]["repaired"] = json!({"at": "2026-01-31T12:00:00Z", "by": "eve", "reason": "new fan"});
    assert_eq!(
        lines(&of("deviceincidents", "ada", Some(&old), Some(&new))),
        ["IncidentActed ada: incident gpu-0-c0ffee-1 of d/p/gpu-0 repaired [new fan]"]
    );
    assert_eq!(
        lines(&of("deviceincidents", "ada", Some(&new), None)),
        ["IncidentRemoved ada: incident gpu-0-c0ffee-1 of d/p/gpu-0 removed []"]
    );
}

#[test]
fn guards_are_paused_resumed_tripped_and_reset() {
    let guard = |spec: Value, tripped: bool, reset: Value| {
        json!({
            "metadata": {"name": "g", "uid": "u", "annotations": {"lazaret.dev/breaker-reset": reset, "lazaret.dev/reason": "why"}},
            "spec": spec,
            "status": {
                "breaker": {"tripped": tripped},
                "conditions": [{"type": "BreakerTripped", "status": "True", "message": "3 of 4 out of service"}],
            },
        })
    };
    let calm = guard(json!({"breaker": {"maxOutOfService": 1}}), false, Value::Null);
    let paused = guard(
        json!({"breaker": {"maxOutOfService": 1}, "paused": {"reason": "storm", "until": "later"}}),
        false,
        Value::Null,
    );
    let tripped = guard(json!({"breaker": {"maxOutOfService": 1}}), true, Value::Null);
    let reset = guard(json!({"breaker": {"maxOutOfService": 1}}), true, json!("now"));
    let wider = guard(json!({"breaker": {"maxOutOfService": 2}}), false, Value::Null);
    let rows: [(Option<&Value>, Option<&Value>, &[&str]); 9] = [
        (None, Some(&calm), &["GuardSet ada: guard g set [why]"]),
        (Some(&calm), Some(&paused), &["Paused ada: guard g paused until later [storm]"]),
        (Some(&paused), Some(&calm), &["Resumed ada: guard g resumed []"]),
        (
            Some(&calm),
            Some(&tripped),
            &["BreakerOpened ada: breaker of guard g opened [3 of 4 out of service]"],
        ),
        (Some(&tripped), Some(&reset), &["BreakerReset ada: breaker of guard g reset [why]"]),
        (
            Some(&tripped),
            Some(&calm),
            &["BreakerClosed ada: breaker of guard g closed [3 of 4 out of service]"],
        ),
        (Some(&calm), Some(&wider), &["GuardSet ada: guard g set [why]"]),
        (Some(&paused), None, &["Resumed ada: guard g resumed []", "GuardRemoved ada: guard g removed []"]),
        (Some(&calm), Some(&calm), &[]),
    ];
    for (old, new, expected) in rows {
        assert_eq!(lines(&of("disruptionguards", "ada", old, new)), expected);
    }
}

fn rule(effect: &str, held: &str, annotations: Value) -> Value {
    json!({
        "metadata": {"name": "r", "uid": "u", "annotations": annotations},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "value": "v", "effect": effect}},
        "status": {"conditions": [{"type": "Held", "status": held, "reason": "ApprovalRequired", "message": "5 pods"}]},
    })
}

#[test]
fn rules_are_set_held_approved_released_and_removed() {
    let new = rule("NoExecute", "False", Value::Null);
    let held = rule("NoExecute", "True", Value::Null);
    let approval =
        json!({"uid": "u", "generation": 1, "pods": 5, "namespaces": 1, "devices": 2, "reason": "planned"});
    let approved = rule(
        "NoExecute",
        "True",
        json!({"lazaret.dev/approval": approval.to_string(), "lazaret.dev/approved-by": "bob"}),
    );
    let set = "TaintSet ada: d/*/* tainted k=v:NoExecute (rule r) []";
    let rows: [(Option<&Value>, Option<&Value>, &[&str]); 6] = [
        (None, Some(&new), &[set]),
        (Some(&new), Some(&held), &["RuleHeld ada: rule r: Held, ApprovalRequired [5 pods]"]),
        (
            Some(&held),
            Some(&approved),
            &["RuleApproved ada: rule r approved by bob for 5 pods in 1 namespaces and 2 devices [planned]"],
        ),
        (Some(&held), Some(&new), &["RuleReleased ada: rule r: Held no longer [5 pods]"]),
        (Some(&rule("NoSchedule", "False", Value::Null)), Some(&new), &[set]),
        (Some(&new), None, &["TaintRemoved ada: d/*/* no longer tainted k=v:NoExecute (rule r) []"]),
    ];
    for (old, new, expected) in rows {
        assert_eq!(lines(&of("devicetaintrules", "ada", old, new)), expected);
    }
}

#[test]
fn approvals_of_patches_and_of_drivers_taints_are_recorded_with_the_name_that_the_server_wrote() {
    let patch = |annotations: Value| json!({"metadata": {"name": "fix", "uid": "u", "annotations": annotations}, "spec": {"devices": {"driver": "d"}}});
    let approval = json!({"pods": 5, "namespaces": 1, "devices": 2, "reason": "planned"}).to_string();
    let new = patch(Value::Null);
    let approved = patch(json!({"lazaret.dev/approval": approval, "lazaret.dev/approved-by": "bob"}));
    let said =
        "PatchApproved bob: patch fix approved by bob for 5 pods in 1 namespaces and 2 devices [planned]";
    assert_eq!(lines(&of("resourceslicepatches", "bob", Some(&new), Some(&approved))), [said]);
    assert_eq!(lines(&of("resourceslicepatches", "eve", Some(&approved), Some(&approved))), [""; 0]);
    assert_eq!(
        lines(&of("resourceslicepatches", "eve", None, Some(&approved))),
        [""; 0],
        "none is born approved"
    );

    let guard = |approvals: &Value| json!({"metadata": {"name": "g", "uid": "u", "annotations": {"lazaret.dev/taint-approvals": approvals.to_string()}}, "spec": {}});
    let one = |value: &str, by: &str| json!({"driver": "d", "key": "k", "value": value, "pods": 5, "namespaces": 1, "devices": 2, "reason": "seen", "by": by});
    let (none, first) = (guard(&json!([])), guard(&json!([one("v", "bob")])));
    let both = guard(&json!([one("v", "bob"), one("w", "ada")]));
    let line = |value: &str, by: &str| {
        format!(
            "TaintApproved ada: taint k={value}:NoExecute of driver d approved by {by} in guard g for 5 pods in 1 namespaces and 2 devices [seen]"
        )
    };
    let guards = |old, new| lines(&of("disruptionguards", "ada", Some(old), Some(new)));
    assert_eq!(guards(&none, &both), [line("v", "bob"), line("w", "ada")]);
    assert_eq!(guards(&first, &both), [line("w", "ada")]);
    assert_eq!(guards(&both, &first), [""; 0], "one that goes was recorded");
    for text in ["{}", "[1, null, [], \"x\"]", "no JSON", &"[".repeat(100_000)] {
        let forged = json!({"metadata": {"name": "g", "annotations": {"lazaret.dev/taint-approvals": text}}, "spec": {}});
        assert_eq!(lines(&of("disruptionguards", "ada", Some(&none), Some(&forged))), [""; 0]);
    }
}

#[test]
fn what_controllers_make_for_others_is_told_by_those_and_what_people_make_is_not_hidden() {
    let mut owned = rule("NoExecute", "False", Value::Null);
    owned["metadata"]["ownerReferences"] = json!([{"kind": "DeviceIncident", "controller": true}]);
    assert!(of("devicetaintrules", CONTROLLERS, None, Some(&owned)).is_empty());
    assert_eq!(of("devicetaintrules", "eve", None, Some(&owned)).len(), 1, "a reference hides nothing");
}

#[test]
fn only_controllers_are_believed_when_they_say_that_a_pod_was_evicted() {
    let event = json!({
        "metadata": {"name": "e", "uid": "u"}, "reason": "DeviceTaintManagerEviction", "message": "taint k on d/p/gpu-0.",
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p"}, "reportingComponent": "evictor",
    });
    let told = of("events", CONTROLLERS, None, Some(&event));
    assert_eq!(
        lines(&told),
        ["PodEvicted system:lazaret:device-health: pod ns/p evicted (taint k on d/p/gpu-0) []"]
    );
    assert_eq!((&told[0]["object"], &told[0]["by"]), (&json!("Pod/ns/p"), &json!("evictor")));
    assert!(of("events", "eve", None, Some(&event)).is_empty(), "anybody may write events somewhere");
    assert!(of("events", CONTROLLERS, Some(&event), Some(&event)).is_empty());
}

#[test]
fn texts_are_cut_at_a_character() {
    let mut old = incident(json!([]), 0);
    let long = "é".repeat(2_000);
    old["status"]["timeline"] = json!([{"at": "t", "stage": "Suspect", "cause": long, "actor": "x"}]);
    let told = of("deviceincidents", CONTROLLERS, None, Some(&old));
    assert_eq!(told[0]["reason"].as_str().map(str::len), Some(1_024));
}
