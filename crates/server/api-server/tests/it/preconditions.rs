//! Preconditions of writes, and the owners of written fields, as a client would use them, without a socket.

use crate::support::Api;
use lazaret_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn the_version_zero_means_any() {
    for api in Api::over_each_store().await {
        let map = |version: &str, value: &str| json!({"metadata": {"name": "a", "resourceVersion": version}, "data": {"k": value}});
        api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
        let written = api.put(&format!("{MAPS}/a"), &map("0", "1")).await.expect(200);
        assert_eq!(written["data"]["k"], "1");
        api.patch(&format!("{MAPS}/a"), MERGE, &map("0", "2")).await.expect(200);
        api.put(&format!("{MAPS}/a"), &map("1", "3")).await.expect(409);
        // Where the version must be said, it must be a real one.
        let rules = "/apis/resource.k8s.io/v1/devicetaintrules";
        let mut rule = json!({"metadata": {"name": "r"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}}});
        api.post(rules, &rule).await.expect(201);
        rule["metadata"]["resourceVersion"] = "0".into();
        let refused = api.put(&format!("{rules}/r"), &rule).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], "metadata.resourceVersion");
    }
}

#[tokio::test]
async fn an_object_that_can_be_read_is_not_deleted_by_who_expects_that_it_cannot() {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let api = Api::start().await;
    api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
    let delete = async |path: &str, body: &Value| {
        api.send("DELETE", path, "application/json", &body.to_string()).await
    };
    let refused = delete(&format!("{MAPS}/a"), &json!({OPTION: true})).await.expect(409);
    assert_eq!(
        refused["message"],
        "Operation cannot be fulfilled on configmaps \"a\": unsafe deletion is not allowed because the object is decodable from storage"
    );
    delete(&format!("{MAPS}/a?{OPTION}=true"), &json!({})).await.expect(409);
    delete(&format!("{MAPS}/b"), &json!({OPTION: true})).await.expect(404);
    let both = json!({OPTION: true, "gracePeriodSeconds": 0, "propagationPolicy": "Orphan"});
    let refused = delete(&format!("{MAPS}/a"), &both).await.expect(422);
    let causes = refused["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2, "{refused}");
    assert!(causes.iter().all(|cause| cause["field"] == OPTION), "{refused}");
    delete(MAPS, &json!({OPTION: true})).await.expect(422);
    delete(&format!("{MAPS}/a"), &json!({OPTION: false})).await.expect(200);
}

#[tokio::test]
async fn a_shorter_grace_counts_from_the_first_deletion() {
    let api = Api::start().await;
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = "n".into();
    api.post(PODS, &bound).await.expect(201);
    let until = async |grace: i64| {
        let path = format!("{PODS}/p?gracePeriodSeconds={grace}");
        let pod = api.send("DELETE", &path, "", "").await.expect(200);
        let until: jiff::Timestamp = pod["metadata"]["deletionTimestamp"].as_str().unwrap().parse().unwrap();
        (until.as_second(), pod["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap())
    };
    let (first, _) = until(100).await;
    assert_eq!(until(40).await, (first - 60, 40));
    assert_eq!(until(70).await, (first - 60, 40), "a longer one changes nothing");
}

#[tokio::test]
async fn every_kind_of_patch_can_name_the_version_that_it_wants_to_meet() {
    for api in Api::over_each_store().await {
        let made = api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
        let now = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let patches = |version: &str, value: &str| {
            let object = json!({"metadata": {"resourceVersion": version}, "data": {"k": value}});
            let operations = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, {"op": "add", "path": "/data", "value": {"k": value}}]);
            [
                (MERGE, object.clone()),
                ("application/strategic-merge-patch+json", object),
                (JSON_PATCH, operations),
            ]
        };
        for (media, patch) in patches("1", "x") {
            api.patch(&format!("{MAPS}/a"), media, &patch).await.expect(409);
        }
        let mut now = now;
        for (at, (media, _)) in patches(&now, "y").into_iter().enumerate() {
            let (_, patch) = patches(&now, &format!("v{at}"))[at].clone();
            let written = api.patch(&format!("{MAPS}/a"), media, &patch).await.expect(200);
            now = written["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        }
    }
}

#[tokio::test]
async fn a_delete_meets_the_version_that_it_names_and_no_other() {
    for api in Api::over_each_store().await {
        let made = api.post(MAPS, &json!({"metadata": {"name": "a"}})).await.expect(201);
        for version in ["0", "1", "x"] {
            let refused = api
                .delete(&format!("{MAPS}/a"), Some(&json!({"preconditions": {"resourceVersion": version}})))
                .await
                .expect(409);
            assert!(
                refused["message"].as_str().unwrap().contains("ResourceVersion in precondition: "),
                "{refused}"
            );
        }
        let now = &made["metadata"]["resourceVersion"];
        api.delete(&format!("{MAPS}/a"), Some(&json!({"preconditions": {"resourceVersion": now}})))
            .await
            .expect(200);
    }
}

#[tokio::test]
async fn an_eviction_meets_the_pod_that_it_names() {
    for api in Api::over_each_store().await {
        let evict = |name: &str, preconditions: Value| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"preconditions": preconditions}});
        for (name, by_uid) in [("a", false), ("b", true)] {
            let mut made = api.post(PODS, &pod(name)).await.expect(201);
            made["status"]["phase"] = "Running".into();
            let made = api.put(&format!("{PODS}/{name}/status"), &made).await.expect(200);
            let path = format!("{PODS}/{name}/eviction");
            let refused = api.post(&path, &evict(name, json!({"resourceVersion": "1"}))).await.expect(409);
            let now = made["metadata"]["resourceVersion"].as_str().unwrap();
            assert_eq!(
                refused["message"],
                format!(
                    "Operation cannot be fulfilled on Pod \"{name}\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({now}). The object might have been modified"
                )
            );
            let refused = api.post(&path, &evict(name, json!({"uid": "other"}))).await.expect(409);
            assert!(
                refused["message"]
                    .as_str()
                    .unwrap()
                    .contains("the UID in the precondition (other) does not match"),
                "{refused}"
            );
            let unchanged = api.get(&format!("{PODS}/{name}")).await.expect(200);
            assert_eq!(
                unchanged["metadata"]["resourceVersion"], now,
                "an eviction that cannot be leaves no trace"
            );
            let wanted = if by_uid {
                json!({"uid": made["metadata"]["uid"]})
            } else {
                json!({"resourceVersion": now})
            };
            api.post(&path, &evict(name, wanted)).await.expect(201);
            api.get(&format!("{PODS}/{name}")).await.expect(404);
        }
    }
}

/// A pod with a finalizer stays long enough to be looked at.
fn held(name: &str) -> Value {
    let mut pod = pod(name);
    pod["metadata"]["finalizers"] = json!(["example.com/look"]);
    pod
}

#[tokio::test]
async fn every_evicted_pod_says_so_whatever_its_phase() {
    let api = Api::start().await;
    for (name, phase) in [("w", "Pending"), ("x", "Running"), ("y", "Succeeded"), ("z", "Failed")] {
        let mut made = api.post(PODS, &held(name)).await.expect(201);
        made["status"]["phase"] = phase.into();
        api.put(&format!("{PODS}/{name}/status"), &made).await.expect(200);
        let body =
            |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        let path = format!("{PODS}/{name}/eviction");
        let refused = api.post(&path, &body("other")).await.expect(400);
        assert_eq!(refused["message"], "name in URL does not match name in Eviction object");
        let mut unknown = body(name);
        unknown["apiVersion"] = "policy/v2".into();
        api.post(&path, &unknown).await.expect(400);
        api.post(&format!("{path}?dryRun=All"), &body(name)).await.expect(201);
        let before = api.get(&format!("{PODS}/{name}")).await.expect(200);
        assert!(before["metadata"].get("deletionTimestamp").is_none(), "{phase}");
        api.post(&path, &body(name)).await.expect(201);
        let left = api.get(&format!("{PODS}/{name}")).await.expect(200);
        assert!(left["metadata"]["deletionTimestamp"].is_string(), "{phase}: {left}");
        let conditions = left["status"]["conditions"].as_array().unwrap();
        let marks: Vec<&Value> = conditions.iter().filter(|one| one["type"] == "DisruptionTarget").collect();
        assert_eq!(marks.len(), 1, "{phase}: {left}");
        assert_eq!(
            (&marks[0]["status"], &marks[0]["reason"], &marks[0]["message"]),
            (&json!("True"), &json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting")),
            "{phase}"
        );
    }
}

#[tokio::test]
async fn a_pod_gets_the_topology_of_its_node_when_it_is_bound() {
    let api = Api::start().await;
    let labels = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r", "kubernetes.io/os": "linux"});
    api.post("/api/v1/nodes", &json!({"metadata": {"name": "n", "labels": labels}})).await.expect(201);
    let mut early = pod("early");
    early["spec"]["nodeName"] = "n".into();
    early["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "wished"});
    api.post(PODS, &early).await.expect(201);
    for (name, target) in [("bound", "n"), ("elsewhere", "unknown")] {
        api.post(PODS, &pod(name)).await.expect(201);
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": target}});
        api.post(&format!("{PODS}/{name}/binding"), &binding).await.expect(201);
    }
    let wanted = json!({"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"});
    for (name, wanted) in [("early", &wanted), ("bound", &wanted), ("elsewhere", &Value::Null)] {
        assert_eq!(
            api.get(&format!("{PODS}/{name}")).await.expect(200)["metadata"]["labels"],
            *wanted,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_scale_is_applied_by_one_manager_at_a_time() {
    let api = Api::start().await;
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}});
    api.post(&format!("{DEPLOYMENTS}?fieldManager=maker"), &deployment).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d/scale");
    let scale = |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}});
    api.patch(&path, APPLY, &scale(3)).await.expect(422);
    let refused = api.patch(&format!("{path}?fieldManager=me"), APPLY, &scale(3)).await.expect(409);
    assert_eq!(refused["details"]["causes"][0]["field"], ".spec.replicas", "{refused}");
    let taken = api.patch(&format!("{path}?fieldManager=me&force=true"), APPLY, &scale(3)).await.expect(200);
    assert_eq!((&taken["kind"], &taken["spec"]["replicas"]), (&json!("Scale"), &json!(3)));
    let read = api.get(&format!("{DEPLOYMENTS}/d")).await.expect(200);
    let record = read["metadata"]["managedFields"].as_array().unwrap();
    let mine = record.iter().find(|entry| entry["manager"] == "me").unwrap();
    assert_eq!(
        (&mine["operation"], &mine["subresource"], &mine["fieldsV1"]),
        (&json!("Apply"), &json!("scale"), &json!({"f:spec": {"f:replicas": {}}}))
    );
    api.patch(&format!("{path}?fieldManager=you"), APPLY, &scale(4)).await.expect(409);
    api.patch(&format!("{path}?fieldManager=you"), APPLY, &scale(3)).await.expect(200);
    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 3}});
    api.patch(&format!("{path}?fieldManager=me"), APPLY, &other).await.expect(400);
}

#[tokio::test]
async fn the_record_of_owners_can_be_written_and_cleared() {
    let api = Api::start().await;
    let path = format!("{MAPS}/a");
    let made = api
        .post(
            &format!("{MAPS}?fieldManager=kubectl-client-side-apply"),
            &json!({"metadata": {"name": "a"}, "data": {"k": "1", "l": "1"}}),
        )
        .await
        .expect(201);
    // The steps of kubectl before it applies on the server an object that it applied by itself before.
    let mut entry = made["metadata"]["managedFields"][0].clone();
    entry["operation"] = "Apply".into();
    entry["manager"] = "kubectl".into();
    let operations = json!([
        {"op": "replace", "path": "/metadata/managedFields", "value": [entry]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
    ]);
    let moved = api.patch(&path, JSON_PATCH, &operations).await.expect(200);
    assert_eq!(moved["metadata"]["managedFields"], json!([entry]));
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}});
    let applied = api.patch(&format!("{path}?fieldManager=kubectl"), APPLY, &config).await.expect(200);
    assert_eq!(applied["data"], json!({"k": "2"}), "what was applied before and is not now is gone");
    for reset in [json!([]), json!([{}])] {
        let mut object = api.get(&path).await.expect(200);
        object["metadata"]["managedFields"] = reset.clone();
        let written = api.put(&path, &object).await.expect(200);
        assert_eq!(written["metadata"].get("managedFields"), None, "{reset}");
        api.patch(&format!("{path}?fieldManager=kubectl"), APPLY, &config).await.expect(200);
    }
    let cleared = api.patch(&path, MERGE, &json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert_eq!(cleared["metadata"].get("managedFields"), None);
}

/// The text of an answer, as it came.
async fn text(api: &Api, method: &str, path: &str, content_type: &str, body: &str) -> String {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(bytes::Bytes::from(body.to_owned()))
        .unwrap();
    let response = api.server.handle(&api.user, request).await;
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn json_that_is_somebody_elses_is_kept_as_it_was_written() {
    const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    const OPAQUE: &str = r#"{"z":1,"a":{"y":null,"b":[{"d":1.5,"c":""}]},"m":{}}"#;
    let api = Api::start().await;
    let claim = |name: &str, parameters: &str| {
        format!(
            r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","spec":{{"devices":{{
            "requests":[{{"name":"r","exactly":{{"deviceClassName":"c"}}}}],
            "config":[{{"opaque":{{"parameters":{parameters},"driver":"d.example.com"}}}}]}}}},"metadata":{{"name":"{name}","labels":null}}}}"#
        )
    };
    let kept = |answer: &str| answer.contains(&format!(r#""parameters":{OPAQUE}"#));
    let made = text(&api, "POST", CLAIMS, "application/json", &claim("a", OPAQUE)).await;
    assert!(kept(&made), "{made}");
    let labelled =
        text(&api, "PATCH", &format!("{CLAIMS}/a"), MERGE, r#"{"metadata":{"labels":{"l":"1"}}}"#).await;
    assert!(kept(&labelled) && labelled.contains(r#""l":"1""#), "{labelled}");
    for version in ["v1", "v1beta2", "v1beta1"] {
        let path = CLAIMS.replace("/v1/", &format!("/{version}/"));
        let read = text(&api, "GET", &format!("{path}/a"), "", "").await;
        assert!(kept(&read), "{version}: {read}");
        let listed = text(&api, "GET", &path, "", "").await;
        assert!(kept(&listed), "{version}: {listed}");
    }
    let applied = format!("{CLAIMS}/b?fieldManager=me");
    let made = text(&api, "PATCH", &applied, APPLY, &claim("b", OPAQUE)).await;
    assert!(kept(&made), "{made}");
    // The same in another order is the same.
    let sorted = serde_json::from_str::<Value>(OPAQUE).unwrap().to_string();
    let again = text(&api, "PATCH", &applied, APPLY, &claim("b", &sorted)).await;
    assert!(again.contains(r#""resourceVersion""#) && !again.contains("\"Failure\""), "{again}");
    api.put(&format!("{CLAIMS}/a"), &serde_json::from_str(&claim("a", &sorted)).unwrap()).await.expect(200);
}

#[tokio::test]
async fn items_that_stand_twice_belong_to_whoever_wrote_them_and_bother_nobody_else() {
    const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
    let api = Api::start().await;
    let set = |env: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{{"name":"d"}},"spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},
            "template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{env}]}}]}}}}}}}}"#
        )
    };
    let one = r#"{"name":"ONE","value":"1"}"#;
    let twice = r#"{"name":"PATH","value":"/bin"},{"name":"PATH","value":"$PATH:/usr/bin"}"#;
    let made = format!("{SETS}?fieldManager=maker");
    let body = set(&format!("{one},{twice}"));
    api.send("POST", &made, "application/json", &body).await.expect(201);
    let apply = format!("{SETS}/d?fieldManager=applier");
    let home = r#"{"name":"HOME","value":"/root"}"#;
    let applied = api.send("PATCH", &apply, APPLY, &set(home)).await.expect(200);
    let names = |object: &Value| -> Vec<String> {
        let env = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
        env.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&applied), ["ONE", "PATH", "PATH", "HOME"]);
    let owned = |object: &Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["manager"] == manager).unwrap();
        let containers = &entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"];
        containers[r#"k:{"name":"c"}"#]["f:env"].clone()
    };
    let path = r#"k:{"name":"PATH"}"#;
    assert_eq!(owned(&applied, "maker")[path], json!({}), "undivided");
    assert!(owned(&applied, "applier").get(path).is_none());
    // Another text of one of the two changes the pair.
    let other = twice.replace("/usr/bin", "/opt/bin");
    let changed = format!("{SETS}/d?fieldManager=changer");
    let body = set(&format!("{one},{other},{home}"));
    let written = api.send("PUT", &changed, "application/json", &body).await.expect(200);
    assert_eq!(owned(&written, "changer")[path], json!({}));
    assert!(owned(&written, "maker").get(path).is_none());
    // One is left of them: it has fields again.
    let body = set(&format!(r#"{one},{{"name":"PATH","value":"/bin"}},{home}"#));
    let written = api.send("PUT", &changed, "application/json", &body).await.expect(200);
    assert_eq!(owned(&written, "changer")[path]["f:value"], json!({}));
}
