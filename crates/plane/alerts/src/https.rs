//! `POST /v1/alerts` over HTTPS, for a process that is no API server.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::warn;

use crate::{
    receiver::{Answer, BODY_BYTES_MAX, Outcome, Receiver, refused},
    reviews::{self, Caller},
};

/// Where alerts are sent.
const PATH: &str = "/v1/alerts";
/// Connections at a time. Alertmanagers of a cluster have one each.
const CONNECTIONS_MAX: usize = 64;
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// The head of a request, and then its body, must have arrived after this long.
const HEADER_TIME_MAX: Duration = Duration::from_secs(10);
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// A connection buffers this much of a head.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// After a connection could not be accepted, the next is tried after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Why alerts cannot be served.
#[derive(Debug, Error)]
#[error("{what}: {why}")]
pub struct TlsError {
    what: &'static str,
    why: String,
}

fn damaged(what: &'static str, why: impl fmt::Display) -> TlsError {
    TlsError { what, why: why.to_string() }
}

/// Certificate, key and trusted authorities of the listener. Cheap to clone.
#[derive(Clone)]
pub struct Serving(Arc<ServerConfig>);

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Serving")
    }
}

impl Serving {
    /// Serves with this certificate and key (PEM); clients may show a certificate of these authorities.
    ///
    /// # Errors
    /// Which of them is damaged.
    pub fn new(certificate: &str, key: &str, authorities: Option<&str>) -> Result<Self, TlsError> {
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let chain = certificates("certificate", certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|why| damaged("key", why))?;
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|why| damaged("protocol versions", why))?;
        let config = match authorities {
            None => config.with_no_client_auth(),
            Some(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates("client authority", authorities)? {
                    roots.add(authority).map_err(|why| damaged("client authority", why))?;
                }
                // Without a certificate a token may do; one that does not hold ends the handshake.
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .allow_unauthenticated()
                    .build()
                    .map_err(|why| damaged("client authority", why))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let mut config =
            config.with_single_cert(chain, key).map_err(|why| damaged("certificate and key", why))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session that is resumed would show a certificate that was verified long ago.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }
}

fn certificates(what: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(damaged(what, "there is no certificate in it")),
        Err(error) => Err(damaged(what, error)),
    }
}

/// Answers on a listener; never ends.
pub async fn serve(listener: TcpListener, serving: Serving, receiver: Receiver) {
    let acceptor = TlsAcceptor::from(serving.0);
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut open = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                // Beyond the limit a new connection is refused, and the open ones stay.
                Ok((stream, _)) => if let Ok(permit) = Arc::clone(&room).try_acquire_owned() {
                    open.spawn(connection(stream, acceptor.clone(), receiver.clone(), permit));
                },
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
            // How a connection ended is the client's affair.
            Some(_) = open.join_next() => {}
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    receiver: Receiver,
    permit: OwnedSemaphorePermit,
) {
    let Ok(Ok(stream)) = timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await else { return };
    let leaf = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let certified = leaf.and_then(|leaf| Caller::of_certificate(leaf));
    let service = service_fn(move |request| {
        let (receiver, certified) = (receiver.clone(), certified.clone());
        async move { Ok::<_, Infallible>(respond(answer(&receiver, request, certified).await)) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME_MAX)
        .max_buf_size(BUFFER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection for alerts ended");
    }
    drop(permit);
}

async fn answer(receiver: &Receiver, request: Request<Incoming>, certified: Option<Caller>) -> Answer {
    if let Err(error) = lazaret_host::check(request.version(), request.headers()) {
        return refused(400, error.to_string());
    }
    if request.uri().path() != PATH {
        return refused(404, format!("alerts are sent to {PATH}"));
    }
    if request.method() != Method::POST {
        return refused(405, "alerts are sent with POST".to_owned());
    }
    let caller = match identify(receiver, &request, certified).await {
        Ok(caller) => caller,
        Err(answer) => return answer,
    };
    let body = Limited::new(request.into_body(), BODY_BYTES_MAX).collect();
    match timeout(BODY_TIME_MAX, body).await {
        Ok(Ok(body)) => receiver.receive(&caller.name, &body.to_bytes()).await,
        Ok(Err(_)) => {
            receiver.refuse(Outcome::Malformed);
            refused(413, format!("a notification has at most {BODY_BYTES_MAX} bytes"))
        }
        Err(_) => {
            receiver.refuse(Outcome::Malformed);
            refused(408, "the notification did not arrive in time".to_owned())
        }
    }
}

/// The sender, if it may write signals.
async fn identify(
    receiver: &Receiver,
    request: &Request<Incoming>,
    certified: Option<Caller>,
) -> Result<Caller, Answer> {
    let client = receiver.client();
    let failed = |error: lazaret_runtime::CallError| {
        warn!(%error, "ask the API server who may send alerts");
        receiver.refuse(Outcome::Failed);
        refused(503, "the API server cannot be asked who may send alerts".to_owned())
    };
    let caller = match (certified, bearer(request)) {
        (Some(caller), _) => Some(caller),
        (None, Some(token)) => reviews::token(client, token).await.map_err(failed)?,
        (None, None) => None,
    };
    let Some(caller) = caller else {
        receiver.refuse(Outcome::Unauthenticated);
        return Err(refused(401, "show a token or a client certificate".to_owned()));
    };
    if let Some(verb) = reviews::lacks(client, &caller).await.map_err(failed)? {
        receiver.refuse(Outcome::Forbidden);
        let why = format!("user {:?} cannot {verb} devicesignals.lazaret.dev", caller.name);
        return Err(refused(403, why));
    }
    Ok(caller)
}

fn bearer(request: &Request<Incoming>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

fn respond(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
