use lazaret_json::{Value, json};

use super::slice::slice;
use crate::testing::{World, kind, set};

fn round_trip(plural: &str, hub: &Value, version: &str) -> Value {
    let rules = &kind("resource.k8s.io", plural).rules;
    let mut shown = hub.clone();
    rules.to_version(&mut shown, version);
    assert_eq!(rules.differs_in(hub, version), shown != *hub, "{plural} {version}");
    let mut back = shown.clone();
    rules.from_version(&mut back, version, Some(hub));
    assert_eq!(back, *hub, "{plural} {version}");
    shown
}

fn spec() -> Value {
    json!({"devices": {
        "requests": [
            {"name": "one", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "adminAccess": true,
                "selectors": [{"cel": {"expression": "true"}}], "tolerations": [{"operator": "Exists"}], "capacity": {"requests": {"m": "1"}}}},
            {"name": "either", "firstAvailable": [{"name": "a", "deviceClassName": "gpu", "allocationMode": "All"}]},
        ],
        "constraints": [{"matchAttribute": "a.b/c"}],
    }})
}

#[test]
fn claims_are_flat_in_v1beta1() {
    let claim = json!({"metadata": {"name": "c"}, "spec": spec()});
    let shown = round_trip("resourceclaims", &claim, "v1beta1");
    assert_eq!(
        shown["spec"]["devices"]["requests"][0],
        json!({"name": "one", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2, "adminAccess": true,
            "selectors": [{"cel": {"expression": "true"}}], "tolerations": [{"operator": "Exists"}], "capacity": {"requests": {"m": "1"}}})
    );
    assert_eq!(shown["spec"]["devices"]["requests"][1], claim["spec"]["devices"]["requests"][1]);
    for version in ["v1", "v1beta2"] {
        assert_eq!(round_trip("resourceclaims", &claim, version), claim);
    }
    let template = json!({"metadata": {"name": "t"}, "spec": {"spec": spec()}});
    let shown = round_trip("resourceclaimtemplates", &template, "v1beta1");
    assert_eq!(shown["spec"]["spec"]["devices"]["requests"][0]["deviceClassName"], "gpu");
}

#[test]
fn what_v1beta1_leaves_out_is_asked_for_in_the_words_of_v1() {
    let world = World::new().in_version("v1beta1");
    let claims = kind("resource.k8s.io", "resourceclaims");
    let claim =
        |request: Value| json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
    let created = world.create(claims, claim(json!({"name": "r", "deviceClassName": "gpu"}))).ok();
    assert_eq!(
        created["spec"]["devices"]["requests"][0]["exactly"],
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1})
    );
    let at = "spec.devices.requests[0]";
    assert_eq!(world.create(claims, claim(json!({"name": "r"}))).wrong(), [format!("{at} Required")]);
    let classless = claim(json!({"name": "r", "allocationMode": "All"}));
    assert_eq!(world.create(claims, classless).wrong(), [format!("{at}.exactly.deviceClassName Required")]);
    let both = json!({"name": "r", "deviceClassName": "gpu", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]});
    assert_eq!(world.create(claims, claim(both)).wrong(), [format!("{at} Invalid")]);
    let empty = json!({"name": "r", "deviceClassName": "", "count": 0, "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]});
    assert!(world.create(claims, claim(empty)).wrong().is_empty(), "zero values are absent there");
}

#[test]
fn devices_are_basic_in_v1beta1() {
    let mut hub = slice(1);
    hub["spec"]["devices"] =
        json!([{"name": "a", "attributes": {"x": {"int": 1}}, "taints": [{"key": "k"}]}, {"name": "b"}]);
    let shown = round_trip("resourceslices", &hub, "v1beta1");
    assert_eq!(
        shown["spec"]["devices"],
        json!([{"name": "a", "basic": {"attributes": {"x": {"int": 1}}, "taints": [{"key": "k"}]}}, {"name": "b", "basic": {}}])
    );
    let world = World::new().in_version("v1beta1");
    let mut sent = set(&shown, "/spec/allNodes", json!(false));
    sent["spec"]["devices"][0]["basic"]["taints"][0]["effect"] = json!("wrong");
    let slices = kind("resource.k8s.io", "resourceslices");
    assert_eq!(world.create(slices, sent).wrong(), ["spec.devices[0].taints[0].effect NotSupported"]);
    let selecting = set(&set(&shown, "/spec/nodeName", json!("")), "/spec/allNodes", json!(true));
    let created = world.create(slices, set(&selecting, "/spec/devices", json!([]))).ok();
    assert!(created["spec"].get("nodeName").is_none());
}

#[test]
fn taints_of_slices_are_hidden_and_kept() {
    let mut hub = slice(0);
    hub["spec"]["taints"] = json!([{"device": "a", "taint": {"key": "k", "effect": "None"}}]);
    for version in ["v1", "v1beta2", "v1beta1"] {
        assert!(kind("resource.k8s.io", "resourceslices").rules.differs_in(&Value::Null, version));
        let shown = round_trip("resourceslices", &hub, version);
        assert!(shown["spec"].get("taints").is_none());
        let mut restored = shown;
        kind("resource.k8s.io", "resourceslices").rules.from_version(&mut restored, version, None);
        assert_eq!(restored["spec"]["taints"], hub["spec"]["taints"], "a backup in {version} has them");
    }
    assert_eq!(round_trip("resourceslices", &hub, "v1alpha3"), hub);
}
