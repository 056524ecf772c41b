//! A server at another address than 127.0.0.1: the names in its certificate, and the address that it publishes to clients.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::{fs, net::SocketAddr, path::PathBuf, sync::Arc};

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use lazaret_json::Value;
use lazaret_server::{
    Authenticator, HttpOptions, Renewal, Secrets, Server, ServerAddress, ServerOptions, User, serve,
};
use lazaret_store::Store;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

struct Running {
    server: Server,
    bound: SocketAddr,
    authority: String,
    folder: PathBuf,
    stop: watch::Sender<bool>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A server that listens on this address, with further names for its certificate.
async fn start(listen: &str, advertised: Option<&str>, names: &[&str]) -> Running {
    let listener = TcpListener::bind(listen).await.unwrap();
    let bound = listener.local_addr().unwrap();
    let folder =
        std::env::temp_dir().join(format!("lazaret-address-{}-{}", std::process::id(), bound.port()));
    let secrets = Secrets::load_or_make(&folder).unwrap();
    let authority = secrets.authority().to_owned();
    let address = ServerAddress {
        bound,
        advertised: advertised.map(|ip| ip.parse().unwrap()),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let options =
        ServerOptions { token_keys: Some(secrets.token_keys().unwrap()), ..ServerOptions::default() };
    let server = Server::new(Store::ephemeral(lazaret_store::Options::default()).unwrap(), options);
    server.set_address(address.clone());
    server.bootstrap().await.unwrap();
    server.publish_authority(&authority).await.unwrap();
    let renewal = Renewal::start(secrets, folder.clone(), address).unwrap();
    let (stop, stopped) = watch::channel(false);
    let http = HttpOptions { tls: Some(renewal.tls()), authenticator: Authenticator::default() };
    #[allow(clippy::disallowed_methods, reason = "the server runs beside the test")]
    tokio::spawn(serve(server.clone(), listener, http, stopped));
    Running { server, bound, authority, folder, stop }
}

impl Running {
    /// Whether a client that expects this name trusts the server.
    async fn trusted_as(&self, name: &str) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.bound).await.unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.is_ok()
    }

    /// The answer to a client without credentials.
    async fn read(&self, path: &str) -> (u16, Value) {
        let nobody = User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        };
        let request = Request::get(path).body(Bytes::new()).unwrap();
        let response = self.server.handle(&nobody, request).await;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap())
    }
}

#[tokio::test]
async fn a_certificate_is_valid_for_the_address_and_every_name_that_was_given() {
    let running = start("127.0.0.2:0", None, &["api.example.com", "*.nodes.example.com"]).await;
    for (name, trusted) in [
        ("127.0.0.2", true),
        ("127.0.0.1", true),
        ("::1", true),
        ("localhost", true),
        ("kubernetes.default.svc", true),
        ("api.example.com", true),
        ("a.nodes.example.com", true),
        ("127.0.0.3", false),
        ("other.example.com", false),
    ] {
        assert_eq!(running.trusted_as(name).await, trusted, "{name}");
    }
    let kubeconfig = fs::read_to_string(running.folder.join("kubeconfig")).unwrap();
    assert!(kubeconfig.contains(&format!("server: https://{}\n", running.bound)), "{kubeconfig}");
}

#[tokio::test]
async fn an_address_of_version_6_is_written_in_brackets() {
    let running = start("[::1]:0", None, &[]).await;
    assert!(running.trusted_as("::1").await);
    let kubeconfig = fs::read_to_string(running.folder.join("kubeconfig")).unwrap();
    assert!(
        kubeconfig.contains(&format!("server: https://[::1]:{}\n", running.bound.port())),
        "{kubeconfig}"
    );
}

#[tokio::test]
async fn clients_without_credentials_are_told_where_the_server_is_and_whom_to_trust() {
    let running = start("127.0.0.1:0", Some("127.0.0.2"), &[]).await;
    assert!(running.trusted_as("127.0.0.2").await);
    let (code, found) = running.read("/api/v1/namespaces/kube-public/configmaps/cluster-info").await;
    assert_eq!(code, 200, "{found}");
    let kubeconfig = found["data"]["kubeconfig"].as_str().unwrap();
    assert!(
        kubeconfig.contains(&format!("server: https://127.0.0.2:{}\n", running.bound.port())),
        "{kubeconfig}"
    );
    for path in [
        "/api/v1/namespaces/kube-public/configmaps",
        "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt",
    ] {
        assert_eq!(running.read(path).await.0, 403, "{path}");
    }
}
