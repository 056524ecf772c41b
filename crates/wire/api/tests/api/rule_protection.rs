//! Protection fields of rules: named time zones, groups, authors and approvals.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use lazaret_api::{Object, approval_to_text, decode_json, window};
use lazaret_model::{Approval, CapacityMode, DeviceTaintRule, GroupMode, Impact, Timestamp, WindowError};
use serde_json::{Value, json};

fn at(text: &str) -> Timestamp {
    lazaret_api::parse_time(text).unwrap()
}

#[test]
fn a_window_follows_the_clock_of_its_zone() {
    let zurich = window("Sun 02:30", "1h", "Europe/Zurich").unwrap();
    for (instant, open) in [
        // Winter: an hour ahead of UTC.
        ("2026-01-04T01:29:59Z", false),
        ("2026-01-04T01:30:00Z", true),
        ("2026-01-04T02:29:59Z", true),
        ("2026-01-04T02:30:00Z", false),
        // Summer: two hours.
        ("2026-07-05T00:29:59Z", false),
        ("2026-07-05T00:30:00Z", true),
        ("2026-07-05T01:30:00Z", false),
        // The clock is put forward from 02:00 to 03:00: 02:30 is never shown, and 03:30 is meant.
        ("2026-03-29T01:29:59Z", false),
        ("2026-03-29T01:30:00Z", true),
        ("2026-03-29T02:30:00Z", false),
        // The clock is put back from 03:00 to 02:00: the first 02:30 is meant.
        ("2026-10-25T00:29:59Z", false),
        ("2026-10-25T00:30:00Z", true),
        ("2026-10-25T01:30:00Z", false),
    ] {
        assert_eq!(zurich.is_open(at(instant)), open, "{instant}");
    }
    assert_eq!(zurich.next_start(at("2026-03-22T12:00:00Z")), at("2026-03-29T01:30:00Z"));
    assert_eq!(zurich.next_start(at("2026-03-29T01:30:00Z")), at("2026-04-05T00:30:00Z"));
    let nightly = window("23:30", "2h", "America/New_York").unwrap();
    assert!(nightly.is_open(at("2026-01-04T04:30:00Z")) && !nightly.is_open(at("2026-01-04T06:30:00Z")));
    assert_eq!(nightly.next_start(at("2026-07-05T12:00:00Z")), at("2026-07-06T03:30:00Z"));
    // Half an hour, on the other side of the date line, and no summer.
    let adelaide = window("00:00", "1h", "Australia/Adelaide").unwrap();
    assert!(adelaide.is_open(at("2026-07-05T14:30:00Z")));
    let kiritimati = window("Mon 00:00", "1h", "Pacific/Kiritimati").unwrap();
    assert!(kiritimati.is_open(at("2026-07-05T10:00:00Z")));
}

/// Every instant of some years: a window with a zone whose clock never changes is one with an offset.
#[test]
fn a_zone_without_changes_is_an_offset() {
    let named = window("Sat 02:00", "4h", "Asia/Tokyo").unwrap();
    let offset = window("Sat 02:00", "4h", "+09:00").unwrap();
    let mut now = at("2025-12-20T00:00:00Z");
    while now < at("2027-01-10T00:00:00Z") {
        assert_eq!(named.is_open(now), offset.is_open(now), "{now:?}");
        assert_eq!(named.next_start(now), offset.next_start(now), "{now:?}");
        now = now.plus_secs(1_777);
    }
}

#[test]
fn a_zone_that_does_not_exist_is_refused() {
    for zone in ["Europe/Atlantis", "europe/zurich", "CEST", "Local", "../etc/passwd", &"A".repeat(10_000)] {
        assert_eq!(window("02:00", "1h", zone), Err(WindowError::Zone), "{zone}");
    }
    assert_eq!(window("2:00", "1h", "Europe/Zurich"), Err(WindowError::Start));
    assert_eq!(window("02:00", "25h", "Europe/Zurich"), Err(WindowError::Duration));
}

fn rule(kind: (&str, &str), metadata: &Value, eviction: &Value) -> Result<DeviceTaintRule, String> {
    let mut metadata = metadata.clone();
    metadata["name"] = "r".into();
    metadata["uid"] = "u-1".into();
    let object = json!({
        "apiVersion": kind.0, "kind": kind.1, "metadata": metadata,
        "spec": {"taint": {"key": "k", "effect": "NoExecute"}, "eviction": eviction},
    });
    match decode_json(&object.to_string()) {
        Ok(Object::Rule(rule)) => Ok(rule),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

const RULE: (&str, &str) = ("resource.k8s.io/v1alpha3", "DeviceTaintRule");
const POLICY: (&str, &str) = ("lazaret.dev/v1alpha1", "DeviceTaintPolicy");

#[test]
fn rules_and_policies_say_how_groups_leave() {
    for kind in [RULE, POLICY] {
        let groups =
            |said: &Value| rule(kind, &json!({}), said).map(|rule| rule.taint.eviction.unwrap().groups);
        assert_eq!(groups(&json!({})), Ok(GroupMode::Apart));
        assert_eq!(groups(&json!({"groups": "Together"})), Ok(GroupMode::Together));
        let error = groups(&json!({"groups": "Whole"})).unwrap_err();
        assert!(error.contains("spec.eviction.groups: must be one of Apart, Together, not Whole"), "{error}");
        let zone = json!({"windows": [{"start": "02:00", "duration": "1h", "timeZone": "Europe/Atlantis"}]});
        let error = groups(&zone).unwrap_err();
        assert!(error.contains("spec.eviction.windows[0].timeZone: must be UTC, an offset"), "{error}");
    }
}

#[test]
fn a_rule_may_wait_for_room() {
    let capacity = |eviction: Value| {
        rule(RULE, &json!({}), &eviction).map(|rule| {
            let spec = rule.taint.eviction.unwrap();
            (spec.capacity, spec.capacity_timeout_seconds)
        })
    };
    assert_eq!(capacity(json!({})).unwrap(), (CapacityMode::Ignore, None));
    assert_eq!(capacity(json!({"capacity": "Wait"})).unwrap(), (CapacityMode::Wait, None));
    let timed = json!({"capacity": "Wait", "capacityTimeoutSeconds": 60});
    assert_eq!(capacity(timed).unwrap(), (CapacityMode::Wait, Some(60)));
    for (eviction, expected) in [
        (json!({"capacity": "Maybe"}), "spec.eviction.capacity: must be one of Ignore, Wait, not Maybe"),
        (json!({"capacityTimeoutSeconds": 1}), "spec.eviction.capacityTimeoutSeconds: needs capacity Wait"),
        (
            json!({"capacity": "Wait", "capacityTimeoutSeconds": 31_536_001}),
            "spec.eviction.capacityTimeoutSeconds: must be from 0 to 31536000, not 31536001",
        ),
    ] {
        let error = capacity(eviction).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_approval_is_read_back_and_nothing_else_is_one() {
    let approval = Approval {
        uid: "u-1".into(),
        generation: 3,
        seen: Impact { pods: 12, namespaces: 2, devices: 8 },
        by: Some("bob".into()),
        request: Some("drain-1".into()),
        subject: Some("d p x k v".into()),
    };
    let text = approval_to_text(&approval, "announced", Timestamp::EPOCH);
    let annotations = |approval: &str| json!({"annotations": {"lazaret.dev/approval": approval, "lazaret.dev/approved-by": "bob"}});
    let review = rule(RULE, &annotations(&text), &Value::Null).unwrap().review.unwrap();
    assert_eq!((review.approval, review.is_required), (Some(approval), false));
    for other in ["", "{}", "yes", r#"{"uid":"u","generation":1,"pods":-1,"namespaces":0,"devices":0}"#] {
        assert_eq!(rule(RULE, &annotations(other), &Value::Null).unwrap().review, None, "{other}");
    }
    let signed =
        rule(RULE, &json!({"annotations": {"lazaret.dev/written-by": "ada"}}), &Value::Null).unwrap();
    let review = signed.review.clone().unwrap();
    assert_eq!((review.written_by.as_deref(), review.is_required), (Some("ada"), true));
    assert!(signed.is_held(), "nobody has decided yet");
}
