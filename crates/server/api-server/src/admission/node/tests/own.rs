use lazaret_json::{Value, json};

use super::{Operation, PERMITTED, World};

const ALL: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

#[test]
fn leases_and_csi_nodes_are_a_nodes_own_by_name() {
    let namespace = r#"can only access leases in the "kube-node-lease" system namespace"#;
    let lease = "can only access node lease with the same name as the requesting node";
    let csi_node = "can only access CSINode with the same name as the requesting node";
    for (resource, place, expected) in [
        ("leases", "foo/mynode", namespace),
        ("leases", "kube-node-lease/foo", lease),
        ("leases", "kube-node-lease/mynode", PERMITTED),
        ("csinodes", "/foo", csi_node),
        ("csinodes", "/mynode", PERMITTED),
        ("csinodes/status", "/foo", csi_node),
        ("csinodes/status", "/mynode", "CSIVolumeHealth feature gate is disabled"),
    ] {
        for operation in ALL {
            let found = World::new().attempt(operation, resource, place, (&json!({}), &json!({})));
            assert_eq!(found, expected, "{operation} {resource} {place}");
        }
    }
}

#[test]
fn slices_are_a_nodes_own_by_what_they_say() {
    for (slice, own) in [
        (json!({"spec": {"nodeName": "mynode"}}), true),
        (json!({"spec": {"nodeName": "othernode"}}), false),
        (json!({"spec": {"allNodes": true}}), false),
        (json!({"spec": {"nodeName": "", "nodeSelector": {}}}), false),
        (json!({}), false),
    ] {
        for (operation, verb) in ALL.into_iter().zip(["create", "update", "delete"]) {
            let expected = match own {
                true => PERMITTED.to_owned(),
                false => {
                    format!("can only {verb} ResourceSlice with the same NodeName as the requesting node")
                }
            };
            let found = World::new().attempt(operation, "resourceslices", "/s", (&slice, &slice));
            assert_eq!(found, expected, "{operation} {slice}");
        }
    }
}

#[test]
fn a_pool_with_slices_of_another_node_takes_none_of_this_one() {
    let slice = |node: &str, driver: &str, pool: &str| json!({"spec": {"nodeName": node, "driver": driver, "pool": {"name": pool}}});
    let mut world = World::new();
    world.put("resourceslices//theirs", slice("othernode", "d", "othernode"));
    world.put("resourceslices//mine", slice("mynode", "d", "mynode"));
    let refused =
        r#"pool "othernode" of driver "d" has ResourceSlices of node "othernode": publish in another pool"#;
    for (driver, pool, expected) in [
        ("d", "othernode", refused),
        ("d", "mynode", PERMITTED),
        ("e", "othernode", PERMITTED),
        ("d", "another", PERMITTED),
    ] {
        let new = slice("mynode", driver, pool);
        for (operation, old) in
            [(Operation::Create, Value::Null), (Operation::Update, slice("mynode", "d", "elsewhere"))]
        {
            let found = world.attempt(operation, "resourceslices", "/s", (&new, &old));
            assert_eq!(found, expected, "{operation} {driver} {pool}");
        }
        // One that is there already stays the node's own.
        for operation in [Operation::Update, Operation::Delete] {
            let found = world.attempt(operation, "resourceslices", "/s", (&new, &new));
            assert_eq!(found, PERMITTED, "{operation} {driver} {pool}");
        }
    }
}

#[test]
fn of_a_volume_claim_a_node_reports_size_and_conditions() {
    let claim = json!({
        "metadata": {"name": "c", "namespace": "ns", "resourceVersion": "7", "managedFields": "[]"},
        "spec": {"volumeName": "volume1", "resources": {"requests": {"storage": "10G"}}},
        "status": {"phase": "Bound", "capacity": {"storage": "10G"}, "conditions": [{"type": "Resizing", "status": "True"}]},
    });
    let with = |section: &str, field: &str, value: Value| {
        let mut claim = claim.clone();
        claim[section][field] = value;
        claim
    };
    let refused = |fields: &str| {
        format!(
            r#"node "mynode" is not allowed to update fields other than status.quantity and status.conditions: {fields}"#
        )
    };
    for (new, expected) in [
        (claim.clone(), PERMITTED.to_owned()),
        (
            with("status", "conditions", json!([{"type": "FileSystemResizePending", "status": "True"}])),
            PERMITTED.into(),
        ),
        (with("status", "conditions", Value::Null), PERMITTED.into()),
        (with("status", "capacity", json!({"storage": "15G"})), PERMITTED.into()),
        (with("status", "allocatedResources", json!({"storage": "15G"})), PERMITTED.into()),
        (
            with("status", "allocatedResourceStatuses", json!({"storage": "NodeResizeInfeasible"})),
            PERMITTED.into(),
        ),
        (with("metadata", "resourceVersion", Value::Null), PERMITTED.into()),
        (with("metadata", "managedFields", "[{}]".into()), PERMITTED.into()),
        (with("status", "phase", "Lost".into()), refused("status.phase")),
        (with("spec", "volumeName", "volume2".into()), refused("spec.volumeName")),
        (with("metadata", "labels", json!({"a": "b"})), refused("metadata.labels")),
        (with("metadata", "finalizers", json!(["a/b"])), refused("metadata.finalizers")),
        (with("metadata", "ownerReferences", json!([{"name": "x"}])), refused("metadata.ownerReferences")),
    ] {
        let found =
            World::new().attempt(Operation::Update, "persistentvolumeclaims/status", "ns/c", (&new, &claim));
        assert_eq!(found, expected, "{new}");
    }
    let main = World::new().attempt(Operation::Update, "persistentvolumeclaims", "ns/c", (&claim, &claim));
    assert_eq!(main, "may only update PVC status");
    let create = World::new().attempt(
        Operation::Create,
        "persistentvolumeclaims/status",
        "ns/c",
        (&claim, &Value::Null),
    );
    assert_eq!(create, r#"unexpected operation "CREATE""#);
}
