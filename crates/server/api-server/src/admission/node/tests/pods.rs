use lazaret_json::{Value, json};

use super::{Operation, PERMITTED, World, mirror, pod};

const UPDATE: &str = r#"unexpected operation "UPDATE", node "mynode" can only create and delete mirror pods"#;
const CREATE: &str = r#"node "mynode" can only create pods with spec.nodeName set to itself"#;
const DELETE: &str = r#"node "mynode" can only delete pods with spec.nodeName set to itself"#;
const STATUS: &str = r#"node "mynode" can only update pod status for pods with spec.nodeName set to itself"#;
const EVICT: &str = "node mynode can only evict pods with spec.nodeName set to itself";
const NOT_A_MIRROR: &str = r#"pod does not have "kubernetes.io/config.mirror" annotation, node "mynode" can only create mirror pods"#;

/// The operation on a pod or a subresource, and the outcome for a pod that is bound to the node, to another one, to none.
const BY_BINDING: &[(Operation, &str, bool, [&str; 3])] = &[
    (Operation::Create, "pods", true, [PERMITTED, CREATE, CREATE]),
    (Operation::Update, "pods", true, [UPDATE, UPDATE, UPDATE]),
    (Operation::Delete, "pods", true, [PERMITTED, DELETE, DELETE]),
    (Operation::Create, "pods/status", true, [r#"unexpected operation "CREATE""#; 3]),
    (Operation::Update, "pods/status", true, [PERMITTED, STATUS, STATUS]),
    (Operation::Delete, "pods/status", true, [r#"unexpected operation "DELETE""#; 3]),
    (Operation::Create, "pods/eviction", true, [PERMITTED, EVICT, EVICT]),
    (Operation::Update, "pods/eviction", true, ["unexpected operation UPDATE"; 3]),
    (Operation::Delete, "pods/eviction", true, ["unexpected operation DELETE"; 3]),
    (Operation::Create, "pods", false, [NOT_A_MIRROR; 3]),
    (Operation::Update, "pods", false, [UPDATE, UPDATE, UPDATE]),
    (Operation::Delete, "pods", false, [PERMITTED, DELETE, DELETE]),
    (Operation::Create, "pods/status", false, [r#"unexpected operation "CREATE""#; 3]),
    (Operation::Update, "pods/status", false, [PERMITTED, STATUS, STATUS]),
    (Operation::Delete, "pods/status", false, [r#"unexpected operation "DELETE""#; 3]),
    (Operation::Create, "pods/eviction", false, [PERMITTED, EVICT, EVICT]),
    (Operation::Update, "pods/eviction", false, ["unexpected operation UPDATE"; 3]),
    (Operation::Delete, "pods/eviction", false, ["unexpected operation DELETE"; 3]),
];

#[test]
fn a_node_writes_the_pods_that_are_bound_to_it() {
    let world = World::new();
    for (operation, resource, is_mirror, expected) in BY_BINDING {
        for (node, expected) in ["mynode", "othernode", ""].iter().zip(expected) {
            let pod = if *is_mirror { mirror("p", node) } else { pod("p", node) };
            let found = world.attempt(*operation, resource, "ns/p", (&pod, &pod));
            assert_eq!(found, *expected, "{operation} {resource} mirror: {is_mirror}, bound to {node:?}");
        }
    }
}

#[test]
fn other_subresources_are_not_for_nodes() {
    for subresource in ["binding", "ephemeralcontainers", "resize", "exec"] {
        let pod = pod("p", "mynode");
        let found =
            World::new().attempt(Operation::Create, &format!("pods/{subresource}"), "ns/p", (&pod, &pod));
        let why =
            format!("unexpected pod subresource {subresource:?}, only 'status' and 'eviction' are allowed");
        assert_eq!(found, why);
    }
}

#[test]
fn a_status_changes_neither_labels_nor_claims() {
    let labels = r#"node "mynode" cannot update labels through pod status"#;
    let claims = r#"node "mynode" cannot update resource claim statues"#;
    let extended = r#"node "mynode" cannot update extended resource claim status"#;
    let allocatable = r#"node "mynode" cannot update node allocatable resource claim statuses"#;
    let (a, ab) = (json!({"a": "1"}), json!({"a": "1", "b": "2"}));
    let made = json!([{"name": "r", "resourceClaimName": "made"}]);
    let mapping = json!({"containerName": "c", "resourceName": "x/gpu", "requestName": "r"});
    let one = json!({"resourceClaimName": "one", "requestMappings": [mapping]});
    let amount = |quantity: &str| json!([{"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": quantity}]}]);
    let overhead = json!([{"resourceClaimName": "c", "overhead": [{"name": "cpu", "perPod": "1"}]}]);
    let null = Value::Null;
    for (path, old, new, expected) in [
        ("labels", &a, &ab, labels),
        ("labels", &ab, &a, labels),
        ("labels", &a, &null, labels),
        ("labels", &null, &a, labels),
        ("labels", &ab, &ab, PERMITTED),
        ("resourceClaimStatuses", &null, &made, claims),
        ("resourceClaimStatuses", &made, &null, claims),
        ("resourceClaimStatuses", &made, &json!([{"name": "r"}]), claims),
        ("resourceClaimStatuses", &made, &json!([{"name": "s", "resourceClaimName": "made"}]), claims),
        ("resourceClaimStatuses", &made, &json!([{"name": "r", "resourceClaimName": "other"}]), claims),
        ("resourceClaimStatuses", &made, &made, PERMITTED),
        ("extendedResourceClaimStatus", &null, &one, extended),
        ("extendedResourceClaimStatus", &one, &null, extended),
        ("extendedResourceClaimStatus", &one, &json!({"resourceClaimName": "one"}), extended),
        ("extendedResourceClaimStatus", &one, &one, PERMITTED),
        ("nodeAllocatableResourceClaimStatuses", &null, &amount("1"), allocatable),
        ("nodeAllocatableResourceClaimStatuses", &amount("1"), &amount("2"), allocatable),
        ("nodeAllocatableResourceClaimStatuses", &null, &overhead, allocatable),
        ("nodeAllocatableResourceClaimStatuses", &overhead, &overhead, PERMITTED),
        ("phase", &json!("Pending"), &json!("Running"), PERMITTED),
        ("conditions", &null, &json!([{"type": "Ready", "status": "True"}]), PERMITTED),
    ] {
        let with = |value: &Value| {
            let mut pod = pod("p", "mynode");
            let section = if path == "labels" { "metadata" } else { "status" };
            pod[section][path] = value.clone();
            pod
        };
        let found = World::new().attempt(Operation::Update, "pods/status", "ns/p", (&with(new), &with(old)));
        assert_eq!(found, expected, "{path}: {old} to {new}");
    }
}

#[test]
fn a_mirror_pod_belongs_to_its_node() {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "mynode", "uid": "mynode-uid", "controller": true});
    let with = |field: &str, value: Value| {
        let mut owner = owner.clone();
        owner[field] = value;
        json!([owner])
    };
    let itself = r#"node "mynode" can only create pods with an owner reference set to itself"#;
    let single = r#"node "mynode" can only create pods with a single owner reference set to itself"#;
    let controller = r#"node "mynode" can only create pods with a controller owner reference set to itself"#;
    let blocks = r#"node "mynode" must not set blockOwnerDeletion on an owner reference"#;
    let uid = "node mynode UID mismatch: expected other-uid got mynode-uid";
    for (owners, expected) in [
        (Value::Null, itself),
        (json!([]), itself),
        (json!([owner]), PERMITTED),
        (json!([owner, owner]), single),
        (with("name", "other".into()), itself),
        (with("kind", "Pod".into()), itself),
        (with("apiVersion", "v2".into()), itself),
        (with("controller", Value::Null), controller),
        (with("controller", false.into()), controller),
        (with("blockOwnerDeletion", true.into()), blocks),
        (with("blockOwnerDeletion", false.into()), PERMITTED),
        (with("uid", "other-uid".into()), uid),
    ] {
        let mut pod = mirror("p", "mynode");
        pod["metadata"]["ownerReferences"] = owners.clone();
        let found = World::new().attempt(Operation::Create, "pods", "ns/p", (&pod, &Value::Null));
        assert_eq!(found, expected, "{owners}");
    }
    let mut world = World::new();
    world.stored.clear();
    let pod = mirror("p", "mynode");
    let found = world.attempt(Operation::Create, "pods", "ns/p", (&pod, &Value::Null));
    assert_eq!(found, r#"nodes "mynode" not found"#);
}

#[test]
fn a_mirror_pod_names_no_other_objects() {
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        json!({"volumes": [volume]})
    };
    let projected = |source: Value| volume(json!({"projected": {"sources": [source]}}));
    let env =
        |source: Value| json!({"containers": [{"name": "c", "env": [{"name": "E", "valueFrom": source}]}]});
    let from = |source: Value| json!({"initContainers": [{"name": "c", "envFrom": [source]}]});
    for (spec, what) in [
        (json!({"serviceAccountName": "a"}), "serviceaccounts"),
        (json!({"serviceAccount": "a"}), "serviceaccounts"),
        (json!({"imagePullSecrets": [{"name": "s"}]}), "secrets"),
        (env(json!({"secretKeyRef": {"name": "s", "key": "k"}})), "secrets"),
        (from(json!({"secretRef": {"name": "s"}})), "secrets"),
        (volume(json!({"secret": {"secretName": "s"}})), "secrets"),
        (volume(json!({"secret": {}})), "secrets (via secret volumes)"),
        (volume(json!({"azureFile": {"secretName": "s"}})), "secrets"),
        (volume(json!({"azureFile": {}})), "secrets (via azureFile volumes)"),
        (volume(json!({"rbd": {"secretRef": {"name": "s"}}})), "secrets"),
        (projected(json!({"secret": {"name": "s"}})), "secrets"),
        (projected(json!({"secret": {}})), "secrets (via projected volumes)"),
        (env(json!({"configMapKeyRef": {"name": "m", "key": "k"}})), "configmaps"),
        (from(json!({"configMapRef": {"name": "m"}})), "configmaps"),
        (volume(json!({"configMap": {"name": "m"}})), "configmaps"),
        (volume(json!({"configMap": {}})), "configmaps (via configmap volumes)"),
        (projected(json!({"configMap": {}})), "configmaps (via projected volumes)"),
        (json!({"resourceClaims": [{"name": "r", "resourceClaimName": "c"}]}), "resourceclaims"),
        (volume(json!({"persistentVolumeClaim": {"claimName": "c"}})), "persistentvolumeclaims"),
        (volume(json!({"ephemeral": {}})), "persistentvolumeclaims (via ephemeral volumes)"),
        (volume(json!({"csi": {"driver": "d"}})), "csidrivers (via CSI volumes)"),
        (volume(json!({"glusterfs": {"endpoints": "e"}})), "endpoints (via glusterFS volumes)"),
        (projected(json!({"serviceAccountToken": {"path": "t"}})), "serviceaccounts (via projected volumes)"),
        (projected(json!({"clusterTrustBundle": {"name": "b"}})), "clustertrustbundles"),
        (projected(json!({"podCertificate": {}})), "podcertificates"),
        (volume(json!({"hostPath": {"path": "/"}})), ""),
        (volume(json!({"emptyDir": {}})), ""),
        (projected(json!({"downwardAPI": {}})), ""),
    ] {
        let expected = match what {
            "" => PERMITTED.to_owned(),
            what => format!(r#"node "mynode" can not create pods that reference {what}"#),
        };
        assert_eq!(create(&spec), expected, "{spec}");
    }
    let prefix = "error checking mirror pod for API references";
    let found = create(&volume(json!({"novel": {}})));
    assert_eq!(found, format!(r#"{prefix}: unknown volume type for volume  "v""#));
    let found = create(&projected(json!({"novel": {}})));
    assert_eq!(found, format!(r#"{prefix}: unknown source for projected volume "v""#));
}

fn create(spec: &Value) -> String {
    let mut pod = mirror("p", "mynode");
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field.as_str()] = value.clone();
    }
    World::new().attempt(Operation::Create, "pods", "ns/p", (&pod, &Value::Null))
}
