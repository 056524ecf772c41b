//! Initial objects of every cluster: namespaces, roles, priorities.

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::{Value, json};
use lazaret_kinds::{User, own_definitions};

use super::{
    controllers::{self, Granted},
    default_roles::{self, AUTO_UPDATE},
};
use crate::{Server, ServerAddress, object, proxy::nodes::API_SERVER_TO_NODES, verbs};

const NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

impl Server {
    /// Publishes the certificate, as PEM, with which connections to this server are verified.
    ///
    /// # Errors
    /// The object that could not be written.
    pub async fn publish_authority(&self, certificate: &str) -> Result<(), String> {
        publish(self, certificate).await
    }

    /// Creates the initial objects of every cluster, where they are missing.
    ///
    /// # Errors
    /// The object that could not be created.
    pub async fn bootstrap(&self) -> Result<(), String> {
        ensure(self).await?;
        verbs::settle(self).await.map_err(|error| format!("settle the definitions of kinds: {error}"))
    }
}

/// Makes what is missing and leaves alone what is there.
async fn ensure(server: &Server) -> Result<(), String> {
    for name in NAMESPACES {
        create(server, "/api/v1/namespaces", json!({"metadata": {"name": name}})).await?;
        create(
            server,
            &format!("/api/v1/namespaces/{name}/serviceaccounts"),
            json!({"metadata": {"name": "default"}}),
        )
        .await?;
    }
    for role in default_roles::cluster_roles() {
        bring_up_to_date(server, &role).await?;
    }
    // The controllers of Kubernetes have roles of their own.
    let controllers = json!({
        "metadata": {"name": CONTROLLER_MANAGER, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]}],
    });
    create(server, ROLES, controllers).await?;
    for (role, subjects) in BINDINGS {
        let subject = |(kind, name): &(&str, &str)| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        let binding = json!({
            "metadata": {"name": role, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": subjects.iter().map(subject).collect::<Vec<_>>(),
        });
        create(server, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await?;
    }
    for granted in controllers::objects() {
        keep_up_to_date(server, &granted).await?;
    }
    for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)]
    {
        let class =
            json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "PreemptLowerPriority"});
        create(server, "/apis/scheduling.k8s.io/v1/priorityclasses", class).await?;
    }
    for definition in own_definitions() {
        apply(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    }
    Ok(())
}

/// Brings an object to what this version says, whatever an older one said.
async fn apply(server: &Server, path: &str, object: &Value) -> Result<(), String> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let at = format!("{path}/{name}?fieldManager=lazaret&force=true");
    match send(server, "PATCH", &at, "application/apply-patch+yaml", object).await? {
        200 | 201 => Ok(()),
        code => Err(format!("apply {path}/{name}: answered {code}")),
    }
}

/// Publishes the certificate to trust: for servers of other groups, and for the namespace controller, which copies it into each
/// namespace, where pods find it.
async fn publish(server: &Server, authority: &str) -> Result<(), String> {
    let root = json!({"metadata": {"name": "kube-root-ca.crt"}, "data": {"ca.crt": authority}});
    put_map(server, "kube-system", root).await?;
    let clients = json!({"metadata": {"name": "extension-apiserver-authentication"}, "data": {"client-ca-file": authority}});
    put_map(server, "kube-system", clients).await?;
    let reader = json!({
        "metadata": {"name": "extension-apiserver-authentication-reader", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["extension-apiserver-authentication"], "verbs": ["get", "list", "watch"]}],
    });
    create(server, "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles", reader).await?;
    match server.address().and_then(ServerAddress::endpoint) {
        Some(endpoint) => publish_cluster_info(server, authority, &endpoint.to_string()).await,
        None => Ok(()),
    }
}

/// Publishes, for clients without credentials, the server's address and its authority: a node that joins looks them up.
async fn publish_cluster_info(server: &Server, authority: &str, endpoint: &str) -> Result<(), String> {
    const NAME: &str = "kubeadm:bootstrap-signer-clusterinfo";
    const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public";
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    certificate-authority-data: {}\n    server: https://{endpoint}\n",
        STANDARD.encode(authority)
    );
    let info = json!({"metadata": {"name": "cluster-info"}, "data": {"kubeconfig": kubeconfig}});
    put_map(server, "kube-public", info).await?;
    let role = json!({
        "metadata": {"name": NAME},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["cluster-info"], "verbs": ["get"]}],
    });
    create(server, &format!("{ROLES}/roles"), role).await?;
    let binding = json!({
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"}],
    });
    create(server, &format!("{ROLES}/rolebindings"), binding).await
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

pub(crate) async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    kind: &str,
    body: String,
) -> Result<u16, String> {
    let user =
        User { name: "system:apiserver".into(), groups: vec!["system:masters".into()], ..User::default() };
    let request = http::Request::builder().method(method).uri(path).header("content-type", kind);
    let request = request.body(body.into()).map_err(|error| error.to_string())?;
    Ok(server.handle(&user, request).await.status().as_u16())
}

// DEVIATION(bootstrap-bindings): kubeadm makes them for a group of its own.
/// The role that lets a node with a bootstrap token get its first certificate, and renew it.
const NODE_CLIENT: &str = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
const SELF_NODE_CLIENT: &str = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
// DEVIATION(serving-approval)
/// The role that lets a node serve under its own name.
const SELF_NODE_SERVER: &str = "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver";
const NODE_BOOTSTRAPPER: &str = "system:node-bootstrapper";

const BINDINGS: &[(&str, &[(&str, &str)])] = &[
    ("cluster-admin", &[("Group", "system:masters")]),
    ("system:discovery", &[("Group", "system:authenticated")]),
    ("system:basic-user", &[("Group", "system:authenticated")]),
    ("system:public-info-viewer", &[("Group", "system:authenticated"), ("Group", "system:unauthenticated")]),
    ("system:monitoring", &[("Group", "system:monitoring")]),
    (NODE_BOOTSTRAPPER, &[("Group", "system:bootstrappers")]),
    (NODE_CLIENT, &[("Group", "system:bootstrappers")]),
    (SELF_NODE_CLIENT, &[("Group", "system:nodes")]),
    (SELF_NODE_SERVER, &[("Group", "system:nodes")]),
    ("system:kube-scheduler", &[("User", "system:kube-scheduler")]),
    ("system:volume-scheduler", &[("User", "system:kube-scheduler")]),
    (CONTROLLER_MANAGER, &[("User", CONTROLLER_MANAGER)]),
    ("system:node-proxier", &[("User", "system:kube-proxy")]),
    (KUBELET_API_ADMIN, &[("User", API_SERVER_TO_NODES)]),
];

const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// The role of this server on the API of nodes, which authorize it. Kubernetes has no binding for it, and its server is in `system:masters`.
const KUBELET_API_ADMIN: &str = "system:kubelet-api-admin";

/// Makes a role or binding of a controller. One that another version made is given what this one says, unless an administrator has turned that off.
async fn keep_up_to_date(server: &Server, granted: &Granted) -> Result<(), String> {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let Granted { plural, namespace, object } = granted;
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let place = if namespace.is_empty() { String::new() } else { format!("namespaces/{namespace}/") };
    let path = format!("/apis/{GROUP}/v1/{place}{plural}");
    create(server, &path, object.clone()).await?;
    let at = format!("{path}/{name}");
    let kind = lazaret_kinds::find(GROUP, plural);
    let stored = kind.and_then(|kind| server.store().get(object::key(kind, namespace, name).as_bytes()));
    let Some(stored) = stored.map(|stored| object::decode(&stored.value)) else { return Ok(()) };
    let is_same = ["rules", "roleRef", "subjects"].iter().all(|part| stored[*part] == object[*part]);
    if is_same || stored["metadata"]["annotations"][AUTO_UPDATE] != "true" {
        return Ok(());
    }
    match send(server, "PUT", &at, "application/json", object).await? {
        200 => Ok(()),
        code => Err(format!("bring {at} up to date: answered {code}")),
    }
}

/// Makes a default role. One that an older version made, which says nothing of updates, is given the rules of this one: some could do more.
async fn bring_up_to_date(server: &Server, role: &Value) -> Result<(), String> {
    create(server, ROLES, role.clone()).await?;
    let name = role["metadata"]["name"].as_str().unwrap_or_default();
    let path = format!("{ROLES}/{name}");
    let Some(stored) =
        server.store().get(format!("/rbac.authorization.k8s.io/clusterroles/{name}").as_bytes())
    else {
        return Ok(());
    };
    let stored = object::decode(&stored.value);
    let metadata = &stored["metadata"];
    if metadata["labels"]["kubernetes.io/bootstrapping"] != "rbac-defaults"
        || metadata["annotations"].get(AUTO_UPDATE).is_some()
    {
        return Ok(());
    }
    match send(server, "PUT", &path, "application/json", role).await? {
        200 => Ok(()),
        code => Err(format!("bring {path} up to date: answered {code}")),
    }
}
