//! Attempts to have a health policy do what its author may not do.

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_server::{Server, ServerOptions, User};
use lazaret_store::Store;

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct World(Server);

impl World {
    /// The author of policies holds these rules in the cluster, and Jobs in the namespace `mine`.
    async fn new(rules: Value) -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let world = Self(Server::new(store, ServerOptions::default()));
        world.0.bootstrap().await.unwrap();
        let mut all = json!([
            {"apiGroups": ["lazaret.dev"], "resources": ["devicehealthpolicies", "devicehealthpolicies/status"], "verbs": ["*"]},
        ]);
        all.as_array_mut().unwrap().extend(rules.as_array().cloned().unwrap_or_default());
        let subject = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "author"}]);
        let reference =
            |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "author"});
        let jobs = json!([
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]},
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        ]);
        let mine = format!("{RBAC}/namespaces/mine");
        for (path, object) in [
            ("/api/v1/namespaces".to_owned(), json!({"metadata": {"name": "mine"}})),
            (format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "author"}, "rules": all})),
            (
                format!("{RBAC}/clusterrolebindings"),
                json!({"metadata": {"name": "author"}, "roleRef": reference("ClusterRole"), "subjects": subject}),
            ),
            (format!("{mine}/roles"), json!({"metadata": {"name": "author"}, "rules": jobs})),
            (
                format!("{mine}/rolebindings"),
                json!({"metadata": {"name": "author"}, "roleRef": reference("Role"), "subjects": subject}),
            ),
        ] {
            assert_eq!(world.send("root", "POST", &path, JSON, &object).await.0, 201, "{path}");
        }
        world
    }

    async fn send(&self, name: &str, method: &str, path: &str, kind: &str, body: &Value) -> (u16, String) {
        let groups: &[&str] = if name == "root" { &["system:masters"] } else { &["system:authenticated"] };
        let groups = groups.iter().map(|&group| group.into()).collect();
        let user = User { name: name.into(), groups, ..User::default() };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
        let request = request.body(Bytes::from(body.to_string())).unwrap();
        let response = self.0.handle(&user, request).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn policy(steps: Value, recovery: Value) -> Value {
    let mut policy = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "p"},
        "spec": {
            "rules": [{"name": "r", "when": "signal.key == 'a'", "stage": "Drained"}],
            "serviceAccount": {"namespace": "lazaret-repair", "name": "repair"},
            "repair": {"steps": steps},
            "mode": "Enforce",
        },
    });
    if !recovery.is_null() {
        policy["spec"]["recovery"] = recovery;
    }
    policy
}

fn job(namespace: &str) -> Value {
    let template = json!({"metadata": {"namespace": namespace}, "spec": {"template": {"spec": {
        "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}],
        "hostPID": true, "serviceAccountName": "strong",
    }}}});
    json!([{"name": "s", "timeoutSeconds": 60, "job": {"template": template}}])
}

fn request(api_version: &str, kind: &str, template: Value) -> Value {
    let request = json!({"apiVersion": api_version, "kind": kind, "template": template});
    json!([{"name": "s", "timeoutSeconds": 60, "doneWhen": "true", "request": request}])
}

fn admin_binding() -> Value {
    json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "author"}],
    })
}

const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

/// One row an attempt: what the author holds besides, what the policy describes, and what the refusal says.
fn attempts() -> Vec<(&'static str, Value, Value, &'static str)> {
    let bindings =
        json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["create", "get"]}]);
    let everything = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let validation = |namespace: &str| {
        json!({"probation": "1m", "validation": {
            "deviceClassName": "gpu", "template": {"metadata": {"namespace": namespace}, "spec": {}},
        }})
    };
    vec![
        (
            "a Job of another namespace",
            json!([]),
            policy(job("kube-system"), Value::Null),
            "spec.repair.steps[0].job",
        ),
        (
            "a Job of no namespace",
            json!([]),
            policy(
                json!([{"name": "s", "timeoutSeconds": 60, "job": {"template": {"spec": {}}}}]),
                Value::Null,
            ),
            "in the namespace \\\"default\\\"",
        ),
        (
            "a validation of another namespace",
            json!([]),
            policy(json!([]), validation("kube-system")),
            "spec.recovery.validation",
        ),
        (
            "a binding that it may not create",
            json!([]),
            policy(request(RBAC_VERSION, "ClusterRoleBinding", admin_binding()), Value::Null),
            "spec.repair.steps[0].request",
        ),
        (
            "a binding to a role that it does not hold",
            bindings.clone(),
            policy(request(RBAC_VERSION, "ClusterRoleBinding", admin_binding()), Value::Null),
            "not currently held",
        ),
        (
            "a role that it does not hold",
            bindings.clone(),
            policy(request(RBAC_VERSION, "ClusterRole", everything), Value::Null),
            "not currently held",
        ),
        (
            "an aggregated role",
            bindings,
            policy(
                request(
                    RBAC_VERSION,
                    "ClusterRole",
                    json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
                ),
                Value::Null,
            ),
            "cluster-admin privileges",
        ),
        (
            "an object that it may create and not read",
            json!([]),
            policy(request("v1", "ConfigMap", json!({"metadata": {"namespace": "mine"}})), Value::Null),
            "cannot get resource",
        ),
        (
            "an object of a kind that is not served",
            json!([{"apiGroups": ["example.com"], "resources": ["reboots"], "verbs": ["*"]}]),
            policy(request("example.com/v1", "Reboot", json!({})), Value::Null),
            "resource \\\"*\\\" in API group \\\"example.com\\\"",
        ),
        (
            "another policy",
            json!([]),
            policy(request("lazaret.dev/v1alpha1", "DeviceHealthPolicy", json!({})), Value::Null),
            "may not describe another",
        ),
    ]
}

#[tokio::test]
async fn whoever_writes_a_health_policy_gains_no_right_by_it() {
    for (attempt, rules, policy, why) in attempts() {
        let world = World::new(rules).await;
        let harmless = self::policy(json!([]), Value::Null);
        let one = format!("{POLICIES}/p");
        let (code, said) = world.send("author", "POST", POLICIES, JSON, &policy).await;
        assert!([403, 422].contains(&code) && said.contains(why), "{attempt}: {code} {said}");
        let (code, said) =
            world.send("author", "PATCH", &format!("{one}?fieldManager=m"), APPLY, &policy).await;
        assert!([403, 422].contains(&code) && said.contains(why), "apply of {attempt}: {code} {said}");
        assert_eq!(world.send("author", "POST", POLICIES, JSON, &harmless).await.0, 201, "{attempt}");
        let (_, stored) = world.send("root", "GET", &one, JSON, &Value::Null).await;
        let mut changed: Value = serde_json::from_str(&stored).unwrap();
        changed["spec"] = policy["spec"].clone();
        let patch = json!([{"op": "replace", "path": "/spec", "value": policy["spec"]}]);
        for (method, kind, body) in [
            ("PUT", JSON, &changed),
            ("PATCH", MERGE, &policy),
            ("PATCH", JSON_PATCH, &patch),
            ("PATCH", APPLY, &policy),
        ] {
            let force = if kind == APPLY { "&force=true" } else { "" };
            let path = format!("{one}?fieldManager=m{force}");
            let (code, said) = world.send("author", method, &path, kind, body).await;
            assert!(
                [403, 422].contains(&code) && said.contains(why),
                "{method} {kind} of {attempt}: {code} {said}"
            );
        }
        assert_eq!(
            world.send("root", "GET", &one, JSON, &Value::Null).await.1,
            stored,
            "{attempt}: nothing changed"
        );
    }
}

#[tokio::test]
async fn a_policy_names_an_account_of_a_namespace_that_is_allowed() {
    let world = World::new(json!([])).await;
    let mut policy = policy(job("mine"), Value::Null);
    policy["spec"]["serviceAccount"] = Value::Null;
    let (code, said) = world.send("root", "POST", POLICIES, JSON, &policy).await;
    assert!(
        code == 403 && said.contains("spec.serviceAccount") && said.contains("lazaret-repair"),
        "{code} {said}"
    );
    policy["spec"]["serviceAccount"] = json!({"namespace": "kube-system", "name": "strong"});
    let (code, said) = world.send("root", "POST", POLICIES, JSON, &policy).await;
    assert!(code == 403 && said.contains("spec.serviceAccount.namespace"), "{code} {said}");
    policy["spec"]["serviceAccount"]["namespace"] = "lazaret-repair".into();
    assert_eq!(
        world.send("author", "POST", POLICIES, JSON, &policy).await.0,
        201,
        "what it may create it may describe"
    );
}

#[tokio::test]
async fn whoever_leaves_the_spec_as_it_is_needs_no_permission_for_what_it_describes() {
    let world = World::new(json!([])).await;
    let policy = policy(job("kube-system"), Value::Null);
    assert_eq!(world.send("root", "POST", POLICIES, JSON, &policy).await.0, 201);
    let one = format!("{POLICIES}/p");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(world.send("author", "PATCH", &one, MERGE, &label).await.0, 200);
    let status = json!({"status": {"counts": []}});
    assert_eq!(world.send("author", "PATCH", &format!("{one}/status"), MERGE, &status).await.0, 200);
    let other = json!({"spec": {"mode": "Observe"}});
    assert_eq!(
        world.send("author", "PATCH", &one, MERGE, &other).await.0,
        403,
        "what it does is another matter"
    );
}
