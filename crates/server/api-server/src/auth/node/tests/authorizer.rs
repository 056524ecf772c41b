use lazaret_kinds::{Access, Features};

use super::sample;
use crate::{auth::node::rules::RequestingNode, selector::parse_fields};

const UNRELATED: &str = "no relationship found between node 'node0' and this object";
const READ_ONE: &str = "can only get individual resources of this type";
const SELECT_PODS: &str = "can only list/watch pods with spec.nodeName field selector";
const SELECT_SLICES: &str =
    "can only list/watch/deletecollection resourceslices with nodeName field selector";
const LEASES: &str = "can only access leases in the \"kube-node-lease\" system namespace";
const OTHER_LEASE: &str = "can only access node lease with the same name as the requesting node";
const LEASE_VERBS: &str = "can only get, create, update, patch, or delete a node lease";
const OTHER_CSI_NODE: &str = "can only access CSINode with the same name as the requesting node";
const CSI_NODE_VERBS: &str = "can only get, create, update, patch, or delete a CSINode";
const CSI_NODE_STATUS: &str = "CSINode status access requires CSIVolumeHealth feature";
const TOKENS: &str = "can only create tokens for individual service accounts";
const OTHER_NODE: &str = "node 'node0' cannot read 'node1', only its own Node object";
const ALL_NODES: &str = "node 'node0' cannot read all nodes, only its own Node object";
const NOTHING_SAID: &str = "nothing is said about this";
const PERMITTED: &str = "";

/// Requests of node0: verb, resource with its subresource, namespace, name, field selector, `-` for none; and the reason of the
/// refusal.
const CASES: &[(&str, &str)] = &[
    // Config maps and secrets.
    ("get configmaps ns0 configmap0-pod0-node0 -", PERMITTED),
    ("get configmaps ns0 map-key-pod0-node0 -", PERMITTED),
    ("get configmaps ns0 map-from-pod0-node0 -", PERMITTED),
    ("get configmaps ns0 map-projected-pod0-node0 -", PERMITTED),
    ("list configmaps ns0 configmap0-pod0-node0 -", PERMITTED),
    ("watch configmaps ns0 configmap0-pod0-node0 -", PERMITTED),
    ("get secrets ns0 secret0-pod0-node0 -", PERMITTED),
    ("get secrets ns0 pull-pod0-node0 -", PERMITTED),
    ("get secrets ns0 key-pod0-node0 -", PERMITTED),
    ("get secrets ns0 from-pod0-node0 -", PERMITTED),
    ("get secrets ns0 csi-pod0-node0 -", PERMITTED),
    ("get secrets ns0 projected-pod0-node0 -", PERMITTED),
    ("list secrets ns0 secret0-pod0-node0 -", PERMITTED),
    ("watch secrets ns0 secret0-pod0-node0 -", PERMITTED),
    ("list secrets ns0 - -", "No Object name found"),
    ("watch secrets ns0 - -", "No Object name found"),
    ("list secrets - secret0-pod0-node0 -", "can only read namespaced object of this type"),
    ("get secrets ns0 secret0-shared -", PERMITTED),
    ("get secrets ns0 secret-pv0-pod0-node0-ns0 -", PERMITTED),
    ("get secrets ns0 controller-secret-pv0-pod0-node0-ns0 -", UNRELATED),
    ("get secrets ns1 secret0-pod0-node0 -", UNRELATED),
    ("get secrets ns0 secret0-pod0-node1 -", UNRELATED),
    ("get secrets ns0 secret-pv0-pod0-node1-ns0 -", UNRELATED),
    ("get secrets ns0 unreferenced -", UNRELATED),
    ("get configmaps ns0 configmap0-pod0-node1 -", UNRELATED),
    ("get secrets/status ns0 secret0-pod0-node0 -", "cannot read subresource"),
    ("create secrets ns0 - -", "can only read resources of this type"),
    ("update secrets ns0 secret0-pod0-node0 -", "can only read resources of this type"),
    ("patch configmaps ns0 configmap0-pod0-node0 -", "can only read resources of this type"),
    ("delete secrets ns0 secret0-pod0-node0 -", "can only read resources of this type"),
    ("deletecollection secrets ns0 - -", "can only read resources of this type"),
    // Volumes, their claims and attachments.
    ("get persistentvolumeclaims ns0 pvc0-pod0-node0 -", PERMITTED),
    ("get persistentvolumeclaims ns0 pod0-node0-e -", PERMITTED),
    ("get persistentvolumeclaims ns0 pvc0-pod0-node1 -", UNRELATED),
    ("list persistentvolumeclaims ns0 - -", READ_ONE),
    ("update persistentvolumeclaims/status ns0 pvc0-pod0-node0 -", PERMITTED),
    ("patch persistentvolumeclaims/status ns0 pvc0-pod0-node0 -", PERMITTED),
    ("get persistentvolumeclaims/status ns0 pvc0-pod0-node0 -", "can only get/update/patch this type"),
    ("update persistentvolumeclaims/status ns0 pvc0-pod0-node1 -", UNRELATED),
    ("update persistentvolumeclaims ns0 pvc0-pod0-node0 -", READ_ONE),
    ("get persistentvolumes - pv0-pod0-node0-ns0 -", PERMITTED),
    ("get persistentvolumes - pv0-pod0-node1-ns0 -", UNRELATED),
    ("get persistentvolumes/status - pv0-pod0-node0-ns0 -", "cannot get subresource"),
    ("get volumeattachments - attachment0-node0 -", PERMITTED),
    ("get volumeattachments - attachment0-node1 -", UNRELATED),
    ("list volumeattachments - - -", READ_ONE),
    // Claims of devices.
    ("get resourceclaims ns0 claim0-pod0-node0-ns0 -", PERMITTED),
    ("get resourceclaims ns0 generated-claim-pod0-node0-ns0-0 -", PERMITTED),
    ("get resourceclaims ns0 extended-pod0-node0 -", PERMITTED),
    ("get resourceclaims ns0 claim0-pod0-node1-ns0 -", UNRELATED),
    ("get resourceclaims ns0 pod0-node1-claimtemplate0 -", UNRELATED),
    ("get resourceclaims ns0 unclaimed-pod0-node0 -", UNRELATED),
    ("list resourceclaims ns0 - -", READ_ONE),
    ("update resourceclaims/status ns0 claim0-pod0-node0-ns0 -", READ_ONE),
    // Service accounts.
    ("create serviceaccounts/token ns0 svcacct0-node0 -", PERMITTED),
    ("create serviceaccounts/token ns0 svcacct0-node1 -", UNRELATED),
    ("create serviceaccounts ns0 svcacct0-node0 -", "can only create token subresource of serviceaccount"),
    ("create serviceaccounts ns0 - -", TOKENS),
    ("update serviceaccounts/token ns0 svcacct0-node0 -", TOKENS),
    ("get serviceaccounts ns0 svcacct0-node0 -", PERMITTED),
    ("get serviceaccounts ns0 svcacct0-node1 -", UNRELATED),
    ("list serviceaccounts ns0 svcacct0-node0 -", TOKENS),
    ("watch serviceaccounts ns0 svcacct0-node0 -", TOKENS),
    // Leases.
    ("get leases foo node0 -", LEASES),
    ("create leases foo node0 -", LEASES),
    ("update leases foo node0 -", LEASES),
    ("patch leases foo node0 -", LEASES),
    ("delete leases foo node0 -", LEASES),
    ("get leases kube-node-lease node1 -", OTHER_LEASE),
    ("update leases kube-node-lease node1 -", OTHER_LEASE),
    ("patch leases kube-node-lease node1 -", OTHER_LEASE),
    ("delete leases kube-node-lease node1 -", OTHER_LEASE),
    ("list leases kube-node-lease - -", LEASE_VERBS),
    ("watch leases kube-node-lease - -", LEASE_VERBS),
    ("deletecollection leases kube-node-lease - -", LEASE_VERBS),
    ("get leases kube-node-lease node0 -", PERMITTED),
    ("create leases kube-node-lease node0 -", PERMITTED),
    ("update leases kube-node-lease node0 -", PERMITTED),
    ("patch leases kube-node-lease node0 -", PERMITTED),
    ("delete leases kube-node-lease node0 -", PERMITTED),
    // CSINodes.
    ("get csinodes/csiDrivers - node0 -", "cannot authorize CSINode subresources"),
    ("get csinodes - node1 -", OTHER_CSI_NODE),
    ("update csinodes - node1 -", OTHER_CSI_NODE),
    ("patch csinodes - node1 -", OTHER_CSI_NODE),
    ("delete csinodes - node1 -", OTHER_CSI_NODE),
    ("list csinodes - - -", CSI_NODE_VERBS),
    ("watch csinodes - - -", CSI_NODE_VERBS),
    ("get csinodes - node0 -", PERMITTED),
    ("create csinodes - node0 -", PERMITTED),
    ("update csinodes - node0 -", PERMITTED),
    ("patch csinodes - node0 -", PERMITTED),
    ("delete csinodes - node0 -", PERMITTED),
    ("get csinodes/status - node0 -", CSI_NODE_STATUS),
    ("update csinodes/status - node0 -", CSI_NODE_STATUS),
    ("patch csinodes/status - node0 -", CSI_NODE_STATUS),
    // Slices.
    ("get resourceslices/status - slice0-node0 -", "cannot authorize ResourceSlice subresources"),
    ("get resourceslices - slice0-node1 -", UNRELATED),
    ("get resourceslices - slice-of-all -", UNRELATED),
    ("update resourceslices - slice0-node1 -", UNRELATED),
    ("patch resourceslices - slice0-node1 -", UNRELATED),
    ("delete resourceslices - slice0-node1 -", UNRELATED),
    ("list resourceslices - - spec.nodeName==node0", PERMITTED),
    ("list resourceslices - - spec.nodeName=node0,spec.driver=x", PERMITTED),
    ("list resourceslices - - spec.nodeName=node1", SELECT_SLICES),
    ("list resourceslices - - spec.nodeName!=node0", SELECT_SLICES),
    ("list resourceslices - - spec.driver=node0", SELECT_SLICES),
    ("list resourceslices - - -", SELECT_SLICES),
    ("watch resourceslices - - spec.nodeName==node0", PERMITTED),
    ("watch resourceslices - - -", SELECT_SLICES),
    ("deletecollection resourceslices - - spec.nodeName=node0", PERMITTED),
    ("deletecollection resourceslices - - spec.nodeName=node1", SELECT_SLICES),
    ("deletecollection resourceslices - - -", SELECT_SLICES),
    ("get resourceslices - slice0-node0 -", PERMITTED),
    ("create resourceslices - slice0-node0 -", PERMITTED),
    ("update resourceslices - slice0-node0 -", PERMITTED),
    ("patch resourceslices - slice0-node0 -", PERMITTED),
    ("delete resourceslices - slice0-node0 -", PERMITTED),
    // Pods.
    ("get pods ns0 pod0-node0 -", PERMITTED),
    ("get pods ns0 pod0-node1 -", UNRELATED),
    ("list pods - - spec.nodeName=node0", PERMITTED),
    ("list pods - - spec.nodeName==node0", PERMITTED),
    ("list pods ns0 - spec.nodeName=node0", PERMITTED),
    ("list pods ns0 pod0-node0 -", PERMITTED),
    ("list pods ns0 pod0-node1 -", UNRELATED),
    ("list pods - - -", SELECT_PODS),
    ("list pods - - spec.nodeName=node1", SELECT_PODS),
    ("list pods - - spec.nodeName!=node0", SELECT_PODS),
    ("list pods - - spec.nodeName!=node1", SELECT_PODS),
    ("watch pods - - spec.nodeName=node0", PERMITTED),
    ("watch pods - - spec.nodeName==node0", PERMITTED),
    ("watch pods ns0 pod0-node0 -", PERMITTED),
    ("watch pods - - -", SELECT_PODS),
    ("create pods ns0 - -", PERMITTED),
    ("create pods/proxy ns0 - -", NOTHING_SAID),
    ("create pods/binding ns0 pod0-node0 -", NOTHING_SAID),
    ("create pods/exec ns0 pod0-node0 -", NOTHING_SAID),
    ("get pods/log ns0 pod0-node0 -", NOTHING_SAID),
    ("update pods ns0 pod0-node0 -", NOTHING_SAID),
    ("patch pods ns0 pod0-node0 -", NOTHING_SAID),
    ("deletecollection pods ns0 - spec.nodeName=node0", NOTHING_SAID),
    // Which pods these are is for admission to look at.
    ("delete pods ns0 pod0-node0 -", PERMITTED),
    ("delete pods ns0 pod0-node1 -", PERMITTED),
    ("delete pods/proxy ns0 pod0-node0 -", NOTHING_SAID),
    ("update pods/status ns0 pod0-node0 -", PERMITTED),
    ("update pods/status ns0 pod0-node1 -", PERMITTED),
    ("patch pods/status ns0 pod0-node0 -", PERMITTED),
    ("patch pods/status ns0 pod0-node1 -", PERMITTED),
    ("get pods/status ns0 pod0-node0 -", NOTHING_SAID),
    ("create pods/eviction ns0 pod0-node0 -", PERMITTED),
    ("create pods/eviction ns0 pod0-node1 -", PERMITTED),
    // Nodes; which one is changed is for admission to look at.
    ("get nodes - node0 -", PERMITTED),
    ("get nodes - node1 -", OTHER_NODE),
    ("list nodes - node0 -", PERMITTED),
    ("list nodes - node1 -", OTHER_NODE),
    ("list nodes - - -", ALL_NODES),
    ("watch nodes - node0 -", PERMITTED),
    ("watch nodes - node1 -", OTHER_NODE),
    ("watch nodes - - -", ALL_NODES),
    ("create nodes - - -", PERMITTED),
    ("update nodes - node0 -", PERMITTED),
    ("update nodes - node1 -", PERMITTED),
    ("patch nodes - node0 -", PERMITTED),
    ("patch nodes - node1 -", PERMITTED),
    ("delete nodes - node0 -", NOTHING_SAID),
    ("deletecollection nodes - - -", NOTHING_SAID),
    ("update nodes/status - node0 -", PERMITTED),
    ("patch nodes/status - node1 -", PERMITTED),
    ("get nodes/proxy - node0 -", NOTHING_SAID),
    // Permissions of all nodes.
    ("create tokenreviews - - -", PERMITTED),
    ("create subjectaccessreviews - - -", PERMITTED),
    ("create localsubjectaccessreviews ns0 - -", PERMITTED),
    ("list services - - -", PERMITTED),
    ("watch services - - -", PERMITTED),
    ("update services ns0 a -", NOTHING_SAID),
    ("get services/status ns0 a -", NOTHING_SAID),
    ("get endpoints ns0 a -", PERMITTED),
    ("list endpoints - - -", NOTHING_SAID),
    ("create events ns0 - -", PERMITTED),
    ("patch events ns0 a -", PERMITTED),
    ("list events ns0 - -", NOTHING_SAID),
    ("delete events ns0 a -", NOTHING_SAID),
    ("list csidrivers - - -", PERMITTED),
    ("create csidrivers - - -", NOTHING_SAID),
    ("list runtimeclasses - - -", PERMITTED),
    ("create certificatesigningrequests - - -", PERMITTED),
    ("update certificatesigningrequests/approval - a -", NOTHING_SAID),
    ("list namespaces - - -", NOTHING_SAID),
    ("list deviceclasses - - -", NOTHING_SAID),
    ("create podcertificaterequests ns0 - -", NOTHING_SAID),
    ("list clusterroles - - -", NOTHING_SAID),
];

fn group(resource: &str) -> &'static str {
    match resource {
        "leases" => "coordination.k8s.io",
        "csinodes" | "csidrivers" | "volumeattachments" => "storage.k8s.io",
        "deviceclasses" | "resourceclaims" | "resourceslices" => "resource.k8s.io",
        "tokenreviews" => "authentication.k8s.io",
        "subjectaccessreviews" | "localsubjectaccessreviews" => "authorization.k8s.io",
        "certificatesigningrequests" | "podcertificaterequests" => "certificates.k8s.io",
        "runtimeclasses" => "node.k8s.io",
        "clusterroles" => "rbac.authorization.k8s.io",
        _ => "",
    }
}

/// The reason of the refusal for `node`; empty if it is permitted.
fn ask(node: &str, features: &Features, case: &str) -> String {
    let graph = sample();
    let words: Vec<&str> = case.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
    let [verb, resource, namespace, name, selector] = words[..] else { panic!("{case}: five words") };
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let fields = parse_fields(selector).unwrap();
    let access =
        Access { verb, group: group(resource), resource, subresource, namespace, name, fields: &fields };
    let is_related = |vertex, namespace: &str, name: &str| graph.has_path(node, vertex, namespace, name);
    match (RequestingNode { node, features, is_related: &is_related }).decide(access) {
        Ok(()) => PERMITTED.into(),
        Err(why) if why.is_empty() => NOTHING_SAID.into(),
        Err(why) => why,
    }
}

#[test]
fn a_node_may_do_this_and_no_more() {
    let features = Features::kubernetes_1_37();
    for (case, expected) in CASES {
        assert_eq!(ask("node0", &features, case), *expected, "{case}");
    }
}

#[test]
fn a_node_that_is_not_registered_may_look_for_itself() {
    let features = Features::kubernetes_1_37();
    assert_eq!(ask("stranger", &features, "get nodes - stranger -"), PERMITTED);
    let why = "no relationship found between node 'stranger' and this object";
    assert_eq!(ask("stranger", &features, "get secrets ns0 secret0-shared -"), why);
}

#[test]
fn accounts_can_be_read_only_where_the_feature_is_on() {
    let mut features = Features::kubernetes_1_37();
    features.set("KubeletServiceAccountTokenForCredentialProviders", false);
    for (case, expected) in [
        ("get serviceaccounts ns0 svcacct0-node0 -", "not allowed to get service accounts"),
        ("list serviceaccounts ns0 svcacct0-node0 -", TOKENS),
        ("watch serviceaccounts ns0 svcacct0-node0 -", TOKENS),
        ("create serviceaccounts/token ns0 svcacct0-node0 -", PERMITTED),
    ] {
        assert_eq!(ask("node0", &features, case), expected, "{case}");
    }
}
