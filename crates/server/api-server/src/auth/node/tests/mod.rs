//! The cases of Kubernetes' node authorizer, one row a case, and the graph against a naive reading of the same objects.

mod authorizer;
mod changes;
mod feed;
mod naive;

use lazaret_json::{Value, json};

use super::graph::Graph;

/// Two nodes with two pods each, in two namespaces; each pod with everything that a pod can reference.
fn sample() -> Graph {
    let mut graph = Graph::default();
    for node in ["node0", "node1"] {
        for number in 0..2 {
            let (namespace, name) = (format!("ns{number}"), format!("pod{number}-{node}"));
            graph.set_pod(&namespace, &name, Some(&pod(&namespace, &name, node)));
            let volume = format!("pv0-{name}-{namespace}");
            graph.set_volume(&volume, Some(&persistent_volume(&volume, &namespace, &format!("pvc0-{name}"))));
        }
        let attached = json!({"spec": {"nodeName": node}});
        graph.set_attachment(&format!("attachment0-{node}"), Some(&attached));
        graph.set_slice(&format!("slice0-{node}"), Some(&attached));
    }
    graph.set_slice("slice-of-all", Some(&json!({"spec": {"allNodes": true}})));
    graph
}

fn pod(namespace: &str, name: &str, node: &str) -> Value {
    let number = namespace.trim_start_matches("ns");
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {
            "nodeName": node,
            "serviceAccountName": format!("svcacct{number}-{node}"),
            "imagePullSecrets": [{"name": format!("pull-{name}")}],
            "initContainers": [{"name": "init", "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": format!("key-{name}"), "key": "a"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": format!("map-key-{name}"), "key": "b"}}},
            ]}],
            "containers": [{"name": "main", "envFrom": [
                {"secretRef": {"name": format!("from-{name}")}},
                {"configMapRef": {"name": format!("map-from-{name}")}},
            ]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": format!("secret0-{name}")}},
                {"name": "b", "secret": {"secretName": "secret0-shared"}},
                {"name": "c", "configMap": {"name": format!("configmap0-{name}")}},
                {"name": "d", "persistentVolumeClaim": {"claimName": format!("pvc0-{name}")}},
                {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "f", "csi": {"driver": "x", "nodePublishSecretRef": {"name": format!("csi-{name}")}}},
                {"name": "g", "projected": {"sources": [
                    {"secret": {"name": format!("projected-{name}")}},
                    {"configMap": {"name": format!("map-projected-{name}")}},
                ]}},
            ],
            "resourceClaims": [
                {"name": "named", "resourceClaimName": format!("claim0-{name}-{namespace}")},
                {"name": "pending", "resourceClaimTemplateName": format!("{name}-claimtemplate0")},
                {"name": "made", "resourceClaimTemplateName": format!("{name}-claimtemplate1")},
                {"name": "none", "resourceClaimTemplateName": format!("{name}-claimtemplate2")},
            ],
        },
        "status": {
            "resourceClaimStatuses": [
                {"name": "made", "resourceClaimName": format!("generated-claim-{name}-{namespace}-0")},
                {"name": "none"},
                {"name": "unknown", "resourceClaimName": format!("unclaimed-{name}")},
            ],
            "extendedResourceClaimStatus": {"resourceClaimName": format!("extended-{name}")},
        },
    })
}

fn persistent_volume(name: &str, namespace: &str, claim: &str) -> Value {
    json!({"spec": {
        "claimRef": {"namespace": namespace, "name": claim},
        "csi": {
            "driver": "x",
            "nodeStageSecretRef": {"namespace": namespace, "name": format!("secret-{name}")},
            "controllerPublishSecretRef": {"namespace": namespace, "name": format!("controller-secret-{name}")},
        },
    }})
}
