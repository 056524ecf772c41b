//! Services and their endpoints, and replication controllers, over simulated nodes.

use std::collections::BTreeSet;

use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};

use crate::stage::Stage;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";

fn template(app: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i", "ports": [{"name": "web", "containerPort": 8080}]}]},
    })
}

/// The addresses in the slices of a Service that are ready.
fn ready(stage: &Stage, service: &str) -> Vec<String> {
    let slices = stage.list(&format!("{SLICES}?labelSelector=kubernetes.io/service-name={service}"));
    let endpoints =
        slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn endpoints_follow_the_pods_of_a_replication_controller() {
    let stage = Stage::with(2, 1);
    let controller =
        json!({"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": template("web")}});
    stage.create(CONTROLLERS, &controller);
    let service = json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "web"}]}});
    stage.create(SERVICES, &service);
    let count = |wanted: usize| {
        stage.until(&format!("{wanted} endpoints are ready"), || {
            let found = ready(&stage, "web");
            (found.len() == wanted).then(|| found.clone()).ok_or_else(|| format!("{found:?}"))
        })
    };
    let addresses: BTreeSet<String> = count(3).into_iter().collect();
    assert_eq!(addresses.len(), 3, "every pod has an address of its own");
    stage.until("the older form says the same", || {
        let endpoints = stage.get("/api/v1/namespaces/default/endpoints/web");
        let found = endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len);
        let port = endpoints["subsets"][0]["ports"][0]["port"].clone();
        (found == 3 && port == 8080).then_some(()).ok_or_else(|| endpoints.to_string())
    });
    stage.merge(&format!("{CONTROLLERS}/web/scale"), &json!({"spec": {"replicas": 1}}));
    count(1);
    stage.until("the status says so", || {
        let status = stage.get(&format!("{CONTROLLERS}/web"))["status"].clone();
        (status["replicas"] == 1 && status["readyReplicas"] == 1)
            .then_some(())
            .ok_or_else(|| status.to_string())
    });
    // Without a word about it, pods stay when their controller goes.
    stage.delete(&format!("{CONTROLLERS}/web"));
    stage.until("the controller has gone", || {
        let left = stage.list(CONTROLLERS);
        left.is_empty().then_some(()).ok_or_else(|| format!("{left:?}"))
    });
    assert_eq!(count(1).len(), 1);
    stage.delete(&format!("{SERVICES}/web"));
    stage.until("nothing of the Service is left", || {
        let left = stage.list(&format!("{SLICES}?labelSelector=kubernetes.io/service-name=web")).len()
            + stage
                .list("/api/v1/namespaces/default/endpoints")
                .iter()
                .filter(|one| one["metadata"]["name"] == "web")
                .count();
        (left == 0).then_some(()).ok_or_else(|| format!("{left} objects"))
    });
}

#[test]
fn the_way_to_the_server_is_known_and_survives_a_restart() {
    let options = Cluster::options().durable().plane(Plane::simulated(1, 1));
    let mut stage = Stage::of(options, 1);
    let address = stage.cluster.address();
    let own = |stage: &Stage| {
        stage.until("the Service kubernetes leads here", || {
            let slices = stage.list(&format!("{SLICES}?labelSelector=kubernetes.io/service-name=kubernetes"));
            let slice = slices.first().cloned().unwrap_or_default();
            let found = (slice["endpoints"][0]["addresses"][0].as_str(), slice["ports"][0]["port"].as_u64());
            let wanted = (Some("127.0.0.1"), Some(u64::from(address.port())));
            (found == wanted).then_some(()).ok_or_else(|| slice.to_string())
        });
        stage.get(&format!("{SERVICES}/kubernetes"))
    };
    let before = own(&stage);
    assert_eq!(before["spec"]["clusterIP"], "10.96.0.1");
    let given = stage.create(SERVICES, &json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 1}]}}));
    stage.cluster.restart().unwrap();
    assert_eq!(own(&stage)["metadata"]["uid"], before["metadata"]["uid"]);
    let taken = json!({"metadata": {"name": "b"}, "spec": {"clusterIP": given["spec"]["clusterIP"], "ports": [{"port": 1}]}});
    let refused = stage.try_request("POST", SERVICES, "application/json", &taken).unwrap_err();
    assert!(refused.contains("provided IP is already allocated"), "{refused}");
}

#[test]
fn volume_claims_of_a_stateful_set_are_bound_to_volumes_that_go_with_them() {
    const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
    let stage = Stage::with(1, 1);
    let claim = |name: &str| {
        let requests = json!({"requests": {"storage": "1Gi"}});
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests}})
    };
    let mut waiting = claim("waiting");
    waiting["spec"]["storageClassName"] = "".into();
    stage.create(CLAIMS, &waiting);
    let set = json!({"metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": 2, "selector": {"matchLabels": {"app": "db"}},
        "template": template("db"), "volumeClaimTemplates": [claim("data")],
    }});
    stage.create("/apis/apps/v1/namespaces/default/statefulsets", &set);
    stage.until("both claims are bound", || {
        let bound = |name: &str| {
            let claim =
                stage.try_request("GET", &format!("{CLAIMS}/{name}"), "application/json", &Value::Null)?;
            let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
            let found = stage.try_request(
                "GET",
                &format!("/api/v1/persistentvolumes/{volume}"),
                "application/json",
                &Value::Null,
            )?;
            let both = (
                &claim["status"]["phase"],
                &found["status"]["phase"],
                &claim["status"]["capacity"]["storage"],
            );
            let wanted = (&json!("Bound"), &json!("Bound"), &json!("1Gi"));
            (both == wanted).then_some(()).ok_or_else(|| format!("{both:?}"))
        };
        bound("data-db-0").and_then(|()| bound("data-db-1"))
    });
    assert_eq!(
        stage.get(&format!("{CLAIMS}/waiting"))["status"]["phase"],
        "Pending",
        "it waits for a volume that somebody makes"
    );
    stage.delete("/apis/apps/v1/namespaces/default/statefulsets/db");
    for name in ["data-db-0", "data-db-1"] {
        stage.delete(&format!("{CLAIMS}/{name}"));
    }
    stage.until("their volumes are gone", || {
        let left = stage.list("/api/v1/persistentvolumes").len();
        (left == 0).then_some(()).ok_or_else(|| format!("{left} volumes"))
    });
}
