//! Allocations: to the wire and back.

use lazaret_api::{Object, allocation_to_json, decode_json, format_time, parse_time};
use lazaret_model::{
    Allocation, ConfigSource, DeviceId, DeviceResult, Effect, NodeSelector, NodeSelectorTerm, Opaque,
    Operator, Quantity, Requirement, ResultConfig, Text, Timestamp, Toleration, TolerationOperator,
};
use proptest::{collection::vec, option, prelude::*};
use serde_json::{Value, json};

fn from_wire(allocation: &Value) -> Allocation {
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"name": "c"}, "status": {"allocation": allocation}
    });
    let object = decode_json(&claim.to_string()).expect("a good claim");
    let Object::Claim(claim) = object else { unreachable!("{object:?}") };
    claim.allocation.map(|allocation| (*allocation).clone()).expect("an allocation")
}

#[test]
fn the_wire_form_comes_back_as_it_was() {
    for wire in [
        json!({"devices": {}}),
        json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}),
        json!({
            "devices": {
                "results": [{
                    "request": "r/s", "driver": "d", "pool": "p", "device": "x", "adminAccess": true,
                    "tolerations": [
                        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 0},
                        {"operator": "Exists"}
                    ],
                    "bindingConditions": ["a"], "bindingFailureConditions": ["b"],
                    "shareID": "a671734a-e8e5-11e4-8fde-42010af09327",
                    "consumedCapacity": {"memory": "1536Mi", "slots": "1500m"},
                    "skipNodeOperations": ["*"]
                }],
                "config": [
                    {"source": "FromClass", "opaque": {"driver": "d", "parameters": {"b": [1, null], "a": 1.5}}},
                    {"source": "FromClaim", "requests": ["r"]}
                ]
            },
            "nodeSelector": {"nodeSelectorTerms": [{
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
                "matchExpressions": [{"key": "zone", "operator": "Exists"}]
            }]},
            "allocationTimestamp": "2026-03-01T12:00:00Z"
        }),
    ] {
        assert_eq!(allocation_to_json(&from_wire(&wire)), wire);
    }
}

#[test]
fn what_is_empty_is_left_out() {
    let wire = json!({"devices": {"results": [{
        "request": "r", "driver": "d", "pool": "p", "device": "x",
        "adminAccess": false, "tolerations": [], "consumedCapacity": {}, "shareID": null
    }], "config": []}, "nodeSelector": null});
    let short =
        json!({"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}});
    assert_eq!(allocation_to_json(&from_wire(&wire)), short);
}

#[test]
fn instants() {
    for (text, written) in [
        ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        ("2026-03-01T12:00:00.999Z", "2026-03-01T12:00:00Z"),
        ("2026-03-01T12:00:00+02:30", "2026-03-01T09:30:00Z"),
        ("1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z"),
    ] {
        assert_eq!(format_time(parse_time(text).unwrap()), written, "{text}");
    }
    for text in
        ["", "2026-03-01", "2026-03-01 12:00:00Z", "2026-03-01T12:00:00", "2026-13-01T12:00:00Z", "now"]
    {
        assert!(parse_time(text).is_err(), "{text}");
    }
    assert_eq!(format_time(Timestamp::NEVER), "9999-12-31T23:59:59Z");
}

fn text() -> impl Strategy<Value = Text> {
    "[a-zA-Z\"\\\\/é.-]{1,8}".prop_map(Text::from)
}

fn texts() -> impl Strategy<Value = Vec<Text>> {
    vec(text(), 0..3)
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let operator = prop_oneof![
        Just(TolerationOperator::Equal),
        Just(TolerationOperator::Exists),
        Just(TolerationOperator::Unknown("Near".into()))
    ];
    let effect = option::of("(None|NoSchedule|NoExecute|Newer)".prop_map(|name| Effect::from_name(&name)));
    (text(), operator, text(), effect, option::of(any::<i64>())).prop_map(
        |(key, operator, value, effect, seconds)| Toleration { key, operator, value, effect, seconds },
    )
}

fn device_result() -> impl Strategy<Value = DeviceResult> {
    let device =
        (text(), text(), text()).prop_map(|(driver, pool, device)| DeviceId { driver, pool, device });
    let capacity = proptest::collection::btree_map(text(), any::<u32>(), 0..3).prop_map(|amounts| {
        amounts.into_iter().map(|(key, amount)| (key, Quantity::from_i64(amount.into()))).collect()
    });
    let lists = (texts(), texts(), texts());
    (text(), device, any::<bool>(), vec(toleration(), 0..3), lists, option::of(text()), capacity).prop_map(
        |(request, device, admin_access, tolerations, lists, share_id, consumed_capacity)| DeviceResult {
            request,
            device,
            admin_access,
            tolerations,
            binding_conditions: lists.0,
            binding_failure_conditions: lists.1,
            share_id,
            consumed_capacity,
            skip_node_operations: lists.2,
        },
    )
}

fn result_config() -> impl Strategy<Value = ResultConfig> {
    let opaque = (text(), any::<i32>())
        .prop_map(|(driver, n)| Opaque { driver, parameters: format!("{{\"n\":{n}}}").into() });
    let source = prop_oneof![Just(ConfigSource::Class), Just(ConfigSource::Claim)];
    (source, texts(), option::of(opaque)).prop_map(|(source, requests, opaque)| ResultConfig {
        source,
        requests,
        opaque,
    })
}

fn node_selector() -> impl Strategy<Value = NodeSelector> {
    let requirement = || {
        (text(), "(In|NotIn|Exists|Gt|Near)", texts()).prop_map(|(key, operator, values)| Requirement {
            key,
            operator: Operator::from_name(&operator),
            values,
        })
    };
    let term = (vec(requirement(), 0..3), vec(requirement(), 0..2))
        .prop_map(|(match_expressions, match_fields)| NodeSelectorTerm { match_expressions, match_fields });
    vec(term, 0..3).prop_map(|terms| NodeSelector { terms })
}

proptest! {
    #[test]
    fn there_and_back(
        results in vec(device_result(), 0..4),
        config in vec(result_config(), 0..3),
        node_selector in option::of(node_selector()),
        seconds in option::of(0..4_000_000_000_i64),
    ) {
        let timestamp = seconds.map(Timestamp::from_secs);
        let allocation = Allocation { results, config, node_selector, timestamp };
        prop_assert_eq!(from_wire(&allocation_to_json(&allocation)), allocation);
    }
}
