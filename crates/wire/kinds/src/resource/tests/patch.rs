use lazaret_json::{Value, json};

use crate::testing::{World, kind};

fn patch(devices: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"devices": devices}})
}

fn world() -> World {
    World::new().in_version("v1alpha3")
}

#[test]
fn a_patch_that_reaches_nothing_or_evicts_from_everything_draws_a_warning() {
    let patches = kind("resource.k8s.io", "resourceslicepatches");
    let warnings = |devices: Value| world().create(patches, patch(devices)).errors.warnings().len();
    let taints = |effect: &str| json!([{"key": "k", "effect": effect}]);
    assert_eq!(warnings(json!({"taints": taints("NoExecute")})), 1, "no filter selects nothing");
    assert_eq!(warnings(json!({"filter": {}, "taints": taints("NoExecute")})), 1);
    assert_eq!(warnings(json!({"filter": {}, "taints": taints("NoSchedule")})), 0);
    assert_eq!(warnings(json!({"filter": {"driver": "a.b"}, "taints": taints("NoExecute")})), 0);
    let all = patch(json!({"filter": {}, "taints": taints("NoExecute")}));
    assert_eq!(
        world().update(patches, &all, all.clone()).errors.warnings().len(),
        0,
        "said when it becomes so"
    );
}

#[test]
fn each_part_of_a_patch_has_its_gate() {
    let patches = kind("resource.k8s.io", "resourceslicepatches");
    let full = patch(json!({"filter": {}, "taints": [{"key": "k", "effect": "None"}],
        "attributes": {"a.b/c": {"int": 1}}, "capacity": {"a.b/m": {"value": "1Gi"}}}));
    let kept = |world: &World, old: Option<&Value>| {
        let outcome = match old {
            Some(old) => world.update(patches, old, full.clone()),
            None => world.create(patches, full.clone()),
        };
        let devices = &outcome.ok()["spec"]["devices"];
        ["taints", "attributes", "capacity"].map(|field| devices.get(field).is_some())
    };
    assert_eq!(kept(&world(), None), [true, true, true]);
    let untainted = world().with("DRADeviceTaintRules", false).with("DRADeviceTaints", false);
    assert_eq!(kept(&untainted, None), [false, true, true]);
    let as_published = world().with("DRAAdminControlledDeviceAttributes", false);
    assert_eq!(kept(&as_published, None), [true, false, false]);
    assert_eq!(kept(&as_published, Some(&full)), [true, true, true], "what is stored already stays");
}

#[test]
fn a_patch_names_its_devices_once() {
    let patches = kind("resource.k8s.io", "resourceslicepatches");
    let found = |devices: Value| {
        patches.rules.drop_unknown_fields(&mut patch(devices)).map(|findings| findings.len())
    };
    assert_eq!(found(json!({"filter": {"driver": "a.b"}, "deviceSelector": {}})), Some(1));
    assert_eq!(found(json!({"filter": {"driver": "a.b"}, "deviceSelector": null})), None);
    assert_eq!(found(json!({"deviceSelector": {}})), None);
}
