//! Single objects: the values that good ones become, and the errors of bad ones.

use expect_test::{Expect, expect};
use lazaret_api::{Object, Objects, decode_json, load_text};
use lazaret_model::{
    AllocationMode, AttrValue, ClaimSource, ConstraintKind, DeviceSelector, DeviceTaintRule, Effect,
    NodeScope, PodPhase, RequestKind, ResourceClaim, ResourceSlice, Timestamp, TolerationOperator,
};

/// Reads YAML that is expected to be right.
#[track_caller]
fn read(yaml: &str) -> Objects {
    load_text("test.yaml", yaml).expect("a good document")
}

#[track_caller]
fn slice(spec: &str) -> ResourceSlice {
    let pool = "driver: gpu.example.com, pool: {name: p, generation: 1, resourceSliceCount: 1}";
    let object = "apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}";
    read(&format!("{{{object}, spec: {{{pool}, {spec}}}}}")).slices.remove(0)
}

#[track_caller]
fn claim(version: &str, devices: &str) -> ResourceClaim {
    let object = "kind: ResourceClaim, metadata: {name: c}";
    let yaml = format!("{{apiVersion: resource.k8s.io/{version}, {object}, spec: {{devices: {devices}}}}}");
    read(&yaml).claims.remove(0)
}

#[track_caller]
fn rule(version: &str, spec: &str) -> DeviceTaintRule {
    let yaml =
        format!("{{apiVersion: {version}, kind: DeviceTaintRule, metadata: {{name: r}}, spec: {spec}}}");
    read(&yaml).rules.remove(0)
}

/// The error of each document, one line each.
fn check_errors(documents: &[&str], expect: Expect) {
    let told: Vec<String> = documents
        .iter()
        .map(|yaml| match load_text("f.yaml", yaml) {
            Ok(_) => format!("accepted: {yaml}"),
            Err(errors) => errors.to_string().replace("f.yaml: document 1 ", ""),
        })
        .collect();
    expect.assert_eq(&(told.join("\n") + "\n"));
}

#[test]
fn a_slice_with_everything() {
    let slice = slice(
        "nodeName: node-1, skipNodeOperations: ['*'], devices: [{name: gpu-0,
          attributes: {model: {string: A100}, numa: {int: 1}, ok: {bool: true}, fw: {version: 1.2.3}, odd: {},
                       ids: {ints: [1, 2]}, b: {bools: [true]}, s: {strings: [x]}, vs: {versions: [1.0.0, x]}},
          capacity: {memory: {value: 80Gi, requestPolicy: {default: 1Gi, validRange: {min: 1Gi, step: 1Gi}}}, slots: {value: 2}},
          consumesCounters: [{counterSet: cs, counters: {m: {value: 500m}}, compatibilityGroups: [g]}],
          taints: [{key: k, value: v, effect: NoExecute, timeAdded: '2026-03-01T12:00:00+01:00'}, {key: k, effect: Newer}],
          bindsToNode: true, bindingConditions: [], allowMultipleAllocations: false}]",
    );
    assert_eq!(slice.nodes, NodeScope::Node("node-1".into()));
    assert_eq!(slice.skip_node_operations, ["*"]);
    let device = &slice.devices[0];
    let attribute = |name: &str| &device.attributes.iter().find(|(key, _)| *key == *name).unwrap().1;
    assert_eq!(*attribute("model"), AttrValue::String("A100".into()));
    assert_eq!(*attribute("numa"), AttrValue::Int(1));
    assert_eq!(*attribute("odd"), AttrValue::Unsupported);
    assert_eq!(*attribute("ids"), AttrValue::Ints([1, 2].into()));
    let AttrValue::Versions(versions) = attribute("vs") else { panic!() };
    assert_eq!((versions[0].parsed.is_some(), versions[1].parsed.is_some()), (true, false));
    let keys: Vec<_> = device.attributes.iter().map(|(key, _)| key.as_str()).collect();
    assert!(keys.is_sorted(), "{keys:?}");
    assert_eq!(device.capacity[0].1.value.to_string(), "80Gi");
    assert_eq!(device.capacity[0].1.policy.as_ref().unwrap().default.as_ref().unwrap().to_string(), "1Gi");
    assert_eq!(device.capacity[1].1.value.to_string(), "2");
    assert_eq!(device.consumes_counters[0].counters[0].1.to_string(), "500m");
    assert_eq!(device.taints[0].time_added, Some(Timestamp::from_secs(1_772_362_800)));
    assert_eq!(device.taints[1].effect, Effect::Unknown("Newer".into()));
    assert_eq!(device.taints[1].time_added, None);
    assert!(device.binds_to_node);
    assert_eq!(device.binding_conditions, Some(vec![]));
    assert_eq!(device.binding_failure_conditions, None);
    assert_eq!(device.allow_multiple_allocations, Some(false));
}

#[test]
fn where_devices_are() {
    assert_eq!(slice("allNodes: true").nodes, NodeScope::All);
    assert_eq!(slice("perDeviceNodeSelection: true").nodes, NodeScope::PerDevice);
    assert_eq!(slice("later: true").nodes, NodeScope::Unknown);
    let terms = "nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Near, values: [a]}]}]";
    let NodeScope::Selector(selector) = slice(&format!("nodeSelector: {{{terms}}}")).nodes else { panic!() };
    assert_eq!(selector.terms[0].match_expressions[0].operator.name(), "Near");
}

#[test]
fn null_means_absent() {
    let slice = slice("allNodes: true, nodeName: null, devices: [{name: a, taints: null, attributes: null}]");
    assert!(slice.devices[0].taints.is_empty());
}

#[test]
fn older_slices_keep_devices_in_basic() {
    let yaml = "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d,
      pool: {name: p, resourceSliceCount: 1}, nodeName: node-1, allNodes: false,
      devices: [{name: a, basic: {attributes: {x: {int: 1}}, taints: [{key: k, effect: None}]}}, {name: b}]}}";
    let slice = read(yaml).slices.remove(0);
    assert_eq!(slice.devices[0].attributes[0].1, AttrValue::Int(1));
    assert_eq!(slice.devices[0].taints[0].effect, Effect::None);
    assert_eq!((slice.devices[1].name.as_str(), slice.devices[1].attributes.len()), ("b", 0));
}

#[test]
fn slices_of_taints() {
    let yaml = "{apiVersion: resource.k8s.io/v1alpha3, kind: ResourceSlice, metadata: {name: s}, spec: {driver: d,
      pool: {name: p, resourceSliceCount: 2}, allNodes: true, taints: [{device: gpu-0, taint: {key: k, effect: NoSchedule,
      evictionsPerSecond: 5, description: hot, data: {celsius: 91}}}]}}";
    let slice = read(yaml).slices.remove(0);
    assert_eq!(slice.taints[0].device, "gpu-0");
    assert_eq!(slice.taints[0].taint.evictions_per_second, Some(5));
    assert_eq!(slice.taints[0].taint.description.as_deref(), Some("hot"));
}

#[test]
fn requests_get_their_defaults() {
    let claim = claim(
        "v1",
        "{requests: [{name: a, exactly: {deviceClassName: c, tolerations: [{key: k}, {operator: Exists, effect: NoExecute,
          tolerationSeconds: 30}, {operator: Near}]}}, {name: b, exactly: {allocationMode: All, count: 7}},
          {name: c, exactly: {allocationMode: Some, adminAccess: false, capacity: {}}}, {name: d, exactly: {count: 2,
          selectors: [{cel: {expression: 'true'}}, {newer: {}}], capacity: {requests: {m: 1Gi}}}},
          {name: e}, {name: f, firstAvailable: [{name: x, deviceClassName: c}, {name: z, count: 3}]}],
          constraints: [{matchAttribute: a/b}, {requests: [a], distinctAttribute: a/b}, {}],
          config: [{requests: [a], opaque: {driver: d, parameters: {b: 1, a: 2}}}, {}]}",
    );
    let spec = &claim.spec;
    let exactly = |at: usize| {
        let RequestKind::Exactly(request) = &spec.requests[at].kind else { unreachable!("request {at}") };
        request
    };
    assert_eq!(claim.key.to_string(), "default/c");
    assert_eq!(exactly(0).mode, AllocationMode::Exact(1));
    assert_eq!(exactly(0).tolerations[0].operator, TolerationOperator::Equal);
    assert_eq!(exactly(0).tolerations[0].effect, None);
    assert_eq!(exactly(0).tolerations[1].effect, Some(Effect::NoExecute));
    assert_eq!(exactly(0).tolerations[1].seconds, Some(30));
    assert_eq!(exactly(0).tolerations[2].operator, TolerationOperator::Unknown("Near".into()));
    assert_eq!((exactly(0).admin_access, &exactly(0).capacity), (None, &None));
    assert_eq!(exactly(1).mode, AllocationMode::All);
    assert_eq!(exactly(2).mode, AllocationMode::Unknown("Some".into()));
    assert_eq!((exactly(2).admin_access, &exactly(2).capacity), (Some(false), &Some(vec![])));
    assert_eq!(exactly(3).mode, AllocationMode::Exact(2));
    assert_eq!(exactly(3).selectors, [Some("true".into()), None]);
    assert_eq!(exactly(3).capacity.as_ref().unwrap()[0].1.to_string(), "1Gi");
    assert_eq!(spec.requests[4].kind, RequestKind::Unknown);
    let RequestKind::FirstAvailable(alternatives) = &spec.requests[5].kind else { panic!() };
    assert_eq!((alternatives[0].name.as_str(), &alternatives[1].mode), ("x", &AllocationMode::Exact(3)));
    assert_eq!(spec.constraints[0].kind, ConstraintKind::Match("a/b".into()));
    assert_eq!(spec.constraints[1].kind, ConstraintKind::Distinct("a/b".into()));
    assert_eq!(spec.constraints[2].kind, ConstraintKind::Unknown);
    // From YAML as Kubernetes makes it JSON: keys in order.
    assert_eq!(spec.config[0].opaque.as_ref().unwrap().parameters, r#"{"a":2,"b":1}"#);
    assert_eq!(spec.config[1].opaque, None);
}

#[test]
fn older_claims_have_flat_requests() {
    let claim = claim(
        "v1beta1",
        "{requests: [{name: a, deviceClassName: c, count: 2, tolerations: [{}]}, {name: b, firstAvailable: [{name: x}]}, {name: c}]}",
    );
    let RequestKind::Exactly(request) = &claim.spec.requests[0].kind else { panic!() };
    assert_eq!(
        (request.class.as_str(), &request.mode, request.tolerations.len()),
        ("c", &AllocationMode::Exact(2), 1)
    );
    assert!(matches!(&claim.spec.requests[1].kind, RequestKind::FirstAvailable(list) if list.len() == 1));
    assert_eq!(claim.spec.requests[2].kind, RequestKind::Unknown);
    assert_eq!(claim.spec.requests[0].name, "a");
}

#[test]
fn opaque_parameters_in_json_stay_to_the_letter() {
    let json = r#"{"apiVersion":"resource.k8s.io/v1","kind":"DeviceClass","metadata":{"name":"c"},
      "spec":{"config":[{"opaque":{"driver":"d","parameters":{ "z" : 1.50, "a":1e2 }}}]}}"#;
    let Object::Class(class) = decode_json(json).unwrap() else { panic!() };
    assert_eq!(class.config[0].as_ref().unwrap().parameters, r#"{ "z" : 1.50, "a":1e2 }"#);
}

#[test]
fn claims_say_whose_they_are() {
    let claim = read("{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c, namespace: ns, uid: u,
          deletionTimestamp: '2026-01-01T00:00:00Z', annotations: {resource.kubernetes.io/extended-resource-claim: 'true'},
          ownerReferences: [{kind: Other, name: o}, {apiVersion: v1, kind: Pod, name: p, uid: pu, controller: true}]},
          status: {reservedFor: [{resource: pods, name: p, uid: pu}], allocation: {devices: {results: [{request: r,
          driver: d, pool: p, device: x, adminAccess: true}]}, allocationTimestamp: '2026-01-01T00:00:00.5Z'}}}").claims.remove(0);
    assert!(claim.deleting && claim.extended_resource);
    let owner = claim.owner.unwrap();
    assert_eq!((owner.group.as_str(), owner.kind.as_str(), owner.name.as_str()), ("", "Pod", "p"));
    assert_eq!(claim.reserved_for[0].uid, "pu");
    let allocation = claim.allocation.unwrap();
    assert_eq!(allocation.results[0].device.to_string(), "d/p/x");
    assert!(allocation.results[0].admin_access);
    assert_eq!(allocation.timestamp, Some(Timestamp::from_millis(1_767_225_600_500)));
}

#[test]
fn rules_in_every_version() {
    for version in ["v1", "v1beta2"] {
        let rule = rule(
            &format!("resource.k8s.io/{version}"),
            "{deviceSelector: {driver: d, pool: p, device: x}, taint: {key: k, effect: NoExecute}}",
        );
        let selector = rule.selector.unwrap();
        assert_eq!((selector.driver.as_deref(), selector.device.as_deref()), (Some("d"), Some("x")));
        assert_eq!(rule.taint.evictions_per_second, None);
    }
    for version in ["resource.k8s.io/v1alpha3", "lazaret.dev/v1alpha1"] {
        let rule = rule(
            version,
            "{deviceSelector: {deviceClassName: c, selectors: [{cel: {expression: e}}]}, taint: {key: k, effect: None}}",
        );
        let selector = rule.selector.unwrap();
        assert_eq!((selector.class.as_deref(), &selector.cel[..]), (Some("c"), &["e".into()][..]));
        assert_eq!(rule.taint.evictions_per_second, Some(10));
    }
    let read_in_v1 = read(
        r#"{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r, annotations: {lazaret.dev/v1alpha3-fields:
            '{"deviceSelector":{"deviceClassName":"c","selectors":[{"cel":{"expression":"e"}}]},"taint":{"evictionsPerSecond":3}}'}},
            spec: {deviceSelector: {driver: selected-in-v1alpha3.invalid, pool: p}, taint: {key: k, effect: NoExecute}}}"#,
    );
    let selector = read_in_v1.rules[0].selector.as_ref().unwrap();
    assert_eq!((selector.class.as_deref(), selector.driver.as_deref()), (Some("c"), None));
    assert_eq!((&selector.cel[..], selector.pool.as_deref()), (&["e".into()][..], Some("p")));
    assert_eq!(read_in_v1.rules[0].taint.evictions_per_second, Some(3));
    let taint = "taint: {key: k, effect: None}";
    assert_eq!(rule("resource.k8s.io/v1", &format!("{{{taint}}}")).selector, None);
    let empty = rule("resource.k8s.io/v1", &format!("{{deviceSelector: {{}}, {taint}}}"));
    assert_eq!(empty.selector, Some(DeviceSelector::default()));
}

#[test]
fn patches() {
    for selector in ["filter", "deviceSelector"] {
        let yaml = format!(
            "{{apiVersion: resource.k8s.io/v1alpha3, kind: ResourceSlicePatch, metadata: {{name: p}}, spec: {{devices: {{
              {selector}: {{deviceClassName: c}}, priority: 7, attributes: {{d/x: {{int: 1}}, d/y: {{'null': {{}}}}}},
              capacity: {{d/m: {{value: 1Gi}}}}, taints: [{{key: k, effect: NoSchedule}}]}}}}}}"
        );
        let patch = read(&yaml).patches.remove(0);
        assert_eq!(patch.selector.unwrap().class.as_deref(), Some("c"));
        assert_eq!(patch.patch.priority, 7);
        assert_eq!(patch.patch.attributes[0], ("d/x".into(), Some(AttrValue::Int(1))));
        assert_eq!(patch.patch.attributes[1], ("d/y".into(), None));
        assert_eq!(patch.patch.capacity[0].1.as_ref().unwrap().value.to_string(), "1Gi");
        assert_eq!(patch.patch.taints[0].effect, Effect::NoSchedule);
    }
}

#[test]
fn pods_and_nodes() {
    let pod = read("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet,
          name: rs, controller: true}]}, spec: {nodeName: node-1, priority: 5, schedulingGroup: {podGroupName: g},
          resourceClaims: [{name: a, resourceClaimName: c}, {name: b, resourceClaimTemplateName: t},
          {name: d, resourceClaimTemplateName: t}, {name: e, resourceClaimTemplateName: t}, {name: f}]},
          status: {phase: Running, resourceClaimStatuses: [{name: b, resourceClaimName: c1}, {name: d}],
          extendedResourceClaimStatus: {resourceClaimName: x}, conditions: [{type: Ready, status: 'True'}]}}").pods.remove(0);
    let template = |resolved| ClaimSource::Template { template: "t".into(), resolved };
    let sources: Vec<_> = pod.claims.iter().map(|claim| claim.source.clone()).collect();
    assert_eq!(
        sources,
        [
            ClaimSource::Claim("c".into()),
            template(Some(Some("c1".into()))),
            template(Some(None)),
            template(None),
            ClaimSource::Unknown
        ]
    );
    assert_eq!((pod.phase, pod.priority), (PodPhase::Running, 5));
    assert_eq!((pod.group.as_deref(), pod.extended_claim.as_deref()), (Some("g"), Some("x")));
    assert_eq!(pod.owner.unwrap().group, "apps");
    let node = read("{apiVersion: v1, kind: Node, metadata: {name: node-1, labels: {a: b}}, status: {declaredFeatures: [F]}}").nodes.remove(0);
    assert_eq!((&node.labels["a"].as_str(), node.declared_features.len()), (&"b", 1));
}

#[test]
fn broken_texts_say_where_they_break() {
    let head = r#"{"apiVersion":"v1","kind":"Pod","#;
    for (rest, error) in [
        (r#""spec":{]}}"#, "spec: key must be a string"),
        (r#""metadata":{"name":"p","labels":{"a":"#, "metadata.labels: EOF while parsing a value"),
        (r#""metadata":{"name" "p"}}"#, "metadata: expected `:`"),
        (r#""metadata":{"name":tru}}"#, "metadata.name: expected ident"),
        (r#""kind":"Pod"}"#, "duplicate field `kind`"),
    ] {
        assert_eq!(decode_json(&format!("{head}{rest}")).unwrap_err().to_string(), error);
    }
}

#[test]
fn bad_slices() {
    let with = |spec: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: s}}, spec: {{{spec}}}}}"
        )
    };
    let pool = "driver: d, pool: {name: p, resourceSliceCount: 1}, allNodes: true";
    let devices = |device: &str| with(&format!("{pool}, devices: [{{name: a}}, {device}]"));
    check_errors(
        &[
            &with(""),
            &with("driver: d"),
            &with("driver: d, pool: {name: p}"),
            &with("driver: d, pool: {name: p, generation: -1, resourceSliceCount: 1}"),
            &with("driver: d, pool: {name: p, generation: one, resourceSliceCount: 1}"),
            &with(&format!("{pool}, nodeName: node-1")),
            &with(&format!("{pool}, taints: [{{device: a, taint: {{key: k, effect: None}}}}]")),
            &devices("{}"),
            &devices("{name: b, capacity: {m: {value: 1GB}}}"),
            &devices("{name: b, capacity: {gpu.example.com/m: {value: [1]}}}"),
            &devices("{name: b, capacity: {m: {}}}"),
            &devices("{name: b, attributes: {x: {int: 1, bool: true}}}"),
            &devices("{name: b, attributes: {x: {int: 1.5}}}"),
            &devices("{name: b, taints: [{key: k}]}"),
            &devices("{name: b, taints: [{effect: NoExecute}]}"),
            &devices("{name: b, taints: [{key: k, effect: NoExecute, timeAdded: yesterday}]}"),
            &devices("{name: b, taints: [{key: k, effect: NoExecute, evictionsPerSecond: 1}]}"),
            &devices("{name: b, consumesCounters: [{counterSet: c, counters: {m: {value: x}}}]}"),
            &devices(
                "{name: b, capacity: {m: {value: 1, requestPolicy: {validValues: [1], validRange: {}}}}}",
            ),
        ],
        expect![[r#"
            (ResourceSlice s): spec.driver: is required
            (ResourceSlice s): spec.pool.name: is required
            (ResourceSlice s): spec.pool.resourceSliceCount: must be at least 1, not 0
            (ResourceSlice s): spec.pool.generation: must be at least 0, not -1
            (ResourceSlice s): spec.pool.generation: invalid type: string "one", expected i64
            (ResourceSlice s): spec: has more than one of nodeName, nodeSelector, allNodes, perDeviceNodeSelection
            (ResourceSlice s): spec.taints: only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it
            (ResourceSlice s): spec.devices[1].name: is required
            (ResourceSlice s): spec.devices[1].capacity[m].value: "1GB" is not a quantity: write digits, then a suffix, as in 500m or 2Gi
            (ResourceSlice s): spec.devices[1].capacity[gpu.example.com/m].value: expected a quantity, as in 500m or 2Gi
            (ResourceSlice s): spec.devices[1].capacity[m].value: is required
            (ResourceSlice s): spec.devices[1].attributes[x]: has more than one value
            (ResourceSlice s): spec.devices[1].attributes[x].int: invalid type: floating point `1.5`, expected i64
            (ResourceSlice s): spec.devices[1].taints[0].effect: is required
            (ResourceSlice s): spec.devices[1].taints[0].key: is required
            (ResourceSlice s): spec.devices[1].taints[0].timeAdded: "yesterday" is not an instant: write it as in 2026-03-01T12:00:00Z
            (ResourceSlice s): spec.devices[1].taints[0].evictionsPerSecond: only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it
            (ResourceSlice s): spec.devices[1].consumesCounters[0].counters[m].value: "x" is not a quantity: write digits, then a suffix, as in 500m or 2Gi
            (ResourceSlice s): spec.devices[1].capacity[m].requestPolicy: has either validValues or validRange, not both
        "#]],
    );
}

#[test]
fn bad_claims() {
    let with = |devices: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c, namespace: ns}}, spec: {{devices: {devices}}}}}"
        )
    };
    let request = |request: &str| with(&format!("{{requests: [{{name: a, {request}}}]}}"));
    let status = |status: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: c}}, status: {status}}}"
        )
    };
    check_errors(
        &[
            &with("{requests: [{}]}"),
            &with("{requests: {}}"),
            &request("exactly: {count: -1}"),
            &request("exactly: {count: many}"),
            &request("exactly: {}, firstAvailable: [{name: x}]"),
            &request("firstAvailable: [{deviceClassName: c}]"),
            &request("exactly: {selectors: [{cel: {}}]}"),
            &request("exactly: {capacity: {requests: {m: lots}}}"),
            &with("{constraints: [{matchAttribute: a, distinctAttribute: b}]}"),
            &with("{config: [{opaque: {driver: d}}]}"),
            &with("{config: [{opaque: {driver: d, parameters: 1}}]}"),
            &with(&format!(
                "{{config: [{{opaque: {{driver: d, parameters: {{x: {}}}}}}}]}}",
                "y".repeat(11_000)
            )),
            &status("{reservedFor: [{resource: pods, name: p}]}"),
            &status("{allocation: {devices: {results: [{request: r, driver: d, pool: p}]}}}"),
            &status("{allocation: {devices: {config: [{source: FromHeaven}]}}}"),
            "{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: a, deviceClassName: c, firstAvailable: [{name: x}]}]}}}",
        ],
        expect![[r#"
            (ResourceClaim ns/c): spec.devices.requests[0].name: is required
            (ResourceClaim ns/c): spec.devices.requests: invalid type: map, expected a sequence
            (ResourceClaim ns/c): spec.devices.requests[0].exactly.count: must be greater than zero, not -1
            (ResourceClaim ns/c): spec.devices.requests[0].exactly.count: invalid type: string "many", expected i64
            (ResourceClaim ns/c): spec.devices.requests[0]: has either exactly or firstAvailable, not both
            (ResourceClaim ns/c): spec.devices.requests[0].firstAvailable[0].name: is required
            (ResourceClaim ns/c): spec.devices.requests[0].exactly.selectors[0].cel.expression: is required
            (ResourceClaim ns/c): spec.devices.requests[0].exactly.capacity.requests[m]: "lots" is not a quantity: write digits, then a suffix, as in 500m or 2Gi
            (ResourceClaim ns/c): spec.devices.constraints[0]: has either matchAttribute or distinctAttribute, not both
            (ResourceClaim ns/c): spec.devices.config[0].opaque.parameters: is required
            (ResourceClaim ns/c): spec.devices.config[0].opaque.parameters: must be an object
            (ResourceClaim ns/c): spec.devices.config[0].opaque.parameters: is longer than 10240 bytes
            (ResourceClaim c): status.reservedFor[0].uid: is required
            (ResourceClaim c): status.allocation.devices.results[0].device: is required
            (ResourceClaim c): status.allocation.devices.config[0].source: must be FromClass or FromClaim, not "FromHeaven"
            (ResourceClaim c): spec.devices.requests[0]: has either deviceClassName or firstAvailable, not both
        "#]],
    );
}

#[test]
fn bad_rules_patches_and_pods() {
    let rule = |spec: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {{name: r}}, spec: {spec}}}"
        )
    };
    let superset = |spec: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1alpha3, kind: DeviceTaintRule, metadata: {{name: r}}, spec: {spec}}}"
        )
    };
    let patch = |devices: &str| {
        format!(
            "{{apiVersion: resource.k8s.io/v1alpha3, kind: ResourceSlicePatch, metadata: {{name: p}}, spec: {{devices: {devices}}}}}"
        )
    };
    let taint = "taint: {key: k, effect: None}";
    check_errors(
        &[
            &rule("{}"),
            &rule(&format!("{{deviceSelector: {{deviceClassName: c}}, {taint}}}")),
            &rule(&format!("{{deviceSelector: {{selectors: [{{cel: {{expression: e}}}}]}}, {taint}}}")),
            &rule(&format!("{{deviceSelector: {{driver: ''}}, {taint}}}")),
            &rule("{taint: {key: k, effect: None, description: d}}"),
            &rule(&format!("{{deviceSelector: {{driver: selected-in-v1alpha3.invalid}}, {taint}}}")),
            "{apiVersion: resource.k8s.io/v1, kind: DeviceTaintRule, metadata: {name: r, annotations: {lazaret.dev/v1alpha3-fields: x}}}",
            &superset(&format!("{{deviceSelector: {{selectors: [{{}}]}}, {taint}}}")),
            &superset("{taint: {key: k, effect: None, evictionsPerSecond: 0}}"),
            &superset(&format!("{{taint: {{key: k, effect: None, description: {}}}}}", "d".repeat(1025))),
            &patch("{filter: {}, deviceSelector: {}}"),
            &patch("{attributes: {d/x: {int: 1, 'null': {}}}}"),
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {resourceClaims: [{name: a, resourceClaimName: c, resourceClaimTemplateName: t}]}}",
            "{apiVersion: v1, kind: Pod, metadata: {generateName: p-}}",
            "{apiVersion: resource.k8s.io/v1alpha2, kind: ResourceClaim, metadata: {name: c}}",
            "{apiVersion: resource.k8s.io/v1, kind: ResourceSlicePatch, metadata: {name: p}}",
            "{apiVersion: lazaret.dev/v2, kind: DeviceTaintRule, metadata: {name: p}}",
            "{apiVersion: v1, metadata: {name: p}}",
            "{kind: Pod, metadata: {name: p}}",
            "just text",
        ],
        expect![[r#"
            (DeviceTaintRule r): spec.taint.effect: is required
            (DeviceTaintRule r): spec.deviceSelector.deviceClassName: only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it
            (DeviceTaintRule r): spec.deviceSelector.selectors: only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it
            (DeviceTaintRule r): spec.deviceSelector.driver: is required
            (DeviceTaintRule r): spec.taint.description: only exists in resource.k8s.io/v1alpha3: write that apiVersion to use it
            (DeviceTaintRule r): metadata.annotations[lazaret.dev/v1alpha3-fields]: is required: driver selected-in-v1alpha3.invalid stands for fields that only v1alpha3 has
            (DeviceTaintRule r): metadata.annotations[lazaret.dev/v1alpha3-fields]: is not what a server wrote: expected value at line 1 column 1
            (DeviceTaintRule r): spec.deviceSelector.selectors[0].cel: is required
            (DeviceTaintRule r): spec.taint.evictionsPerSecond: must be greater than zero, not 0
            (DeviceTaintRule r): spec.taint.description: is longer than 1024 bytes
            (ResourceSlicePatch p): spec.devices: has either filter or deviceSelector, not both
            (ResourceSlicePatch p): spec.devices.attributes[d/x]: has more than one value
            (Pod p): spec.resourceClaims[0]: has either resourceClaimName or resourceClaimTemplateName, not both
            (Pod): metadata.name: is required
            (ResourceClaim c): apiVersion: ResourceClaim is not known in version v1alpha2, only in v1, v1beta2, v1beta1
            (ResourceSlicePatch p): apiVersion: ResourceSlicePatch is not known in version v1, only in v1alpha3
            (DeviceTaintRule p): apiVersion: DeviceTaintRule is not known in version v2, only in v1alpha1
            (p): kind: is required
            (Pod p): apiVersion: is required
            f.yaml: document 1: is not an object
        "#]],
    );
}
