//! The verbs, asked for as a client would, without a socket.

use crate::support::Api;
use lazaret_json::{Value, json};

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn an_object_lives_from_create_to_delete() {
    for api in Api::over_each_store().await {
        let created = api.post(MAPS, &config_map("a", json!({"k": "1"}))).await.expect(201);
        assert_eq!(created["kind"], "ConfigMap");
        assert!(created["metadata"]["uid"].as_str().is_some_and(|uid| uid.len() == 36));
        let revision = created["metadata"]["resourceVersion"].as_str().unwrap().to_owned();

        let again = api.post(MAPS, &config_map("a", json!({}))).await.expect(409);
        assert_eq!(again["reason"], "AlreadyExists");
        assert_eq!(again["message"], r#"configmaps "a" already exists"#);

        let read = api.get(&format!("{MAPS}/a")).await.expect(200);
        assert_eq!(read["data"]["k"], "1");

        let mut changed = read.clone();
        changed["data"]["k"] = "2".into();
        let written = api.put(&format!("{MAPS}/a"), &changed).await.expect(200);
        assert_ne!(written["metadata"]["resourceVersion"].as_str(), Some(revision.as_str()));
        let stale = api.put(&format!("{MAPS}/a"), &changed).await.expect(409);
        assert_eq!(stale["reason"], "Conflict");

        let unchanged = api.put(&format!("{MAPS}/a"), &written).await.expect(200);
        assert_eq!(
            unchanged["metadata"]["resourceVersion"], written["metadata"]["resourceVersion"],
            "a write that changes nothing is none"
        );

        let deleted = api.delete(&format!("{MAPS}/a"), None).await.expect(200);
        assert_eq!((deleted["kind"].as_str(), deleted["status"].as_str()), (Some("Status"), Some("Success")));
        let gone = api.get(&format!("{MAPS}/a")).await.expect(404);
        assert_eq!(gone["details"], json!({"name": "a", "kind": "configmaps"}));
    }
}

#[tokio::test]
async fn discovery_has_kubernetes_order_of_fields() {
    let api = Api::start().await;
    let text = api.raw("/api/v1").await;
    assert!(
        text.starts_with(r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":["#)
    );
    assert!(text.contains(r#"{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["create","delete","deletecollection","get","list","patch","update","watch"],"shortNames":["cm"],"storageVersionHash":""#), "{text}");
    assert!(text.contains(r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#), "{text}");
}

#[tokio::test]
async fn what_cannot_be_read_is_named_as_kubernetes_names_it() {
    let api = Api::start().await;
    let refused = api
        .send("POST", "/api/v1/namespaces", "application/json", "apiVersion: v1\nkind: Pod\nmetadata: {}\n")
        .await
        .expect(400);
    let message = refused["message"].as_str().unwrap();
    assert!(message.starts_with("the object provided is unrecognized (must be of type Namespace): couldn't get version/kind; json parse error: "), "{message}");
    assert!(
        message.ends_with("(61706956657273696f6e3a2076310a6b696e643a20506f640a6d65746164 ...)"),
        "{message}"
    );
    api.post(MAPS, &config_map("a", json!({}))).await.expect(201);
    for (patch, wanted) in [
        (json!({"metadata": {"labels": "x"}}), "cannot restore map from string"),
        (json!({"metadata": {"finalizers": 1}}), "cannot restore slice from int64"),
        (json!({"metadata": true}), "cannot restore struct from: bool"),
    ] {
        let refused = api
            .patch(&format!("{MAPS}/a"), "application/strategic-merge-patch+json", &patch)
            .await
            .expect(422);
        assert!(refused["message"].as_str().unwrap().contains(wanted), "{refused}");
    }
}

/// The record of owners of ten thousand keys is as large as they are.
#[tokio::test]
async fn an_object_that_fits_without_its_record_is_stored_without_it() {
    let api = Api::start().await;
    let long = "k".repeat(75);
    let mut large = json!({});
    (0..9_999).for_each(|at| large[format!("{long}-{at}").as_str()] = "A".into());
    let made = api.post(MAPS, &config_map("a", large.clone())).await.expect(201);
    assert!(made["metadata"].get("managedFields").is_none());
    api.post(MAPS, &config_map("b", json!({}))).await.expect(201);
    let written = api.put(&format!("{MAPS}/b"), &config_map("b", large)).await.expect(200);
    assert!(written["metadata"].get("managedFields").is_none());
    let apply = "application/apply-patch+yaml";
    api.patch(&format!("{MAPS}/b?fieldManager=m"), apply, &config_map("b", json!({}))).await.expect(413);
}

/// `kubectl apply`, `kubectl apply --server-side`, and back.
#[tokio::test]
async fn both_ways_of_kubectl_apply_go_together() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let api = Api::start().await;
    let mut made = config_map("a", json!({"k": "1", "old": "1"}));
    made["metadata"]["annotations"] = json!({LAST: made.to_string()});
    api.post(&format!("{MAPS}?fieldManager=kubectl-client-side-apply"), &made).await.expect(201);
    let path = format!("{MAPS}/a?fieldManager=kubectl");
    let apply = "application/apply-patch+yaml";
    let applied = api.patch(&path, apply, &config_map("a", json!({"k": "2"}))).await.expect(200);
    assert_eq!(applied["data"]["k"], "2", "no conflict: kubectl set it");
    let noted = applied["metadata"]["annotations"][LAST].as_str().unwrap();
    assert_eq!(
        noted,
        "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n",
        "the next plain apply knows what this one applied"
    );
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_stay() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let api = Api::start().await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = api.post(PODS, &pod).await.expect(201);
    let path = format!("{PODS}/p/ephemeralcontainers");
    let merge = "application/strategic-merge-patch+json";
    let debug = |more: Value| {
        let mut container = json!({"name": "debug", "image": "busybox", "targetContainerName": "c"});
        more.as_object().unwrap().iter().for_each(|(field, value)| container[field.as_str()] = value.clone());
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"activeDeadlineSeconds": 5, "ephemeralContainers": [container]}})
    };
    for (more, field) in [
        (json!({"ports": [{"containerPort": 1}]}), "spec.ephemeralContainers[0].ports"),
        (json!({"lifecycle": {}}), "spec.ephemeralContainers[0].lifecycle"),
        (json!({"name": "c"}), "spec.ephemeralContainers[0].name"),
        (json!({"targetContainerName": "x"}), "spec.ephemeralContainers[0].targetContainerName"),
    ] {
        let refused = api.patch(&path, merge, &debug(more)).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
    }
    let added = api.patch(&path, merge, &debug(json!({}))).await.expect(200);
    assert_eq!(added["spec"]["ephemeralContainers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        (added["metadata"].get("labels"), added["spec"].get("activeDeadlineSeconds")),
        (None, None),
        "nothing else changes there"
    );
    assert_eq!((&made["metadata"]["generation"], &added["metadata"]["generation"]), (&json!(1), &json!(2)));
    let refused = api.patch(&path, merge, &debug(json!({"image": "other"}))).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("may not be changed"), "{refused}");
    let mut without = added.clone();
    without["spec"].as_object_mut().unwrap().remove("ephemeralContainers");
    let refused = api.put(&path, &without).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("may not be removed"), "{refused}");
    assert_eq!(api.get(&path).await.expect(200)["spec"], added["spec"]);
}

#[tokio::test]
async fn a_pod_is_resized_within_what_its_node_has_and_can_do() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let api = Api::start().await;
    for (name, labels, declared) in [
        ("small", json!({"kubernetes.io/os": "linux"}), json!([])),
        ("able", json!({}), json!(["InPlacePodLevelResourcesVerticalScaling"])),
        ("windows", json!({"kubernetes.io/os": "windows"}), json!([])),
    ] {
        let status = json!({"allocatable": {"cpu": "2", "memory": "2Gi"}, "declaredFeatures": declared});
        let node = json!({"metadata": {"name": name, "labels": labels}, "status": status});
        api.post("/api/v1/nodes", &node).await.expect(201);
    }
    let pod = |name: &str, node: &str| {
        let requests = json!({"requests": {"cpu": "500m", "memory": "1Gi"}});
        json!({"metadata": {"name": name}, "spec": {"nodeName": node, "resources": requests, "containers": [{"name": "c", "image": "i", "resources": requests}]}})
    };
    let strategic = "application/strategic-merge-patch+json";
    let of_container = |cpu: &str, memory: &str| {
        let requests = json!({"cpu": cpu, "memory": memory});
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}})
    };
    let of_pod = |cpu: &str| json!({"spec": {"resources": {"requests": {"cpu": cpu}}}});
    let capacity = "node didn't have enough allocatable resources: ";
    for (number, (node, patch, expected)) in [
        ("small", of_container("1", "1Gi"), Ok(())),
        ("able", of_pod("2"), Ok(())),
        ("able", of_pod("3"), Err((format!("{capacity}cpu, requested: 3000, allocatable: 2000"), Some("NodeCapacity")))),
        (
            "small",
            of_pod("2"),
            Err(("pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \"small\"".to_owned(), None)),
        ),
        (
            "windows",
            of_container("1", "1Gi"),
            Err(("pod resize is only supported on linux nodes, node \"windows\" is \"windows\"".to_owned(), Some("UnsupportedPlatform"))),
        ),
        ("none", of_container("1", "1Gi"), Err(("node \"none\" not found".to_owned(), None))),
        ("windows", of_container("500m", "1Gi"), Ok(())),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("p{number}");
        let mut made = pod(&name, node);
        if patch["spec"].get("resources").is_none() {
            made["spec"].as_object_mut().unwrap().remove("resources");
        }
        api.post(PODS, &made).await.expect(201);
        let answer = api.patch(&format!("{PODS}/{name}/resize"), strategic, &patch).await;
        match expected {
            Ok(()) => drop(answer.expect(200)),
            Err((why, cause)) => {
                let refused = answer.expect(403);
                assert_eq!(refused["message"], format!("pods {name:?} is forbidden: {why}"));
                assert_eq!(refused["details"]["causes"][0]["reason"].as_str(), cause, "{refused}");
            }
        }
    }
}

#[tokio::test]
async fn a_pod_is_resized_in_cpu_and_memory_alone() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let api = Api::start().await;
    let resources =
        |cpu: &str| json!({"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "2Gi"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources("1")}]}});
    let made = api.post(PODS, &pod).await.expect(201);
    let (main, path) = (format!("{PODS}/p"), format!("{PODS}/p/resize"));
    let merge = "application/strategic-merge-patch+json";
    let patch =
        |container: Value| json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}});
    api.patch(&main, merge, &patch(json!({"name": "c", "resources": resources("2")}))).await.expect(422);
    let resized = patch(json!({"name": "c", "image": "other", "resources": resources("2")}));
    let resized = api.patch(&path, merge, &resized).await.expect(200);
    let container = &resized["spec"]["containers"][0];
    assert_eq!((&container["resources"], &container["image"]), (&resources("2"), &json!("i")));
    assert!(resized["metadata"].get("labels").is_none(), "nothing else changes there");
    assert_eq!((&made["metadata"]["generation"], &resized["metadata"]["generation"]), (&json!(1), &json!(2)));
    for (container, field) in [
        (json!({"name": "d", "image": "i"}), "spec.containers"),
        (
            json!({"name": "c", "resources": {"requests": {"cpu": null}}}),
            "spec.containers[0].resources.requests",
        ),
        (json!({"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}), "spec"),
        (json!({"name": "c", "resources": {"requests": {"ephemeral-storage": "1Gi"}}}), "spec"),
    ] {
        let refused = api.patch(&path, merge, &patch(container)).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
    }
    let mut status = resized.clone();
    status["status"]["containerStatuses"] = json!([{"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}]);
    api.put(&format!("{PODS}/p/status"), &status).await.expect(200);
    let refused =
        api.patch(&path, merge, &patch(json!({"name": "c", "resources": resources("3")}))).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("without support for resize"), "{refused}");
}

#[tokio::test]
async fn names_are_generated_and_checked() {
    let api = Api::start().await;
    let made = api.post(MAPS, &json!({"metadata": {"generateName": "x-"}})).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("x-") && name.len() == 7, "{name}");
    let nameless = api.post(MAPS, &json!({"metadata": {}})).await.expect(422);
    assert_eq!(nameless["details"]["causes"][0]["field"], "metadata.name");
    api.post(MAPS, &config_map("Not_A_Name", json!({}))).await.expect(422);
    let elsewhere =
        api.post(MAPS, &json!({"metadata": {"name": "a", "namespace": "other"}})).await.expect(400);
    assert!(elsewhere["message"].as_str().unwrap().contains("does not match the namespace"));
    let nowhere =
        api.post("/api/v1/namespaces/gone/configmaps", &config_map("a", json!({}))).await.expect(404);
    assert_eq!(nowhere["message"], r#"namespaces "gone" not found"#);
}

#[tokio::test]
async fn unknown_fields_are_dropped_warned_of_or_refused() {
    let api = Api::start().await;
    let body = json!({"metadata": {"name": "a"}, "dta": {}});
    let strict = api.post(&format!("{MAPS}?fieldValidation=Strict"), &body).await.expect(400);
    assert!(
        strict["message"].as_str().unwrap().ends_with(r#"strict decoding error: unknown field "dta""#),
        "{strict}"
    );
    let answer = api.post(MAPS, &body).await;
    assert_eq!(answer.warnings(), [r#"299 - "unknown field \"dta\"""#]);
    assert!(answer.expect(201).get("dta").is_none());
    let wrong = api.post(MAPS, &json!({"metadata": {"name": "b"}, "data": "x"})).await.expect(400);
    assert_eq!(wrong["reason"], "BadRequest");
}

#[tokio::test]
async fn lists_come_in_pages_of_one_state() {
    for api in Api::over_each_store().await {
        for number in 0..5 {
            let labels = json!({"parity": if number % 2 == 0 { "even" } else { "odd" }});
            api.post(MAPS, &json!({"metadata": {"name": format!("m{number}"), "labels": labels}}))
                .await
                .expect(201);
        }
        let first = api.get(&format!("{MAPS}?limit=2")).await.expect(200);
        assert_eq!(first["kind"], "ConfigMapList");
        assert_eq!(first["items"].as_array().unwrap().len(), 2);
        assert_eq!(first["metadata"]["remainingItemCount"], 3);
        assert!(first["items"][0].get("kind").is_none(), "items of a list do not repeat the type");
        api.delete(&format!("{MAPS}/m3"), None).await.expect(200);
        let token = first["metadata"]["continue"].as_str().unwrap();
        let second = api.get(&format!("{MAPS}?limit=10&continue={token}")).await.expect(200);
        let names: Vec<&str> = second["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["m2", "m3", "m4"], "the page shows the state of the first one");
        assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);

        let odd = api.get(&format!("{MAPS}?labelSelector=parity%3Dodd")).await.expect(200);
        assert_eq!(odd["items"].as_array().unwrap().len(), 1);
        let named = api.get(&format!("{MAPS}?fieldSelector=metadata.name%3Dm4")).await.expect(200);
        assert_eq!(named["items"].as_array().unwrap().len(), 1);
        api.get(&format!("{MAPS}?fieldSelector=spec.x%3D1")).await.expect(400);
        api.get(&format!("{MAPS}?resourceVersionMatch=Exact")).await.expect(422);
        api.get(&format!("{MAPS}?continue=nonsense")).await.expect(400);
        let all = api.get("/api/v1/configmaps").await.expect(200);
        assert_eq!(all["items"].as_array().unwrap().len(), 4);
    }
}

#[tokio::test]
async fn every_kind_of_patch_works() {
    let api = Api::start().await;
    api.post(MAPS, &config_map("a", json!({"k": "1", "l": "1"}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let merged = api
        .patch(&path, "application/merge-patch+json", &json!({"data": {"k": "2", "l": null}}))
        .await
        .expect(200);
    assert_eq!(merged["data"], json!({"k": "2"}));
    let patched = api
        .patch(&path, "application/json-patch+json", &json!([{"op": "add", "path": "/data/m", "value": "3"}]))
        .await
        .expect(200);
    assert_eq!(patched["data"], json!({"k": "2", "m": "3"}));
    api.patch(&path, "application/json-patch+json", &json!([{"op": "remove", "path": "/data/zzz"}]))
        .await
        .expect(422);
    let strategic = api
        .patch(
            &path,
            "application/strategic-merge-patch+json",
            &json!({"metadata": {"finalizers": ["x.y/z"]}}),
        )
        .await
        .expect(200);
    assert_eq!(strategic["metadata"]["finalizers"], json!(["x.y/z"]));
    api.patch(&path, "text/plain", &json!({})).await.expect(415);
    api.patch(&format!("{MAPS}/gone"), "application/merge-patch+json", &json!({})).await.expect(404);
    let other = json!({"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}});
    api.patch(&path, "application/merge-patch+json", &other).await.expect(409);
}

#[tokio::test]
async fn server_side_apply_creates_merges_and_conflicts() {
    let api = Api::start().await;
    let path = |manager: &str, force: bool| format!("{MAPS}/a?fieldManager={manager}&force={force}");
    let apply = "application/apply-patch+yaml";
    let created =
        api.patch(&path("one", false), apply, &config_map("a", json!({"k": "1"}))).await.expect(201);
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "one");
    let shared = api.patch(&path("two", false), apply, &config_map("a", json!({"l": "2"}))).await.expect(200);
    assert_eq!(shared["data"], json!({"k": "1", "l": "2"}));
    let conflict = api
        .patch(&path("two", false), apply, &config_map("a", json!({"k": "9", "l": "2"})))
        .await
        .expect(409);
    assert_eq!(conflict["details"]["causes"][0]["field"], ".data.k");
    assert_eq!(conflict["details"]["causes"][0]["reason"], "FieldManagerConflict");
    let forced =
        api.patch(&path("two", true), apply, &config_map("a", json!({"k": "9", "l": "2"}))).await.expect(200);
    assert_eq!(forced["data"]["k"], "9");
    let revision = forced["metadata"]["resourceVersion"].clone();
    let again =
        api.patch(&path("two", true), apply, &config_map("a", json!({"k": "9", "l": "2"}))).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], revision);
    api.patch(&format!("{MAPS}/a"), apply, &config_map("a", json!({}))).await.expect(422);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  x: z\n";
    api.send("PATCH", &format!("{MAPS}/b?fieldManager=y"), apply, yaml).await.expect(201);
}

#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let api = Api::start().await;
    let dry = api.post(&format!("{MAPS}?dryRun=All"), &config_map("a", json!({}))).await.expect(201);
    assert!(dry["metadata"]["uid"].is_string());
    api.get(&format!("{MAPS}/a")).await.expect(404);
    api.post(MAPS, &config_map("a", json!({"k": "1"}))).await.expect(201);
    let patched = api
        .patch(&format!("{MAPS}/a?dryRun=All"), "application/merge-patch+json", &json!({"data": {"k": "2"}}))
        .await
        .expect(200);
    assert_eq!(patched["data"]["k"], "2");
    assert_eq!(api.get(&format!("{MAPS}/a")).await.expect(200)["data"]["k"], "1");
    api.post(&format!("{MAPS}?dryRun=Some"), &config_map("b", json!({}))).await.expect(422);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    for api in Api::over_each_store().await {
        api.post(MAPS, &json!({"metadata": {"name": "a", "finalizers": ["x.y/z"]}})).await.expect(201);
        let path = format!("{MAPS}/a");
        api.delete(&path, None).await.expect(200);
        let held = api.get(&path).await.expect(200);
        assert!(held["metadata"]["deletionTimestamp"].is_string());
        let added = json!({"metadata": {"finalizers": ["x.y/z", "x.y/new"]}});
        api.patch(&path, "application/merge-patch+json", &added).await.expect(422);
        api.patch(&path, "application/merge-patch+json", &json!({"metadata": {"finalizers": null}}))
            .await
            .expect(200);
        api.get(&path).await.expect(404);
    }
}

#[tokio::test]
async fn deletes_honour_preconditions_and_collections_go_at_once() {
    for api in Api::over_each_store().await {
        api.post(MAPS, &config_map("a", json!({}))).await.expect(201);
        let wrong = json!({"preconditions": {"uid": "nobody"}});
        api.delete(&format!("{MAPS}/a"), Some(&wrong)).await.expect(409);
        api.post(MAPS, &config_map("b", json!({}))).await.expect(201);
        let deleted = api.delete(MAPS, None).await.expect(200);
        assert_eq!(deleted["items"].as_array().unwrap().len(), 2);
        assert_eq!(api.get(MAPS).await.expect(200)["items"], json!([]));
        api.delete("/api/v1/namespaces/kube-system", None).await.expect(403);
    }
}

#[tokio::test]
async fn tables_and_metadata_are_served_on_request() {
    let api = Api::start().await;
    api.post(MAPS, &config_map("a", json!({}))).await.expect(201);
    let table =
        api.get_as(MAPS, "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").await.expect(200);
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["rows"][0]["cells"][0], "a");
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let metadata = api
        .get_as(&format!("{MAPS}/a"), "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
        .await
        .expect(200);
    assert_eq!(metadata["kind"], "PartialObjectMetadata");
    assert!(metadata.get("data").is_none());
}

/// Whatever is sent where an object belongs is refused, not stumbled over.
#[tokio::test]
async fn what_is_no_object_is_refused_everywhere() {
    let api = Api::start().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    api.post("/api/v1/namespaces/default/pods", &pod).await.expect(201);
    api.post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "a"}}))
        .await
        .expect(201);
    let one = "/api/v1/namespaces/default/pods/a";
    for body in [r#""x""#, "[]", "7", "true", "null"] {
        for (method, path) in [
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
            ("POST", "/apis/authentication.k8s.io/v1/tokenreviews".to_owned()),
            ("POST", "/api/v1/namespaces/default/serviceaccounts/a/token".to_owned()),
            ("POST", format!("{one}/eviction")),
            ("POST", format!("{one}/binding")),
            ("PUT", one.to_owned()),
            ("DELETE", format!("{one}?gracePeriodSeconds=0")),
        ] {
            println!("{method} {path} {body}");
            api.send(method, &path, "application/json", body).await.expect(400);
        }
    }
    api.get(one).await.expect(200);
}

/// Fields that the server adds have no owner: any manager may set them.
#[tokio::test]
async fn who_makes_an_object_owns_what_it_says() {
    let api = Api::start().await;
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = api.post("/api/v1/namespaces/default/pods?fieldManager=m", &pod).await.expect(201);
    assert_eq!(made["spec"]["priority"], 0);
    assert_eq!(made["spec"]["serviceAccount"], "default");
    let container = json!({
        ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {}, "f:terminationMessagePath": {},
        "f:terminationMessagePolicy": {},
    });
    assert_eq!(
        made["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {
            "f:containers": {r#"k:{"name":"c"}"#: container}, "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {},
            "f:schedulerName": {}, "f:securityContext": {}, "f:terminationGracePeriodSeconds": {},
        }})
    );
}

#[tokio::test]
async fn a_patch_that_is_none_is_told_from_one_that_does_not_apply() {
    let api = Api::start().await;
    api.post(MAPS, &config_map("a", json!({"k": "1"}))).await.expect(201);
    let path = format!("{MAPS}/a");
    let (patch, merge) = ("application/json-patch+json", "application/merge-patch+json");
    let strategic = "application/strategic-merge-patch+json";
    let rejected = "the server rejected our request due to an error in our request";
    for (media, body, code, reason, message) in [
        (patch, r#"[{"op":"frob","path":"/data/k"}]"#, 422, "Invalid", rejected),
        (patch, r#"[{"op":"add","value":"x"}]"#, 422, "Invalid", rejected),
        (patch, r#"[{"op":"remove","path":"/data/zz"}]"#, 422, "Invalid", rejected),
        (patch, r#"[{"op":"test","path":"/data/k","value":"2"}]"#, 422, "Invalid", rejected),
        (patch, "[null]", 422, "Invalid", rejected),
        (
            patch,
            r#"{"op":"add"}"#,
            400,
            "BadRequest",
            "error decoding patch: a JSON patch must be a list of operations",
        ),
        (
            patch,
            r#"[{"op":1}]"#,
            400,
            "BadRequest",
            r#"error decoding patch: operation 0: "op" must be a string"#,
        ),
        (patch, r#"[{"op":"#, 400, "BadRequest", "invalid JSON patch"),
        (merge, "", 400, "BadRequest", "invalid JSON patch"),
        (merge, "null", 400, "BadRequest", "Invalid JSON Patch"),
        (merge, "[1]", 400, "BadRequest", "error decoding patch: a merge patch must be an object"),
        (strategic, "[] x", 400, "BadRequest", "invalid JSON patch"),
        (
            strategic,
            "7",
            400,
            "BadRequest",
            "error decoding patch: a strategic merge patch must be an object",
        ),
    ] {
        let answer = api.send("PATCH", &path, media, body).await.expect(code);
        assert_eq!((&answer["reason"], &answer["message"]), (&json!(reason), &json!(message)), "{body}");
    }
    let why = api.send("PATCH", &path, patch, r#"[{"op":"remove","path":"/data/zz"}]"#).await.expect(422);
    assert_eq!(
        why["details"]["causes"][0]["message"],
        r#"operation 0, "remove" at "/data/zz": there is no such path"#
    );
    let misspelt = r#"[{"op":"test","path":"/data/k","value":"1","valu":"2","op":"test"}]"#;
    let warned = api.send("PATCH", &format!("{path}?fieldValidation=Warn"), patch, misspelt).await;
    let odd = [r#"json patch duplicate field \"[0].op\""#, r#"json patch unknown field \"[0].valu\""#];
    assert_eq!(warned.warnings(), odd.map(|text| format!(r#"299 - "{text}""#)));
    api.send("PATCH", &format!("{path}?fieldValidation=Strict"), patch, misspelt).await.expect(422);
    let operation = r#"{"op":"test","path":"/data/k","value":"1"}"#;
    let many = format!("[{}]", [operation; 10_001].join(","));
    let refused = api.send("PATCH", &path, patch, &many).await.expect(413);
    assert_eq!(
        refused["message"],
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    );
    for (media, body) in [(patch, "null"), (strategic, "null"), (patch, "[]")] {
        let untouched = api.send("PATCH", &path, media, body).await.expect(200);
        assert_eq!(untouched["data"], json!({"k": "1"}));
    }
}
