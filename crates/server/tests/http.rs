//! The API over TLS: who gets in, and as whom.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use lazaret_json::{Value, json};
use lazaret_server::{
    Authenticator, Features, HttpOptions, Identity, Pem, Rbac, Server, ServerOptions, TlsFiles, TokenKeys,
    certificate_authority, client_certificate, serve, server_certificate,
};
use lazaret_store::Store;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

struct Cluster {
    port: u16,
    authority: Pem,
    stop: watch::Sender<bool>,
}

impl Cluster {
    async fn start() -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let options = ServerOptions {
            features: Features::kubernetes_1_37(),
            runtime_config: Vec::new(),
            authorizer: Box::new(Rbac::default()),
            token_keys: Some(TokenKeys::load(&TokenKeys::generate().unwrap()).unwrap()),
        };
        let server = Server::new(store, options);
        server.bootstrap().await.unwrap();
        let authority = certificate_authority().unwrap();
        let own = server_certificate(&authority, &["localhost".to_owned()]).unwrap();
        let tls = TlsFiles { server: own, authority: authority.certificate.clone() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        let http = HttpOptions { tls: Some(tls), authenticator: Authenticator::default() };
        #[allow(clippy::disallowed_methods, reason = "the server runs beside the test")]
        tokio::spawn(serve(server, listener, http, stopped));
        Self { port, authority, stop }
    }

    fn identity(&self, name: &str, group: &str) -> Option<Pem> {
        Some(client_certificate(&self.authority, Identity { name, group }).unwrap())
    }

    async fn send(
        &self,
        who: Option<&Pem>,
        token: Option<&str>,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value) {
        let headers = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        self.send_with(who, &headers, method, path, body).await
    }

    /// One request, over a connection of its own, with these lines of headers.
    async fn send_with(
        &self,
        who: Option<&Pem>,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value) {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.certificate.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match who {
            Some(pem) => {
                let certificate = CertificateDer::from_pem_slice(pem.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let mut stream = TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
            .unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        // A peer that closes without a farewell has still said everything.
        let _ = tokio::time::timeout(Duration::from_secs(30), read).await.expect("an answer in time");
        let text = String::from_utf8_lossy(&answer).into_owned();
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let content = text.split_once("\r\n\r\n").map_or("", |(_, content)| content);
        (code, serde_json::from_str(content).unwrap_or_else(|_| content.into()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}

#[tokio::test]
async fn nobody_gets_in_without_credentials_except_to_health_and_version() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.send(None, None, "GET", "/healthz", "").await.0, 200);
    assert_eq!(cluster.send(None, None, "GET", "/version", "").await.1["minor"], "37");
    let (code, answer) = cluster.send(None, None, "GET", "/api/v1/pods", "").await;
    assert_eq!((code, answer["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(cluster.send(None, None, "GET", "/apis", "").await.0, 403);
    assert_eq!(cluster.send(None, Some("nonsense"), "GET", "/healthz", "").await.0, 401);
}

#[tokio::test]
async fn certificates_say_who_asks_and_roles_what_they_may() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let alice = cluster.identity("alice", "people");
    assert_eq!(cluster.send(admin.as_ref(), None, "GET", "/api/v1/pods", "").await.0, 200);
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/apis", "").await.0,
        200,
        "discovery is for everybody with a name"
    );
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(cluster.send(alice.as_ref(), None, "GET", pods, "").await.0, 403);
    let binding = json!({
        "metadata": {"name": "alice"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", bindings, &binding.to_string()).await.0, 201);
    assert_eq!(cluster.send(alice.as_ref(), None, "GET", pods, "").await.0, 200, "a binding counts at once");
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/api/v1/namespaces/default/secrets", "").await.0,
        403
    );
    assert_eq!(
        cluster.send(alice.as_ref(), None, "GET", "/api/v1/namespaces/kube-system/pods", "").await.0,
        403
    );
    assert_eq!(cluster.send(alice.as_ref(), None, "POST", pods, "{}").await.0, 403);
}

#[tokio::test]
async fn tokens_of_service_accounts_hold_as_long_as_the_account() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.send(admin.as_ref(), None, "POST", accounts, r#"{"metadata":{"name":"robot"}}"#).await;
    let (code, answer) = cluster
        .send(admin.as_ref(), None, "POST", &format!("{accounts}/robot/token"), r#"{"spec":{}}"#)
        .await;
    assert_eq!(code, 201, "{answer}");
    let token = answer["status"]["token"].as_str().unwrap().to_owned();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (_, me) = cluster.send(None, Some(&token), "POST", review, "{}").await;
    assert_eq!(me["status"]["userInfo"]["username"], "system:serviceaccount:default:robot");
    let forged = format!("{}x", &token[..token.len() - 1]);
    assert_eq!(cluster.send(None, Some(&forged), "POST", review, "{}").await.0, 401);
    cluster.send(admin.as_ref(), None, "DELETE", &format!("{accounts}/robot"), "").await;
    assert_eq!(cluster.send(None, Some(&token), "POST", review, "{}").await.0, 401, "the account is gone");
}

#[tokio::test]
async fn hostile_bodies_are_refused() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let maps = "/api/v1/namespaces/default/configmaps";
    let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", maps, &deep).await.0, 400);
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", maps, "{").await.0, 400);
    let large = json!({"metadata": {"name": "x"}, "data": {"k": "x".repeat(3 << 20)}}).to_string();
    let (code, answer) = cluster.send(admin.as_ref(), None, "POST", maps, &large).await;
    assert_eq!((code, answer["reason"].as_str()), (413, Some("RequestEntityTooLarge")));
}

#[tokio::test]
async fn acting_as_somebody_else_takes_permission_for_all_that_is_claimed() {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("admin", "system:masters");
    let alice = cluster.identity("alice", "people");
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let as_robot = "Impersonate-User: system:serviceaccount:lab:robot\r\n";
    let (code, me) = cluster.send_with(admin.as_ref(), as_robot, "POST", review, "{}").await;
    assert_eq!(code, 201, "{me}");
    let info = &me["status"]["userInfo"];
    assert_eq!(info["username"], "system:serviceaccount:lab:robot");
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:lab", "system:authenticated"])
    );
    let with_extra = "Impersonate-User: bob\r\nImpersonate-Uid: 7\r\nImpersonate-Extra-Team%2fx: a\r\n";
    let (_, me) = cluster.send_with(admin.as_ref(), with_extra, "POST", review, "{}").await;
    assert_eq!(me["status"]["userInfo"]["extra"]["team/x"], json!(["a"]));
    assert_eq!(cluster.send_with(alice.as_ref(), as_robot, "POST", review, "{}").await.0, 403);
    // Never silently oneself: that may be far more than was meant.
    let group_only = "Impersonate-Group: nobody\r\n";
    assert_eq!(cluster.send_with(admin.as_ref(), group_only, "POST", review, "{}").await.0, 400);
    let unreadable = "Impersonate-User: b\u{fc}b\r\n";
    assert_eq!(cluster.send_with(admin.as_ref(), unreadable, "POST", review, "{}").await.0, 400);
}
