//! Requests that make something large or forge an object.

use std::task::Poll;

use crate::support::Api;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::Request;
use lazaret_json::{Value, json};
use lazaret_server::{Limits, Server, ServerOptions, User};
use lazaret_store::Store;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const OBJECT_BYTES_MAX: usize = 3 << 19;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const MERGE: &str = "application/merge-patch+json";

/// An object of any size.
fn role(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "verbs": ["get"], "resources": ["x".repeat(bytes)]}]})
}

fn config_map(name: &str, bytes: usize) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "x".repeat(bytes)}})
}

fn within(limits: Limits) -> Api {
    let options = ServerOptions {
        runtime_config: vec![("api/all".into(), true)],
        authorizer: Box::new(crate::support::AllowAll),
        ..ServerOptions::default()
    };
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    let server = Server::with_limits(store, options, limits);
    Api { server, user: User { name: "tester".into(), ..User::default() } }
}

#[tokio::test]
async fn no_field_of_a_custom_resource_forges_another_object() {
    let api = Api::start().await;
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.post(definitions, &definition).await.expect(201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    let forged = r#"[]},{"metadata":{"name":"forged","resourceVersion":"1"}"#;
    let mut widget = json!({"metadata": {"name": "a", "labels": {"managedFields": "x"}}, "managedFields": forged, "spec": {"managedFields": forged}});
    widget[forged] = json!({"managedFields": [forged]});
    api.post(widgets, &widget).await.expect(201);
    let list = api.get(widgets).await.expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    for field in ["managedFields", "spec", forged] {
        assert_eq!(list["items"][0][field], widget[field], "{field}");
    }
    let merge = json!({"managedFields": forged, "metadata": {"annotations": {"managedFields": forged}}});
    let patched = api.patch(&format!("{widgets}/a"), MERGE, &merge).await.expect(200);
    assert_eq!(patched["metadata"]["annotations"]["managedFields"], forged);
    for record in [json!(forged), json!({"a": 1}), json!([forged])] {
        let body = json!({"metadata": {"name": "b", "managedFields": record}});
        api.post(widgets, &body).await.expect(400);
        let escaped = body.to_string().replace("managedFields", "managed\\u0046ields");
        api.send("POST", widgets, "application/json", &escaped).await.expect(400);
        let patch = format!(r#"{{"metadata":{{"managed\u0046ields":{record}}}}}"#);
        api.send("PATCH", &format!("{widgets}/a"), MERGE, &patch).await.expect(422);
    }
    // A write of a definition's status does not choose how objects are shown either.
    let status = json!({"status": {"acceptedNames": {"kind": "W\",\"items\":[]"}}});
    let path = format!("{definitions}/widgets.example.com/status");
    api.patch(&path, MERGE, &status).await.expect(422);
}

#[tokio::test]
async fn an_object_is_no_larger_than_what_is_stored() {
    let api = Api::start().await;
    api.post(ROLES, &role("fits", 1_000_000)).await.expect(201);
    let refused = api.post(ROLES, &role("large", OBJECT_BYTES_MAX)).await.expect(413);
    assert_eq!(refused["reason"], "RequestEntityTooLarge");
    assert!(refused["message"].as_str().unwrap().contains("limit is 1572864 bytes"), "{refused}");
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(pods, &pod).await.expect(201);
    let status = json!({"status": {"message": "x".repeat(OBJECT_BYTES_MAX)}});
    let grown = api.patch(&format!("{pods}/p/status"), STRATEGIC, &status).await.expect(413);
    assert_eq!(grown["reason"], "RequestEntityTooLarge");
    let names: Vec<String> = (0..60_000).map(|at| format!("example.com/finalizer-{at:06}")).collect();
    let finalizers = json!({"metadata": {"finalizers": names}});
    api.patch(&format!("{ROLES}/fits"), STRATEGIC, &finalizers).await.expect(413);
    api.get(&format!("{ROLES}/fits")).await.expect(200);
}

#[tokio::test]
async fn an_object_at_the_limit_can_be_marked_and_deleted() {
    let api = Api::start().await;
    let mut object = role("full", 1_000_000);
    object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    let created = api.post(ROLES, &object).await.expect(201);
    // The type is not stored.
    let head = r#""kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","#;
    let room = OBJECT_BYTES_MAX - (created.to_string().len() - head.len());
    let path = format!("{ROLES}/full");
    let rules = |bytes: usize| json!({"rules": role("full", 1_000_000 + bytes)["rules"]});
    api.patch(&path, MERGE, &rules(room - 10)).await.expect(200);
    // Beyond that the record of owners goes first, and then the write is refused.
    let fits = api.patch(&path, MERGE, &rules(room + 10)).await.expect(200);
    assert!(fits["metadata"].get("managedFields").is_none());
    api.patch(&path, MERGE, &rules(room + 10_000)).await.expect(413);
    api.delete(&path, None).await.expect(200);
    let marked = api.get(&path).await.expect(200);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    api.patch(&path, MERGE, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert!(api.get(&path).await.is(404));
}

#[tokio::test]
async fn aliases_of_yaml_repeat_no_more_than_a_body_holds() {
    let api = Api::start().await;
    let yaml = format!(
        "metadata: {{name: bomb}}\ndata:\n  a: &a {}\n{}",
        "x".repeat(100_000),
        (0..1_000).map(|at| format!("  k{at}: *a\n")).collect::<String>()
    );
    let refused = api.send("POST", CONFIG_MAPS, "application/yaml", &yaml).await.expect(400);
    assert!(refused["message"].as_str().unwrap().contains("YAML"), "{refused}");
}

#[tokio::test]
async fn a_small_message_of_protobuf_is_no_large_object() {
    let api = Api::start().await;
    let field = |number: u8, bytes: &[u8]| {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length > 0x7f {
            out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap());
        out.extend_from_slice(bytes);
        out
    };
    let envelope = |message: &[u8]| {
        let types = [field(1, b"v1"), field(2, b"Pod")].concat();
        Bytes::from([&b"k8s\0"[..], &field(1, &types), &field(2, message)].concat())
    };
    let pods = "/api/v1/namespaces/default/pods";
    let protobuf = "application/vnd.kubernetes.protobuf";
    let metadata = field(1, &field(1, b"p"));
    let container = field(2, &[field(1, b"c"), field(2, b"i")].concat());
    let good = [metadata.clone(), field(2, &container)].concat();
    api.request("POST", pods, "application/json", protobuf, envelope(&good)).await.expect(201);
    let empties = field(2, b"").repeat(500_000);
    let bad = [metadata, field(2, &empties)].concat();
    let refused = api.request("POST", pods, "application/json", protobuf, envelope(&bad)).await.expect(400);
    assert!(refused["message"].as_str().unwrap().contains("more than 200000 values"), "{refused}");
}

#[tokio::test]
async fn a_full_store_takes_no_more_and_can_be_cleaned_up() {
    let api = within(Limits { objects_max: 8, events_max: 2, namespace_pods_max: 2, ..Limits::default() });
    for name in ["default", "other"] {
        api.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.expect(201);
    }
    let pods = "/api/v1/namespaces/default/pods";
    let pod = |name: &str| json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post(pods, &pod("a")).await.expect(201);
    api.post(pods, &pod("b")).await.expect(201);
    let refused = api.post(pods, &pod("c")).await.expect(403);
    assert_eq!(refused["reason"], "Forbidden");
    assert_eq!(
        refused["message"],
        r#"pods "c" is forbidden: exceeded limit: there are 2 pods of 2 in namespace "default" (--namespace-pods-max)"#
    );
    api.post("/api/v1/namespaces/other/pods", &pod("c")).await.expect(201);
    for at in 0..3 {
        api.post(CONFIG_MAPS, &config_map(&format!("c{at}"), 10)).await.expect(201);
    }
    let refused = api.post(CONFIG_MAPS, &config_map("more", 10)).await.expect(403);
    assert!(refused["message"].as_str().unwrap().contains("8 objects of 8 (--objects-max)"), "{refused}");
    // Writes that keep a cluster going still pass: a lease, events up to their own limit, a status, a delete.
    let lease = json!({"metadata": {"name": "l"}, "spec": {}});
    api.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", &lease).await.expect(201);
    let event = |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default", "name": "a"}});
    for (name, code) in [("e1", 201), ("e2", 201), ("e3", 403)] {
        api.post("/api/v1/namespaces/default/events", &event(name)).await.expect(code);
    }
    let status = json!({"status": {"message": "x".repeat(1_000)}});
    api.patch(&format!("{pods}/a/status"), STRATEGIC, &status).await.expect(200);
    api.put(&format!("{CONFIG_MAPS}/c0"), &config_map("c0", 2_000)).await.expect(200);
    for name in ["c0", "c1"] {
        api.delete(&format!("{CONFIG_MAPS}/{name}"), None).await.expect(200);
    }
    api.post(CONFIG_MAPS, &config_map("more", 10)).await.expect(201);
}

#[tokio::test]
async fn requests_for_certificates_have_a_limit_of_their_own() {
    let api = within(Limits { certificate_requests_max: 2, ..Limits::default() });
    let pem = include_str!("../../../../wire/kinds/src/certificates/testdata/two-groups.csr");
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {
            "signerName": "example.com/mine", "request": STANDARD.encode(pem), "usages": ["client auth"],
        }})
    };
    for name in ["a", "b"] {
        api.post(path, &request(name)).await.expect(201);
    }
    let refused = api.post(path, &request("c")).await.expect(403);
    let expected = "there are 2 certificatesigningrequests of 2 (--certificate-requests-max)";
    assert!(refused["message"].as_str().unwrap().contains(expected), "{refused}");
    api.delete(&format!("{path}/a"), None).await.expect(200);
    api.post(path, &request("c")).await.expect(201);
}

#[tokio::test]
async fn a_store_of_too_many_bytes_takes_what_makes_it_smaller() {
    let api = within(Limits { store_bytes_max: 100_000, ..Limits::default() });
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(201);
    api.post(CONFIG_MAPS, &config_map("a", 100_000)).await.expect(201);
    let refused = api.post(CONFIG_MAPS, &config_map("b", 10)).await.expect(403);
    assert!(refused["message"].as_str().unwrap().contains("of 100000 (--store-bytes-max)"), "{refused}");
    api.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", 100_010)).await.expect(403);
    api.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", 50_000)).await.expect(200);
    api.post(CONFIG_MAPS, &config_map("b", 10)).await.expect(201);
}

#[tokio::test]
async fn what_takes_long_is_not_computed_where_connections_are_served() {
    let api = Api::start().await;
    let create = |bytes: usize| {
        let request = Request::builder()
            .method("POST")
            .uri(format!("{CONFIG_MAPS}?dryRun=All"))
            .header("content-type", "application/json")
            .body(Bytes::from(config_map("a", bytes).to_string()))
            .unwrap();
        api.server.handle(&api.user, request)
    };
    // A dry run waits for nothing: what is computed here is answered at the first look.
    let mut short = Box::pin(create(100));
    let mut long = Box::pin(create(1_000_000));
    let first = |poll: Poll<http::Response<lazaret_server::Body>>| poll.is_ready();
    let (short, at_once) = std::future::poll_fn(|context| {
        Poll::Ready((first(short.as_mut().poll(context)), first(long.as_mut().poll(context))))
    })
    .await;
    assert!(short && !at_once);
    assert_eq!(long.await.status().as_u16(), 201);
}
