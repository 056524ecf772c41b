use lazaret_json::{Value, json};

use crate::auth::node::graph::{Graph, Vertex};

fn pod(node: &str, secrets: &[&str]) -> Value {
    let volumes: Vec<Value> =
        secrets.iter().map(|name| json!({"name": name, "secret": {"secretName": name}})).collect();
    json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "volumes": volumes}})
}

#[test]
fn a_secret_is_shared_by_the_nodes_of_all_pods_that_need_it_for_as_long_as_they_do() {
    let mut graph = Graph::default();
    graph.set_pod("ns1", "pod1", Some(&pod("node1", &["one", "two", "all"])));
    graph.set_pod("ns1", "pod2", Some(&pod("node2", &["two", "all"])));
    graph.set_pod("ns1", "pod3", Some(&pod("node3", &["all"])));
    for (node, secrets) in [("node1", "one two all"), ("node2", "two all"), ("node3", "all")] {
        for secret in ["one", "two", "all"] {
            let related = graph.has_path(node, Vertex::Secret, "ns1", secret);
            assert_eq!(related, secrets.split(' ').any(|name| name == secret), "{node} {secret}");
        }
    }
    graph.set_pod("ns1", "pod3", Some(&pod("node3", &[])));
    assert!(!graph.has_path("node3", Vertex::Secret, "ns1", "all"));
    assert!(graph.has_path("node2", Vertex::Secret, "ns1", "all"));
    // Two pods of one node: the second still needs it.
    graph.set_pod("ns1", "pod4", Some(&pod("node2", &["two"])));
    graph.set_pod("ns1", "pod2", None);
    assert!(graph.has_path("node2", Vertex::Secret, "ns1", "two"));
    graph.set_pod("ns1", "pod4", None);
    assert!(!graph.has_path("node2", Vertex::Secret, "ns1", "two"));
    graph.set_pod("ns1", "pod1", None);
    graph.set_pod("ns1", "pod3", None);
    assert!(graph.is_empty());
}

#[test]
fn what_a_pod_comes_to_need_later_counts_too() {
    let mut graph = Graph::default();
    let mut pod = pod("node1", &["first"]);
    let has = |graph: &Graph, node: &str, vertex, name| graph.has_path(node, vertex, "ns1", name);
    graph.set_pod("ns1", "p", Some(&pod));
    assert!(!has(&graph, "node1", Vertex::Secret, "later"));
    pod["spec"]["ephemeralContainers"] = json!([{"name": "e", "envFrom": [
        {"secretRef": {"name": "later"}}, {"configMapRef": {"name": "map"}}]}]);
    graph.set_pod("ns1", "p", Some(&pod));
    assert!(has(&graph, "node1", Vertex::Secret, "later") && has(&graph, "node1", Vertex::ConfigMap, "map"));
    for claim in ["extended-claim-0", "extended-claim-1"] {
        pod["status"]["extendedResourceClaimStatus"] = json!({"resourceClaimName": claim});
        assert!(!has(&graph, "node1", Vertex::ResourceClaim, claim));
        graph.set_pod("ns1", "p", Some(&pod));
        assert!(has(&graph, "node1", Vertex::ResourceClaim, claim));
        assert!(!has(&graph, "node2", Vertex::ResourceClaim, claim));
    }
    assert!(!has(&graph, "node1", Vertex::ResourceClaim, "extended-claim-0"));
}

#[test]
fn a_pod_that_its_node_made_gives_the_node_nothing_but_itself() {
    let mut graph = Graph::default();
    let mut mirror = pod("node1", &["secret"]);
    mirror["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    mirror["spec"]["serviceAccountName"] = "account".into();
    graph.set_pod("ns1", "p", Some(&mirror));
    assert!(graph.has_path("node1", Vertex::Pod, "ns1", "p"));
    assert!(!graph.has_path("node1", Vertex::Secret, "ns1", "secret"));
    assert!(!graph.has_path("node1", Vertex::ServiceAccount, "ns1", "account"));
}

#[test]
fn a_pod_that_is_bound_to_no_node_leads_nowhere() {
    let mut graph = Graph::default();
    graph.set_pod("ns1", "p", Some(&pod("", &["secret"])));
    assert!(graph.is_empty());
    assert!(!graph.has_path("", Vertex::Secret, "ns1", "secret"));
}

/// Each source of a persistent volume that needs a secret, and the namespace that it is looked for in.
#[test]
fn secrets_of_volumes_are_found_where_the_volume_says() {
    let named = |namespace: &str| match namespace {
        "" => json!({"name": "s"}),
        namespace => json!({"name": "s", "namespace": namespace}),
    };
    for (source, field, said, expected) in [
        ("cephfs", "secretRef", "", "ns1"),
        ("cephfs", "secretRef", "other", "other"),
        ("flexVolume", "secretRef", "", "ns1"),
        ("iscsi", "secretRef", "", "ns1"),
        ("rbd", "secretRef", "", "ns1"),
        ("rbd", "secretRef", "other", "other"),
        ("scaleIO", "secretRef", "", "ns1"),
        ("cinder", "secretRef", "other", "other"),
        ("cinder", "secretRef", "", ""),
        ("storageos", "secretRef", "other", "other"),
        ("csi", "nodePublishSecretRef", "other", "other"),
        ("csi", "nodeStageSecretRef", "other", "other"),
        ("csi", "nodeExpandSecretRef", "other", "other"),
        ("csi", "controllerPublishSecretRef", "other", "nowhere"),
        ("csi", "controllerExpandSecretRef", "other", "nowhere"),
    ] {
        let mut volume = json!({"spec": {"claimRef": {"namespace": "ns1", "name": "claim"}}});
        volume["spec"][source][field] = named(said);
        assert_secret_in(&volume, expected, &format!("{source}.{field} {said:?}"));
    }
    let file = json!({"spec": {"claimRef": {"namespace": "ns1", "name": "claim"}, "azureFile": {"secretName": "s"}}});
    assert_secret_in(&file, "ns1", "azureFile");
    let mut elsewhere = file;
    elsewhere["spec"]["azureFile"]["secretNamespace"] = "other".into();
    assert_secret_in(&elsewhere, "other", "azureFile with a namespace");
    let unbound = json!({"spec": {"rbd": {"secretRef": {"name": "s", "namespace": "other"}}}});
    assert_secret_in(&unbound, "nowhere", "a volume without a claim");
}

#[track_caller]
fn assert_secret_in(volume: &Value, expected: &str, case: &str) {
    let mut graph = Graph::default();
    let mut user = pod("node1", &[]);
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]);
    graph.set_pod("ns1", "p", Some(&user));
    graph.set_volume("pv", Some(volume));
    for namespace in ["", "ns1", "other"] {
        let found = graph.has_path("node1", Vertex::Secret, namespace, "s");
        assert_eq!(found, namespace == expected, "{case}: in {namespace:?}");
        assert!(!graph.has_path("node2", Vertex::Secret, namespace, "s"), "{case}");
    }
    graph.set_volume("pv", None);
    graph.set_pod("ns1", "p", None);
    assert!(graph.is_empty(), "{case}");
}
