//! EndpointSlices and Endpoints against a model of the API server.

use std::collections::BTreeSet;

use crate::support::{
    replica_set,
    rig::{Faults, Rig},
};
use lazaret_workloads::{Propagation, resource, rules};
use serde_json::{Value, json};

const ALL: &[lazaret_workloads::Rules] =
    &[rules::REPLICA_SETS, rules::ENDPOINT_SLICES, rules::ENDPOINTS, rules::MIRRORED_SLICES, rules::GARBAGE];

fn rig(seed: u64, faults: Faults) -> Rig {
    let mut rig = Rig::new(ALL, seed, faults);
    for node in 0..3 {
        let labels = json!({"topology.kubernetes.io/zone": format!("zone-{node}")});
        rig.create(&resource::NODES, json!({"metadata": {"name": format!("node-{node}"), "labels": labels}}));
    }
    rig
}

fn service(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    for (field, value) in [
        ("selector", json!({"app": "web"})),
        ("ports", json!([{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}])),
        ("ipFamilies", json!(["IPv4"])),
        ("clusterIP", json!("10.96.0.9")),
    ] {
        if spec.get(field).is_none() {
            spec[field] = value;
        }
    }
    json!({"metadata": {"name": name, "namespace": "default", "labels": {"team": "a"}}, "spec": spec})
}

fn slices(rig: &Rig) -> Vec<&Value> {
    rig.api.all(&resource::ENDPOINT_SLICES).collect()
}

/// The addresses in all slices; each once.
fn addresses(rig: &Rig) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for slice in slices(rig) {
        for endpoint in slice["endpoints"].as_array().unwrap() {
            let address = endpoint["addresses"][0].as_str().unwrap().to_owned();
            assert!(all.insert(address), "an endpoint stands twice: {endpoint}");
        }
    }
    all
}

fn pod_addresses(rig: &Rig) -> BTreeSet<String> {
    let address = |pod: &&Value| pod["status"]["podIPs"][0]["ip"].as_str().unwrap().to_owned();
    rig.live_pods().iter().map(address).collect()
}

#[test]
fn a_slice_says_of_each_pod_what_kubernetes_says() {
    let mut rig = rig(1, Faults::NONE);
    rig.create(&resource::SERVICES, service("web", json!({})));
    rig.settle(60);
    let empty = slices(&rig)[0].clone();
    assert_eq!((&empty["endpoints"], &empty["ports"]), (&json!([]), &json!([])), "there is always a slice");
    rig.create(&resource::REPLICA_SETS, replica_set("web", 1));
    rig.settle(60);
    let slice = slices(&rig)[0].clone();
    assert_eq!(slice["metadata"]["uid"], empty["metadata"]["uid"], "the empty one was filled");
    let own = rig.object(&resource::SERVICES, "web");
    assert_eq!(
        slice["metadata"]["labels"],
        json!({"team": "a", "kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})
    );
    assert_eq!(
        slice["metadata"]["ownerReferences"],
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": own["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true}])
    );
    assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    let pod = rig.live_pods()[0].clone();
    let node = pod["spec"]["nodeName"].as_str().unwrap();
    assert_eq!(
        slice["endpoints"],
        json!([{
            "addresses": [pod["status"]["podIPs"][0]["ip"]], "nodeName": node, "zone": node.replace("node", "zone"),
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        }])
    );
    let whole = rig.object(&resource::ENDPOINTS, "web");
    assert_eq!(
        whole["metadata"]["labels"],
        json!({"team": "a", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    assert_eq!(whole["subsets"][0]["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(whole["subsets"][0]["addresses"][0]["ip"], pod["status"]["podIPs"][0]["ip"]);
}

#[test]
fn a_pod_that_is_not_ready_or_leaves_is_said_to_be() {
    let mut rig = rig(2, Faults::NONE);
    rig.create(&resource::SERVICES, service("web", json!({})));
    rig.create(
        &resource::SERVICES,
        service("all", json!({"publishNotReadyAddresses": true, "clusterIP": "None"})),
    );
    let pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"app": "web"}, "finalizers": ["a.example/b"]}, "spec": {"nodeName": "node-1"},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.2.2.2"}], "conditions": [{"type": "Ready", "status": "False"}]}});
    rig.create(&resource::PODS, pod);
    rig.settle(60);
    let conditions = |rig: &Rig, service: &str| {
        let own = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == service;
        slices(rig).into_iter().find(own).unwrap()["endpoints"][0]["conditions"].clone()
    };
    assert_eq!(conditions(&rig, "web"), json!({"ready": false, "serving": false, "terminating": false}));
    assert_eq!(conditions(&rig, "all"), json!({"ready": true, "serving": false, "terminating": false}));
    assert!(
        slices(&rig).iter().any(|slice| slice["metadata"]["labels"]["service.kubernetes.io/headless"] == "")
    );
    assert_eq!(
        rig.object(&resource::ENDPOINTS, "web")["subsets"][0]["notReadyAddresses"][0]["ip"],
        "10.2.2.2"
    );
    assert_eq!(rig.object(&resource::ENDPOINTS, "all")["subsets"][0]["addresses"][0]["ip"], "10.2.2.2");
    rig.api.change(&resource::PODS, "default", "p", |pod| {
        pod["status"]["conditions"][0]["status"] = json!("True");
        pod["metadata"]["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    });
    rig.settle(60);
    assert_eq!(conditions(&rig, "web"), json!({"ready": false, "serving": true, "terminating": true}));
    assert!(rig.object(&resource::ENDPOINTS, "web")["subsets"].as_array().is_none_or(Vec::is_empty));
    rig.api.change(&resource::PODS, "default", "p", |pod| pod["status"]["phase"] = json!("Succeeded"));
    rig.settle(60);
    assert_eq!(addresses(&rig), BTreeSet::new(), "it has ended");
}

#[test]
fn slices_are_filled_to_a_hundred_and_changed_as_little_as_can_be() {
    let mut rig = rig(3, Faults::NONE);
    rig.create(&resource::SERVICES, service("web", json!({})));
    rig.create(&resource::REPLICA_SETS, replica_set("web", 250));
    rig.settle(300);
    assert_eq!(addresses(&rig), pod_addresses(&rig));
    let sizes = |rig: &Rig| {
        let mut sizes: Vec<usize> =
            slices(rig).iter().map(|slice| slice["endpoints"].as_array().unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    };
    assert!(sizes(&rig).iter().all(|size| *size <= 100) && sizes(&rig).len() <= 4, "{:?}", sizes(&rig));
    let before: BTreeSet<String> =
        slices(&rig).iter().map(|slice| slice["metadata"]["resourceVersion"].to_string()).collect();
    let name = rig.live_pods()[7]["metadata"]["name"].as_str().unwrap().to_owned();
    rig.api.change(&resource::PODS, "default", &name, |pod| {
        pod["status"]["conditions"][0]["status"] = json!("False");
    });
    rig.settle(60);
    let kept = slices(&rig)
        .iter()
        .filter(|slice| before.contains(&slice["metadata"]["resourceVersion"].to_string()))
        .count();
    assert_eq!(kept, slices(&rig).len() - 1, "one pod is in one slice");
    rig.api.change(&resource::REPLICA_SETS, "default", "web", |set| set["spec"]["replicas"] = json!(0));
    rig.settle(300);
    assert_eq!((slices(&rig).len(), addresses(&rig).len()), (1, 0));
}

#[test]
fn whatever_goes_wrong_every_pod_is_an_endpoint_once() {
    for seed in 10..18 {
        let mut rig = rig(seed, Faults::MANY);
        rig.create(&resource::SERVICES, service("web", json!({})));
        rig.create(&resource::REPLICA_SETS, replica_set("web", 30));
        rig.pass(5);
        rig.restart(ALL);
        rig.settle(900);
        for replicas in [45, 12] {
            rig.api.change(&resource::REPLICA_SETS, "default", "web", |set| {
                set["spec"]["replicas"] = json!(replicas)
            });
            rig.settle(900);
            assert_eq!(addresses(&rig), pod_addresses(&rig), "seed {seed}");
            let whole = &rig.object(&resource::ENDPOINTS, "web")["subsets"][0]["addresses"];
            assert_eq!(whole.as_array().unwrap().len(), replicas, "seed {seed}");
        }
        rig.delete(&resource::SERVICES, "web", Propagation::Background);
        rig.settle(900);
        assert_eq!((slices(&rig).len(), rig.api.all(&resource::ENDPOINTS).count()), (0, 0), "seed {seed}");
    }
}

#[test]
fn ports_are_found_by_name_and_pods_without_them_have_none() {
    let mut rig = rig(4, Faults::NONE);
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]);
    rig.create(&resource::SERVICES, service("web", json!({"ports": ports})));
    for (name, port) in [
        ("a", json!([{"name": "web", "containerPort": 81}])),
        ("b", json!([{"name": "web", "containerPort": 82, "protocol": "TCP"}])),
        ("c", json!([{"name": "web", "containerPort": 83, "protocol": "UDP"}])),
    ] {
        rig.create(
            &resource::PODS,
            json!({"metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-0", "containers": [{"name": "c", "ports": port}]},
            "status": {"phase": "Running", "podIPs": [{"ip": format!("10.2.2.{}", name.as_bytes()[0])}]}}),
        );
    }
    rig.settle(60);
    let mut found: Vec<(Value, Value)> = slices(&rig)
        .iter()
        .map(|slice| (slice["ports"][0]["port"].clone(), slice["endpoints"][0]["targetRef"]["name"].clone()))
        .collect();
    found.sort_by_key(|(_, name)| name.to_string());
    assert_eq!(found, [(json!(81), json!("a")), (json!(82), json!("b")), (Value::Null, json!("c"))]);
}

#[test]
fn endpoints_that_somebody_wrote_are_mirrored_and_go_with_their_service() {
    let mut rig = rig(5, Faults::NONE);
    let mut bare = service("ext", json!({}));
    bare["spec"].as_object_mut().unwrap().remove("selector");
    rig.create(&resource::SERVICES, bare);
    let mut written = json!({"metadata": {"name": "ext", "namespace": "default", "labels": {"x": "y"}},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}, {"ip": "2001:db8::1"}], "notReadyAddresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 5432, "protocol": "TCP"}]}]});
    rig.create(&resource::ENDPOINTS, written.clone());
    written["metadata"]["name"] = json!("nobody");
    rig.create(&resource::ENDPOINTS, written.clone());
    rig.settle(60);
    let made = slices(&rig);
    assert_eq!(made.len(), 2, "one for each family, none without a Service");
    let four = made.iter().find(|slice| slice["addressType"] == "IPv4").unwrap();
    assert_eq!(
        four["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"],
        "endpointslicemirroring-controller.k8s.io"
    );
    assert_eq!(four["endpoints"][0]["conditions"], json!({"ready": true}));
    assert_eq!(four["endpoints"].as_array().unwrap().len(), 2);
    rig.api.change(&resource::ENDPOINTS, "default", "ext", |endpoints| {
        endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"] = json!("true");
    });
    rig.settle(60);
    assert_eq!(slices(&rig).len(), 0);
    rig.delete(&resource::SERVICES, "ext", Propagation::Background);
    rig.settle(60);
    let left: Vec<&Value> =
        rig.api.all(&resource::ENDPOINTS).map(|endpoints| &endpoints["metadata"]["name"]).collect();
    assert_eq!(left, ["nobody"], "those of a Service go with it");
}
