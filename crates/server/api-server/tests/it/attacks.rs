//! Attempts of tenants to exceed their rights, one row an attack. Over TLS, with a token or certificate as a tenant has it.

use crate::https::Cluster;
use lazaret_json::{Value, json};
use lazaret_server::Pem;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MERGE: &str = "Content-Type: application/merge-patch+json\r\n";
const STRATEGIC: &str = "Content-Type: application/strategic-merge-patch+json\r\n";
const JSON_PATCH: &str = "Content-Type: application/json-patch+json\r\n";
const APPLY: &str = "Content-Type: application/apply-patch+yaml\r\n";
const NOT_HELD: &str = "is attempting to grant RBAC permissions not currently held:\n{";

const EVERYTHING: &str = r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]"#;

/// The attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attacker {
    /// Full rights on roles and bindings of the namespace `lab`, and a few others there. A service account with a token.
    Tenant,
    /// May write roles and bindings of the cluster. A user with a certificate.
    Operator,
}
use Attacker::{Operator, Tenant};

/// One attack: what is sent, and how it is refused: the code, and a part of the message.
type Attack<'a> = (Attacker, &'a str, String, &'a str, String, u16, &'a str);

fn role(name: &str, rules: &str) -> String {
    format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"{name}"}},"rules":{rules}}}"#
    )
}

fn cluster_role(name: &str, more: &str) -> String {
    format!(
        r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{{"name":"{name}"}},{more}}}"#
    )
}

fn binding(name: &str, kind: &str, role: &str) -> String {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": "tenant", "namespace": "lab"},
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "operator"},
        ],
    })
    .to_string()
}

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

const WRITE: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Makes the world that is attacked, as the administrator.
async fn world(cluster: &Cluster, admin: Option<&Pem>) {
    let mine =
        json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["*"]});
    let owner = json!({"metadata": {"name": "owner"}, "rules": [
        rule(&["rbac.authorization.k8s.io"], &["roles", "rolebindings"], WRITE),
        rule(&[""], &["pods"], &["get", "list", "watch"]),
        rule(&[""], &["configmaps"], &["get", "update", "patch"]),
        rule(&["coordination.k8s.io"], &["leases"], &["get", "update", "patch"]),
        rule(&["authorization.k8s.io"], &["localsubjectaccessreviews", "*/status"], &["create"]),
        mine,
    ]});
    let clusterwide = json!({"metadata": {"name": "operator"}, "rules": [
        rule(&["rbac.authorization.k8s.io"], &["clusterroles", "clusterrolebindings"], WRITE),
        rule(&["authorization.k8s.io"], &["*/status"], &["create"]),
    ]});
    let strong = role("strong", EVERYTHING);
    let aggregate = json!({"metadata": {"name": "gathered"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}});
    let service = r#"{"metadata":{"name":"tenant"}}"#.to_owned();
    for (path, body) in [
        ("/api/v1/namespaces".to_owned(), r#"{"metadata":{"name":"lab"}}"#.to_owned()),
        ("/api/v1/namespaces/lab/serviceaccounts".to_owned(), service),
        (format!("{RBAC}/namespaces/lab/roles"), owner.to_string()),
        (format!("{RBAC}/namespaces/lab/roles"), strong),
        (format!("{RBAC}/namespaces/lab/rolebindings"), binding("owner", "Role", "owner")),
        (format!("{RBAC}/clusterroles"), clusterwide.to_string()),
        (format!("{RBAC}/clusterrolebindings"), binding("operator", "ClusterRole", "operator").replace("RoleBinding", "ClusterRoleBinding").replace(r#"{"kind":"ServiceAccount","name":"tenant","namespace":"lab"},"#, "")),
        (format!("{RBAC}/clusterroles"), aggregate.to_string()),
        (format!("{RBAC}/clusterrolebindings"), json!({"metadata": {"name": "gathered"}, "roleRef": {"kind": "ClusterRole", "name": "gathered"}, "subjects": [{"kind": "User", "name": "operator"}]}).to_string()),
        (format!("{RBAC}/namespaces/lab/rolebindings"), json!({"metadata": {"name": "editors"}, "roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": [{"kind": "User", "name": "somebody"}]}).to_string()),
        ("/api/v1/namespaces/lab/secrets".to_owned(), r#"{"metadata":{"name":"mine"}}"#.to_owned()),
        ("/api/v1/namespaces/lab/secrets".to_owned(), r#"{"metadata":{"name":"other"}}"#.to_owned()),
        ("/api/v1/namespaces/lab/pods".to_owned(), r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#.to_owned()),
    ] {
        let (code, answer) = cluster.send(admin, None, "POST", &path, &body).await;
        assert_eq!(code, 201, "{path}: {answer}");
    }
}

/// Roles and bindings: no user grants rights that they do not hold.
#[allow(clippy::too_many_lines, reason = "a table")]
fn escalations() -> Vec<Attack<'static>> {
    let roles = format!("{RBAC}/namespaces/lab/roles");
    let bindings = format!("{RBAC}/namespaces/lab/rolebindings");
    let (owner, editors) = (format!("{roles}/owner"), format!("{bindings}/editors"));
    let own = format!("{bindings}/owner");
    let all = || role("r", EVERYTHING);
    let some = |rule: Value| role("r", &json!([rule]).to_string());
    let rules = format!(r#"{{"rules":{EVERYTHING}}}"#);
    let myself = r#"{"subjects":[{"kind":"ServiceAccount","name":"tenant","namespace":"lab"}]}"#.to_owned();
    let to_admin =
        r#"{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}"#;
    let add = format!(r#"[{{"op":"add","path":"/rules/-","value":{}}}]"#, rule(&["*"], &["*"], &["*"]));
    let applied = |path: &str| format!("{path}?fieldManager=t&force=true");
    vec![
        (Tenant, "POST", roles.clone(), "", all(), 403, NOT_HELD),
        (Tenant, "POST", format!("{roles}?dryRun=All"), "", all(), 403, NOT_HELD),
        (Tenant, "POST", roles.clone(), "", all().replace("\"name\"", "\"generateName\""), 403, NOT_HELD),
        (Tenant, "PUT", format!("{roles}/r"), "", all(), 403, NOT_HELD),
        (Tenant, "PATCH", applied(&format!("{roles}/r")), APPLY, all(), 403, NOT_HELD),
        (Tenant, "PUT", owner.clone(), "", role("owner", EVERYTHING), 403, NOT_HELD),
        (Tenant, "PATCH", owner.clone(), MERGE, rules.clone(), 403, NOT_HELD),
        (Tenant, "PATCH", owner.clone(), STRATEGIC, rules, 403, NOT_HELD),
        (Tenant, "PATCH", owner.clone(), JSON_PATCH, add, 403, NOT_HELD),
        (Tenant, "PATCH", applied(&owner), APPLY, role("owner", EVERYTHING), 403, NOT_HELD),
        (
            Tenant,
            "POST",
            roles.clone(),
            "",
            some(rule(&["rbac.authorization.k8s.io"], &["roles"], &["escalate"])),
            403,
            NOT_HELD,
        ),
        (
            Tenant,
            "POST",
            roles.clone(),
            "",
            some(rule(&["rbac.authorization.k8s.io"], &["clusterroles"], &["bind"])),
            403,
            NOT_HELD,
        ),
        (
            Tenant,
            "POST",
            roles.clone(),
            "",
            some(rule(&[""], &["users", "groups"], &["impersonate"])),
            403,
            NOT_HELD,
        ),
        (Tenant, "POST", roles.clone(), "", some(rule(&[""], &["pods"], &["get", "create"])), 403, NOT_HELD),
        (Tenant, "POST", roles.clone(), "", some(rule(&[""], &["pods/exec"], &["get"])), 403, NOT_HELD),
        (Tenant, "POST", roles.clone(), "", some(rule(&[""], &["secrets"], &["get"])), 403, NOT_HELD),
        (Tenant, "POST", roles.clone(), "", some(rule(&["*"], &["pods"], &["get"])), 403, NOT_HELD),
        (
            Tenant,
            "POST",
            roles.clone(),
            "",
            some(json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})),
            403,
            NOT_HELD,
        ),
        (Tenant, "POST", bindings.clone(), "", binding("b", "ClusterRole", "cluster-admin"), 403, NOT_HELD),
        (Tenant, "POST", bindings.clone(), "", binding("b", "ClusterRole", "edit"), 403, NOT_HELD),
        (Tenant, "POST", bindings.clone(), "", binding("b", "Role", "strong"), 403, NOT_HELD),
        (Tenant, "POST", bindings.clone(), "", binding("b", "Role", "missing"), 404, "\"missing\" not found"),
        (
            Tenant,
            "PUT",
            format!("{bindings}/b"),
            "",
            binding("b", "ClusterRole", "cluster-admin"),
            403,
            NOT_HELD,
        ),
        (
            Tenant,
            "PATCH",
            applied(&format!("{bindings}/b")),
            APPLY,
            binding("b", "ClusterRole", "cluster-admin"),
            403,
            NOT_HELD,
        ),
        (Tenant, "PATCH", editors.clone(), MERGE, myself.clone(), 403, NOT_HELD),
        (Tenant, "PATCH", editors, STRATEGIC, myself, 403, NOT_HELD),
        (Tenant, "PATCH", own.clone(), MERGE, to_admin.to_owned(), 403, NOT_HELD),
        (
            Tenant,
            "PATCH",
            own,
            MERGE,
            r#"{"roleRef":{"kind":"Role","name":"owner","apiGroup":"x"}}"#.to_owned(),
            422,
            "roleRef",
        ),
        // A role that is deleted comes back only with what its maker holds, though a binding to it is still there.
        (Tenant, "DELETE", format!("{roles}/strong"), "", String::new(), 200, ""),
        (Tenant, "POST", roles.clone(), "", role("strong", EVERYTHING), 403, NOT_HELD),
        (
            Tenant,
            "POST",
            roles,
            "",
            role("r", EVERYTHING).replace("\"name\"", "\"namespace\":\"kube-system\",\"name\""),
            400,
            "does not match the namespace",
        ),
        (
            Tenant,
            "POST",
            format!("{RBAC}/namespaces/kube-system/roles"),
            "",
            role("r", "[]"),
            403,
            "cannot create resource",
        ),
        (
            Tenant,
            "POST",
            format!("{RBAC}/clusterroles"),
            "",
            cluster_role("r", r#""rules":[]"#),
            403,
            "cannot create resource",
        ),
        (
            Tenant,
            "POST",
            format!("{RBAC}/clusterrolebindings"),
            "",
            binding("b", "ClusterRole", "cluster-admin"),
            403,
            "cannot create resource",
        ),
    ]
}

/// Roles of the cluster, and those that gather others.
fn aggregations() -> Vec<Attack<'static>> {
    const NEEDS_ALL: &str = "must have cluster-admin privileges to use the aggregationRule";
    let roles = format!("{RBAC}/clusterroles");
    let labelled = r#"{"metadata":{"labels":{"gather":"yes"}}}"#.to_owned();
    let gather = r#""aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"x":"y"}}]}"#;
    let strong = cluster_role("s", &format!(r#""rules":{EVERYTHING}"#))
        .replace(r#""name""#, r#""labels":{"gather":"yes"},"name""#);
    vec![
        (
            Operator,
            "POST",
            roles.clone(),
            "",
            cluster_role("r", &format!(r#""rules":{EVERYTHING}"#)),
            403,
            NOT_HELD,
        ),
        (Operator, "POST", roles.clone(), "", strong, 403, NOT_HELD),
        (Operator, "PATCH", format!("{roles}/cluster-admin"), MERGE, labelled.clone(), 403, NOT_HELD),
        (Operator, "PATCH", format!("{roles}/system:aggregate-to-edit"), MERGE, labelled, 403, NOT_HELD),
        (Operator, "POST", roles.clone(), "", cluster_role("r", gather), 403, NEEDS_ALL),
        (Operator, "PATCH", format!("{roles}/operator"), MERGE, format!("{{{gather}}}"), 403, NEEDS_ALL),
        (
            Operator,
            "PATCH",
            format!("{roles}/gathered"),
            MERGE,
            r#"{"aggregationRule":null}"#.to_owned(),
            403,
            NEEDS_ALL,
        ),
        (
            Operator,
            "PATCH",
            format!("{roles}/gathered"),
            MERGE,
            format!(r#"{{"rules":{EVERYTHING}}}"#),
            403,
            NOT_HELD,
        ),
        (
            Operator,
            "PATCH",
            format!("{roles}/gathered"),
            JSON_PATCH,
            r#"[{"op":"replace","path":"/aggregationRule/clusterRoleSelectors/0","value":{}}]"#.to_owned(),
            403,
            NEEDS_ALL,
        ),
        (
            Operator,
            "POST",
            format!("{RBAC}/clusterrolebindings"),
            "",
            binding("b", "ClusterRole", "cluster-admin").replace("RoleBinding", "ClusterRoleBinding"),
            403,
            NOT_HELD,
        ),
        (
            Operator,
            "PATCH",
            format!("{RBAC}/clusterrolebindings/cluster-admin"),
            MERGE,
            r#"{"subjects":[{"kind":"User","name":"operator","apiGroup":"rbac.authorization.k8s.io"}]}"#
                .to_owned(),
            403,
            NOT_HELD,
        ),
    ]
}

/// Verbs that pass for others, and names that pass for others.
#[allow(clippy::too_many_lines, reason = "a table")]
fn verbs() -> Vec<Attack<'static>> {
    let lab = "/api/v1/namespaces/lab";
    let map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}"#.to_owned();
    let lease =
        r#"{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"new"}}"#.to_owned();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/lab/leases/new";
    let secret = || r#"{"metadata":{"name":"x"}}"#.to_owned();
    let secrets = format!("{lab}/secrets");
    let get = |path: String, code: u16| (Tenant, "GET", path, "", String::new(), code, "");
    vec![
        (Tenant, "PUT", leases.to_owned(), "", lease.clone(), 403, "cannot create resource \"leases\""),
        (
            Tenant,
            "PATCH",
            format!("{leases}?fieldManager=t"),
            APPLY,
            lease,
            403,
            "cannot create resource \"leases\"",
        ),
        (
            Tenant,
            "PATCH",
            format!("{lab}/configmaps/new?fieldManager=t"),
            APPLY,
            map.clone(),
            403,
            "cannot create resource \"configmaps\"",
        ),
        (
            Tenant,
            "PATCH",
            format!("{lab}/configmaps/new?fieldManager=t&dryRun=All"),
            APPLY,
            map.clone(),
            403,
            "cannot create resource \"configmaps\"",
        ),
        (Tenant, "PUT", format!("{lab}/configmaps/new"), "", map, 404, "not found"),
        (
            Tenant,
            "POST",
            format!("{secrets}?fieldSelector=metadata.name=mine"),
            "",
            secret(),
            403,
            "cannot create resource \"secrets\"",
        ),
        (
            Tenant,
            "POST",
            format!("{secrets}?fieldSelector=metadata.name%3D%3Dmine"),
            "",
            secret(),
            403,
            "cannot create resource \"secrets\"",
        ),
        (
            Tenant,
            "DELETE",
            format!("{secrets}?fieldSelector=metadata.name=mine"),
            "",
            String::new(),
            403,
            "cannot deletecollection resource",
        ),
        (Tenant, "POST", format!("{secrets}/mine"), "", secret(), 405, ""),
        get(format!("{secrets}?fieldSelector=metadata.name=mine"), 200),
        get(format!("{secrets}?fieldSelector=metadata.name=mine,metadata.namespace=lab"), 200),
        get(secrets.clone(), 403),
        get(format!("{secrets}?fieldSelector=metadata.name!=mine"), 403),
        get(format!("{secrets}?fieldSelector=metadata.name=other"), 403),
        get(format!("{secrets}?fieldSelector=metadata.name=other&fieldSelector=metadata.name=mine"), 403),
        get(format!("{secrets}?labelSelector=metadata.name=mine"), 403),
        get(format!("{secrets}?watch=true"), 403),
        get(format!("{secrets}?watch=true&fieldSelector=metadata.name=other"), 403),
        get(format!("{secrets}/other"), 403),
        get("/api/v1/watch/namespaces/lab/secrets".to_owned(), 403),
        get("/api/v1/watch/namespaces/lab/secrets/other".to_owned(), 403),
        get("/api/v1/secrets?fieldSelector=metadata.namespace=lab,metadata.name=mine".to_owned(), 403),
        get("/apis/example.com/v1/widgets".to_owned(), 403),
        get(lab.to_owned(), 403),
        (
            Tenant,
            "PUT",
            format!("{lab}/finalize"),
            "",
            r#"{"metadata":{"name":"lab"}}"#.to_owned(),
            403,
            "in the namespace \"lab\"",
        ),
        (Tenant, "PATCH", format!("{lab}/pods/p/status"), MERGE, "{}".to_owned(), 403, "pods/status"),
        (
            Tenant,
            "POST",
            format!("{lab}/pods/p/binding"),
            "",
            r#"{"target":{"name":"n"}}"#.to_owned(),
            403,
            "pods/binding",
        ),
        (Tenant, "POST", format!("{lab}/pods/p/eviction"), "", "{}".to_owned(), 403, "pods/eviction"),
        (Tenant, "GET", format!("{lab}/pods/p/log"), "", String::new(), 403, "pods/log"),
        (
            Tenant,
            "POST",
            format!("{lab}/serviceaccounts/default/token"),
            "",
            "{}".to_owned(),
            403,
            "serviceaccounts/token",
        ),
        (
            Tenant,
            "GET",
            "/apis/apps/v1/namespaces/lab/deployments/d/scale".to_owned(),
            "",
            String::new(),
            403,
            "deployments/scale",
        ),
    ]
}

/// Paths that look like others.
fn paths() -> Vec<Attack<'static>> {
    let get = |path: &str, code: u16| (Tenant, "GET", path.to_owned(), "", String::new(), code, "");
    vec![
        get("/api/v1/namespaces/kube-system/secrets", 403),
        get("/api/v1/namespaces/kube-system/secrets/", 403),
        get("//api/v1/namespaces/kube-system/secrets", 403),
        get("/api//v1/namespaces/kube-system/secrets", 404),
        get("/api/v1/namespaces/lab/../kube-system/secrets", 403),
        get("/api/v1/namespaces/lab%2F..%2Fkube-system/secrets", 403),
        get("/api/v1/namespaces/lab/pods/..%2F..%2Fkube-system%2Fsecrets", 404),
        get("/api/v1/namespaces/%2e%2e/secrets", 403),
        get("/API/v1/namespaces/kube-system/secrets", 403),
        get("/api/V1/namespaces/kube-system/secrets", 403),
        get("/api/v1/namespaces/kube-system/Secrets", 403),
        get("/api/v1/namespaces/lab%00/pods", 403),
        get("/metrics", 403),
        get("/metrics/", 403),
        get("//metrics", 403),
        get("/healthz/../metrics", 404),
        get("/healthz/%2e%2e/metrics", 404),
    ]
}

/// Other names, other questions.
fn identities() -> Vec<Attack<'static>> {
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews".to_owned();
    let access = "/apis/authorization.k8s.io/v1";
    let as_who = |headers: &'static str, code: u16, part: &'static str| {
        (Tenant, "POST", me.clone(), headers, "{}".to_owned(), code, part)
    };
    let about = |namespace: &str| {
        json!({"spec": {"user": "x", "resourceAttributes": {"namespace": namespace, "verb": "get", "resource": "secrets"}}}).to_string()
    };
    vec![
        as_who("Impersonate-User: admin\r\n", 403, "cannot impersonate resource \"users\""),
        as_who(
            "Impersonate-User: system:serviceaccount:lab:default\r\n",
            403,
            "cannot impersonate resource \"serviceaccounts\"",
        ),
        as_who(
            "Impersonate-User: system:serviceaccount:lab:a:b\r\n",
            403,
            "cannot impersonate resource \"users\"",
        ),
        as_who("Impersonate-Group: system:masters\r\n", 400, ""),
        as_who("Impersonate-Uid: 7\r\n", 400, ""),
        as_who("Impersonate-Extra-Scopes: all\r\n", 400, ""),
        (Tenant, "POST", format!("{access}/subjectaccessreviews"), "", about("lab"), 403, "cannot create"),
        (
            Tenant,
            "POST",
            format!("{access}/namespaces/lab/localsubjectaccessreviews"),
            "",
            about("lab"),
            201,
            "",
        ),
        (
            Tenant,
            "POST",
            format!("{access}/namespaces/lab/localsubjectaccessreviews"),
            "",
            about("kube-system"),
            422,
            "must match metadata.namespace",
        ),
        (
            Tenant,
            "POST",
            format!("{access}/namespaces/lab/localsubjectaccessreviews"),
            "",
            r#"{"spec":{"user":"x","nonResourceAttributes":{"path":"/metrics","verb":"get"}}}"#.to_owned(),
            422,
            "disallowed on this kind of request",
        ),
        (
            Tenant,
            "POST",
            format!("{access}/namespaces/kube-system/localsubjectaccessreviews"),
            "",
            about("kube-system"),
            403,
            "cannot create",
        ),
        (Operator, "POST", format!("{access}/subjectaccessreviews/x/status"), "", about("lab"), 404, ""),
        (
            Tenant,
            "POST",
            "/apis/authentication.k8s.io/v1/tokenreviews".to_owned(),
            "",
            r#"{"spec":{"token":"x"}}"#.to_owned(),
            403,
            "cannot create",
        ),
    ]
}

/// All rights of a user in a namespace, as the server reports them.
async fn rights(cluster: &Cluster, who: Option<&Pem>, headers: &str, namespace: &str) -> Value {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let body = json!({"spec": {"namespace": namespace}}).to_string();
    let (code, answer) = cluster.send_with(who, headers, "POST", path, &body).await;
    assert_eq!(code, 201, "{answer}");
    answer["status"].clone()
}

#[tokio::test]
async fn every_attack_is_refused_and_nobody_gained_a_right() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    world(&cluster, admin.as_ref()).await;
    let request = "/api/v1/namespaces/lab/serviceaccounts/tenant/token";
    let (_, answer) = cluster.send(admin.as_ref(), None, "POST", request, r#"{"spec":{}}"#).await;
    let token = format!("Authorization: Bearer {}\r\n", answer["status"]["token"].as_str().unwrap());
    let operator = cluster.identity("operator", "people");
    let operator = operator.as_ref();
    let all = async || {
        let mut all = Vec::new();
        for namespace in ["lab", "kube-system"] {
            all.push(rights(&cluster, None, &token, namespace).await);
            all.push(rights(&cluster, operator, "", namespace).await);
        }
        all
    };
    let before = all().await;
    let mut failed = Vec::new();
    for attacks in [escalations(), aggregations(), verbs(), paths(), identities()] {
        for (who, method, path, headers, body, expected, part) in attacks {
            let (pem, headers) = match who {
                Tenant => (None, format!("{token}{headers}")),
                Operator => (operator, headers.to_owned()),
            };
            let (code, answer) = cluster.send_with(pem, &headers, method, &path, &body).await;
            let message = answer["message"].as_str().unwrap_or_default();
            if code != expected || !message.contains(part) {
                failed.push(format!(
                    "{who:?} {method} {path}\n  {body}\n  expected {expected} {part:?}\n  got {code} {answer}"
                ));
            }
        }
    }
    assert!(failed.is_empty(), "{} attacks:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(all().await, before, "somebody has other rights than before");
}

#[tokio::test]
async fn credentials_that_are_not_good_are_refused() {
    let cluster = Cluster::start().await;
    let me = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, text);
    let claims = r#"{"iss":"https://kubernetes.default.svc.cluster.local","sub":"system:serviceaccount:kube-system:default","aud":["https://kubernetes.default.svc.cluster.local"],"exp":9999999999,"nbf":0}"#;
    let unsigned = |header: &str| format!("{}.{}.", encode(header), encode(claims));
    for (name, header) in [
        ("nonsense", "Bearer nonsense".to_owned()),
        ("in small letters", "bearer nonsense".to_owned()),
        ("no algorithm", format!("Bearer {}", unsigned(r#"{"alg":"none"}"#))),
        ("another algorithm", format!("Bearer {}AAAA", unsigned(r#"{"alg":"HS256"}"#))),
        ("no signature", format!("Bearer {}", unsigned(r#"{"alg":"ES256"}"#))),
        ("too long", format!("Bearer {}{}", unsigned(r#"{"alg":"ES256"}"#), "A".repeat(32 << 10))),
    ] {
        let headers = format!("Authorization: {header}\r\n");
        assert_eq!(cluster.send_with(None, &headers, "POST", me, "{}").await.0, 401, "{name}");
    }
}

/// Grants that Kubernetes permits are permitted here: by a user who holds the rights, or may `escalate` or `bind`.
#[tokio::test]
async fn whoever_holds_it_or_may_escalate_or_bind_may_give_it() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let admin = admin.as_ref();
    let held = |verbs: &[&str], names: Value| {
        let mut rule = rule(&["rbac.authorization.k8s.io"], &["roles", "clusterroles"], verbs);
        if !names.is_null() {
            rule["resourceNames"] = names;
        }
        rule
    };
    let write = rule(&["rbac.authorization.k8s.io"], &["roles", "rolebindings"], WRITE);
    let pods = rule(&[""], &["pods"], &["get"]);
    for (user, rules) in [
        ("holder", json!([write, pods])),
        ("escalator", json!([write, held(&["escalate"], json!(null))])),
        ("named-escalator", json!([write, held(&["escalate"], json!(["r"]))])),
        ("binder", json!([write, held(&["bind"], json!(["view"]))])),
        ("nobody", json!([write])),
    ] {
        let to = format!("{RBAC}/namespaces/default");
        let made = role(user, &rules.to_string());
        assert_eq!(cluster.send(admin, None, "POST", &format!("{to}/roles"), &made).await.0, 201);
        let bound = json!({"metadata": {"name": user}, "roleRef": {"kind": "Role", "name": user}, "subjects": [{"kind": "User", "name": user}]});
        let (code, answer) =
            cluster.send(admin, None, "POST", &format!("{to}/rolebindings"), &bound.to_string()).await;
        assert_eq!(code, 201, "{answer}");
    }
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let get_pods = json!([pods]).to_string();
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    let finalizer = r#"{"metadata":{"finalizers":["example.com/f"]}}"#;
    for (user, method, path, headers, body, expected) in [
        ("holder", "POST", roles.clone(), "", role("a", &get_pods), 201),
        ("holder", "POST", roles.clone(), "", role("b", EVERYTHING), 403),
        ("holder", "POST", bindings.clone(), "", binding("a", "Role", "a"), 201),
        ("holder", "POST", bindings.clone(), "", binding("b", "ClusterRole", "view"), 403),
        ("nobody", "POST", roles.clone(), "", role("c", &get_pods), 403),
        ("nobody", "POST", roles.clone(), "", role("c", "[]"), 201),
        ("nobody", "POST", bindings.clone(), "", binding("c", "Role", "a"), 403),
        ("nobody", "PATCH", format!("{roles}/a"), MERGE, label.to_owned(), 403),
        ("nobody", "PATCH", format!("{roles}/a"), MERGE, finalizer.to_owned(), 200),
        ("nobody", "PATCH", format!("{bindings}/a"), MERGE, label.to_owned(), 403),
        ("nobody", "PATCH", format!("{bindings}/a"), MERGE, finalizer.to_owned(), 200),
        ("escalator", "POST", roles.clone(), "", role("d", EVERYTHING), 201),
        ("escalator", "PATCH", format!("{roles}/a"), MERGE, format!(r#"{{"rules":{EVERYTHING}}}"#), 200),
        ("escalator", "POST", bindings.clone(), "", binding("d", "Role", "d"), 403),
        ("named-escalator", "POST", roles.clone(), "", role("r", EVERYTHING), 403),
        ("named-escalator", "PUT", format!("{roles}/r"), "", role("r", EVERYTHING), 201),
        ("named-escalator", "PUT", format!("{roles}/s"), "", role("s", EVERYTHING), 403),
        ("binder", "POST", bindings.clone(), "", binding("e", "ClusterRole", "view"), 201),
        ("binder", "POST", bindings.clone(), "", binding("f", "ClusterRole", "edit"), 403),
        ("binder", "POST", roles.clone(), "", role("e", &get_pods), 403),
    ] {
        let who = cluster.identity(user, "people");
        let (code, answer) = cluster.send_with(who.as_ref(), headers, method, &path, &body).await;
        assert_eq!(code, expected, "{user} {method} {path} {body}: {answer}");
    }
    let (_, answer) = cluster
        .send(cluster.identity("nobody", "people").as_ref(), None, "POST", &roles, &role("z", &get_pods))
        .await;
    assert_eq!(
        answer["message"],
        "roles.rbac.authorization.k8s.io \"z\" is forbidden: user \"nobody\" (groups=[\"people\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}"
    );
}
