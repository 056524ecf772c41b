//! Fields that objects get from their surroundings, and the server's reports on itself.

use std::time::Duration;

use crate::support::Api;
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{AdmissionPlugin, Features, Server, ServerOptions, User};
use lazaret_store::Store;

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field.as_str()] = value.clone();
    }
    pod
}

#[tokio::test]
async fn new_nodes_are_tainted_until_they_are_ready() {
    const NODES: &str = "/api/v1/nodes";
    let api = Api::start().await;
    let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
    let other = json!({"key": "k", "effect": "NoSchedule"});
    for (name, taints, wanted) in [
        ("a", json!([]), json!([taint])),
        ("b", json!([other]), json!([other, taint])),
        ("c", json!([taint]), json!([taint])),
    ] {
        let node = json!({"metadata": {"name": name}, "spec": {"taints": taints}});
        assert_eq!(api.post(NODES, &node).await.expect(201)["spec"]["taints"], wanted);
    }
    api.server.disable_admission_plugin(AdmissionPlugin::TaintNodesByCondition);
    let made = api.post(NODES, &json!({"metadata": {"name": "d"}})).await.expect(201);
    assert!(made["spec"].get("taints").is_none(), "{made}");
}

#[tokio::test]
async fn pods_can_do_without_an_account() {
    let api = Api::start().await;
    api.server.disable_admission_plugin(AdmissionPlugin::ServiceAccount);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "none", "containers": [{"name": "c", "image": "i"}]}});
    let path = "/api/v1/namespaces/default/pods";
    let made = api.post(path, &pod).await.expect(201);
    assert_eq!(made["spec"]["serviceAccountName"], "none", "nobody asks whether there is one");
    let plain = json!({"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = api.post(path, &plain).await.expect(201);
    assert_eq!((made["spec"].get("serviceAccountName"), made["spec"].get("volumes")), (None, None));
    api.put(&format!("{path}/q"), &plain).await.expect(200);
}

#[tokio::test]
async fn a_pod_gets_the_default_class_and_is_refused_one_that_is_not_there() {
    let api = Api::start().await;
    let plain = api.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert_eq!((&plain["spec"]["priority"], plain["spec"].get("priorityClassName")), (&json!(0), None));
    let class = json!({"metadata": {"name": "high"}, "value": 700, "globalDefault": true});
    api.post(CLASSES, &class).await.expect(201);
    let class = json!({"metadata": {"name": "other"}, "value": 9});
    api.post(CLASSES, &class).await.expect(201);
    let lifted = api.post(PODS, &pod("b", json!({}))).await.expect(201);
    assert_eq!(
        (&lifted["spec"]["priorityClassName"], &lifted["spec"]["priority"]),
        (&json!("high"), &json!(700))
    );
    let chosen = api.post(PODS, &pod("c", json!({"priorityClassName": "other"}))).await.expect(201);
    assert_eq!(chosen["spec"]["priority"], 9);
    let refused = api.post(PODS, &pod("d", json!({"priorityClassName": "none"}))).await.expect(403);
    assert_eq!(refused["message"], r#"pods "d" is forbidden: no PriorityClass with name none was found"#);
}

#[tokio::test]
async fn a_pod_runs_as_an_account_and_carries_its_token() {
    let api = Api::start().await;
    let lonely = api.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert_eq!(lonely["spec"]["serviceAccountName"], "default");
    assert_eq!(lonely["spec"].get("volumes"), None, "nobody made the account");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    api.post(accounts, &json!({"metadata": {"name": "default"}})).await.expect(201);
    api.post(accounts, &json!({"metadata": {"name": "shy"}, "automountServiceAccountToken": false}))
        .await
        .expect(201);
    let made = api.post(PODS, &pod("b", json!({}))).await.expect(201);
    assert_eq!(made["spec"].get("initContainers"), None, "what nobody wrote is not there");
    let volume = &made["spec"]["volumes"][0];
    assert!(volume["name"].as_str().unwrap().starts_with("kube-api-access-"));
    assert_eq!(volume["projected"]["sources"][0]["serviceAccountToken"]["path"], "token");
    assert_eq!(made["spec"]["containers"][0]["volumeMounts"][0]["name"], volume["name"]);
    let shy = api.post(PODS, &pod("c", json!({"serviceAccountName": "shy"}))).await.expect(201);
    assert_eq!(shy["spec"].get("volumes"), None);
    let own = pod("d", json!({"serviceAccountName": "shy", "automountServiceAccountToken": true}));
    assert_eq!(api.post(PODS, &own).await.expect(201)["spec"]["volumes"].as_array().unwrap().len(), 1);
    api.post(PODS, &pod("e", json!({"serviceAccountName": "nobody"}))).await.expect(403);
}

#[tokio::test]
async fn logs_are_what_the_node_left() {
    let api = Api::start().await;
    let mut running = pod("a", json!({"nodeName": "n"}));
    running["metadata"]["annotations"] = json!({"lazaret.dev/log": "hello\n"});
    api.post(PODS, &running).await.expect(201);
    api.post(PODS, &pod("b", json!({}))).await.expect(201);
    api.post(PODS, &pod("d", json!({"nodeName": "n"}))).await.expect(201);
    let unknown = api.get(&format!("{PODS}/d/log")).await.expect(501);
    assert!(unknown["message"].as_str().unwrap().contains("no connection to node"), "{unknown}");
    api.get(&format!("{PODS}/a/log")).await.expect(200);
    api.get(&format!("{PODS}/a/log?container=x")).await.expect(400);
    api.get(&format!("{PODS}/b/log")).await.expect(400);
    api.get(&format!("{PODS}/c/log")).await.expect(404);
}

#[tokio::test]
async fn a_user_is_told_all_rules_that_hold_for_him() {
    let options = ServerOptions::default();
    let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
    server.bootstrap().await.unwrap();
    let admin = User { name: "root".into(), groups: vec!["system:masters".into()], ..User::default() };
    let api = Api { server: server.clone(), user: admin };
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", &role).await.expect(201);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}]});
    api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &binding)
        .await
        .expect(201);
    let eve = User { name: "eve".into(), groups: vec!["system:authenticated".into()], ..User::default() };
    let eve = Api { server, user: eve };
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let ask = |namespace: &str| json!({"spec": {"namespace": namespace}});
    let wanted = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    for (namespace, held) in [("default", true), ("kube-system", false)] {
        let told = eve.post(reviews, &ask(namespace)).await.expect(201);
        assert_eq!(told["status"]["incomplete"], false);
        let rules = told["status"]["resourceRules"].as_array().unwrap();
        assert_eq!(rules.contains(&wanted), held, "{namespace}: {rules:?}");
        assert!(!told["status"]["nonResourceRules"].as_array().unwrap().is_empty());
    }
    eve.post(reviews, &ask("")).await.expect(400);
}

#[tokio::test]
async fn an_older_release_can_be_had() {
    let start = |release: &str, config: &[&str]| {
        let options = ServerOptions {
            features: Features::of(release.parse().unwrap()),
            runtime_config: config.iter().map(|name| ((*name).to_owned(), true)).collect(),
            ..ServerOptions::default()
        };
        let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
        let user = User { name: "root".into(), groups: vec!["system:masters".into()], ..User::default() };
        Api { server, user }
    };
    let rules = |version: &str| format!("/apis/resource.k8s.io/{version}/devicetaintrules");
    let slices = "/apis/resource.k8s.io/v1/resourceslices";

    let now = start("1.37", &[]);
    now.get(&rules("v1")).await.expect(200);
    let version = now.get("/version").await.expect(200);
    assert_eq!((&version["emulationMinor"], &version["minCompatibilityMinor"]), (&json!("37"), &json!("36")));
    now.get("/apis/resource.k8s.io/v1alpha3").await.expect(404);

    let before = start("1.36", &["resource.k8s.io/v1beta2"]);
    let version = before.get("/version").await.expect(200);
    assert_eq!((&version["minor"], &version["emulationMinor"]), (&json!("37"), &json!("36")));
    before.get(slices).await.expect(200);
    before.get(&rules("v1")).await.expect(404);
    before.get(&rules("v1beta2")).await.expect(200);

    let older = start("1.35", &["resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"]);
    older.get(slices).await.expect(200);
    older.get(&rules("v1beta2")).await.expect(404);
    older.get(&rules("v1alpha3")).await.expect(200);
}

#[tokio::test]
async fn watches_end_when_the_server_does() {
    let api = Api::start().await;
    let request =
        http::Request::builder().uri(format!("{PODS}?watch=true")).body(bytes::Bytes::new()).unwrap();
    let mut body = api.server.handle(&api.user, request).await.into_body();
    api.server.end_watches();
    let end = tokio::time::timeout(Duration::from_secs(60), async { while body.frame().await.is_some() {} });
    end.await.expect("the stream ends by itself");
}

#[tokio::test]
async fn checks_have_paths_of_their_own() {
    let api = Api::start().await;
    api.get("/readyz/ping").await.expect(200);
    api.get("/readyz?verbose").await.expect(200);
    api.get("/readyz/made-up").await.expect(404);
}

#[tokio::test]
async fn a_task_beside_the_server_that_does_not_work_makes_it_unready_and_not_dead() {
    let api = Api::start().await;
    api.server.show_checks(|| vec![("eviction".to_owned(), false), ("watch/pods".to_owned(), true)]);
    api.get("/readyz").await.expect(500);
    api.get("/healthz").await.expect(500);
    api.get("/readyz/eviction").await.expect(500);
    api.get("/readyz/watch/pods").await.expect(200);
    api.get("/readyz?exclude=eviction").await.expect(200);
    api.get("/livez").await.expect(200);
    api.get("/livez/eviction").await.expect(404);
}

#[tokio::test]
async fn a_request_that_panics_is_answered_and_counted() {
    let api = Api::start().await;
    api.server.show_checks(|| panic!("a check that cannot be made"));
    let status = api.get("/readyz").await.expect(500);
    assert_eq!(status["reason"], "InternalError");
    assert!(!status.to_string().contains("cannot be made"), "why is for the log");
    api.get("/livez").await.expect(200);
    let metrics = api.get("/metrics").await.expect(200).to_string();
    assert!(metrics.contains("lazaret_request_panics_total 1"), "{metrics}");
}

#[tokio::test]
async fn events_are_forgotten_when_nobody_writes_to_them_any_more() {
    let api = Api::start().await;
    let event = |name: &str| {
        json!({
            "metadata": {"name": name, "namespace": "default"}, "type": "Normal", "reason": "Played", "message": "it",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u"},
        })
    };
    api.post("/api/v1/namespaces/default/events", &event("old")).await.expect(201);
    let waits = async {
        while api.get("/api/v1/namespaces/default/events/old").await.is(200) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = api.server.forget_events(std::time::Duration::from_millis(200)) => {}
        () = waits => {}
        () = tokio::time::sleep(std::time::Duration::from_secs(60)) => panic!("the event is still there"),
    }
    api.get("/api/v1/namespaces/default").await.expect(200);
}

#[tokio::test]
async fn events_that_cannot_be_forgotten_are_counted() {
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    let api = Api::over(store.clone());
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await.expect(201);
    let event = json!({
        "metadata": {"name": "old", "namespace": "default"}, "type": "Normal", "reason": "Played", "message": "it",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u"},
    });
    api.post("/api/v1/namespaces/default/events", &event).await.expect(201);
    store.close();
    let numbers = async || {
        let body = api.stream("/metrics").await.collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    };
    assert!(numbers().await.contains("lazaret_event_expiry_errors_total 0"));
    let failed = async {
        while numbers().await.contains("lazaret_event_expiry_errors_total 0") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = api.server.forget_events(Duration::from_millis(100)) => {}
        () = failed => {}
        () = tokio::time::sleep(Duration::from_secs(60)) => panic!("nothing was counted"),
    }
}
