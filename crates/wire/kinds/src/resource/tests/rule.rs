use lazaret_json::{Value, json};

use crate::{
    Features,
    testing::{NOW, World, kind, set},
};

const EARLIER: &str = "2026-02-01T00:00:00Z";

fn rule() -> Value {
    json!({
        "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "value": "yes", "effect": "NoExecute", "timeAdded": EARLIER},
        },
    })
}

fn rules() -> &'static crate::Kind {
    kind("resource.k8s.io", "devicetaintrules")
}

fn create(object: &Value) -> Vec<String> {
    World::new().create(rules(), object.clone()).wrong()
}

#[test]
fn create_validation() {
    assert!(create(&rule()).is_empty(), "good");
    let long = "a".repeat(64);
    for (name, pointer, value, wrong) in [
        ("bad-driver", "/spec/deviceSelector/driver", json!("!"), vec!["spec.deviceSelector.driver Invalid"]),
        (
            "empty-driver",
            "/spec/deviceSelector/driver",
            json!(""),
            vec!["spec.deviceSelector.driver Required"],
        ),
        (
            "long-driver",
            "/spec/deviceSelector/driver",
            json!(long),
            vec!["spec.deviceSelector.driver TooLong"],
        ),
        ("bad-pool", "/spec/deviceSelector/pool", json!("a//b"), vec!["spec.deviceSelector.pool Invalid"]),
        ("empty-pool", "/spec/deviceSelector/pool", json!(""), vec!["spec.deviceSelector.pool Required"]),
        ("bad-device", "/spec/deviceSelector/device", json!("A"), vec!["spec.deviceSelector.device Invalid"]),
        ("no-selector", "/spec/deviceSelector", Value::Null, vec![]),
        ("required-taint", "/spec/taint/effect", json!(""), vec!["spec.taint.effect Required"]),
        (
            "invalid-taint",
            "/spec/taint/effect",
            json!("PreferNoSchedule"),
            vec!["spec.taint.effect NotSupported"],
        ),
        ("effect-none", "/spec/taint/effect", json!("None"), vec![]),
        ("empty-key", "/spec/taint/key", json!(""), vec!["spec.taint.key Invalid", "spec.taint.key Invalid"]),
        ("bad-key", "/spec/taint/key", json!("a b"), vec!["spec.taint.key Invalid"]),
        ("bad-value", "/spec/taint/value", json!("a b"), vec!["spec.taint.value Invalid"]),
        ("future-time", "/spec/taint/timeAdded", json!("2099-01-01T00:00:00Z"), vec![]),
    ] {
        assert_eq!(create(&set(&rule(), pointer, value)), wrong, "{name}");
    }
    assert!(!create(&set(&rule(), "/spec/taint", Value::Null)).is_empty(), "no-taint");
    let refused = World::new().create(rules(), set(&rule(), "/spec/taint/effect", json!("x"))).errors;
    assert_eq!(
        refused.list()[0].to_string(),
        r#"spec.taint.effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None""#
    );
}

#[test]
fn update_validation() {
    let stored = set(&rule(), "/spec/taint/effect", json!("FromTheFuture"));
    let update = |new: Value| World::new().update(rules(), &stored, new).wrong();
    assert!(update(stored.clone()).is_empty(), "valid-no-op-update");
    assert!(
        update(set(&stored, "/metadata/labels/a", json!("b"))).is_empty(),
        "valid-existing-unknown-effect"
    );
    assert!(update(set(&stored, "/spec/taint/key", json!("other"))).is_empty(), "the key does not matter");
    assert_eq!(
        update(set(&stored, "/spec/taint/effect", json!("AnotherOne"))),
        ["spec.taint.effect NotSupported"],
        "invalid-new-unknown-effect"
    );
    assert_eq!(
        update(set(&stored, "/spec/taint/effect", json!(""))),
        ["spec.taint.effect Required"],
        "clear effect"
    );
    assert_eq!(
        update(set(&stored, "/spec/deviceSelector/device", json!("A"))),
        ["spec.deviceSelector.device Invalid"],
        "the selector is always looked at"
    );
}

#[test]
fn strategy_create_and_update() {
    let world = World::new();
    let created = world.create(rules(), set(&rule(), "/status/conditions", json!([{"type": "x"}]))).ok();
    assert_eq!(created["status"], json!({}), "what a client says of it does not count");
    let untimed = world.create(rules(), set(&rule(), "/spec/taint/timeAdded", Value::Null)).ok();
    assert_eq!(untimed["spec"]["taint"]["timeAdded"], NOW);

    let old = set(&rule(), "/status/conditions", json!([{"type": "kept"}]));
    let time = |new: Value| {
        let new = world.update(rules(), &old, new).ok();
        assert_eq!(new["status"], old["status"], "drop-status");
        new["spec"]["taint"]["timeAdded"].as_str().unwrap().to_owned()
    };
    let later = "2026-02-02T00:00:00Z";
    let effect = set(&rule(), "/spec/taint/effect", json!("None"));
    assert_eq!(time(rule()), EARLIER, "no-changes-okay");
    assert_eq!(time(effect.clone()), NOW, "change-effect");
    assert_eq!(time(set(&effect, "/spec/taint/timeAdded", json!(later))), later, "the client's time wins");
    assert_eq!(time(set(&rule(), "/spec/taint/key", json!("k"))), EARLIER, "change-key");
    assert_eq!(time(set(&rule(), "/spec/taint/value", json!("v"))), EARLIER, "change-value");
    assert_eq!(time(set(&rule(), "/spec/taint/timeAdded", json!(later))), later, "change-time-added");
    assert_eq!(time(set(&rule(), "/spec/taint/timeAdded", Value::Null)), NOW, "omitted");
}

#[test]
fn status_strategy() {
    let condition = json!({
        "type": "EvictionInProgress", "status": "True", "reason": "PodsPending", "message": "m", "observedGeneration": 1,
        "lastTransitionTime": NOW,
    });
    let status = |conditions: Value| {
        let new = json!({"metadata": {"name": "broken", "labels": {"x": "y"}}, "spec": {}, "status": {"conditions": conditions}});
        World::new().status(rules(), &rule(), new)
    };
    let object = status(json!([condition])).ok();
    assert_eq!(object["spec"], rule()["spec"], "drop-spec");
    assert_eq!(object["metadata"], rule()["metadata"], "drop-meta-changes");
    for (pointer, value, wrong) in [
        ("/type", json!(""), "status.conditions[0].type Required"),
        ("/type", json!("a b"), "status.conditions[0].type Invalid"),
        ("/status", json!("Maybe"), "status.conditions[0].status NotSupported"),
        ("/observedGeneration", json!(-1), "status.conditions[0].observedGeneration Invalid"),
        ("/lastTransitionTime", Value::Null, "status.conditions[0].lastTransitionTime Required"),
        ("/reason", json!(""), "status.conditions[0].reason Required"),
        ("/reason", json!("not so"), "status.conditions[0].reason Invalid"),
        ("/reason", json!("a".repeat(1025)), "status.conditions[0].reason TooLong"),
        ("/message", json!("a".repeat(32_769)), "status.conditions[0].message TooLong"),
    ] {
        assert_eq!(status(json!([set(&condition, pointer, value)])).wrong(), [wrong]);
    }
    assert_eq!(status(json!([condition, condition])).wrong(), ["status.conditions[1] Duplicate"]);
    let many: Vec<Value> = (0..9).map(|at| set(&condition, "/type", json!(format!("t{at}")))).collect();
    assert_eq!(status(json!(many)).wrong(), ["status.conditions TooMany"]);
    assert!(status(json!(many[..8])).wrong().is_empty());
}

#[test]
fn fields_of_v1alpha3_are_checked_hidden_and_kept() {
    let alpha = World::new().in_version("v1alpha3");
    let wide = json!({
        "metadata": {"name": "slow"},
        "spec": {
            "deviceSelector": {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.driver == 'a.b'"}}]},
            "taint": {"key": "k", "effect": "NoExecute", "description": "d", "data": {"n": 1}},
            "eviction": {"mode": "EvictThenDelete", "deadlineSeconds": 60, "maxConcurrent": 2, "windows": [{"start": "Sat 02:00", "duration": "4h", "timeZone": "+02:00"}]},
            "expiresAt": "2030-01-01T00:00:00Z",
        },
    });
    let stored = alpha.create(rules(), wide.clone()).ok();
    assert_eq!(stored["spec"]["taint"]["evictionsPerSecond"], 10);
    let at_once = World::new().in_version("v1alpha3").with("DRADeviceTaintDefaultPace", false);
    assert_eq!(at_once.create(rules(), wide.clone()).ok()["spec"]["taint"].get("evictionsPerSecond"), None);
    for (pointer, value, wrong) in [
        ("/spec/taint/evictionsPerSecond", json!(0), "spec.taint.evictionsPerSecond Invalid"),
        ("/spec/eviction/mode", json!("Ask"), "spec.eviction.mode NotSupported"),
        ("/spec/eviction/deadlineSeconds", Value::Null, "spec.eviction.deadlineSeconds Required"),
        ("/spec/eviction/deadlineSeconds", json!(-1), "spec.eviction.deadlineSeconds Invalid"),
        ("/spec/eviction/deadlineSeconds", json!(31_536_001), "spec.eviction.deadlineSeconds Invalid"),
        ("/spec/eviction/maxConcurrent", json!(0), "spec.eviction.maxConcurrent Invalid"),
        ("/spec/eviction/windows/0/start", json!("soon"), "spec.eviction.windows[0].start Invalid"),
        ("/spec/eviction/windows/0/duration", json!("200h"), "spec.eviction.windows[0].duration Invalid"),
        (
            "/spec/eviction/windows/0/timeZone",
            json!("Europe/Atlantis"),
            "spec.eviction.windows[0].timeZone Invalid",
        ),
        ("/spec/taint/description", json!("a".repeat(1025)), "spec.taint.description TooLong"),
        ("/spec/taint/data", json!("a".repeat(10_240)), "spec.taint.data TooLong"),
        ("/spec/deviceSelector/deviceClassName", json!("A"), "spec.deviceSelector.deviceClassName Invalid"),
        (
            "/spec/deviceSelector/selectors/0/cel/expression",
            json!("1"),
            "spec.deviceSelector.selectors[0].cel.expression Invalid",
        ),
    ] {
        assert_eq!(alpha.create(rules(), set(&wide, pointer, value)).wrong(), [wrong]);
    }

    for version in ["v1", "v1beta2"] {
        assert!(
            rules().rules.differs_in(&stored, version) && rules().rules.differs_in(&Value::Null, version)
        );
        let mut shown = stored.clone();
        rules().rules.to_version(&mut shown, version);
        let nobody = json!({"driver": "selected-in-v1alpha3.invalid"});
        assert_eq!(shown["spec"]["deviceSelector"], nobody, "never a selector of everything");
        assert_eq!(shown["spec"]["taint"], json!({"key": "k", "effect": "NoExecute", "timeAdded": NOW}));
        assert!(!rules().rules.differs_in(&shown, version), "nothing left to hide");
        shown["spec"]["taint"]["value"] = json!("new");
        let world = World::new().in_version(version);
        let changed = set(&stored, "/spec/taint/value", json!("new"));
        let bare = set(&shown, "/metadata", json!({"name": "slow"}));
        for sent in [&shown, &bare] {
            assert_eq!(world.update(rules(), &stored, sent.clone()).ok(), changed, "nothing is erased");
        }
        let restored = world.create(rules(), shown.clone()).ok();
        assert_eq!(restored["spec"], changed["spec"], "a backup in {version} has all of it");
        assert!(restored["metadata"].get("annotations").is_none(), "the annotation is not stored");
    }
    assert!(!rules().rules.differs_in(&stored, "v1alpha3"));
}

#[test]
fn a_v1_write_with_fields_of_v1alpha3_that_are_not_understood_is_refused() {
    const AT: &str = "/metadata/annotations";
    let sent = |json: Value| {
        let selector = json!({"driver": "a.b"});
        let object = set(&rule(), "/spec/deviceSelector", selector);
        set(&object, AT, json!({"lazaret.dev/v1alpha3-fields": json}))
    };
    let refused = ["metadata.annotations[lazaret.dev/v1alpha3-fields] Invalid"];
    let world = World::new();
    for json in [
        "",
        "no JSON",
        "[]",
        r#"{"taint":{"key":"other"}}"#,
        r#"{"taint":7}"#,
        r#"{"taint":{"evictionsPerSecond":"fast"}}"#,
        r#"{"deviceSelector":{"selectors":"all"}}"#,
        r#"{"deviceSelector":{"selectors":[{"cel":{"expression":1}}]}}"#,
        r#"{"status":{}}"#,
    ] {
        assert_eq!(world.create(rules(), sent(json!(json))).wrong(), refused, "{json}");
    }
    let pace = sent(json!(r#"{"taint":{"evictionsPerSecond":2}}"#));
    assert_eq!(world.create(rules(), pace.clone()).ok()["spec"]["taint"]["evictionsPerSecond"], 2);
    assert_eq!(
        world.in_version("v1alpha3").create(rules(), pace).wrong(),
        refused,
        "there are fields for it"
    );
    let zero = sent(json!(r#"{"taint":{"evictionsPerSecond":0}}"#));
    assert_eq!(World::new().create(rules(), zero).wrong(), ["spec.taint.evictionsPerSecond Invalid"]);

    let cut_off = set(&rule(), "/spec/deviceSelector", json!({"driver": "selected-in-v1alpha3.invalid"}));
    assert_eq!(World::new().create(rules(), cut_off).wrong(), ["spec.deviceSelector.driver Invalid"]);
}

#[test]
fn a_rule_for_every_device_that_evicts_draws_a_warning() {
    let warnings = |selector: Value, effect: &str| {
        let object = set(&rule(), "/spec/deviceSelector", selector);
        World::new()
            .create(rules(), set(&object, "/spec/taint/effect", json!(effect)))
            .errors
            .warnings()
            .len()
    };
    assert_eq!(warnings(json!({}), "NoExecute"), 1);
    assert_eq!(warnings(json!({}), "NoSchedule"), 0);
    assert_eq!(warnings(json!({"driver": "a.b"}), "NoExecute"), 0);
    assert_eq!(warnings(Value::Null, "NoExecute"), 0, "no selector selects nothing");
    let (none, all) =
        (set(&rule(), "/spec/deviceSelector", Value::Null), set(&rule(), "/spec/deviceSelector", json!({})));
    let update =
        |old: &Value, new: &Value| World::new().update(rules(), old, new.clone()).errors.warnings().len();
    assert_eq!((update(&none, &all), update(&all, &all)), (1, 0), "said when it becomes so");
}

#[test]
fn columns() {
    let object = set(&rule(), "/metadata/creationTimestamp", json!("2026-03-01T11:55:00Z"));
    assert_eq!(
        World::new().row(rules(), &object),
        ["Key=example.com/broken", "Value=yes", "Effect=NoExecute", "TimeAdded=28d", "Age=5m"]
    );
    let untimed = set(&object, "/spec/taint/timeAdded", Value::Null);
    assert_eq!(World::new().row(rules(), &untimed)[3], "TimeAdded=");
}

#[test]
fn no_effect_only_shows_before_1_35() {
    let mut world = World::new();
    world.features = Features::of("1.34".parse().unwrap());
    world.features.set("DRADeviceTaints", true);
    let shows = set(&rule(), "/spec/taint/effect", json!("None"));
    assert_eq!(world.create(rules(), shows.clone()).wrong(), ["spec.taint.effect NotSupported"]);
    assert_eq!(world.update(rules(), &rule(), shows.clone()).wrong(), ["spec.taint.effect NotSupported"]);
    assert!(world.update(rules(), &shows, shows.clone()).wrong().is_empty(), "what is stored stays");
    world.features = Features::of("1.35".parse().unwrap());
    assert!(world.create(rules(), shows).wrong().is_empty());
}

#[test]
fn a_rule_without_a_pace_keeps_none_when_it_is_written_back_in_v1alpha3() {
    let stored = World::new().create(rules(), rule()).ok();
    let world = World::new().in_version("v1alpha3");
    let pace = |object: Value| {
        world.update(rules(), &stored, object).ok()["spec"]["taint"]["evictionsPerSecond"].clone()
    };
    assert_eq!(pace(stored.clone()), Value::Null);
    assert_eq!(pace(set(&stored, "/metadata/labels", json!({"a": "b"}))), Value::Null);
    assert_eq!(pace(set(&stored, "/spec/taint/key", json!("example.com/other"))), 10, "another taint");
    assert_eq!(pace(set(&stored, "/spec/taint/evictionsPerSecond", json!(3))), 3);
}
