use lazaret_json::{Value, json};

use crate::testing::{NOW, World, kind, set};

fn slices() -> &'static crate::Kind {
    kind("resource.k8s.io", "resourceslices")
}

pub(super) fn slice(devices: usize) -> Value {
    let device = |at: usize| json!({"name": format!("gpu-{at}")});
    json!({
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com", "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 0, "resourceSliceCount": 1},
            "devices": (0..devices).map(device).collect::<Value>(),
        },
    })
}

fn wrong(object: &Value) -> Vec<String> {
    World::new().create(slices(), object.clone()).wrong()
}

fn with(pointer: &str, value: Value) -> Vec<String> {
    wrong(&set(&slice(1), pointer, value))
}

fn taint(effect: &str) -> Value {
    json!({"key": "k", "effect": effect})
}

#[test]
fn identity_and_pool() {
    assert!(wrong(&slice(128)).is_empty(), "good");
    assert_eq!(wrong(&slice(129)), ["spec.devices TooMany"], "too-large");
    for (pointer, value, expected) in [
        ("/spec/driver", json!(""), "spec.driver Required"),
        ("/spec/driver", json!("!"), "spec.driver Invalid"),
        ("/spec/driver", json!("a".repeat(64)), "spec.driver TooLong"),
        ("/spec/pool/name", json!(""), "spec.pool.name Required"),
        ("/spec/pool/name", json!("a/B"), "spec.pool.name Invalid"),
        ("/spec/pool/generation", json!(-1), "spec.pool.generation Invalid"),
        ("/spec/pool/resourceSliceCount", json!(0), "spec.pool.resourceSliceCount Invalid"),
        ("/spec/nodeName", json!("!"), "spec.nodeName Invalid"),
        ("/spec/nodeName", Value::Null, "spec Required"),
        ("/spec/allNodes", json!(true), "spec Invalid"),
        ("/spec/allNodes", json!(false), "spec.allNodes Invalid"),
        ("/spec/sharedCounters", json!([{"name": "s", "counters": {"c": {"value": "1"}}}]), "spec Invalid"),
        ("/spec/devices/0/name", json!("A"), "spec.devices[0].name Invalid"),
    ] {
        assert_eq!(with(pointer, value), [expected]);
    }
    assert_eq!(with("/spec/nodeName", json!("")), ["spec Required", "spec.nodeName Invalid"]);
    let mut twice = slice(2);
    twice["spec"]["devices"][1]["name"] = json!("gpu-0");
    assert_eq!(wrong(&twice), ["spec.devices[1] Duplicate"]);
    let upper = World::new().create(slices(), set(&slice(1), "/spec/driver", json!("GPU.example.com")));
    assert!(upper.errors.is_empty());
    assert_eq!(
        upper.errors.warnings(),
        [r#"spec.driver: driver names should be lowercase; "GPU.example.com" contains uppercase characters"#]
    );
}

#[test]
fn node_selectors() {
    let selecting = |terms: Value| {
        let object = set(&slice(1), "/spec/nodeName", Value::Null);
        wrong(&set(&object, "/spec/nodeSelector", json!({"nodeSelectorTerms": terms})))
    };
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]});
    assert!(selecting(json!([term])).is_empty());
    assert_eq!(selecting(json!([term, term])), ["spec.nodeSelector.nodeSelectorTerms Invalid"]);
    assert_eq!(
        selecting(json!([])),
        ["spec.nodeSelector.nodeSelectorTerms Invalid", "spec.nodeSelector.nodeSelectorTerms Required"]
    );
    let at = "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0]";
    for (requirement, expected) in [
        (json!({"key": "k", "operator": "In"}), format!("{at}.values Required")),
        (json!({"key": "k", "operator": "Exists", "values": ["v"]}), format!("{at}.values Forbidden")),
        (json!({"key": "k", "operator": "Gt", "values": []}), format!("{at}.values Required")),
        (json!({"key": "k", "operator": "Near"}), format!("{at}.operator Invalid")),
        (json!({"key": "a b", "operator": "Exists"}), format!("{at}.key Invalid")),
    ] {
        assert_eq!(selecting(json!([{"matchExpressions": [requirement]}])), [expected]);
    }
}

#[test]
fn taints() {
    let tainted =
        |devices: usize| set(&slice(devices), "/spec/devices/0/taints", json!([taint("NoSchedule")]));
    assert!(wrong(&tainted(64)).is_empty(), "good-taints");
    assert_eq!(wrong(&tainted(65)), ["spec.devices TooMany"], "too-large-taints");
    let created = World::new().create(slices(), tainted(1)).ok();
    assert_eq!(created["spec"]["devices"][0]["taints"][0]["timeAdded"], NOW);
    let at = "spec.devices[0].taints";
    assert_eq!(
        with("/spec/devices/0/taints", json!([{}])),
        [format!("{at}[0].effect Required"), format!("{at}[0].key Invalid"), format!("{at}[0].key Invalid")]
    );
    assert_eq!(
        with("/spec/devices/0/taints", json!([{"key": "!", "value": "!", "effect": "!"}])),
        [
            format!("{at}[0].effect NotSupported"),
            format!("{at}[0].key Invalid"),
            format!("{at}[0].value Invalid")
        ]
    );
    assert_eq!(with("/spec/devices/0/taints", json!(vec![taint("None"); 17])), [format!("{at} TooMany")]);
}

/// A driver that found no device, or has no taint to report, says so with an empty slice.
#[test]
fn a_slice_may_be_empty() {
    for version in ["v1", "v1beta2", "v1alpha3"] {
        let world = World::new().in_version(version);
        for devices in [json!([]), Value::Null] {
            let empty = set(&slice(0), "/spec/devices", devices);
            assert!(world.create(slices(), empty).wrong().is_empty(), "{version}");
        }
    }
    let none = set(&set(&slice(0), "/spec/devices", Value::Null), "/spec/taints", json!([]));
    assert!(World::new().in_version("v1alpha3").create(slices(), none).wrong().is_empty());
}

#[test]
fn as_many_and_as_large_taints_as_a_device_may_have() {
    assert!(with("/spec/devices/0/taints", json!(vec![taint("None"); 16])).is_empty());
    for effect in ["None", "NoSchedule", "NoExecute"] {
        assert!(with("/spec/devices/0/taints", json!([taint(effect)])).is_empty(), "{effect}");
    }
    assert_eq!(
        with("/spec/devices/0/taints", json!([taint("PreferNoSchedule")])),
        ["spec.devices[0].taints[0].effect NotSupported"],
        "an effect of nodes"
    );
    // The same key with several effects, and the very same taint twice: each reader checks every taint.
    let repeated = json!([taint("NoSchedule"), taint("NoExecute"), taint("NoExecute")]);
    assert!(with("/spec/devices/0/taints", repeated).is_empty());
    for (key, value) in [("kubernetes.io/reserved", ""), ("gpu.example.com/hot", "yes"), ("plain", "")] {
        let taints = json!([{"key": key, "value": value, "effect": "None"}]);
        assert!(with("/spec/devices/0/taints", taints).is_empty(), "{key}");
    }
    let long = "a".repeat(64);
    for (key, value, field) in [(format!("a.b/{long}"), String::new(), "key"), ("k".into(), long, "value")] {
        let taints = json!([{"key": key, "value": value, "effect": "None"}]);
        assert_eq!(
            with("/spec/devices/0/taints", taints),
            [format!("spec.devices[0].taints[0].{field} Invalid")],
            "63 characters at most"
        );
    }
}

#[test]
fn taints_that_did_not_change_are_not_looked_at() {
    let old =
        set(&slice(2), "/spec/devices/0/taints", json!([{"key": "k", "effect": "Future", "timeAdded": NOW}]));
    let update = |new: Value| World::new().update(slices(), &old, new).wrong();
    assert!(update(set(&old, "/metadata/labels/a", json!("b"))).is_empty(), "valid-old-effect");
    assert_eq!(
        update(set(&old, "/spec/devices/0/taints/0/value", json!("v"))),
        ["spec.devices[0].taints[0].effect NotSupported"],
        "invalid-new-effect-in-old-device"
    );
    let copied = set(&old, "/spec/devices/1/taints", old["spec"]["devices"][0]["taints"].clone());
    assert_eq!(
        update(copied),
        ["spec.devices[1].taints[0].effect NotSupported"],
        "invalid-new-effect-in-new-device"
    );
    let later =
        set(&old, "/spec/devices/0/taints", json!([{"key": "k", "effect": "None", "timeAdded": NOW}]));
    let kept = World::new().update(slices(), &old, later).ok();
    assert_eq!(kept["spec"]["devices"][0]["taints"][0]["timeAdded"], NOW, "slices keep the time");
}

#[test]
fn some_fields_are_immutable() {
    let old = slice(1);
    let update =
        |pointer: &str, value: Value| World::new().update(slices(), &old, set(&old, pointer, value)).wrong();
    assert_eq!(update("/spec/driver", json!("other.example.com")), ["spec.driver Invalid"]);
    assert_eq!(update("/spec/pool/name", json!("other")), ["spec.pool.name Invalid"]);
    assert_eq!(update("/spec/nodeName", json!("other")), ["spec.nodeName Invalid"]);
    assert!(update("/spec/pool/generation", json!(7)).is_empty());
    assert!(update("/spec/devices", json!([])).is_empty());
}

#[test]
fn attributes_and_capacity() {
    let at = "spec.devices[0]";
    let attribute = |value: Value| with("/spec/devices/0/attributes", json!({"a": value}));
    assert!(attribute(json!({"int": 1})).is_empty());
    for (value, expected) in [
        (json!({}), format!("{at}.attributes[a] Invalid")),
        (json!({"int": 1, "bool": true}), format!("{at}.attributes[a] Invalid")),
        (json!({"string": "a".repeat(65)}), format!("{at}.attributes[a].string TooLong")),
        (json!({"version": "1.0"}), format!("{at}.attributes[a].version Invalid")),
    ] {
        assert_eq!(attribute(value), [expected]);
    }
    for key in ["1a", "a/b/c", "/a", "a.b/", ""] {
        let mut object = slice(1);
        object["spec"]["devices"][0]["attributes"] = json!({key: {"int": 1}});
        assert_eq!(wrong(&object), [format!("{at}.attributes Invalid")], "{key}");
    }
    let many: Value =
        (0..33).map(|at| (format!("a{at}"), json!({"int": 1}))).collect::<lazaret_json::Map>().into();
    assert_eq!(with("/spec/devices/0/attributes", many), [format!("{at} Invalid")]);
    let listed = World::new().with("DRAListTypeAttributes", true);
    let ints = set(&slice(1), "/spec/devices/0/attributes", json!({"a": {"ints": vec![1; 49]}}));
    assert_eq!(listed.create(slices(), ints).wrong(), [format!("{at} Invalid")]);
    let empty = set(&slice(1), "/spec/devices/0/attributes", json!({"a": {"strings": []}}));
    assert_eq!(
        listed.create(slices(), empty).wrong(),
        [format!("{at}.attributes[a] Invalid"), format!("{at}.attributes[a].strings Invalid")]
    );

    let capacity = |value: Value| with("/spec/devices/0/capacity", json!({"m": value}));
    assert!(capacity(json!({"value": "8Gi"})).is_empty());
    assert!(capacity(json!({})).is_empty(), "no value is none");
    assert_eq!(capacity(json!({"value": "lots"})), [format!("{at}.capacity[m].value Invalid")]);
    assert_eq!(
        capacity(json!({"value": "8Gi", "requestPolicy": {"default": "1Gi"}})),
        [format!("{at}.capacity[m].requestPolicy Forbidden")]
    );
}

#[test]
fn request_policies() {
    let policy = |world: &World, policy: Value| {
        let device = json!({"name": "d", "allowMultipleAllocations": true, "capacity": {"m": {"value": "10", "requestPolicy": policy}}});
        let wrong = world.create(slices(), set(&slice(1), "/spec/devices/0", device)).wrong();
        let prefix = "spec.devices[0].capacity[m].requestPolicy";
        wrong.into_iter().map(|error| error.replace(prefix, "~")).collect::<Vec<_>>()
    };
    let whole = World::new();
    for (object, expected) in [
        (json!({}), vec![]),
        (json!({"default": "3"}), vec![]),
        (json!({"default": "2", "validValues": ["1", "2"]}), vec![]),
        (json!({"validValues": ["1"]}), vec!["~.default Required"]),
        (json!({"default": "1", "validValues": ["2", "1"]}), vec!["~.validValues[1] Invalid"]),
        (json!({"default": "1", "validValues": ["1", "1"]}), vec!["~.validValues[1] Duplicate"]),
        (json!({"default": "1", "validValues": ["1", "11"]}), vec!["~.validValues[1] Invalid"]),
        (json!({"default": "3", "validValues": ["1"]}), vec!["~.validValues Invalid"]),
        (json!({"default": "1", "validValues": ["1"], "validRange": {"min": "1"}}), vec!["~ Forbidden"]),
        (json!({"default": "2", "validRange": {"min": "2", "max": "8", "step": "2"}}), vec![]),
        (json!({"validRange": {"min": "1"}}), vec!["~.default Required"]),
        (json!({"default": "2", "validRange": {}}), vec!["~.validRange.min Required"]),
        (json!({"default": "1", "validRange": {"min": "2"}}), vec!["~.validRange.default Invalid"]),
        (
            json!({"default": "9", "validRange": {"min": "2", "max": "8"}}),
            vec!["~.validRange.default Invalid"],
        ),
        (json!({"default": "2", "validRange": {"min": "2", "max": "12"}}), vec!["~.validRange.max Invalid"]),
        (json!({"default": "2", "validRange": {"min": "2", "step": "0"}}), vec!["~.validRange.step Invalid"]),
        (json!({"default": "3", "validRange": {"min": "2", "step": "2"}}), vec!["~.validRange.step Invalid"]),
        (json!({"default": "2", "validRange": {"min": "2", "step": "9"}}), vec!["~.validRange.step Invalid"]),
        (json!({"default": "x"}), vec!["~.default Invalid"]),
    ] {
        assert_eq!(policy(&whole, object.clone()), expected, "{object}");
    }
    let fractional = World::new().with("DRAFractionalCapacityRange", true);
    let steps = json!({"default": "500m", "validRange": {"min": "500m", "step": "250m", "max": "9750m"}});
    assert!(policy(&fractional, steps).is_empty());
    let fine = json!({"default": "500m", "validRange": {"min": "1u", "step": "250m"}});
    assert_eq!(policy(&fractional, fine), ["~.validRange.min Invalid"]);
    let off_grid = json!({"default": "600m", "validRange": {"min": "500m", "step": "250m"}});
    assert_eq!(policy(&fractional, off_grid), ["~.validRange.step Invalid"]);
}

#[test]
fn counters_nodes_and_binding_conditions() {
    let at = "spec.devices[0]";
    let consumes = |entry: Value| with("/spec/devices/0/consumesCounters", json!([entry]));
    assert!(consumes(json!({"counterSet": "s", "counters": {"c": {"value": "1"}}})).is_empty());
    assert_eq!(consumes(json!({"counterSet": "s"})), [format!("{at}.consumesCounters[0].counters Required")]);
    assert_eq!(
        consumes(json!({"counters": {"c": {"value": "1"}}})),
        [format!("{at}.consumesCounters[0].counterSet Required")]
    );
    assert_eq!(
        consumes(json!({"counterSet": "s", "counters": {"C": {"value": "1"}}})),
        [format!("{at}.consumesCounters[0].counters Invalid")]
    );
    let sets = |count: usize| -> Value {
        let sets: Value = (0..count)
            .map(|at| json!({"name": format!("s{at}"), "counters": {"c": {"value": "1"}}}))
            .collect();
        set(&set(&slice(1), "/spec/devices", Value::Null), "/spec/sharedCounters", sets)
    };
    assert!(wrong(&sets(8)).is_empty());
    assert_eq!(wrong(&sets(9)), ["spec.sharedCounters TooMany"]);

    assert_eq!(with("/spec/devices/0/nodeName", json!("n")), [format!("{at} Invalid")]);
    let per_device =
        set(&set(&slice(1), "/spec/nodeName", Value::Null), "/spec/perDeviceNodeSelection", json!(true));
    assert_eq!(wrong(&per_device), [format!("{at} Required")]);
    assert!(wrong(&set(&per_device, "/spec/devices/0/allNodes", json!(true))).is_empty());
    assert_eq!(
        wrong(&set(&per_device, "/spec/devices/0/allNodes", json!(false))),
        [format!("{at} Required"), format!("{at}.allNodes Invalid")]
    );

    let binding = |wanted: Value, failing: Value| {
        let object = set(&slice(1), "/spec/devices/0/bindingConditions", wanted);
        wrong(&set(&object, "/spec/devices/0/bindingFailureConditions", failing))
    };
    assert!(binding(json!(["a"]), json!(["b"])).is_empty());
    assert_eq!(binding(json!(["a"]), Value::Null), [format!("{at}.bindingFailureConditions Invalid")]);
    assert_eq!(binding(Value::Null, json!(["a"])), [format!("{at}.bindingConditions Invalid")]);
    assert_eq!(binding(json!(["a"]), json!(["a"])), [format!("{at}.bindingFailureConditions[0] Invalid")]);
    assert_eq!(binding(json!(["a", "a"]), json!(["b"])), [format!("{at}.bindingConditions[1] Duplicate")]);
    let five = json!(["a", "b", "c", "d", "e"]);
    assert_eq!(binding(five, json!(["x"])), [format!("{at}.bindingConditions TooMany")]);
}

#[test]
fn alpha_fields() {
    let world = World::new()
        .with("DRAPartitionableDevicesType", true)
        .with("DRAOptionalNodeOperations", true)
        .with("DRANodeAllocatableResources", true)
        .with("DRADeviceCompatibilityGroups", true);
    let wrong = |object: Value| world.create(slices(), object).wrong();
    let mut typed = slice(1);
    typed["spec"]["partitionTypeAttribute"] = json!("gpu.example.com/type");
    assert_eq!(wrong(typed.clone()), ["spec.partitionTypeAttribute Invalid"]);
    typed["spec"]["devices"][0]["consumesCounters"] =
        json!([{"counterSet": "s", "counters": {"c": {"value": "1"}}}]);
    assert_eq!(wrong(typed.clone()), ["spec.devices[0].attributes[gpu.example.com/type] Required"]);
    typed["spec"]["devices"][0]["attributes"] = json!({"type": {"int": 1}});
    assert_eq!(wrong(typed.clone()), ["spec.devices[0].attributes[gpu.example.com/type] Invalid"]);
    typed["spec"]["devices"][0]["attributes"] = json!({"type": {"string": "half"}});
    assert!(wrong(typed.clone()).is_empty());
    typed["spec"]["devices"][0]["consumesCounters"][0]["compatibilityGroups"] = json!(["a", "b", "c"]);
    assert_eq!(wrong(typed), ["spec.devices[0].consumesCounters[0].compatibilityGroups TooMany"]);
    let skipping = |operations: Value| wrong(set(&slice(1), "/spec/skipNodeOperations", operations));
    assert!(skipping(json!(["*"])).is_empty());
    assert_eq!(skipping(json!(["NodePrepareResources"])), ["spec.skipNodeOperations Invalid"]);
    assert_eq!(skipping(json!(["x"])), ["spec.skipNodeOperations[0] NotSupported"]);
    let allocatable = |value: Value| wrong(set(&slice(1), "/spec/devices/0/nodeAllocatableResources", value));
    let at = "spec.devices[0].nodeAllocatableResources";
    assert!(allocatable(json!({"cpu": {"mapping": {"deviceMultiplier": "2"}}})).is_empty());
    assert_eq!(allocatable(json!({"disk": {"overhead": {"perPod": "1"}}})), [format!("{at}[disk] Invalid")]);
    assert_eq!(allocatable(json!({"cpu": {}})), [format!("{at}[cpu] Required")]);
    assert_eq!(allocatable(json!({"cpu": {"mapping": {}}})), [format!("{at}[cpu].mapping Invalid")]);
    assert_eq!(
        allocatable(json!({"cpu": {"mapping": {"capacityKey": "x", "capacityMultiplier": "1"}}})),
        [format!("{at}[cpu].mapping.capacityKey NotFound")]
    );
    assert_eq!(
        allocatable(json!({"cpu": {"overhead": {"perPod": "-1"}}})),
        [format!("{at}[cpu].overhead.perPod Invalid")]
    );
}

#[test]
fn fields_of_features_that_are_off_are_dropped_unless_in_use() {
    for (gate, pointer, value) in [
        ("DRADeviceTaints", "/spec/devices/0/taints", json!([taint("None")])),
        (
            "DRAPartitionableDevices",
            "/spec/devices/0/consumesCounters",
            json!([{"counterSet": "s", "counters": {"c": {"value": "1"}}}]),
        ),
        ("DRADeviceBindingConditions", "/spec/devices/0/bindsToNode", json!(true)),
        ("DRAResourceClaimDeviceStatus", "/spec/devices/0/bindsToNode", json!(true)),
        ("DRAConsumableCapacity", "/spec/devices/0/allowMultipleAllocations", json!(false)),
        (
            "DRANodeAllocatableResources",
            "/spec/devices/0/nodeAllocatableResources",
            json!({"cpu": {"overhead": {"perPod": "1"}}}),
        ),
        ("DRAOptionalNodeOperations", "/spec/skipNodeOperations", json!(["*"])),
    ] {
        let object = set(&slice(1), pointer, value);
        let on = World::new().with(gate, true).create(slices(), object.clone()).ok();
        assert!(on.pointer(pointer).is_some(), "{gate}: keep");
        let off = World::new().with(gate, false);
        assert!(off.create(slices(), object.clone()).ok().pointer(pointer).is_none(), "{gate}: drop");
        assert!(
            off.update(slices(), &slice(1), object).ok().pointer(pointer).is_none(),
            "{gate}: drop on update"
        );
        assert!(
            off.update(slices(), &on, on.clone()).ok().pointer(pointer).is_some(),
            "{gate}: keep-existing"
        );
    }
}

#[test]
fn slices_of_taints() {
    let world = World::new().in_version("v1alpha3");
    let entry = json!({"device": "gpu-0", "taint": {"key": "k", "effect": "NoSchedule", "description": "d"}});
    let of = |taints: Value| set(&set(&slice(1), "/spec/devices", Value::Null), "/spec/taints", taints);
    let stored = world.create(slices(), of(json!([entry]))).ok();
    assert_eq!(stored["spec"]["taints"][0]["taint"]["timeAdded"], NOW);
    let wrong = |taints: Value| world.create(slices(), of(taints)).wrong();
    assert_eq!(wrong(json!([set(&entry, "/device", json!(""))])), ["spec.taints[0].device Required"]);
    assert_eq!(
        wrong(json!([set(&entry, "/taint/effect", json!("x"))])),
        ["spec.taints[0].taint.effect NotSupported"]
    );
    assert_eq!(wrong(json!(vec![entry.clone(); 33])), ["spec.taints TooMany"]);
    assert!(wrong(json!(vec![entry.clone(); 32])).is_empty(), "the same device may have several");
    assert!(
        wrong(json!([set(&entry, "/device", json!("the-whole-pool"))])).is_empty(),
        "not only devices that exist"
    );
    let told = json!({"temperature": {"celsius": 91, "history": [88, 90]}});
    let stored = world.create(slices(), of(json!([set(&entry, "/taint/data", told.clone())]))).ok();
    assert_eq!(stored["spec"]["taints"][0]["taint"]["data"], told);
    for (field, most, more, expected) in [
        ("description", json!("a".repeat(1024)), json!("a".repeat(1025)), "TooLong"),
        // With its quotes.
        ("data", json!("a".repeat(10 * 1024 - 2)), json!("a".repeat(10 * 1024 - 1)), "TooLong"),
        ("evictionsPerSecond", json!(i64::MAX), json!(0), "Invalid"),
        ("evictionsPerSecond", json!(1), json!(-1), "Invalid"),
    ] {
        let with = |value: Value| wrong(json!([set(&entry, &format!("/taint/{field}"), value)]));
        assert!(with(most).is_empty(), "{field}");
        assert_eq!(with(more), [format!("spec.taints[0].taint.{field} {expected}")]);
    }
    let off =
        World::new().in_version("v1alpha3").with("DRADeviceTaintRules", false).with("DRADeviceTaints", false);
    assert!(off.create(slices(), of(json!([entry]))).ok()["spec"].get("taints").is_none(), "drop");
    let kept = off.update(slices(), &stored, stored.clone()).ok();
    assert_eq!(kept["spec"]["taints"], stored["spec"]["taints"], "keep-existing");
    let both = set(&slice(1), "/spec/taints", json!([entry]));
    assert_eq!(world.create(slices(), both).wrong(), ["spec Invalid"]);
}

#[test]
fn selectors_and_columns() {
    let rules = &slices().rules;
    let object = set(&slice(1), "/metadata/creationTimestamp", json!("2026-03-01T10:00:00Z"));
    for (field, value) in
        [("spec.nodeName", "node-1"), ("spec.driver", "gpu.example.com"), ("spec.pool.name", "node-1")]
    {
        assert_eq!(rules.select(&object, field).as_deref(), Some(value));
        assert_eq!(rules.select(&Value::Null, field).as_deref(), Some(""), "known");
    }
    assert_eq!(rules.select(&object, "spec.allNodes"), None);
    let row = World::new().row(slices(), &object);
    assert_eq!(row, ["Node=node-1", "Driver=gpu.example.com", "Pool=node-1", "Age=120m"]);
}

#[test]
fn patches() {
    let patches = kind("resource.k8s.io", "resourceslicepatches");
    let world = World::new().in_version("v1alpha3").with("DRAAdminControlledDeviceAttributes", true);
    let patch = json!({"metadata": {"name": "p"}, "spec": {"devices": {
        "filter": {"driver": "a.b", "selectors": [{"cel": {"expression": "true"}}]},
        "attributes": {"a.b/x": {"string": "y"}, "a.b/gone": {"null": {}}}, "capacity": {"a.b/m": {"value": "1024Mi"}},
        "taints": [taint("NoSchedule")],
    }}});
    let stored = world.create(patches, patch.clone()).ok();
    assert_eq!(stored["spec"]["devices"]["taints"][0]["timeAdded"], NOW);
    assert_eq!(stored["spec"]["devices"]["taints"][0]["evictionsPerSecond"], 10);
    assert_eq!(stored["spec"]["devices"]["capacity"]["a.b/m"]["value"], "1Gi");
    for (pointer, value, expected) in [
        ("/spec/devices/filter/driver", json!(""), "spec.devices.filter.driver Required"),
        (
            "/spec/devices/filter/selectors/0/cel/expression",
            json!("?"),
            "spec.devices.filter.selectors[0].cel.expression Invalid",
        ),
        ("/spec/devices/attributes/a.b~1gone/int", json!(1), "spec.devices.attributes[a.b/gone] Invalid"),
        ("/spec/devices/attributes/a.b~1x", json!({}), "spec.devices.attributes[a.b/x] Invalid"),
        ("/spec/devices/capacity/a.b~1m/value", json!("x"), "spec.devices.capacity[a.b/m].value Invalid"),
        ("/spec/devices/taints/0/effect", json!("x"), "spec.devices.taints[0].effect NotSupported"),
    ] {
        assert_eq!(world.create(patches, set(&patch, pointer, value)).wrong(), [expected]);
    }
    let tainted = |count: usize| set(&patch, "/spec/devices/taints", json!(vec![taint("NoExecute"); count]));
    assert!(world.create(patches, tainted(16)).wrong().is_empty());
    assert_eq!(world.create(patches, tainted(17)).wrong(), ["spec.devices.taints TooMany"]);
}

#[test]
fn fields_of_patches_whose_feature_is_off_are_dropped_unless_in_use() {
    let patches = kind("resource.k8s.io", "resourceslicepatches");
    let patch = json!({"metadata": {"name": "p"}, "spec": {"devices": {
        "attributes": {"a.b/x": {"string": "y"}}, "capacity": {"a.b/m": {"value": "1"}}, "taints": [taint("NoSchedule")],
    }}});
    let fields = |object: &Value| {
        let has = |field: &&str| object["spec"]["devices"].get(*field).is_some();
        ["attributes", "capacity", "taints"].into_iter().filter(has).collect::<Vec<_>>()
    };
    for (attributes, taints, kept) in [
        (false, false, &[][..]),
        (false, true, &["taints"]),
        (true, false, &["attributes", "capacity"]),
        (true, true, &["attributes", "capacity", "taints"]),
    ] {
        let world = World::new()
            .in_version("v1alpha3")
            .with("DRAAdminControlledDeviceAttributes", attributes)
            .with("DRADeviceTaints", taints);
        assert_eq!(fields(&world.create(patches, patch.clone()).ok()), kept);
        let updated = world.update(patches, &patch, patch.clone()).ok();
        assert_eq!(fields(&updated), ["attributes", "capacity", "taints"], "in use already");
    }
}

#[test]
fn taints_in_a_slice_of_their_own_have_a_pace_and_those_of_devices_have_none() {
    let world = World::new().in_version("v1alpha3");
    let slices = kind("resource.k8s.io", "resourceslices");
    let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
    let paced = json!({"key": "k", "effect": "NoExecute", "evictionsPerSecond": 3});
    let own = json!({"metadata": {"name": "t"}, "spec": {
        "driver": "a.b", "nodeName": "n", "pool": pool,
        "taints": [{"device": "d", "taint": taint("NoExecute")}, {"device": "e", "taint": paced}],
    }});
    let stored = world.create(slices, own).ok();
    let pace = |at: usize| stored["spec"]["taints"][at]["taint"]["evictionsPerSecond"].clone();
    assert_eq!((pace(0), pace(1)), (json!(10), json!(3)));
    let devices = json!({"metadata": {"name": "d"}, "spec": {
        "driver": "a.b", "nodeName": "n", "pool": pool,
        "devices": [{"name": "d", "taints": [taint("NoExecute")]}],
    }});
    let stored = world.create(slices, devices).ok();
    assert!(stored["spec"]["devices"][0]["taints"][0].get("evictionsPerSecond").is_none());
}
