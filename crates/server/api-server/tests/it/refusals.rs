//! Invalid requests and their refusals: the code, the reason, the cause, and the field. Rows were compared with Kubernetes 1.37.

use crate::support::Api;
use lazaret_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The kind that is at fault, and the field and reason of every cause.
fn told(status: &Value) -> String {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let causes: Vec<String> = causes
        .iter()
        .map(|cause| {
            let reason = cause["reason"].as_str().unwrap_or_default();
            format!(
                "{} {}",
                cause["field"].as_str().unwrap_or_default(),
                reason.trim_start_matches("FieldValue")
            )
        })
        .collect();
    format!("{}: {}", status["details"]["kind"].as_str().unwrap_or_default(), causes.join(", "))
}

#[tokio::test]
async fn options_are_refused_by_name_and_all_at_once() {
    let api = Api::start().await;
    let map = r#"{"metadata":{"name":"a"}}"#;
    let long = "x".repeat(129);
    api.send("POST", MAPS, JSON, map).await.expect(201);
    for (method, rest, media, body, expected) in [
        ("POST", "?dryRun=Some", JSON, map, "CreateOptions: dryRun NotSupported"),
        ("POST", "?fieldValidation=No", JSON, map, "CreateOptions: fieldValidation NotSupported"),
        ("POST", &format!("?fieldManager={long}"), JSON, map, "CreateOptions: fieldManager TooLong"),
        ("POST", "?fieldManager=%01", JSON, map, "CreateOptions: fieldManager Invalid"),
        ("PUT", "/a?dryRun=Some", JSON, map, "UpdateOptions: dryRun NotSupported"),
        ("PATCH", "/a?force=true", MERGE, "{}", "PatchOptions: force Forbidden"),
        ("PATCH", "/a", APPLY, map, "PatchOptions: fieldManager Required"),
        ("DELETE", "/a?propagationPolicy=No", JSON, "", "DeleteOptions: propagationPolicy NotSupported"),
        (
            "DELETE",
            "/a",
            JSON,
            r#"{"orphanDependents":true,"propagationPolicy":"Orphan"}"#,
            "DeleteOptions: propagationPolicy Invalid",
        ),
        ("GET", "?resourceVersionMatch=Exact", JSON, "", "ListOptions: resourceVersionMatch Forbidden"),
        (
            "GET",
            "?resourceVersion=x&resourceVersionMatch=No",
            JSON,
            "",
            "ListOptions: resourceVersionMatch NotSupported",
        ),
        (
            "GET",
            "?resourceVersion=0&resourceVersionMatch=Exact",
            JSON,
            "",
            "ListOptions: resourceVersionMatch Forbidden",
        ),
        (
            "GET",
            "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            JSON,
            "",
            "ListOptions: resourceVersionMatch Forbidden, sendInitialEvents Forbidden",
        ),
        (
            "GET",
            "?watch=1&sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=1",
            JSON,
            "",
            "ListOptions: resourceVersionMatch Forbidden, resourceVersionMatch NotSupported",
        ),
        ("GET", "?watch=1&continue=x", JSON, "", "ListOptions: continue Forbidden"),
    ] {
        println!("{method} {rest}");
        let status = api.send(method, &format!("{MAPS}{rest}"), media, body).await.expect(422);
        assert_eq!(told(&status), expected);
        assert_eq!(status["details"]["group"], "meta.k8s.io");
    }
    api.get(&format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn requests_that_make_no_sense_get_the_code_that_kubernetes_gives() {
    let api = Api::start().await;
    api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post("/api/v1/namespaces/default/pods", &pod).await.expect(201);
    for (method, path, media, body, code) in [
        // Cluster-scoped objects are in no namespace, and the other way round.
        ("GET", "/api/v1/namespaces/default/nodes", JSON, "", 404),
        ("GET", "/api/v1/namespaces/default/namespaces", JSON, "", 404),
        ("GET", "/api/v1/namespaces/../namespaces", JSON, "", 404),
        ("GET", "/api/v1/configmaps/a", JSON, "", 404),
        ("GET", "/api//v1/namespaces", JSON, "", 404),
        ("GET", "/apis//apps/v1", JSON, "", 404),
        // Parts that a kind does not have.
        ("GET", "/api/v1/namespaces/default/configmaps/a/status", JSON, "", 404),
        ("PUT", "/api/v1/namespaces/default/configmaps/a/status", JSON, "{}", 404),
        ("GET", "/api/v1/namespaces/default/pods/a/scale", JSON, "", 404),
        ("POST", "/api/v1/namespaces/default/pods/a/status", JSON, "{}", 405),
        ("GET", "/api/v1/namespaces/default/pods/a/exec?command=ls", JSON, "", 400),
        // Many at once, only where they are together.
        ("DELETE", "/api/v1/namespaces", JSON, "", 405),
        ("DELETE", "/api/v1/configmaps", JSON, "", 405),
        ("HEAD", MAPS, JSON, "", 405),
        ("POST", MAPS, ";;;", "{}", 415),
        ("PUT", "/api/v1/namespaces/default/configmaps/a", JSON, r#"{"data":{}}"#, 400),
        ("DELETE", "/api/v1/namespaces/default/configmaps/a?gracePeriodSeconds=x", JSON, "", 400),
        (
            "DELETE",
            "/api/v1/namespaces/default/configmaps/a",
            JSON,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            400,
        ),
        ("GET", "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3Da%5C", JSON, "", 400),
    ] {
        println!("{method} {path}");
        let status = api.send(method, path, media, body).await.expect(code);
        // Clients look into the details of these without asking whether there are any.
        assert!(matches!(code, 400) || status["details"].is_object(), "{status}");
    }
    api.get(&format!("{MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn names_of_finalizers_and_owners_are_checked() {
    let api = Api::start().await;
    let map = |name: &str, rest: Value| {
        let mut metadata = rest;
        metadata["name"] = name.into();
        json!({"metadata": metadata})
    };
    let bare = api.post(MAPS, &map("a", json!({"finalizers": ["x.y/z", "bare"]}))).await.expect(422);
    assert_eq!(told(&bare), "ConfigMap: metadata.finalizers[1] Invalid");
    api.post(MAPS, &map("b", json!({"finalizers": ["orphan", "x.y/z"]}))).await.expect(201);
    let owner = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": ""}]});
    let nobody = api.post(MAPS, &map("c", owner)).await.expect(422);
    assert_eq!(
        told(&nobody),
        "ConfigMap: metadata.ownerReferences.name Invalid, metadata.ownerReferences.uid Invalid"
    );
}

#[tokio::test]
async fn a_delete_answers_with_what_is_left() {
    let api = Api::start().await;
    api.post(MAPS, &json!({"metadata": {"name": "gone"}})).await.expect(201);
    let gone = api.delete(&format!("{MAPS}/gone"), None).await.expect(200);
    assert_eq!(gone["kind"], "Status");
    assert_eq!(gone["details"]["kind"], "configmaps");
    assert!(gone["details"].get("group").is_none());

    api.post(MAPS, &json!({"metadata": {"name": "held", "finalizers": ["x.y/z"]}})).await.expect(201);
    let held = api.delete(&format!("{MAPS}/held"), None).await.expect(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    let again = api.delete(&format!("{MAPS}/held"), None).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], held["metadata"]["resourceVersion"]);

    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = api.post(pods, &pod).await.expect(201);
    let told = api.delete(&format!("{pods}/p"), None).await.expect(200);
    assert_eq!(told["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(told["metadata"]["generation"], 2);
    assert_ne!(told["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    api.get(&format!("{pods}/p")).await.expect(404);
}

#[tokio::test]
async fn a_revision_that_never_comes_is_waited_for_and_then_refused() {
    let api = Api::start().await;
    // Not before: a write waits for a thread that knows nothing of this time.
    tokio::time::pause();
    for rest in [
        "resourceVersion=99999&limit=1",
        "resourceVersion=99999&resourceVersionMatch=Exact",
        "resourceVersion=99999",
    ] {
        let status = api.get(&format!("{MAPS}?{rest}")).await.expect(504);
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{rest}");
    }
    // Of a watch, in the stream.
    let watch = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999";
    let event = api.get(&format!("{MAPS}?{watch}")).await.expect(200);
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 504);
}

#[tokio::test]
async fn discovery_is_sent_once() {
    let api = Api::start().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let ask = async |known: Option<&str>| {
        let mut request = http::Request::get("/apis").header("accept", accept);
        if let Some(known) = known {
            request = request.header("if-none-match", known);
        }
        api.server.handle(&api.user, request.body(bytes::Bytes::new()).unwrap()).await
    };
    let first = ask(None).await;
    let tag = first.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!((first.status().as_u16(), first.headers()["vary"].to_str().unwrap()), (200, "Accept"));
    assert_eq!(ask(Some("\"another\"")).await.status(), 200);
    assert_eq!(ask(Some(&tag)).await.status(), 304);
    let paths = api.get("/").await.expect(200);
    assert!(paths["paths"].as_array().unwrap().contains(&json!("/apis/resource.k8s.io/v1")));
}

#[tokio::test]
async fn a_scale_is_a_table_of_its_own() {
    let api = Api::start().await;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    api.post(deployments, &json!({"metadata": {"name": "d"}, "spec": spec})).await.expect(201);
    let table =
        api.get_as(&format!("{deployments}/d/scale"), "application/json;as=Table;v=v1;g=meta.k8s.io").await;
    let table = table.expect(200);
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|column| column["name"].as_str())
        .collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(table["rows"][0]["cells"].as_array().unwrap()[..3], [json!("d"), json!(3), json!(0)]);
}
