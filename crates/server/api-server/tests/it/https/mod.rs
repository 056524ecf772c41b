//! A server with TLS on loopback, and a client that says just what a test wants it to say.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use lazaret_json::Value;
use lazaret_server::{
    Authenticator, HttpOptions, Identity, Pem, Server, ServerOptions, Signer, Tls, TlsFiles, TokenKeys,
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
use tokio_rustls::{TlsConnector, client::TlsStream};

#[allow(clippy::disallowed_methods, reason = "a server beside the test reads the clock, too")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// A server at an address of its own, with roles, certificates and tokens.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    port: u16,
    pub(crate) authority: Pem,
    pub(crate) tls: Tls,
    stop: watch::Sender<bool>,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let options = ServerOptions {
            token_keys: Some(TokenKeys::load(&TokenKeys::generate().unwrap()).unwrap()),
            ..ServerOptions::default()
        };
        let server = Server::new(store, options);
        server.bootstrap().await.unwrap();
        let authority = certificate_authority(now()).unwrap();
        let own = server_certificate(&authority, &["localhost".to_owned()], now()).unwrap();
        let tls = Tls::new(&TlsFiles { server: own, authority: authority.certificate.clone() }).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = watch::channel(false);
        let http = HttpOptions { tls: Some(tls.clone()), authenticator: Authenticator::default() };
        #[allow(clippy::disallowed_methods, reason = "the server runs beside the test")]
        tokio::spawn(serve(server.clone(), listener, http, stopped));
        Self { server, port, authority, tls, stop }
    }

    /// Approves and signs requests for certificates from now on.
    pub(crate) fn sign_certificates(&self) {
        let (server, signer) = (self.server.clone(), Signer::new(self.authority.clone()));
        #[allow(clippy::disallowed_methods, reason = "the signer runs beside the test")]
        tokio::spawn(async move { server.serve_certificate_requests(signer).await });
    }

    pub(crate) fn identity(&self, name: &str, group: &str) -> Option<Pem> {
        self.identity_at(name, group, now())
    }

    /// A client's certificate as it would have been made at some time.
    pub(crate) fn identity_at(&self, name: &str, group: &str, at: Timestamp) -> Option<Pem> {
        Some(client_certificate(&self.authority, Identity { name, group }, at).unwrap())
    }

    pub(crate) async fn send(
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
    pub(crate) async fn send_with(
        &self,
        who: Option<&Pem>,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value) {
        let (code, answer, _) = self.send_whole(who, headers, method, path, body).await;
        (code, answer)
    }

    /// The same, with the head of the answer.
    pub(crate) async fn send_whole(
        &self,
        who: Option<&Pem>,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (u16, Value, String) {
        let (head, content) = self.exchange(who, headers, method, path, body).await;
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let text = String::from_utf8_lossy(&content).into_owned();
        (code, serde_json::from_str(&text).unwrap_or_else(|_| text.into()), head)
    }

    /// The same; what came back is the head as text, and the content as it is.
    pub(crate) async fn exchange(
        &self,
        who: Option<&Pem>,
        headers: &str,
        method: &str,
        path: &str,
        body: &str,
    ) -> (String, Vec<u8>) {
        let mut stream = self.connect(who).await;
        let content_type = if headers.to_ascii_lowercase().contains("content-type:") {
            ""
        } else {
            "Content-Type: application/json\r\n"
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{content_type}{headers}\r\n",
            body.len()
        );
        // A server that refuses a certificate may be gone already.
        let _ = stream.write_all(head.as_bytes()).await;
        let _ = stream.write_all(body.as_bytes()).await;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        // A peer that closes without a farewell has still said everything.
        let _ = tokio::time::timeout(Duration::from_secs(180), read).await.expect("an answer in time");
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        (head, answer.get(end + 4..).unwrap_or_default().to_vec())
    }

    /// A connection of a client with this certificate.
    pub(crate) async fn connect(&self, who: Option<&Pem>) -> TlsStream<TcpStream> {
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
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), stream)
            .await
            .unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.stop.send(true);
    }
}
