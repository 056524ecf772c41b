//! gRPC over Unix sockets: frames and status codes are tonic's, connections are hyper's, and both are bounded.

use std::{
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, uri::PathAndQuery};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixListener, UnixStream},
    sync::{Semaphore, watch},
};
use tonic::{Status, Streaming, body::Body};
use tonic_prost::ProstCodec;
use tracing::debug;

use crate::{changed_stream::ChangedStream, tasks::Tasks};

/// Of one message. Kubelet names the claims of one pod: a few hundred bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Connections to one socket. Kubelet has one for calls and, for a moment, one for registration; probes add a few.
const CONNECTIONS_MAX: usize = 32;
/// Calls in flight on one connection.
const STREAMS_MAX: u32 = 64;
/// Bytes of all headers of a call.
const HEADER_BYTES_MAX: u32 = 16 << 10;
/// A peer that answers no ping for this long is gone. Also a deadline for clients that connect and send nothing.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a client to send its first bytes.
const FIRST_WORD_MAX: Duration = Duration::from_secs(10);
/// After a failed accept: there are no descriptors left, and asking again at once would only burn time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers calls by their path.
pub(crate) trait Service: Send + Sync + 'static {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer;
}

pub(crate) type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

/// Changes what is sent, see [`Kit::change_bytes`](crate::Kit::change_bytes).
pub(crate) type ChangeBytes = Arc<dyn Fn(&mut [u8]) + Send + Sync>;

/// Serves connections until `closing`; then calls in flight are answered and no others.
pub(crate) async fn serve<S: Service>(
    listener: UnixListener,
    service: Arc<S>,
    mut closing: watch::Receiver<bool>,
    change_bytes: Option<ChangeBytes>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = Tasks::default();
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        let (stream, place) = tokio::select! {
            accepted = accepted => accepted,
            () = closed(&mut closing) => break,
        };
        let stream = match stream {
            Ok((stream, _)) => stream,
            Err(error) => {
                debug!(%error, "accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (service, mut closing, change_bytes) =
            (Arc::clone(&service), closing.clone(), change_bytes.clone());
        connections.spawn(async move {
            let answer = hyper::service::service_fn(move |request| {
                let answer = Arc::clone(&service).call(request);
                async move { Ok::<_, std::convert::Infallible>(answer.await) }
            });
            if !matches!(tokio::time::timeout(FIRST_WORD_MAX, stream.readable()).await, Ok(Ok(()))) {
                return;
            }
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(HEADER_BYTES_MAX)
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_TIMEOUT)
                .serve_connection(TokioIo::new(ChangedStream { stream, change_bytes }), answer);
            tokio::pin!(connection);
            let served = tokio::select! {
                served = &mut connection => served,
                () = closed(&mut closing) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = served {
                debug!(%error, "a connection ended");
            }
            drop(place);
        });
    }
    drop(listener);
    connections.join().await;
}

/// Waits until all is to be closed; also when the sender is gone.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Answers a call with one message.
pub(crate) fn unary<M, R, F, A>(request: Request<Incoming>, call: F) -> Answer
where
    M: Message + Default + 'static,
    R: Message + Default + 'static,
    F: FnOnce(M) -> A + Send + 'static,
    A: Future<Output = Result<R, Status>> + Send + 'static,
{
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<R, M>::default())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Box::pin(async move { grpc.unary(Once(Some(call)), request).await })
}

/// Answers a call with a stream of messages.
pub(crate) fn streaming<M, R, F, S>(request: Request<Incoming>, call: F) -> Answer
where
    M: Message + Default + 'static,
    R: Message + Default + 'static,
    F: FnOnce(M) -> Result<S, Status> + Send + 'static,
    S: futures_util::Stream<Item = Result<R, Status>> + Send + 'static,
{
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<R, M>::default())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Box::pin(async move { grpc.server_streaming(OnceStream(Some(call)), request).await })
}

/// There is no such call.
pub(crate) fn unimplemented(path: &str) -> Answer {
    let status = Status::unimplemented(format!("there is no {path}"));
    Box::pin(async move { status.into_http() })
}

/// A function that is called for one request.
struct Once<F>(Option<F>);

impl<F, A, M, R> tonic::server::UnaryService<M> for Once<F>
where
    F: FnOnce(M) -> A,
    A: Future<Output = Result<R, Status>> + Send + 'static,
{
    type Response = R;
    type Future = Pin<Box<dyn Future<Output = Result<tonic::Response<R>, Status>> + Send>>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        let answer = self.0.take().map(|call| call(request.into_inner()));
        Box::pin(async move {
            let answer = answer.ok_or_else(|| Status::internal("a request was handled twice"))?;
            answer.await.map(tonic::Response::new)
        })
    }
}

struct OnceStream<F>(Option<F>);

impl<F, S, M, R> tonic::server::ServerStreamingService<M> for OnceStream<F>
where
    F: FnOnce(M) -> Result<S, Status>,
    S: futures_util::Stream<Item = Result<R, Status>>,
{
    type Response = R;
    type ResponseStream = S;
    type Future = std::future::Ready<Result<tonic::Response<S>, Status>>;

    fn call(&mut self, request: tonic::Request<M>) -> Self::Future {
        let twice = || Err(Status::internal("a request was handled twice"));
        let answer = self.0.take().map_or_else(twice, |call| call(request.into_inner()));
        std::future::ready(answer.map(tonic::Response::new))
    }
}

/// A connection to a driver's socket, as kubelet has one: for probes, tests and agents. Clones share it; it ends with the
/// last of them.
#[derive(Clone, Debug)]
pub struct Client {
    grpc: tonic::client::Grpc<Sender>,
    _connection: Arc<Tasks>,
    /// Its sender goes when the connection ends.
    open: watch::Receiver<()>,
}

#[derive(Clone, Debug)]
struct Sender(SendRequest<Body>);

impl tonic::codegen::Service<Request<Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When no server listens there, or it does not speak HTTP/2.
    pub async fn connect(socket: &Path) -> io::Result<Self> {
        Self::over(UnixStream::connect(socket).await?).await
    }

    /// The same over a connection that is there.
    ///
    /// # Errors
    /// When the peer does not speak HTTP/2.
    pub async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> io::Result<Self> {
        let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        let (is_open, open) = watch::channel(());
        let mut tasks = Tasks::default();
        tasks.spawn(async move {
            let _is_open = is_open;
            if let Err(error) = connection.await {
                debug!(%error, "a connection ended");
            }
        });
        // The only authority that every server takes: the path of a socket is none.
        let origin = http::Uri::from_static("http://localhost");
        let grpc = tonic::client::Grpc::with_origin(Sender(sender), origin)
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { grpc, _connection: Arc::new(tasks), open })
    }

    /// Waits until the connection has ended.
    pub async fn closed(&self) {
        let mut open = self.open.clone();
        while open.changed().await.is_ok() {}
    }

    /// Calls and waits for one message. The caller limits the time.
    ///
    /// # Errors
    /// The status that came back.
    pub async fn call<M, R>(&mut self, path: &'static str, message: M) -> Result<R, Status>
    where
        M: Message + Default + 'static,
        R: Message + Default + 'static,
    {
        self.ready().await?;
        let codec = ProstCodec::<M, R>::default();
        let answer =
            self.grpc.unary(tonic::Request::new(message), PathAndQuery::from_static(path), codec).await?;
        Ok(answer.into_inner())
    }

    /// Calls and gives what comes back, message by message.
    ///
    /// # Errors
    /// The status that came back instead of a stream.
    pub async fn watch<M, R>(&mut self, path: &'static str, message: M) -> Result<Streaming<R>, Status>
    where
        M: Message + Default + 'static,
        R: Message + Default + 'static,
    {
        self.ready().await?;
        let codec = ProstCodec::<M, R>::default();
        let answer = self
            .grpc
            .server_streaming(tonic::Request::new(message), PathAndQuery::from_static(path), codec)
            .await?;
        Ok(answer.into_inner())
    }

    async fn ready(&mut self) -> Result<(), Status> {
        self.grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
    }
}
