//! Certificates by request: who gets one, who may approve one, and what one is good for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::time::Duration;

use crate::https::Cluster;
use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::{Value, json};
use lazaret_server::Pem;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
const TOKEN: &str = "abcdef.0123456789abcdef";

/// A request, and the key that it is for.
struct SentRequest {
    object: Value,
    key: String,
}

fn ask(name: &str, signer: &str, subject: (&str, &str), names: Vec<SanType>) -> SentRequest {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, subject.1);
    params.distinguished_name.push(DnType::CommonName, subject.0);
    params.subject_alt_names = names;
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    let purpose = if signer == KUBELET_SERVING { "server auth" } else { "client auth" };
    let object = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
        "spec": {"signerName": signer, "request": STANDARD.encode(pem), "usages": ["digital signature", purpose]},
    });
    SentRequest { object, key: key.serialize_pem() }
}

struct World {
    cluster: Cluster,
    admin: Option<Pem>,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        cluster.sign_certificates();
        let admin = cluster.identity("root", "system:masters");
        let world = Self { cluster, admin };
        let data = json!({
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        });
        let secret = json!({
            "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "stringData": data,
        });
        assert_eq!(world.admin("POST", "/api/v1/namespaces/kube-system/secrets", &secret).await.0, 201);
        world
    }

    async fn admin(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.cluster.send(self.admin.as_ref(), None, method, path, &body.to_string()).await
    }

    /// Waits until a request shows this condition.
    async fn condition(&self, name: &str, wanted: &str) -> Value {
        let look = async {
            loop {
                let (_, found) = self.admin("GET", &format!("{REQUESTS}/{name}"), &json!({})).await;
                let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let has = conditions.iter().any(|condition| condition["type"] == wanted);
                let issued = wanted == "Issued" && found["status"]["certificate"].is_string();
                if has || issued {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), look).await.expect("a decision in time")
    }

    async fn issued(&self, asked: &SentRequest) -> Option<Pem> {
        let found = self.condition(asked.object["metadata"]["name"].as_str().unwrap(), "Issued").await;
        let certificate = STANDARD.decode(found["status"]["certificate"].as_str().unwrap()).unwrap();
        Some(Pem { certificate: String::from_utf8(certificate).unwrap(), key: asked.key.clone() })
    }

    async fn approve(&self, who: Option<&Pem>, name: &str) -> (u16, Value) {
        let patch =
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}});
        let headers = "Content-Type: application/merge-patch+json\r\n";
        let path = format!("{REQUESTS}/{name}/approval");
        self.cluster.send_with(who, headers, "PATCH", &path, &patch.to_string()).await
    }

    async fn who_am_i(&self, who: Option<&Pem>) -> Value {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let (code, review) = self.cluster.send(who, None, "POST", path, "{}").await;
        assert_eq!(code, 201, "{review}");
        review["status"]["userInfo"].clone()
    }
}

#[tokio::test]
async fn a_node_with_a_bootstrap_token_gets_a_certificate_and_renews_it() {
    let world = World::start().await;
    let subject = ("system:node:a", "system:nodes");
    let first = ask("first", KUBELET_CLIENT, subject, Vec::new());
    let (code, made) =
        world.cluster.send(None, Some(TOKEN), "POST", REQUESTS, &first.object.to_string()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["username"], "system:bootstrap:abcdef");
    assert_eq!(made["spec"]["groups"], json!(["system:bootstrappers", "system:authenticated"]));
    let node = world.issued(&first).await;
    let found = world.condition("first", "Approved").await;
    assert_eq!(found["status"]["conditions"][0]["reason"], "AutoApproved");
    assert_eq!(
        found["status"]["conditions"][0]["message"],
        "Auto approving kubelet client certificate after SubjectAccessReview."
    );
    let me = world.who_am_i(node.as_ref()).await;
    assert_eq!(me["username"], "system:node:a");
    assert_eq!(me["groups"], json!(["system:nodes", "system:authenticated"]));

    // With its certificate it gets the next one, and none for another node.
    let second = ask("second", KUBELET_CLIENT, subject, Vec::new());
    let send = |asked: &SentRequest| {
        let body = asked.object.to_string();
        let (cluster, node) = (&world.cluster, node.as_ref());
        async move { cluster.send(node, None, "POST", REQUESTS, &body).await }
    };
    assert_eq!(send(&second).await.0, 201);
    assert!(world.issued(&second).await.is_some());
    let other = ask("other", KUBELET_CLIENT, ("system:node:b", "system:nodes"), Vec::new());
    let (code, refused) = send(&other).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "certificatesigningrequests.certificates.k8s.io \"other\" is forbidden: can only create a node CSR with CN=system:node:a"
    );
    // A token is good for this and for nothing else.
    let read = |path: &'static str| world.cluster.send(None, Some(TOKEN), "GET", path, "");
    assert_eq!(read("/api/v1/nodes").await.0, 403);
    assert_eq!(read("/api/v1/namespaces/kube-system/secrets").await.0, 403);
    assert_eq!(world.cluster.send(None, Some("abcdef.0123456789abcdee"), "GET", REQUESTS, "").await.0, 401);
}

#[tokio::test]
async fn serving_certificates_wait_for_an_administrator() {
    let world = World::start().await;
    let names = vec![SanType::IpAddress("127.0.0.1".parse().unwrap())];
    let serving = ask("serving", KUBELET_SERVING, ("system:node:a", "system:nodes"), names);
    let node = world.cluster.identity("system:node:a", "system:nodes");
    let (code, _) =
        world.cluster.send(node.as_ref(), None, "POST", REQUESTS, &serving.object.to_string()).await;
    assert_eq!(code, 201);
    // One that is approved automatically comes after it, and is looked at after it.
    let client = ask("client", KUBELET_CLIENT, ("system:node:a", "system:nodes"), Vec::new());
    assert_eq!(
        world.cluster.send(node.as_ref(), None, "POST", REQUESTS, &client.object.to_string()).await.0,
        201
    );
    world.issued(&client).await;
    let (_, found) = world.admin("GET", &format!("{REQUESTS}/serving"), &json!({})).await;
    assert_eq!(found["status"], json!({}));
    assert_eq!(world.approve(node.as_ref(), "serving").await.0, 403);
    assert_eq!(world.approve(world.admin.as_ref(), "serving").await.0, 200);
    let issued = world.issued(&serving).await.unwrap();
    assert!(issued.certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
    // It is good for serving and not for asking.
    let (code, _) = world.cluster.send(Some(&issued), None, "GET", "/api/v1/nodes/a", "").await;
    assert!([0, 401].contains(&code), "{code}");
}

#[tokio::test]
async fn a_node_serves_under_its_own_name_without_anybody_and_under_no_other() {
    let world = World::start().await;
    let bound: std::net::SocketAddr = "127.0.0.1:7443".parse().unwrap();
    world.cluster.server.set_address(bound.into());
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let asks = [
        ("others", "a", vec![dns("b")]),
        ("both", "a", vec![dns("a"), dns("b")]),
        ("address", "a", vec![dns("a"), SanType::IpAddress("192.0.2.1".parse().unwrap())]),
        ("server", "kubernetes", vec![dns("kubernetes")]),
        ("service", "hook.ns.svc", vec![dns("hook.ns.svc")]),
    ];
    for (name, node, names) in asks.clone() {
        let user = format!("system:node:{node}");
        let asked = ask(name, KUBELET_SERVING, (&user, "system:nodes"), names);
        let identity = world.cluster.identity(&user, "system:nodes");
        let body = asked.object.to_string();
        assert_eq!(
            world.cluster.send(identity.as_ref(), None, "POST", REQUESTS, &body).await.0,
            201,
            "{name}"
        );
    }
    // Comes after them, and is looked at after them.
    let own = ask("own", KUBELET_SERVING, ("system:node:a", "system:nodes"), vec![dns("a")]);
    let node = world.cluster.identity("system:node:a", "system:nodes");
    let body = own.object.to_string();
    assert_eq!(world.cluster.send(node.as_ref(), None, "POST", REQUESTS, &body).await.0, 201);
    assert!(world.issued(&own).await.is_some());
    for (name, ..) in asks {
        let (_, found) = world.admin("GET", &format!("{REQUESTS}/{name}"), &json!({})).await;
        assert_eq!(found["status"], json!({}), "{name}");
    }
}

#[tokio::test]
async fn approving_and_signing_need_the_signers_permission() {
    let world = World::start().await;
    let asked = ask("alice", CLIENT, ("alice", "developers"), Vec::new());
    assert_eq!(world.admin("POST", REQUESTS, &asked.object).await.0, 201);
    let rules = json!([{
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
        "verbs": ["get", "patch", "update"],
    }]);
    let role = json!({"metadata": {"name": "approver"}, "rules": rules});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(world.admin("POST", roles, &role).await.0, 201);
    let binding = json!({
        "metadata": {"name": "approver"}, "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "approver"},
    });
    assert_eq!(
        world.admin("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await.0,
        201
    );
    let bob = world.cluster.identity("bob", "people");
    let (code, refused) = world.approve(bob.as_ref(), "alice").await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        format!(
            "certificatesigningrequests.certificates.k8s.io \"alice\" is forbidden: user not permitted to approve requests with signerName {CLIENT:?}"
        )
    );
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "x"}]}});
    let headers = "Content-Type: application/merge-patch+json\r\n";
    let path = format!("{REQUESTS}/alice/status");
    let (code, refused) =
        world.cluster.send_with(bob.as_ref(), headers, "PATCH", &path, &failed.to_string()).await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("not permitted to sign"), "{refused}");
    // The permission for all signers of a domain.
    let mut wider = role;
    wider["rules"] = json!([rules[0], {
        "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"],
    }]);
    assert_eq!(world.admin("PUT", &format!("{roles}/approver"), &wider).await.0, 200);
    assert_eq!(world.approve(bob.as_ref(), "alice").await.0, 200);
    let alice = world.issued(&asked).await;
    let me = world.who_am_i(alice.as_ref()).await;
    assert_eq!(
        (&me["username"], &me["groups"]),
        (&json!("alice"), &json!(["developers", "system:authenticated"]))
    );
    // A decision stays.
    let denial = json!({"status": {"conditions": [{"type": "Denied", "status": "True"}]}});
    let path = format!("{REQUESTS}/alice/approval");
    let (code, _) =
        world.cluster.send_with(world.admin.as_ref(), headers, "PATCH", &path, &denial.to_string()).await;
    assert_eq!(code, 422);
}

#[tokio::test]
async fn nobody_becomes_an_administrator_by_a_request() {
    let world = World::start().await;
    let asked = ask("root", CLIENT, ("mallory", "system:masters"), Vec::new());
    let (code, refused) = world.admin("POST", REQUESTS, &asked.object).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "certificatesigningrequests.certificates.k8s.io \"root\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"
    );
    // The signer for nodes refuses it once it is approved.
    let asked = ask("node", KUBELET_CLIENT, ("system:node:a", "system:masters"), Vec::new());
    assert_eq!(world.admin("POST", REQUESTS, &asked.object).await.0, 201);
    assert_eq!(world.approve(world.admin.as_ref(), "node").await.0, 200);
    let failed = world.condition("node", "Failed").await;
    assert_eq!(failed["status"]["conditions"][1]["message"], "subject organization is not system:nodes");
    assert_eq!(failed["status"].get("certificate"), None);
}

#[tokio::test]
async fn requests_that_are_no_requests_are_refused() {
    let world = World::start().await;
    let good = ask("x", KUBELET_CLIENT, ("system:node:a", "system:nodes"), Vec::new()).object;
    let giant = "A".repeat(2 << 20);
    for (pointer, value, expected) in [
        ("request", json!(STANDARD.encode("no PEM")), 422),
        ("request", json!(giant), 422),
        ("request", json!("not base64!"), 422),
        ("expirationSeconds", json!(1), 422),
        ("usages", json!(vec!["client auth"; 10_000]), 422),
        ("signerName", json!("x"), 422),
    ] {
        let mut asked = good.clone();
        asked["spec"][pointer] = value;
        let (code, answer) =
            world.cluster.send(None, Some(TOKEN), "POST", REQUESTS, &asked.to_string()).await;
        assert!(code == expected || code == 413 || code == 400, "{pointer}: {code} {answer}");
    }
    let (_, list) = world.admin("GET", REQUESTS, &json!({})).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 0);
}
