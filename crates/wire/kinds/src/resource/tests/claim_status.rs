use lazaret_json::{Value, json};

use super::claim::{claim, claims};
use crate::{
    Access,
    testing::{NOW, World, set},
};

fn allocation() -> Value {
    json!({
        "devices": {"results": [{"request": "req-0", "driver": "a.b", "pool": "p", "device": "d"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]},
    })
}

fn with_status(status: Value) -> Value {
    set(&World::new().create(claims(), claim()).ok(), "/status", status)
}

fn allocated() -> Value {
    with_status(json!({"allocation": allocation()}))
}

fn device(name: &str) -> Value {
    json!({"driver": "a.b", "pool": "p", "device": name})
}

fn consumers(count: usize) -> Value {
    (0..count).map(|at| json!({"resource": "pods", "name": "p", "uid": format!("u{at}")})).collect()
}

fn wrong(old: &Value, status: Value) -> Vec<String> {
    World::new().status(claims(), old, with_status(status)).wrong()
}

#[test]
fn allocations_come_and_go_and_do_not_change() {
    let pending = with_status(json!({}));
    assert!(wrong(&pending, json!({"allocation": allocation()})).is_empty());
    assert!(wrong(&allocated(), json!({})).is_empty(), "deallocated");
    assert!(wrong(&allocated(), json!({"allocation": allocation()})).is_empty());
    let other = set(&allocation(), "/devices/results/0/device", json!("e"));
    assert_eq!(wrong(&allocated(), json!({"allocation": other})), ["status.allocation Invalid"]);
    let at = "status.allocation.devices.results[0]";
    for (pointer, value, expected) in [
        ("/request", json!("x"), format!("{at}.request Invalid")),
        ("/driver", json!(""), format!("{at}.driver Required")),
        ("/pool", json!("!"), format!("{at}.pool Invalid")),
        ("/device", json!("!"), format!("{at}.device Invalid")),
        ("/shareID", json!("1234"), format!("{at}.shareID Invalid")),
        (
            "/tolerations",
            json!([{"key": "k", "operator": "x"}]),
            format!("{at}.tolerations[0].operator NotSupported"),
        ),
        ("/bindingConditions", json!(["a"]), format!("{at}.bindingFailureConditions Invalid")),
    ] {
        let bad = set(&allocation(), &format!("/devices/results/0{pointer}"), value);
        assert_eq!(wrong(&pending, json!({"allocation": bad})), [expected]);
    }
    let copied = set(&allocation(), "/devices/results/0/tolerations", json!(vec![json!({"value": "v"}); 20]));
    assert!(wrong(&pending, json!({"allocation": copied})).is_empty(), "what was stored may be copied");
    let config = set(
        &allocation(),
        "/devices/config",
        json!([{"source": "x", "opaque": {"driver": "a.b", "parameters": {}}}]),
    );
    assert_eq!(
        wrong(&pending, json!({"allocation": config})),
        ["status.allocation.devices.config[0].source NotSupported"]
    );
    let result = allocation()["devices"]["results"][0].clone();
    let many = set(&allocation(), "/devices/results", json!(vec![result; 33]));
    assert_eq!(wrong(&pending, json!({"allocation": many})), ["status.allocation.devices.results TooMany"]);
}

#[test]
fn reservations() {
    let reserved = |consumers: Value| json!({"allocation": allocation(), "reservedFor": consumers});
    assert!(wrong(&allocated(), reserved(consumers(256))).is_empty());
    assert_eq!(wrong(&allocated(), reserved(consumers(257))), ["status.reservedFor TooMany"]);
    let mut twice = consumers(2);
    twice[1]["uid"] = json!("u0");
    assert_eq!(wrong(&allocated(), reserved(twice)), ["status.reservedFor[1] Duplicate"]);
    assert_eq!(
        wrong(&allocated(), reserved(json!([{}]))),
        [
            "status.reservedFor[0].name Required",
            "status.reservedFor[0].resource Required",
            "status.reservedFor[0].uid Required"
        ]
    );
    assert_eq!(
        wrong(&with_status(json!({})), json!({"reservedFor": consumers(1)})),
        ["status.reservedFor Forbidden"]
    );
    let deleting = set(&with_status(reserved(consumers(2))), "/metadata/deletionTimestamp", json!(NOW));
    let status = |consumers: Value| {
        let new = set(&deleting, "/status/reservedFor", consumers);
        World::new().status(claims(), &deleting, new).wrong()
    };
    assert!(status(consumers(1)).is_empty(), "fewer");
    assert_eq!(status(consumers(3)), ["status.reservedFor Forbidden"], "more");
}

#[test]
fn devices_are_allocated_or_forgotten() {
    let with_devices = |devices: Value| json!({"allocation": allocation(), "devices": devices});
    assert!(wrong(&allocated(), with_devices(json!([device("d")]))).is_empty());
    assert_eq!(wrong(&allocated(), with_devices(json!([device("e")]))), ["status.devices[0] Invalid"]);
    assert_eq!(
        wrong(&allocated(), with_devices(json!([device("d"), device("d")]))),
        ["status.devices[1] Duplicate"]
    );
    let old = with_status(with_devices(json!([device("d")])));
    let gone = World::new().status(claims(), &old, with_status(json!({"devices": [device("d")]}))).ok();
    assert_eq!(gone["status"], json!({}), "a device that is no longer allocated");
    for (pointer, value, expected) in [
        ("/data", json!(7), "status.devices[0].data Invalid"),
        ("/data", json!({"a": "a".repeat(10_240)}), "status.devices[0].data TooLong"),
        (
            "/networkData/interfaceName",
            json!("a".repeat(257)),
            "status.devices[0].networkData.interfaceName TooLong",
        ),
        (
            "/networkData/hardwareAddress",
            json!("a".repeat(129)),
            "status.devices[0].networkData.hardwareAddress TooLong",
        ),
        ("/networkData/ips", json!(["10.0.0.1"]), "status.devices[0].networkData.ips[0] Invalid"),
        (
            "/networkData/ips",
            json!(["10.0.0.1/24", "10.0.0.1/24"]),
            "status.devices[0].networkData.ips[1] Duplicate",
        ),
        ("/conditions", json!([{"type": "Ready"}]), "status.devices[0].conditions[0].status Required"),
    ] {
        let found = wrong(&allocated(), with_devices(json!([set(&device("d"), pointer, value)])));
        assert!(found.contains(&expected.to_owned()), "{found:?}");
    }
    let addresses = json!(["10.9.8.7/24", "2001:db8::1/64"]);
    let fine = set(&device("d"), "/networkData/ips", addresses);
    assert!(wrong(&allocated(), with_devices(json!([fine]))).is_empty());
}

#[test]
fn status_writes_change_nothing_else() {
    let old = allocated();
    let mut new = set(&old, "/spec/devices/requests/0/name", json!("x"));
    new["metadata"]["labels"] = json!({"a": "b"});
    let written = World::new().status(claims(), &old, new).ok();
    assert_eq!(written, old);
}

#[test]
fn admin_access_in_results_needs_the_namespace() {
    let admin = set(&allocation(), "/devices/results/0/adminAccess", json!(true));
    let pending = with_status(json!({}));
    assert_eq!(
        wrong(&pending, json!({"allocation": admin})),
        ["status.allocation.devices.results[0].adminAccess Forbidden"]
    );
    let granted = with_status(json!({"allocation": admin}));
    assert!(
        wrong(&granted, json!({"allocation": admin, "reservedFor": consumers(1)})).is_empty(),
        "granted before"
    );
}

#[test]
fn granular_authorization() {
    let pending = with_status(json!({}));
    let binding = with_status(json!({"allocation": allocation()}));
    let mut world = World::new();
    world.may = |access: Access<'_>| access.subresource != "binding";
    let refused = world.status(claims(), &pending, binding.clone());
    assert_eq!(refused.wrong(), ["status.allocation Forbidden"]);
    let text = "changing status.allocation or status.reservedFor requires";
    assert!(refused.errors.list()[0].to_string().contains(text));
    world.may =
        |access| access.subresource == "binding" && access.verb == "update" && access.namespace.is_empty();
    world.status(claims(), &pending, binding).ok();

    let reporting = with_status(json!({"allocation": allocation(), "devices": [device("d")]}));
    world.may = |access| {
        access.verb == "associated-node:update"
            && (access.subresource, access.namespace, access.name) == ("driver", "default", "a.b")
    };
    let refused = world.status(claims(), &allocated(), reporting.clone());
    assert_eq!(refused.wrong(), ["status.devices Forbidden"]);
    assert!(refused.errors.list()[0].to_string().contains("changing status.devices requires"));
    world.user.name = "system:serviceaccount:kube-system:driver".into();
    world.user.extra = [("authentication.kubernetes.io/node-name".into(), vec!["node-2".into()])].into();
    assert_eq!(world.status(claims(), &allocated(), reporting.clone()).wrong(), ["status.devices Forbidden"]);
    world.user.extra = [("authentication.kubernetes.io/node-name".into(), vec!["node-1".into()])].into();
    world.status(claims(), &allocated(), reporting.clone()).ok();
    world.status(claims(), &reporting, reporting.clone()).ok();
    world.may = |_| false;
    assert_eq!(
        world.status(claims(), &reporting, allocated()).wrong(),
        ["status.devices Forbidden"],
        "taking an entry away is a change"
    );
    world
        .with("DRAResourceClaimGranularStatusAuthorization", false)
        .status(claims(), &allocated(), reporting)
        .ok();
}

#[test]
fn gates_of_the_status() {
    let pending = with_status(json!({}));
    let share = "11111111-2222-3333-4444-555555555555";
    for (gate, field, value) in [
        ("DRAAdminAccess", "adminAccess", json!(false)),
        ("DRAConsumableCapacity", "shareID", json!(share)),
        ("DRAOptionalNodeOperations", "skipNodeOperations", json!(["*"])),
    ] {
        let pointer = format!("/status/allocation/devices/results/0/{field}");
        let new = set(&allocated(), &pointer, value);
        let on = World::new().with(gate, true).status(claims(), &pending, new.clone()).ok();
        assert!(on.pointer(&pointer).is_some(), "{gate}");
        let off = World::new().with(gate, false);
        assert!(off.status(claims(), &pending, new.clone()).ok().pointer(&pointer).is_none(), "{gate}");
        assert!(off.status(claims(), &on, new).ok().pointer(&pointer).is_some(), "{gate}");
    }
    let reporting = with_status(json!({"allocation": allocation(), "devices": [device("d")]}));
    let off = World::new().with("DRAResourceClaimDeviceStatus", false);
    assert!(off.status(claims(), &allocated(), reporting).ok()["status"].get("devices").is_none());
}

#[test]
fn states() {
    let state = |object: &Value| World::new().row(claims(), object)[0].clone();
    assert_eq!(state(&claim()), "State=pending");
    assert_eq!(state(&allocated()), "State=allocated");
    let reserved = set(&allocated(), "/status/reservedFor", consumers(1));
    assert_eq!(state(&reserved), "State=allocated,reserved");
    assert_eq!(
        state(&set(&reserved, "/metadata/deletionTimestamp", json!(NOW))),
        "State=deleted,allocated,reserved"
    );
    assert_eq!(state(&set(&claim(), "/metadata/deletionTimestamp", json!(NOW))), "State=deleted");
}
