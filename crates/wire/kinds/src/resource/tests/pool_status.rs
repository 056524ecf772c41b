use lazaret_json::{Value, json};

use crate::testing::{NOW, World, kind, set};

fn request() -> Value {
    json!({"metadata": {"name": "all"}, "spec": {"driver": "gpu.example.com"}})
}

fn requests() -> &'static crate::Kind {
    kind("resource.k8s.io", "resourcepoolstatusrequests")
}

fn status() -> Value {
    json!({
        "poolCount": 1,
        "pools": [{
            "driver": "gpu.example.com", "poolName": "node-1", "generation": 0, "nodeName": "node-1",
            "resourceSliceCount": 1, "totalDevices": 4, "allocatedDevices": 1, "availableDevices": 2, "unavailableDevices": 1,
            "partitionSummary": [{"attribute": "gpu.example.com/type", "type": "Half", "total": 2, "allocatable": 1}],
            "shareableSummary": {
                "fullyAvailableDevices": 1, "partiallyAvailableDevices": 0,
                "capacity": [{"name": "memory", "total": "4Gi", "consumed": "0", "available": "4Gi"}],
            },
        }],
        "conditions": [{
            "type": "Complete", "status": "True", "reason": "CalculationComplete", "message": "Calculated status for 1 pools",
            "lastTransitionTime": NOW,
        }],
    })
}

#[test]
fn create_validation() {
    let wrong = |pointer: &str, value: Value| {
        World::new().create(requests(), set(&request(), pointer, value)).wrong()
    };
    for (name, pointer, value, expected) in [
        ("good", "/spec/poolName", json!("node-1/a"), vec![]),
        ("capital", "/spec/driver", json!("GPU.example.com"), vec![]),
        ("no-driver", "/spec/driver", json!(""), vec!["spec.driver Required"]),
        ("bad-driver", "/spec/driver", json!("a_b"), vec!["spec.driver Invalid"]),
        ("empty-pool", "/spec/poolName", json!(""), vec!["spec.poolName Invalid"]),
        ("bad-pool", "/spec/poolName", json!("a//b"), vec!["spec.poolName Invalid"]),
        ("long-pool", "/spec/poolName", json!("a".repeat(254)), vec!["spec.poolName TooLong"]),
        ("no-pools", "/spec/limit", json!(0), vec!["spec.limit Invalid"]),
        ("one-pool", "/spec/limit", json!(1), vec![]),
        ("most-pools", "/spec/limit", json!(1000), vec![]),
        ("too-many-pools", "/spec/limit", json!(1001), vec!["spec.limit Invalid"]),
    ] {
        assert_eq!(wrong(pointer, value), expected, "{name}");
    }
}

#[test]
fn a_new_request_has_a_limit_and_no_status() {
    let made = World::new().create(requests(), set(&request(), "/status", status())).object;
    assert_eq!(made["spec"]["limit"], 100);
    assert_eq!(made.get("status"), None);
}

#[test]
fn the_partition_attribute_belongs_to_a_feature() {
    let field = "/spec/defaultPartitionTypeAttribute";
    let create = |world: World, name: &str| world.create(requests(), set(&request(), field, json!(name)));
    let off = create(World::new(), "anything");
    assert_eq!((off.wrong(), off.object.pointer(field)), (vec![], None));
    let on = || World::new().with("DRAPartitionableDevicesType", true);
    let kept = create(on(), "gpu.example.com/type");
    assert_eq!(kept.object.pointer(field), Some(&json!("gpu.example.com/type")));
    assert_eq!(create(on(), "type").wrong(), ["spec.defaultPartitionTypeAttribute Invalid"]);
}

#[test]
fn the_spec_and_a_status_that_is_set_do_not_change() {
    let stored = set(&set(&request(), "/spec/limit", json!(100)), "/status", status());
    let update = |new: Value| World::new().update(requests(), &stored, new).wrong();
    assert!(update(set(&stored, "/metadata/labels/a", json!("b"))).is_empty());
    assert_eq!(update(set(&stored, "/spec/limit", json!(7))), ["spec Invalid"]);
    let write = |old: &Value, new: Value| World::new().status(requests(), old, new).wrong();
    assert!(write(&stored, stored.clone()).is_empty());
    assert_eq!(write(&stored, set(&stored, "/status/poolCount", json!(2))), ["status Invalid"]);
    let bare = set(&request(), "/spec/limit", json!(100));
    assert!(write(&bare, stored.clone()).is_empty(), "{:?}", write(&bare, stored.clone()));
    for (pointer, value, expected) in [
        ("/status/poolCount", Value::Null, vec!["status.poolCount Required"]),
        ("/status/poolCount", json!(-1), vec!["status.poolCount Invalid"]),
        ("/status/pools/0/driver", json!(""), vec!["status.pools[0].driver Required"]),
        ("/status/pools/0/poolName", json!(""), vec!["status.pools[0].poolName Required"]),
        ("/status/pools/0/generation", json!(-1), vec!["status.pools[0].generation Invalid"]),
        ("/status/pools/0/resourceSliceCount", json!(0), vec!["status.pools[0].resourceSliceCount Invalid"]),
        ("/status/pools/0/totalDevices", json!(-1), vec!["status.pools[0].totalDevices Invalid"]),
        ("/status/pools/0/nodeName", json!("A"), vec!["status.pools[0].nodeName Invalid"]),
        (
            "/status/pools/0/validationError",
            json!("x".repeat(257)),
            vec!["status.pools[0].validationError TooLong"],
        ),
        (
            "/status/pools/0/partitionSummary/0/total",
            Value::Null,
            vec!["status.pools[0].partitionSummary[0].total Required"],
        ),
        (
            "/status/pools/0/shareableSummary/capacity/0/total",
            Value::Null,
            vec!["status.pools[0].shareableSummary.capacity[0].total Required"],
        ),
        ("/status/conditions/0/reason", json!(""), vec!["status.conditions[0].reason Required"]),
    ] {
        assert_eq!(write(&bare, set(&stored, pointer, value)), expected, "{pointer}");
    }
    let pool = status()["pools"][0].clone();
    let many: Vec<Value> = vec![pool; 1_001];
    assert_eq!(write(&bare, set(&stored, "/status/pools", json!(many))), ["status.pools TooMany"]);
}

#[test]
fn a_row_sums_up_the_pools() {
    let cells = |object: &Value| {
        let row = World::new().row(requests(), object);
        row.iter()
            .filter_map(|cell| cell.split_once('='))
            .map(|(_, cell)| cell.to_owned())
            .collect::<Vec<_>>()
            .join("|")
    };
    assert_eq!(cells(&request()), "gpu.example.com|-|-|-|-|-|0|Pending|<none>");
    let mut done = set(&request(), "/status", status());
    assert_eq!(cells(&done), "gpu.example.com|4|2|1|1|0|1|Complete|0s");
    done = set(&done, "/status/poolCount", json!(7));
    done = set(&done, "/status/pools/0/validationError", json!("x"));
    assert_eq!(cells(&done), "gpu.example.com|4|2|1|1|1|7|Complete (1/7 pools)|0s");
    done = set(&done, "/status/conditions/0/type", json!("Failed"));
    assert_eq!(cells(&done), "gpu.example.com|-|-|-|-|-|7|Failed|<none>");
}
