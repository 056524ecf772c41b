//! The API over HTTPS, HTTP/1.1 and HTTP/2.

use std::{fmt, io, sync::Arc, time::Duration};

use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Authenticator, Pem, Server,
    connection::{self, GRACE},
    front::Front,
    limits::Limits,
    log_pace::LogPace,
};

/// After a connection could not be taken, the next is tried after this long, and later and later up to the other.
const ACCEPT_RETRY_MIN: Duration = Duration::from_millis(10);
const ACCEPT_RETRY_MAX: Duration = Duration::from_secs(1);

/// The server's certificate and the authority that client certificates must come from.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's own.
    pub server: Pem,
    /// The authority's certificate.
    pub authority: String,
}

/// How to serve.
#[derive(Debug)]
pub struct HttpOptions {
    /// Certificates; `None` serves plain HTTP, for tests on loopback.
    pub tls: Option<TlsFiles>,
    /// Who asks.
    pub authenticator: Authenticator,
}

/// Serves until `stop` says so, then lets running requests end for a moment. Raises this process's limit of open files as far as it may.
///
/// # Errors
/// When the certificates are damaged. A connection that fails ends alone.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    options: HttpOptions,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let acceptor = options.tls.as_ref().map(tls).transpose()?;
    let front = Arc::new(Front::new(server, options.authenticator, Limits::of_this_process()));
    // Each connection has one end; nothing is ever sent.
    let (open, mut all_closed) = mpsc::channel::<()>(1);
    let (log, mut pause) = (LogPace::default(), ACCEPT_RETRY_MIN);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // A connection that was given up before it was taken is no reason to stop, nor is a lack of files.
            Err(error) => {
                if let Some(since_last) = log.due(0) {
                    tracing::warn!(%error, since_last, "a connection cannot be accepted");
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(ACCEPT_RETRY_MAX);
                continue;
            }
        };
        pause = ACCEPT_RETRY_MIN;
        // Answers are small and watched for: never wait to fill a packet.
        let _ = stream.set_nodelay(true);
        let (front, acceptor, open, stop) = (front.clone(), acceptor.clone(), open.clone(), stop.clone());
        spawn(async move {
            connection::serve(front, acceptor, stream, peer.ip(), stop).await;
            drop(open);
        });
    }
    drop((listener, open));
    front.server.end_watches();
    // Whatever is left after a while is cut.
    let _ = tokio::time::timeout(GRACE, all_closed.recv()).await;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a task for each connection, which ends with it")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

fn tls(files: &TlsFiles) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(files.authority.as_bytes())
        .map_err(|error| damaged("authority", error))?;
    roots.add(authority).map_err(|error| damaged("authority", error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| damaged("authority", error))?;
    let certificate = CertificateDer::from_pem_slice(files.server.certificate.as_bytes())
        .map_err(|error| damaged("server certificate", error))?;
    let key = PrivateKeyDer::from_pem_slice(files.server.key.as_bytes())
        .map_err(|error| damaged("server key", error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| damaged("protocol versions", error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(|error| damaged("server certificate", error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn damaged(what: &str, error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}
