//! Admission policies of the chart, served by this server: what they let through and what they refuse.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const PODS: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const AGENT: &str = "system:serviceaccount:lazaret-system:lazaret-node";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const HELPERS: &str = include_str!("../../../../../deploy/chart/templates/_helpers.tpl");
const POLICIES: &str = include_str!("../../../../../deploy/chart/templates/admission-policies.yaml");

struct World(Server);

impl World {
    async fn new() -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let world = Self(Server::new(store, ServerOptions::default()));
        world.0.bootstrap().await.unwrap();
        let rules =
            json!([{"apiGroups": ["", "apps", "resource.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
        world
            .create(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "usual"}, "rules": rules}))
            .await;
        let group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": {"name": "usual"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "usual"},
            "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
        });
        world.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
        world
    }

    /// Puts the spec of a policy of the chart into force.
    async fn enforce(&self, spec: &str) {
        let head = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: chart}\n";
        let path = format!("{ADMISSION}/validatingadmissionpolicies");
        let text = format!("{head}{spec}");
        let (code, answer) = self.request(&root(), "POST", &path, "application/yaml", text.clone()).await;
        assert_eq!(code, 201, "{answer}\n{text}");
        let binding = json!({"metadata": {"name": "chart"}, "spec": {"policyName": "chart", "validationActions": ["Deny"]}});
        self.create(&format!("{ADMISSION}/validatingadmissionpolicybindings"), &binding).await;
    }

    async fn create(&self, path: &str, object: &Value) {
        let (code, text) = self.send(&root(), "POST", path, JSON, object).await;
        assert_eq!(code, 201, "{path}: {text}");
    }

    async fn send(&self, user: &User, method: &str, path: &str, kind: &str, body: &Value) -> (u16, String) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.request(user, method, path, kind, body).await
    }

    async fn request(
        &self,
        user: &User,
        method: &str,
        path: &str,
        kind: &str,
        body: String,
    ) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let response = self.0.handle(user, request.body(Bytes::from(body)).unwrap()).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Policies are in force soon after they were written.
    async fn until_refused(&self, user: &User, path: &str, body: &Value) {
        for _ in 0..600 {
            if self.send(user, "POST", &format!("{path}?dryRun=All"), JSON, body).await.0 >= 400 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the policy is not in force");
    }
}

fn root() -> User {
    User { name: "root".into(), groups: vec!["system:masters".into()], ..User::default() }
}

/// An account with a token of a pod on this node.
fn account(name: &str, node: &str) -> User {
    let extra = if node.is_empty() {
        BTreeMap::new()
    } else {
        [(NODE_NAME.to_owned(), vec![node.to_owned()])].into()
    };
    User { name: name.into(), groups: vec!["system:authenticated".into()], extra, ..User::default() }
}

/// The text from a line on to another line, which is left out.
fn cut<'a>(text: &'a str, from: &str, first: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap();
    let start = start + text[start..].find(first).unwrap();
    &text[start..start + text[start..].find(to).unwrap()]
}

fn slice(name: &str, node: &str) -> Value {
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({"metadata": {"name": name}, "spec": {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "a"}]}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn the_account_of_a_node_changes_its_own_node_alone() {
    let world = World::new().await;
    let spec =
        cut(HELPERS, "define \"lazaret.nodePolicy\"", "spec:\n", "{{- include \"lazaret.admissionBinding\"");
    let is_name = |line: &&str| line.contains("{{");
    let named = spec.lines().find(is_name).unwrap();
    let spec = spec.replace(named, &format!("      expression: 'request.userInfo.username == \"{AGENT}\"'"));
    for node in ["node-1", "node-2"] {
        world.create("/api/v1/nodes", &json!({"metadata": {"name": node}})).await;
        world.create(PODS, &pod(&format!("on-{node}"), node)).await;
        world.create(PODS, &pod(&format!("old-{node}"), node)).await;
        world.create(SLICES, &slice(&format!("of-{node}"), node)).await;
        world.create(SLICES, &slice(&format!("old-{node}"), node)).await;
    }
    world.create(PODS, &pod("waits", "")).await;
    world.enforce(&spec).await;
    let agent = account(AGENT, "node-1");
    world.until_refused(&agent, SLICES, &slice("forged", "node-2")).await;
    let label = json!({"metadata": {"annotations": {"lazaret.dev/unprepared": "[]"}}});
    let ready = json!({"status": {"phase": "Running"}});
    let mut all_nodes = slice("all", "node-1");
    all_nodes["spec"].as_object_mut().unwrap().remove("nodeName");
    all_nodes["spec"]["allNodes"] = true.into();
    let (mine, other) = ("node-1", "node-2");
    let rows = |node: &str| {
        vec![
            ("PATCH", format!("/api/v1/nodes/{node}"), MERGE, label.clone()),
            ("PATCH", format!("/api/v1/nodes/{node}/status"), MERGE, label.clone()),
            ("PATCH", format!("{PODS}/on-{node}/status"), MERGE, ready.clone()),
            ("POST", format!("{SLICES}?dryRun=All"), JSON, slice("new", node)),
            ("PATCH", format!("{SLICES}/of-{node}"), MERGE, label.clone()),
            ("DELETE", format!("{SLICES}/of-{node}"), JSON, Value::Null),
            ("DELETE", format!("{PODS}/on-{node}?gracePeriodSeconds=0"), JSON, Value::Null),
            ("DELETE", format!("{SLICES}?fieldSelector=spec.nodeName={node}"), JSON, Value::Null),
        ]
    };
    let refused_besides = [
        ("POST", SLICES.to_owned(), JSON, all_nodes),
        ("DELETE", format!("{PODS}/waits"), JSON, Value::Null),
    ];
    for (method, path, kind, body) in rows(other).into_iter().chain(refused_besides) {
        let (code, text) = world.send(&agent, method, &path, kind, &body).await;
        assert_eq!(code, 422, "{method} {path}: {text}");
        assert!(text.contains("a token of node node-1 may change this node"), "{text}");
    }
    for (method, path, kind, body) in rows(mine) {
        // A token that is bound to no node, as one of a Secret.
        let (code, text) = world.send(&account(AGENT, ""), method, &path, kind, &body).await;
        assert_eq!(code, 422, "{method} {path}: {text}");
        assert!(text.contains("the token names no node"), "{text}");
        let (code, text) = world.send(&agent, method, &path, kind, &body).await;
        assert!(code < 300, "{method} {path}: {code} {text}");
    }
    // Whoever else may do it is not asked.
    let (code, text) =
        world.send(&account("ada", ""), "DELETE", &format!("{PODS}/on-node-2"), JSON, &Value::Null).await;
    assert_eq!(code, 200, "{text}");
}

#[tokio::test]
async fn marks_are_written_by_who_may_write_marks() {
    let world = World::new().await;
    let spec = cut(POLICIES, "(list $ \"marks\")", "spec:\n", "{{- include \"lazaret.admissionBinding\"");
    // This server refuses reserved marks by itself. It lets the tenant pass here, and the policy asks for another verb.
    let rules = json!([{"apiGroups": ["lazaret.dev"], "resources": ["marks"], "verbs": ["write"]}, {"apiGroups": ["batch"], "resources": ["*"], "verbs": ["*"]}]);
    world
        .create(&format!("{RBAC}/clusterroles"), &json!({"metadata": {"name": "marks"}, "rules": rules}))
        .await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "marks"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "marks"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
    });
    world.create(&format!("{RBAC}/clusterrolebindings"), &binding).await;
    let asked = spec.replace(".check(\"write\")", ".check(\"judge\")");
    assert_ne!(asked, spec);
    world.enforce(&asked).await;
    let (tenant, root) = (account("tenant", ""), root());
    let marked = |key: &str| {
        let mut pod = pod("p", "");
        pod["metadata"]["annotations"][key] = "{}".into();
        pod
    };
    let mut owned = pod("p", "");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "name": "x", "uid": "u"}]);
    world.until_refused(&tenant, PODS, &owned).await;
    for object in [owned, marked("lazaret.dev/replacement"), marked("lazaret.dev/evicted-by")] {
        let path = format!("{PODS}?dryRun=All");
        assert!(world.send(&tenant, "POST", &path, JSON, &object).await.0 >= 400, "{object}");
        let (code, text) = world.send(&root, "POST", &path, JSON, &object).await;
        assert_eq!(code, 201, "{object}: {text}");
    }
    let (code, text) = world.send(&tenant, "POST", PODS, JSON, &marked("lazaret.dev/run-for")).await;
    assert_eq!(code, 201, "{text}");
    for (path, object) in workloads(&json!({"labels": {"app": "a"}})) {
        let (code, text) = world.send(&tenant, "POST", &path, JSON, &object).await;
        assert_eq!(code, 201, "{path}: {text}");
        let at = format!("{path}/w");
        let (code, text) = world
            .send(&tenant, "PATCH", &at, MERGE, &json!({"metadata": {"annotations": {"note": "x"}}}))
            .await;
        assert_eq!(code, 200, "{path}: {text}");
    }
    for forged in [
        json!({"labels": {"app": "a"}, "annotations": {"lazaret.dev/evicted-by": "{}"}}),
        json!({"labels": {"app": "a", "lazaret.dev/replacement": "released"}}),
    ] {
        for (path, mut object) in workloads(&forged) {
            object["metadata"]["name"] = "forged".into();
            let path = format!("{path}?dryRun=All");
            let (code, text) = world.send(&tenant, "POST", &path, JSON, &object).await;
            assert!(code == 422 && text.contains("is written by controllers alone"), "{path}: {code} {text}");
            let (code, text) = world.send(&root, "POST", &path, JSON, &object).await;
            assert_eq!(code, 201, "{path}: {text}");
        }
    }
}

/// Each kind with a template, whose template has this metadata; and the path of its collection.
fn workloads(metadata: &Value) -> Vec<(String, Value)> {
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": metadata, "spec": {"containers": containers.clone()}});
    let once = json!({"metadata": metadata, "spec": {"containers": containers, "restartPolicy": "Never"}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let of = |spec: Value| json!({"metadata": {"name": "w"}, "spec": spec});
    let apps = |plural: &str| format!("/apis/apps/v1/namespaces/default/{plural}");
    let set = of(json!({"selector": selector.clone(), "template": template.clone()}));
    let mut stateful = set.clone();
    stateful["spec"]["serviceName"] = "w".into();
    let claim = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}});
    vec![
        (apps("deployments"), set.clone()),
        (apps("replicasets"), set.clone()),
        (apps("daemonsets"), set),
        (apps("statefulsets"), stateful),
        ("/apis/batch/v1/namespaces/default/jobs".into(), of(json!({"template": once.clone()}))),
        (
            "/apis/batch/v1/namespaces/default/cronjobs".into(),
            of(json!({"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}})),
        ),
        (
            "/api/v1/namespaces/default/replicationcontrollers".into(),
            of(json!({"selector": {"app": "a"}, "template": template.clone()})),
        ),
        (
            "/api/v1/namespaces/default/podtemplates".into(),
            json!({"metadata": {"name": "w"}, "template": template}),
        ),
        (
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates".into(),
            of(json!({"metadata": metadata, "spec": claim})),
        ),
    ]
}
