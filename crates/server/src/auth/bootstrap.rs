//! What every cluster begins with: namespaces, roles, priorities.

use lazaret_json::{Value, json};
use lazaret_kinds::User;

use crate::Server;

/// Policies that replace pods on tainted nodes and devices: the same definition that other clusters are given.
const REPLACEMENT_POLICIES: &str = include_str!("../../../../deploy/taintreplacementpolicies.yaml");

const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// Makes what is missing and leaves alone what is there.
pub(crate) async fn ensure(server: &Server) -> Result<(), String> {
    for name in NAMESPACES {
        create(server, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await?;
        create(
            server,
            &format!("/api/v1/namespaces/{name}/serviceaccounts"),
            json!({"metadata": {"name": "default"}}),
        )
        .await?;
    }
    for (name, rules) in cluster_roles() {
        let role = json!({"metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}, "rules": rules});
        create(server, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await?;
    }
    for (role, kind, subject) in BINDINGS {
        let binding = json!({
            "metadata": {"name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": subject}],
        });
        create(server, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await?;
    }
    for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]
    {
        let class =
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await?;
    }
    apply(
        server,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/taintreplacementpolicies.lazaret.dev",
        REPLACEMENT_POLICIES,
    )
    .await
}

/// Brings an object to what this version says, whatever an older one said.
async fn apply(server: &Server, path: &str, yaml: &str) -> Result<(), String> {
    let at = format!("{path}?fieldManager=lazaret&force=true");
    match ask(server, "PATCH", &at, "application/apply-patch+yaml", yaml.to_owned()).await? {
        200 | 201 => Ok(()),
        code => Err(format!("apply {path}: answered {code}")),
    }
}

/// Tells everybody which certificate to trust: servers of other groups, and whoever looks after namespaces and copies it into each of
/// them, where pods find it.
pub(crate) async fn publish(server: &Server, authority: &str) -> Result<(), String> {
    let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}});
    put_map(server, "kube-system", root).await?;
    let clients = json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {"client-ca-file": authority}});
    put_map(server, "kube-system", clients).await?;
    let reader = json!({
        "metadata": {"name": "extension-apiserver-authentication-reader", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["extension-apiserver-authentication"], "verbs": ["get", "list", "watch"]}],
    });
    create(server, "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles", reader).await
}

/// Makes a config map, or gives one that is there these data.
async fn put_map(server: &Server, namespace: &str, map: Value) -> Result<(), String> {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    create(server, &path, map.clone()).await?;
    let path = format!("{path}/{}", map["metadata"]["name"].as_str().unwrap_or_default());
    let data = json!({"data": map["data"]});
    match send(server, "PATCH", &path, "application/merge-patch+json", &data).await? {
        200 => Ok(()),
        code => Err(format!("write {path}: answered {code}")),
    }
}

async fn create(server: &Server, path: &str, object: Value) -> Result<(), String> {
    match send(server, "POST", path, "application/json", &object).await? {
        200 | 201 | 409 => Ok(()),
        code => {
            // A store that is read-only for now refuses before it looks; what is there already needs no write.
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match send(server, "GET", &format!("{path}/{name}"), "", &json!({})).await? {
                200 if code == 503 => Ok(()),
                _ => Err(format!("make {name:?} in {path}: answered {code}")),
            }
        }
    }
}

async fn send(server: &Server, method: &str, path: &str, kind: &str, body: &Value) -> Result<u16, String> {
    ask(server, method, path, kind, body.to_string()).await
}

async fn ask(server: &Server, method: &str, path: &str, kind: &str, body: String) -> Result<u16, String> {
    let user =
        User { name: "system:apiserver".into(), groups: vec!["system:masters".into()], ..User::default() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(body.into()).map_err(|error| error.to_string())?;
    Ok(server.handle(&user, request).await.status().as_u16())
}

const BINDINGS: &[(&str, &str, &str)] = &[
    ("cluster-admin", "Group", "system:masters"),
    ("system:discovery", "Group", "system:authenticated"),
    ("system:basic-user", "Group", "system:authenticated"),
    ("system:public-info-viewer", "Group", "system:unauthenticated"),
    ("system:monitoring", "Group", "system:monitoring"),
    ("system:kube-scheduler", "User", "system:kube-scheduler"),
    ("system:kube-controller-manager", "User", "system:kube-controller-manager"),
];

/// What of the core group anybody who may look may look at: no secrets.
const OPEN_CORE: &[&str] = &[
    "bindings",
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "namespaces/status",
    "persistentvolumeclaims",
    "pods",
    "pods/log",
    "pods/status",
    "replicationcontrollers",
    "resourcequotas",
    "serviceaccounts",
    "services",
];

fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": groups, "resources": resources, "verbs": verbs})
}

fn cluster_roles() -> Vec<(&'static str, Vec<Value>)> {
    const READ: &[&str] = &["get", "list", "watch"];
    const WRITE: &[&str] =
        &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let health = json!({"nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"], "verbs": ["get"]});
    let discovery = json!({"nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz", "/version", "/version/"], "verbs": ["get"]});
    let monitoring = json!({"nonResourceURLs": ["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"], "verbs": ["get"]});
    let everything = vec![rule(&["*"], &["*"], &["*"]), json!({"nonResourceURLs": ["*"], "verbs": ["*"]})];
    let claims = &["resourceclaims", "resourceclaimtemplates"];
    vec![
        ("cluster-admin", everything.clone()),
        ("system:discovery", vec![discovery]),
        ("system:public-info-viewer", vec![health]),
        ("system:monitoring", vec![monitoring]),
        (
            "system:basic-user",
            vec![
                rule(
                    &["authorization.k8s.io"],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"],
                ),
                rule(&["authentication.k8s.io"], &["selfsubjectreviews"], &["create"]),
            ],
        ),
        (
            "system:kube-scheduler",
            vec![
                rule(
                    &[""],
                    &[
                        "nodes",
                        "namespaces",
                        "services",
                        "replicationcontrollers",
                        "persistentvolumes",
                        "persistentvolumeclaims",
                    ],
                    READ,
                ),
                rule(&["apps"], &["replicasets", "statefulsets"], READ),
                rule(&["policy"], &["poddisruptionbudgets"], READ),
                rule(&["storage.k8s.io"], &["*"], READ),
                rule(&[""], &["bindings", "pods/binding"], &["create"]),
                rule(&[""], &["pods"], &["delete", "get", "list", "watch"]),
                rule(&[""], &["pods/status"], &["patch", "update"]),
                rule(&["", "events.k8s.io"], &["events"], &["create", "patch", "update"]),
                rule(
                    &["resource.k8s.io"],
                    &["deviceclasses", "devicetaintrules", "resourceslices", "resourceslicepatches"],
                    READ,
                ),
                rule(&["resource.k8s.io"], &["resourceclaims"], WRITE),
                rule(
                    &["resource.k8s.io"],
                    &["resourceclaims/status", "resourceclaims/binding"],
                    &["patch", "update"],
                ),
                rule(
                    &["coordination.k8s.io"],
                    &["leases"],
                    &["create", "get", "list", "patch", "update", "watch"],
                ),
                rule(&["authentication.k8s.io"], &["tokenreviews"], &["create"]),
                rule(&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
            ],
        ),
        ("system:kube-controller-manager", everything),
        (
            "view",
            vec![
                rule(&[""], OPEN_CORE, READ),
                rule(&["apps", "autoscaling", "batch", "policy"], &["*"], READ),
                rule(&["networking.k8s.io"], &["ingresses", "networkpolicies"], READ),
                rule(&["resource.k8s.io"], claims, READ),
            ],
        ),
        (
            "edit",
            vec![
                rule(&[""], OPEN_CORE, READ),
                rule(
                    &[""],
                    &[
                        "configmaps",
                        "events",
                        "persistentvolumeclaims",
                        "pods",
                        "pods/eviction",
                        "replicationcontrollers",
                        "secrets",
                        "serviceaccounts",
                        "services",
                    ],
                    WRITE,
                ),
                rule(&["apps", "autoscaling", "batch", "policy"], &["*"], WRITE),
                rule(&["networking.k8s.io"], &["ingresses", "networkpolicies"], WRITE),
                rule(&["resource.k8s.io"], claims, WRITE),
            ],
        ),
    ]
}
