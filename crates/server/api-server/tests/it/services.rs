//! Services through the whole server: addresses and ports are allocated once, kept, and released.
#![allow(clippy::disallowed_methods, reason = "requests at the same time need tasks of their own")]

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, ServiceRanges, User};
use lazaret_store::Store;

const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn over(store: Store) -> Server {
    let options = ServerOptions::default();
    let server = Server::new(store, options);
    server.use_service_ranges(ServiceRanges::new("10.0.0.0/26", "30000-30019").unwrap());
    server.bootstrap().await.unwrap();
    server
}

async fn server() -> Server {
    over(Store::ephemeral(lazaret_store::Options::default()).unwrap()).await
}

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value, Vec<String>) {
    let admin = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
    let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = server.handle(&admin, request.body(body).unwrap()).await;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all(header::WARNING).iter();
    let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null), warnings)
}

fn service(name: &str, spec: Value) -> Value {
    let mut object = json!({"metadata": {"name": name}, "spec": spec});
    object["spec"]["ports"] = json!([{"port": 80}]);
    object
}

async fn made(server: &Server, object: &Value) -> Value {
    let (code, answer, _) = send(server, "POST", SERVICES, object).await;
    assert_eq!(code, 201, "{answer}");
    answer
}

fn address(service: &Value) -> String {
    service["spec"]["clusterIP"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_address_or_port_is_given_twice_however_many_ask_at_once() {
    let server = server().await;
    let writes = (0..20).map(|number| {
        let server = server.clone();
        let object = service(&format!("s{number}"), json!({"type": "NodePort"}));
        tokio::spawn(async move { send(&server, "POST", SERVICES, &object).await })
    });
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for write in writes.collect::<Vec<_>>() {
        let (code, answer, _) = write.await.unwrap();
        assert_eq!(code, 201, "{answer}");
        addresses.insert(address(&answer));
        ports.insert(answer["spec"]["ports"][0]["nodePort"].as_i64().unwrap());
    }
    assert_eq!((addresses.len(), ports), (20, (30_000..30_020).collect()));
    let (code, answer, _) =
        send(&server, "POST", SERVICES, &service("more", json!({"type": "NodePort"}))).await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (500, "Internal error occurred: failed to allocate a nodePort: range is full")
    );
    let (code, _, _) = send(&server, "POST", SERVICES, &service("more", json!({}))).await;
    assert_eq!(code, 201, "what was refused holds nothing");
}

#[tokio::test]
async fn what_is_refused_tried_or_deleted_gives_back_what_it_had() {
    let server = server().await;
    let wanted = service("a", json!({"clusterIP": "10.0.0.9"}));
    let (code, _, _) = send(&server, "POST", &format!("{SERVICES}?dryRun=All"), &wanted).await;
    assert_eq!(code, 201);
    let mut wrong = wanted.clone();
    wrong["spec"]["sessionAffinity"] = "x".into();
    assert_eq!(send(&server, "POST", SERVICES, &wrong).await.0, 422);
    made(&server, &wanted).await;
    let (code, answer, _) =
        send(&server, "POST", SERVICES, &service("b", json!({"clusterIP": "10.0.0.9"}))).await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (
            422,
            r#"Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.9"]: failed to allocate IP 10.0.0.9: provided IP is already allocated"#
        )
    );
    let named = json!({"spec": {"type": "ExternalName", "externalName": "x.example.com"}});
    let (code, answer, _) = send(&server, "PATCH", &format!("{SERVICES}/a"), &named).await;
    assert_eq!((code, answer["spec"].get("clusterIP")), (200, None), "{answer}");
    let taken = made(&server, &service("b", json!({"clusterIP": "10.0.0.9"}))).await;
    assert_eq!(address(&taken), "10.0.0.9", "a name gave it back");
    assert_eq!(send(&server, "DELETE", &format!("{SERVICES}/b"), &Value::Null).await.0, 200);
    made(&server, &service("c", json!({"clusterIP": "10.0.0.9"}))).await;
    let (code, answer, _) = send(
        &server,
        "PATCH",
        &format!("{SERVICES}/a"),
        &json!({"spec": {"type": "ClusterIP", "externalName": null}}),
    )
    .await;
    assert_eq!(code, 200, "{answer}");
    assert_ne!(address(&answer), "10.0.0.9");
}

#[tokio::test]
async fn a_new_server_over_the_same_store_knows_what_is_taken() {
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    let first = over(store.clone()).await;
    made(&first, &service("a", json!({"clusterIP": "10.0.0.9", "type": "NodePort"}))).await;
    drop(first);
    let second = over(store).await;
    let (code, _, _) = send(&second, "POST", SERVICES, &service("b", json!({"clusterIP": "10.0.0.9"}))).await;
    assert_eq!(code, 422);
    for number in 0..19 {
        made(&second, &service(&format!("n{number}"), json!({"type": "NodePort"}))).await;
    }
    let (code, _, _) = send(&second, "POST", SERVICES, &service("n19", json!({"type": "NodePort"}))).await;
    assert_eq!(code, 500, "one of twenty ports was taken before");
}

#[tokio::test]
async fn writes_that_change_the_type_or_repeat_the_manifest_keep_what_was_given() {
    let server = server().await;
    let first = made(&server, &service("a", json!({}))).await;
    let path = format!("{SERVICES}/a");
    let (code, opened, warnings) =
        send(&server, "PATCH", &path, &json!({"spec": {"type": "NodePort"}})).await;
    assert_eq!((code, warnings.len(), address(&opened)), (200, 0, address(&first)), "{opened}");
    let port = opened["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    let (code, again, _) = send(&server, "PUT", &path, &service("a", json!({"type": "NodePort"}))).await;
    assert_eq!((code, again["spec"]["ports"][0]["nodePort"].as_i64()), (200, Some(port)), "{again}");
    let (code, balanced, warnings) =
        send(&server, "PATCH", &path, &json!({"spec": {"type": "LoadBalancer"}})).await;
    assert_eq!((code, balanced["spec"]["ports"][0]["nodePort"].as_i64()), (200, Some(port)));
    assert!(warnings.iter().any(|text| text.contains("gets no external address")), "{warnings:?}");
    let (code, closed, _) = send(&server, "PATCH", &path, &json!({"spec": {"type": "ClusterIP"}})).await;
    assert_eq!((code, closed["spec"]["ports"][0].get("nodePort")), (200, None), "{closed}");
    assert_eq!(closed["spec"].get("allocateLoadBalancerNodePorts"), None);
    let mut held = service("b", json!({"type": "NodePort"}));
    held["spec"]["ports"] = json!([{"port": 80, "nodePort": port}]);
    made(&server, &held).await;
}

#[tokio::test]
async fn the_service_kubernetes_is_kept() {
    let server = server().await;
    let address = "127.0.0.1:7443".parse().unwrap();
    let keeping = tokio::spawn({
        let server = server.clone();
        async move { server.keep_own_service(address).await }
    });
    let objects = [
        format!("{SERVICES}/kubernetes"),
        "/api/v1/namespaces/default/endpoints/kubernetes".into(),
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes".into(),
    ];
    for round in 0..3 {
        for path in &objects {
            while send(&server, "GET", path, &Value::Null).await.0 != 200 {
                tokio::task::yield_now().await;
            }
        }
        let (_, own, _) = send(&server, "GET", &objects[0], &Value::Null).await;
        assert_eq!(
            (own["spec"]["clusterIP"].as_str(), &own["spec"]["ports"][0]["targetPort"]),
            (Some("10.0.0.1"), &json!(7443))
        );
        let (_, slice, _) = send(&server, "GET", &objects[2], &Value::Null).await;
        assert_eq!(
            (&slice["endpoints"][0]["addresses"], &slice["ports"][0]["port"]),
            (&json!(["127.0.0.1"]), &json!(7443))
        );
        // Each of them in turn is deleted, and made again.
        let uid = send(&server, "GET", &objects[round], &Value::Null).await.1["metadata"]["uid"].clone();
        assert_eq!(send(&server, "DELETE", &objects[round], &Value::Null).await.0, 200);
        loop {
            let (code, again, _) = send(&server, "GET", &objects[round], &Value::Null).await;
            if code == 200 && again["metadata"]["uid"] != uid {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let changed = json!({"spec": {"ports": [{"name": "https", "port": 8443}]}});
    assert_eq!(send(&server, "PATCH", &objects[0], &changed).await.0, 200);
    while send(&server, "GET", &objects[0], &Value::Null).await.1["spec"]["ports"][0]["port"] != json!(443) {
        tokio::task::yield_now().await;
    }
    keeping.abort();
    let mut loopback =
        json!({"metadata": {"name": "mine"}, "subsets": [{"addresses": [{"ip": "127.0.0.1"}]}]});
    let (code, answer, warnings) =
        send(&server, "POST", "/api/v1/namespaces/default/endpoints", &loopback).await;
    assert_eq!(
        (code, answer["message"].as_str().unwrap()),
        (
            422,
            r#"Endpoints "mine" is invalid: subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#
        )
    );
    loopback["subsets"][0]["addresses"][0]["ip"] = "10.1.1.1".into();
    assert_eq!(send(&server, "POST", "/api/v1/namespaces/default/endpoints", &loopback).await.0, 201);
    assert!(
        warnings.iter().all(|text| text
            .contains("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn the_service_kubernetes_keeps_its_address_when_the_range_becomes_another() {
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    let first = over(store.clone()).await;
    first.write_own_service("127.0.0.1:7443".parse().unwrap()).await.unwrap();
    let options = ServerOptions::default();
    let second = Server::new(store, options);
    second.use_service_ranges(ServiceRanges::new("10.9.0.0/16", "30000-30019").unwrap());
    second.write_own_service("127.0.0.1:7444".parse().unwrap()).await.unwrap();
    let path = format!("{SERVICES}/kubernetes");
    let (_, kept, _) = send(&second, "GET", &path, &Value::Null).await;
    assert_eq!(
        (address(&kept).as_str(), &kept["spec"]["ports"][0]["targetPort"]),
        ("10.0.0.1", &json!(7444))
    );
    assert_eq!(send(&second, "DELETE", &path, &Value::Null).await.0, 200);
    second.write_own_service("127.0.0.1:7444".parse().unwrap()).await.unwrap();
    let (_, moved, _) = send(&second, "GET", &path, &Value::Null).await;
    assert_eq!(address(&moved), "10.9.0.1", "who wants the new one deletes the old one");
}

#[tokio::test]
async fn a_replication_controller_is_scaled_and_validated() {
    let server = server().await;
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let controller = json!({"metadata": {"name": "rc"}, "spec": {"template": template}});
    let path = "/api/v1/namespaces/default/replicationcontrollers";
    let (code, answer, warnings) = send(&server, "POST", path, &controller).await;
    assert_eq!((code, warnings.len()), (201, 0), "{answer} {warnings:?}");
    assert_eq!(
        (&answer["spec"]["selector"], &answer["metadata"]["labels"]),
        (&json!({"a": "b"}), &json!({"a": "b"}))
    );
    let (code, scale, _) =
        send(&server, "PATCH", &format!("{path}/rc/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(
        (code, &scale["spec"]["replicas"], &scale["status"]["selector"]),
        (200, &json!(3), &json!("a=b")),
        "{scale}"
    );
    let mut other = controller.clone();
    other["metadata"]["name"] = "other".into();
    other["spec"]["selector"] = json!({"x": "y"});
    let (code, answer, _) = send(&server, "POST", path, &other).await;
    assert_eq!(code, 422);
    assert!(
        answer["message"].as_str().unwrap().contains("`selector` does not match template `labels`"),
        "{answer}"
    );
}
