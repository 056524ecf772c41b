//! TLS without verification of the server, for probes: kubelet does not verify certificates of pods either.

use std::sync::{Arc, OnceLock};

use lazaret_trust::{AnyServer, Verifier};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Begins TLS on a connection.
pub(super) async fn begin(host: &str, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(config()?);
    connector.connect(name, stream).await.map_err(|error| format!("tls: {error}"))
}

fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, String>> = OnceLock::new();
    let made = CONFIG.get_or_init(|| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let verifier = Arc::new(Verifier::new(AnyServer, &provider));
        let mut config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A probe is one request; nothing is kept between two.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    });
    made.clone()
}
