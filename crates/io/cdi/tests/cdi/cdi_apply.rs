//! Edits, and the OCI spec that comes of them. Cases are those of the reference implementation's `TestApplyContainerEdits`,
//! in our own form.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{io, path::Path};

use lazaret_cdi::{ContainerEdits, HostDevice, HostDeviceKind, apply, apply_with};
use serde_json::{Value, json};

fn edits(value: Value) -> ContainerEdits {
    serde_json::from_value(value).unwrap()
}

/// A host with `/dev/gpu0` (character 195:0, mode 0666), `/dev/disk` (block 8:0) and a FIFO.
fn host(path: &Path) -> io::Result<HostDevice> {
    let (kind, major, minor) = match path.to_str() {
        Some("/dev/gpu0") => (HostDeviceKind::Character, 195, 0),
        Some("/dev/disk") => (HostDeviceKind::Block, 8, 0),
        Some("/dev/fifo") => (HostDeviceKind::Fifo, 0, 0),
        _ => return Err(io::Error::other("no such device")),
    };
    Ok(HostDevice { kind, major, minor, file_mode: 0o666 })
}

fn check(name: &str, oci: Value, changes: Value, wanted: Value) {
    let mut edited = oci;
    apply_with(&edits(changes), &mut edited, host).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(edited, wanted, "{name}");
}

fn refused(oci: Value, changes: Value, part: &str) {
    let mut edited = oci.clone();
    let error = apply_with(&edits(changes), &mut edited, host).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
    assert_eq!(edited, oci, "a refused edit changes nothing");
}

#[test]
fn environment() {
    check(
        "appends, and replaces a variable of the same name where it is",
        json!({"process": {"env": ["A=1", "B=2", "A=3"]}}),
        json!({"env": ["A=4", "C=5", "C=6"]}),
        json!({"process": {"env": ["A=1", "B=2", "A=4", "C=6"]}}),
    );
    check("makes what is missing", json!({}), json!({"env": ["A="]}), json!({"process": {"env": ["A="]}}));
}

#[test]
fn device_nodes_are_completed_from_the_host() {
    let rule = json!({"allow": true, "type": "c", "major": 195, "minor": 0, "access": "rwm"});
    check(
        "type, numbers and mode",
        json!({}),
        json!({"deviceNodes": [{"path": "/dev/gpu0"}]}),
        json!({"linux": {
            "devices": [{"path": "/dev/gpu0", "type": "c", "major": 195, "minor": 0, "fileMode": 0o666}],
            "resources": {"devices": [rule]},
        }}),
    );
    check(
        "from another path, owned by the process, with its own permissions; replaces the node at its path",
        json!({
            "process": {"user": {"uid": 5, "gid": 6}},
            "linux": {"devices": [{"path": "/dev/x", "type": "b"}, {"path": "/dev/y"}]},
        }),
        json!({"deviceNodes": [{"path": "/dev/x", "hostPath": "/dev/gpu0", "permissions": "r", "gid": 7}]}),
        json!({
            "process": {"user": {"uid": 5, "gid": 6}},
            "linux": {
                "devices": [
                    {"path": "/dev/y"},
                    {"path": "/dev/x", "type": "c", "major": 195, "minor": 0, "fileMode": 0o666, "uid": 5, "gid": 7},
                ],
                "resources": {"devices": [{"allow": true, "type": "c", "major": 195, "minor": 0, "access": "r"}]},
            },
        }),
    );
    check(
        "one that says everything needs no host",
        json!({}),
        json!({"deviceNodes": [{"path": "/dev/none", "type": "b", "major": 1, "minor": 2, "permissions": "none"}]}),
        json!({"linux": {
            "devices": [{"path": "/dev/none", "type": "b", "major": 1, "minor": 2}],
            "resources": {"devices": [{"allow": true, "type": "b", "major": 1, "minor": 2}]},
        }}),
    );
    check(
        "a FIFO has no numbers and no rule",
        json!({}),
        json!({"deviceNodes": [{"path": "/dev/fifo"}]}),
        json!({"linux": {"devices": [{"path": "/dev/fifo", "type": "p", "major": 0, "minor": 0, "fileMode": 0o666}]}}),
    );
}

#[test]
fn mounts_replace_and_are_sorted_by_depth() {
    check(
        "sorted, stable",
        json!({"mounts": [
            {"destination": "/a/b/c", "source": "old"},
            {"destination": "/proc", "source": "proc"},
            {"destination": "/a/b", "source": "kept"},
        ]}),
        json!({"mounts": [
            {"hostPath": "/h", "containerPath": "/a/b/c", "options": ["ro"], "type": "bind"},
            {"hostPath": "/r", "containerPath": "/"},
        ]}),
        json!({"mounts": [
            {"destination": "/proc", "source": "proc"},
            {"destination": "/", "source": "/r"},
            {"destination": "/a/b", "source": "kept"},
            {"destination": "/a/b/c", "source": "/h", "options": ["ro"], "type": "bind"},
        ]}),
    );
}

#[test]
fn bind_mounts_map_ids_in_a_user_namespace() {
    for (options, kind, wanted) in [
        (json!(["bind"]), "", json!(["bind", "idmap"])),
        (json!(["ro", "rbind"]), "", json!(["ro", "rbind", "ridmap"])),
        (json!(["bind", "ridmap"]), "", json!(["bind", "ridmap"])),
        (json!(["ro"]), "bind", json!(["ro", "idmap"])),
        (json!(["ro"]), "tmpfs", json!(["ro"])),
    ] {
        let mut oci = json!({"linux": {"namespaces": [{"type": "user"}]}});
        let mount = json!({"hostPath": "/h", "containerPath": "/c", "options": options, "type": kind});
        apply(&edits(json!({"mounts": [mount]})), &mut oci).unwrap();
        assert_eq!(oci["mounts"][0]["options"], wanted, "{options} {kind}");
    }
}

#[test]
fn hooks_groups_interfaces_and_rdt() {
    check(
        "all the rest; what is unknown stays",
        json!({"ociVersion": "9.9.9", "x": 1, "process": {"user": {"additionalGids": [5]}}}),
        json!({
            "hooks": [
                {"hookName": "prestart", "path": "/a", "args": ["a", "b"], "timeout": 3},
                {"hookName": "createContainer", "path": "/b", "env": ["A=b"]},
                {"hookName": "prestart", "path": "/c"},
            ],
            "additionalGids": [0, 5, 7, 7],
            "netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}],
            "intelRdt": {"closID": "x", "schemata": ["L3:0=f"], "enableMonitoring": true},
        }),
        json!({
            "ociVersion": "9.9.9",
            "x": 1,
            "process": {"user": {"additionalGids": [5, 7]}},
            "hooks": {
                "prestart": [{"path": "/a", "args": ["a", "b"], "timeout": 3}, {"path": "/c"}],
                "createContainer": [{"path": "/b", "env": ["A=b"]}],
            },
            "linux": {
                "netDevices": {"eth1": {"name": "net1"}},
                "intelRdt": {"closID": "x", "schemata": ["L3:0=f"], "enableMonitoring": true},
            },
        }),
    );
    check("nothing does nothing", json!({"a": 1}), json!({}), json!({"a": 1}));
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let node = |node: Value| json!({"env": ["A=b"], "deviceNodes": [node]});
    refused(json!({}), node(json!({"path": "/dev/none"})), "no such device");
    refused(json!({}), node(json!({"path": "/dev/none", "type": "c"})), "no such device");
    refused(json!({}), node(json!({"path": "/dev/gpu0", "type": "b"})), "type b, and c on the host");
    refused(json!([]), json!({"env": ["A=b"]}), "root is not an object");
    refused(json!({"process": 5}), json!({"env": ["A=b"]}), "process is not an object");
    refused(json!({"process": {"env": {}}}), json!({"env": ["A=b"]}), "process.env is not a list");
    refused(json!({"mounts": {}}), json!({"mounts": [{"hostPath": "/h", "containerPath": "/c"}]}), "mounts");
}
