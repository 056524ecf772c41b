//! The server: connections, the authentication of their clients, and the handling of each request.

use std::{
    convert::Infallible,
    fmt,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use lazaret_containers::{Runtime, Usage};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    Caller, Pods, Reviews, Tls, access, logs,
    request::{Endpoint, Parameters},
    respond::{self, Body},
    stats::{self, Samples},
    streams::{self, Stream},
    tls,
};

/// Connections, and so streams, that a node serves at a time; each has buffers of up to [`BUFFER_BYTES_MAX`].
const CONNECTIONS_MAX: usize = 2_048;
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// A head must have arrived after this long; a connection over which nothing is asked ends by it too.
const HEADER_WAIT: Duration = Duration::from_secs(30);
/// Bytes that one connection buffers in each direction.
const BUFFER_BYTES_MAX: usize = 64 << 10;
/// After a connection could not be accepted, the next is tried after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How long requests may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// The parts that a node's API serves.
pub struct Options {
    /// The name of the node.
    pub node: String,
    /// Its pods.
    pub pods: Arc<dyn Pods>,
    /// Their container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The reviews of tokens and permissions.
    pub reviews: Arc<dyn Reviews>,
    /// Resource usage of the whole machine, where that is known.
    pub machine: Arc<dyn Fn() -> Option<Usage> + Send + Sync>,
    /// The text of `/metrics`.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").field("node", &self.node).finish_non_exhaustive()
    }
}

/// The API of a node. Cheap to clone.
#[derive(Clone, Debug)]
pub struct NodeApi(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    samples: Samples,
    connections: Arc<Semaphore>,
}

/// The stream that a connection becomes when the answer to its request is sent.
type Slot = Arc<Mutex<Option<Stream>>>;

impl NodeApi {
    /// The API of a node.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self(Arc::new(Inner { options, samples: Samples::default(), connections }))
    }

    /// Serves until `stop` says so, then lets requests end for 5 seconds.
    pub async fn serve(&self, listener: TcpListener, tls: Tls, mut stop: watch::Receiver<bool>) {
        let mut open = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = open.join_next(), if !open.is_empty() => continue,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let Ok((stream, _)) = accepted else {
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            };
            // Beyond the limit a new client is refused, and connected ones stay.
            let Ok(permit) = Arc::clone(&self.0.connections).try_acquire_owned() else {
                tracing::warn!(most = CONNECTIONS_MAX, "a connection is refused: there are too many");
                continue;
            };
            let _ = stream.set_nodelay(true);
            open.spawn(self.clone().connection(stream, tls.clone(), permit, stop.clone()));
        }
        let _ = timeout(GRACE, async { while open.join_next().await.is_some() {} }).await;
    }

    async fn connection<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self,
        stream: S,
        tls: Tls,
        permit: OwnedSemaphorePermit,
        mut stop: watch::Receiver<bool>,
    ) {
        let Ok(Ok(stream)) = timeout(HANDSHAKE_WAIT, tls.acceptor().accept(stream)).await else { return };
        let caller = tls::caller(stream.get_ref().1);
        let slot = Slot::default();
        let service = {
            let (this, slot) = (self.clone(), Arc::clone(&slot));
            service_fn(move |request| {
                let (this, slot, caller) = (this.clone(), Arc::clone(&slot), caller.clone());
                async move { Ok::<_, Infallible>(this.answer(request, caller, &slot).await) }
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_WAIT)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let has_ended = tokio::select! {
            // How a connection ended is the client's affair.
            _ = connection.as_mut() => true,
            _ = stop.wait_for(|stop| *stop) => false,
        };
        let stream = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        match stream {
            Some(stream) if has_ended => tokio::select! {
                () = stream.run() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            },
            Some(_) | None if has_ended => {}
            Some(_) | None => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(GRACE, connection).await;
            }
        }
        drop(permit);
    }

    async fn answer(
        &self,
        mut request: Request<Incoming>,
        certified: Option<Caller>,
        slot: &Slot,
    ) -> Response<Body> {
        if let Err(error) = lazaret_host::check(request.version(), request.headers()) {
            return respond::text(StatusCode::BAD_REQUEST, error.to_string());
        }
        let Some(endpoint) = Endpoint::of(request.uri().path()) else {
            // A caller without permission does not learn which paths exist.
            return match self.authorize(&request, certified, false).await {
                Ok(()) => respond::text(StatusCode::NOT_FOUND, "404 page not found"),
                Err(refused) => *refused,
            };
        };
        if let Err(refused) = self.authorize(&request, certified, endpoint.is_stream()).await {
            return *refused;
        }
        if !endpoint.is_stream() && request.method() != http::Method::GET {
            return respond::text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
        }
        let Options { pods, runtime, node, machine, metrics, .. } = &self.0.options;
        let parameters = Parameters::parse(request.uri().query().unwrap_or_default());
        match endpoint {
            Endpoint::Health => respond::text(StatusCode::OK, "ok"),
            Endpoint::Pods => respond::json(&json!({
                "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods.all(),
            })),
            Endpoint::Metrics => {
                respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics())
            }
            Endpoint::Stats => match stats::read(runtime.as_ref(), machine(), &self.0.samples).await {
                Ok(read) => respond::json(&read.summary(node)),
                Err(error) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            Endpoint::ResourceMetrics => {
                match stats::read(runtime.as_ref(), machine(), &self.0.samples).await {
                    Ok(read) => respond::bytes(
                        StatusCode::OK,
                        "text/plain; version=0.0.4; charset=utf-8",
                        read.metrics(),
                    ),
                    Err(error) => respond::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                }
            }
            Endpoint::Log(place) => logs::answer(pods, &place, &parameters),
            Endpoint::Exec(_) | Endpoint::Attach(_) | Endpoint::PortForward(_) => {
                match streams::begin(pods, runtime, &endpoint, &parameters, &mut request) {
                    Ok((response, stream)) => {
                        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
                        response
                    }
                    Err(refused) => *refused,
                }
            }
        }
    }

    /// Whether a request may be answered.
    async fn authorize(
        &self,
        request: &Request<Incoming>,
        certified: Option<Caller>,
        is_stream: bool,
    ) -> Result<(), Box<Response<Body>>> {
        let refuse = |code, why: String| Box::new(respond::text(code, why));
        let unauthorized = || refuse(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned());
        let reviews = &self.0.options.reviews;
        let failed = |error: String| {
            tracing::warn!(error, "ask the API server who may use the node's API");
            refuse(StatusCode::INTERNAL_SERVER_ERROR, "Authorization error".to_owned())
        };
        let caller = match certified {
            // It has asked its own authorizer already. Only a certificate identifies the API server.
            Some(caller) if caller.is_api_server() => return Ok(()),
            Some(caller) => caller,
            None => {
                let token = bearer(request).ok_or_else(unauthorized)?;
                reviews.token(token).await.map_err(failed)?.ok_or_else(unauthorized)?
            }
        };
        let verb = if is_stream { Some(access::STREAM_VERB) } else { access::verb(request.method()) };
        let verb = verb.ok_or_else(|| refuse(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".into()))?;
        let subresources = access::subresources(request.uri().path());
        for subresource in subresources {
            if reviews.may(&caller, verb, subresource).await.map_err(failed)? {
                return Ok(());
            }
        }
        let (node, what) = (&self.0.options.node, subresources.join(", "));
        Err(refuse(
            StatusCode::FORBIDDEN,
            format!(
                "Forbidden (user={}, verb={verb}, resource=nodes, name={node}, subresource(s)=[{what}])",
                caller.name
            ),
        ))
    }
}

fn bearer(request: &Request<Incoming>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}
