//! Connections of the API server, and the answers over them.

use std::{convert::Infallible, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use lazaret_runtime::{Client, Metrics as Process};
use lazaret_server::Tls;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    certificate_manager::{CertificateManager, Identity},
    metrics::Metrics,
    review::{self, Decision, Question},
};

/// The kind that is asked about: each has a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A DeviceTaintRule, at `/device-taint-rules`.
    Rule,
    /// A DeviceHealthPolicy, at `/device-health-policies`.
    HealthPolicy,
}

impl About {
    fn of_path(path: &str) -> Option<Self> {
        match path {
            "/device-taint-rules" => Some(Self::Rule),
            "/device-health-policies" => Some(Self::HealthPolicy),
            _ => None,
        }
    }
}

/// An object has up to 1.5 MiB, and a question has up to two of them.
const BODY_BYTES_MAX: usize = 4 << 20;
/// API servers keep a connection or two each.
const CONNECTIONS_MAX: usize = 64;
/// Questions of one connection at a time.
const STREAMS_MAX: u32 = 32;
/// Questions at a time over all connections: each holds up to [`BODY_BYTES_MAX`].
const QUESTIONS_MAX: usize = 16;
const HANDSHAKE_WAIT: Duration = Duration::from_secs(5);
const HEADER_WAIT: Duration = Duration::from_secs(10);
/// The longest that an API server waits for a webhook is 30 s.
const ANSWER_WAIT: Duration = Duration::from_secs(25);
/// After a connection could not be accepted, the next is tried after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long questions may take to be answered when the process ends.
const GRACE: Duration = Duration::from_secs(5);

/// The function that decides.
pub type Decide =
    Arc<dyn Fn(About, Question) -> Pin<Box<dyn Future<Output = Decision> + Send>> + Send + Sync>;

/// A webhook that is served.
pub struct Webhook {
    decide: Decide,
    metrics: Metrics,
    tls: watch::Receiver<Option<Tls>>,
    questions: Semaphore,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Webhook")
    }
}

impl Webhook {
    /// A webhook, and who looks after its certificate.
    #[must_use]
    pub fn new(
        client: Client,
        identity: Identity,
        process: &Process,
        decide: Decide,
    ) -> (Arc<Self>, CertificateManager) {
        let (sender, tls) = watch::channel(None);
        let metrics = Metrics::new(process);
        let certificate_manager = CertificateManager::new(client, identity, metrics.clone(), sender);
        let questions = Semaphore::new(QUESTIONS_MAX);
        (Arc::new(Self { decide, metrics, tls, questions }), certificate_manager)
    }

    /// Whether there is a certificate to serve with.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.tls.borrow().is_some()
    }

    /// Serves until `stop` says so, then lets questions be answered for 5 seconds.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        certificate_manager: CertificateManager,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut open = JoinSet::new();
        let keeping = certificate_manager.run();
        tokio::pin!(keeping);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = open.join_next(), if !open.is_empty() => continue,
                () = &mut keeping => continue,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            };
            let tls = self.tls.borrow().clone();
            // Without a certificate, and beyond the limit, a new connection is refused.
            if let Some(tls) = tls
                && open.len() < CONNECTIONS_MAX
            {
                let _ = stream.set_nodelay(true);
                open.spawn(Arc::clone(&self).connection(stream, tls, stop.clone()));
            }
        }
        drop(listener);
        let _ = timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    }

    async fn connection(self: Arc<Self>, stream: TcpStream, tls: Tls, mut stop: watch::Receiver<bool>) {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_WAIT, tls.acceptor().accept(stream)).await else { return };
        let service = service_fn(move |request| {
            let this = Arc::clone(&self);
            async move { Ok::<_, Infallible>(this.answer(request).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_WAIT);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS_MAX);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let has_ended = tokio::select! {
            // How a connection ended is the client's affair.
            _ = connection.as_mut() => true,
            _ = stop.wait_for(|stop| *stop) => false,
        };
        if !has_ended {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(GRACE, connection).await;
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Err(error) = lazaret_host::check(request.version(), request.headers()) {
            return text(StatusCode::BAD_REQUEST, format!("{error}\n"));
        }
        let about = About::of_path(request.uri().path()).filter(|_| request.method() == Method::POST);
        let Some(about) = about else {
            return text(
                StatusCode::NOT_FOUND,
                "POST an AdmissionReview to /device-taint-rules or /device-health-policies\n".to_owned(),
            );
        };
        let (code, body) = match timeout(ANSWER_WAIT, self.review(about, request)).await {
            Ok(answered) => answered,
            Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "it took too long\n".to_owned()),
        };
        text(code, body)
    }

    async fn review(&self, about: About, request: Request<Incoming>) -> (StatusCode, String) {
        // It is never closed.
        let Ok(_one) = self.questions.acquire().await else {
            return (StatusCode::SERVICE_UNAVAILABLE, String::new());
        };
        let body = match Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => {
                self.metrics.answered("malformed");
                return (StatusCode::BAD_REQUEST, format!("{error}\n"));
            }
        };
        let asked = match review::read(&body) {
            Ok(asked) => asked,
            Err(why) => {
                self.metrics.answered("malformed");
                return (StatusCode::BAD_REQUEST, format!("{why}\n"));
            }
        };
        let decision =
            if asked.is_probe { review::probed() } else { (self.decide)(about, asked.question).await };
        self.metrics.answered(match &decision {
            Decision::Allowed => "allowed",
            Decision::Denied(_) if asked.is_probe => "probe",
            Decision::Denied(_) => "denied",
            Decision::NotReady => "not-ready",
        });
        match review::answer(&asked.uid, &decision) {
            Some(answer) => (StatusCode::OK, answer),
            None => (StatusCode::SERVICE_UNAVAILABLE, "not everything has been read yet\n".to_owned()),
        }
    }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let kind = if code == StatusCode::OK { "application/json" } else { "text/plain" };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}
