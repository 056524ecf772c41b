//! Feature gates that are off: taints are as if they had not been set, for the scheduler and for the eviction.

use lazaret_testkit::{Cluster, Features, Plane};
use serde_json::{Value, json};

use crate::stage::{DRIVER, Stage, taint};

/// Both gates off, and rules alone off.
const TAINTS_OFF: &str = "DRADeviceTaints=false,DRADeviceTaintRules=false";
const RULES_OFF: &str = "DRADeviceTaintRules=false";

/// One node with two devices behind a server with these gates.
fn stage(release: &str, gates: &str) -> Stage {
    let mut features = Features::of(release.parse().unwrap());
    features.parse(gates).unwrap();
    Stage::of(Cluster::options().features(features).plane(Plane::simulated(1, 2)), 1)
}

/// A pod stays where it is, and another is placed beside it.
fn nothing_happens(stage: &Stage) {
    stage.pod("later", "one");
    stage.running("later");
    nothing_happens_to(stage, &["first", "later"]);
    let metrics = stage.text("/metrics");
    let evicted =
        metrics.lines().find(|line| line.starts_with("device_taint_eviction_controller_pod_deletions_total"));
    assert!(evicted.is_none_or(|line| line.ends_with(" 0")), "{evicted:?}");
}

fn nothing_happens_to(stage: &Stage, names: &[&str]) {
    stage.settle();
    for name in names {
        let pod = stage.pod_now(name).unwrap();
        assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
    }
}

fn begin(release: &str, gates: &str) -> Stage {
    let stage = stage(release, gates);
    stage.template("one", &json!([]));
    stage.pod("first", "one");
    stage.running("first");
    stage
}

#[test]
fn rules_that_are_off_neither_evict_nor_keep_away() {
    for (release, gates) in
        [("1.37", RULES_OFF), ("1.37", TAINTS_OFF), ("1.36", ""), ("1.35", ""), ("1.34", "")]
    {
        let stage = begin(release, gates);
        stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &taint("NoExecute"));
        nothing_happens(&stage);
        let rule = stage.get("/apis/resource.k8s.io/v1alpha3/devicetaintrules/all");
        assert_eq!(rule["status"]["conditions"], Value::Null, "{release} {gates}: nobody speaks for it");
    }
}

#[test]
fn patches_that_are_off_neither_evict_nor_keep_away() {
    for (release, gates) in [("1.37", TAINTS_OFF), ("1.35", ""), ("1.34", "")] {
        let stage = begin(release, gates);
        stage.create(
            "/apis/resource.k8s.io/v1alpha3/resourceslicepatches",
            &json!({
                "apiVersion": "resource.k8s.io/v1alpha3", "kind": "ResourceSlicePatch", "metadata": {"name": "all"},
                "spec": {"devices": {"filter": {"driver": DRIVER}, "taints": [taint("NoExecute")]}},
            }),
        );
        nothing_happens(&stage);
    }
}

/// A server that had the feature stored the taints; started again without it they are still there and have no effect.
#[test]
fn taints_that_were_stored_before_the_feature_was_turned_off() {
    let folder = tempfile::tempdir().unwrap();
    let options = || Cluster::options().folder(folder.path());
    let before = options().start().unwrap();
    let slice = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "kept"},
        "spec": {
            "driver": "kept.example.com", "nodeName": "node-1",
            "pool": {"name": "kept", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "tainted", "taints": [taint("NoExecute")]}],
        },
    });
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "kept"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == \"kept.example.com\""}}]},
    });
    let stage = Stage { cluster: before };
    stage.create("/apis/resource.k8s.io/v1/resourceslices", &slice);
    stage.create("/apis/resource.k8s.io/v1/deviceclasses", &class);
    drop(stage);

    let mut features = Features::kubernetes_1_37();
    features.parse(TAINTS_OFF).unwrap();
    let stage = Stage::of(options().features(features).plane(Plane::simulated(1, 1)), 2);
    let kept = stage.get("/apis/resource.k8s.io/v1/resourceslices/kept");
    assert!(kept["spec"]["devices"][0]["taints"][0].is_object(), "{kept}");
    stage.create(
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "kept"},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "kept"}}]}},
        }),
    );
    let pod = crate::stage::pod("first", &json!({"resourceClaimName": "kept"}));
    stage.create("/api/v1/namespaces/default/pods", &pod);
    stage.running("first");
    stage.settle();
    let pod = stage.pod_now("first").unwrap();
    assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
}

/// Turned off, taints keep no pod away and evict none; stored ones can still be read and deleted. Turned on again they count as before.
#[test]
fn turned_off_and_on_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = |gates: &str| {
        let mut features = Features::kubernetes_1_37();
        features.parse(gates).unwrap();
        Cluster::options().features(features).folder(folder.path()).plane(Plane::simulated(1, 2))
    };
    let rules = "/apis/resource.k8s.io/v1/devicetaintrules";
    {
        let stage = Stage::of(options(""), 1);
        stage.rule("v1", "away", &json!({"driver": DRIVER}), &taint("NoSchedule"));
        stage.rule("v1", "spare", &json!({"driver": DRIVER}), &taint("None"));
        stage.heard_of("away");
        stage.template("one", &json!([]));
        stage.pod("first", "one");
        stage.until("first waits for an untainted device", || {
            let pod = stage.pod_now("first").unwrap().to_string();
            if pod.contains("by rule away") { Ok(()) } else { Err(pod) }
        });
    }
    {
        let stage = Stage::of(options(TAINTS_OFF), 1);
        stage.running("first");
        nothing_happens(&stage);
        let rule = stage.get(&format!("{rules}/away"));
        assert_eq!(rule["spec"]["taint"]["effect"], "NoSchedule", "it can be read");
        stage.merge(&format!("{rules}/away"), &json!({"spec": {"taint": {"effect": "NoExecute"}}}));
        stage.delete(&format!("{rules}/spare"));
        nothing_happens_to(&stage, &["first", "later"]);
    }
    let stage = Stage::of(options(""), 1);
    stage.gone("first");
    stage.gone("later");
    assert_eq!(stage.list(rules).len(), 1);
}

/// Without v1alpha3 there is no field for a pace; it counts all the same.
#[test]
fn a_pace_counts_where_v1alpha3_is_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let before = Stage {
        cluster: Cluster::options()
            .folder(folder.path())
            .serve("resource.k8s.io/v1alpha3", true)
            .start()
            .unwrap(),
    };
    let mut slow = taint("NoExecute");
    slow["evictionsPerSecond"] = 1.into();
    before.rule("v1alpha3", "slow", &json!({"driver": "later.example.com"}), &slow);
    drop(before);

    let plane = Cluster::options().folder(folder.path()).plane(Plane::simulated(2, 24));
    let stage = Stage::of(plane.serve("resource.k8s.io/v1alpha3", false), 2);
    stage.template("one", &json!([]));
    // Far more than leave within the time that any machine needs to delete the rule.
    let names: Vec<String> = (0..48).map(|n| format!("p{n}")).collect();
    names.iter().for_each(|name| stage.pod(name, "one"));
    names.iter().for_each(|name| drop(stage.running(name)));
    let shown = stage.get("/apis/resource.k8s.io/v1/devicetaintrules/slow");
    let annotation = &shown["metadata"]["annotations"]["lazaret.dev/v1alpha3-fields"];
    assert_eq!(annotation, r#"{"taint":{"evictionsPerSecond":1}}"#, "{shown}");
    stage.merge(
        "/apis/resource.k8s.io/v1/devicetaintrules/slow",
        &json!({"spec": {"deviceSelector": {"driver": DRIVER}}}),
    );
    let here = || names.iter().filter(|name| stage.pod_now(name).is_some()).count();
    stage.until("somebody is gone", || if here() < 48 { Ok(()) } else { Err(here().to_string()) });
    stage.delete("/apis/resource.k8s.io/v1/devicetaintrules/slow");
    stage.settle();
    assert!(here() > 0, "all went at once");
}
