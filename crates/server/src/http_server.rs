//! The API over HTTPS, HTTP/1.1 and HTTP/2.

use std::{convert::Infallible, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
};

use crate::{
    ApiError, Authenticator, Body, Server, Tls,
    auth::Peer,
    input::BODY_BYTES_MAX,
    respond::failure,
    stall::Impatient,
    streams::{Piecewise, Streams},
};

/// Requests that are worked on at once; watches do not count. More are told to come back.
const IN_FLIGHT_MAX: usize = 600;
/// Streams of one HTTP/2 connection: client-go sends all watches of a process over one.
const STREAMS_MAX: u32 = 1_000;
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// A client that takes nothing of what is sent to it for so long is cut: the one answer, or the connection if it takes nothing at all.
const STALL: Duration = Duration::from_secs(30);
/// A body must have arrived after so long.
const BODY_WAIT: Duration = Duration::from_secs(60);
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long requests may take to end when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// How to serve.
#[derive(Debug)]
pub struct HttpOptions {
    /// Certificates; `None` serves plain HTTP, for tests on loopback.
    pub tls: Option<Tls>,
    /// Who asks.
    pub authenticator: Authenticator,
}

struct Front {
    server: Server,
    authenticator: Authenticator,
    in_flight: Semaphore,
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front")
    }
}

/// Serves until `stop` says so, then lets running requests end for a moment.
///
/// # Errors
/// None so far: a connection that fails ends alone.
pub async fn serve(
    server: Server,
    listener: TcpListener,
    options: HttpOptions,
    mut stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let front = Arc::new(Front {
        server,
        authenticator: options.authenticator,
        in_flight: Semaphore::new(IN_FLIGHT_MAX),
    });
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        // A connection that was given up before it was taken is no reason to stop.
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        spawn(connection(front.clone(), options.tls.clone(), stream, peer, graceful.watcher(), stop.clone()));
    }
    drop(listener);
    front.server.end_watches();
    // Whatever is left after a while is cut.
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a task for each connection, which ends with it")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}

async fn connection(
    front: Arc<Front>,
    tls: Option<Tls>,
    stream: TcpStream,
    _peer: SocketAddr,
    watcher: hyper_util::server::graceful::Watcher,
    mut stop: watch::Receiver<bool>,
) {
    // Answers are small and watched for: never wait to fill a packet.
    let _ = stream.set_nodelay(true);
    let stream = Impatient::new(stream, STALL);
    let mut builder = Builder::new(Streams::new(STALL));
    builder.http1().timer(TokioTimer::new());
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(Some(Duration::from_secs(30)));
    let served = async {
        match tls {
            Some(tls) => {
                let accepted = tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await;
                let Ok(Ok(stream)) = accepted else {
                    front.server.metrics().handshake_failed();
                    return;
                };
                // Who it is does not change while the connection lasts.
                let peer = tls.peer(stream.get_ref().1);
                let service = service_fn(move |request| answer(front.clone(), request, peer.clone()));
                let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
                // How a connection ended is the client's affair.
                let _ = watcher.watch(connection).await;
            }
            None => {
                let service = service_fn(move |request| answer(front.clone(), request, Peer::Nobody));
                let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
                let _ = watcher.watch(connection).await;
            }
        }
    };
    tokio::select! {
        () = served => {}
        () = async { let _ = stop.wait_for(|stop| *stop).await; tokio::time::sleep(GRACE).await } => {}
    }
}

async fn answer(
    front: Arc<Front>,
    request: Request<Incoming>,
    peer: Peer,
) -> Result<Response<Piecewise>, Infallible> {
    let response = front.answer(request, peer).await.unwrap_or_else(|error| failure(&error));
    Ok(response.map(Piecewise::new))
}

impl Front {
    async fn answer(&self, request: Request<Incoming>, peer: Peer) -> Result<Response<Body>, ApiError> {
        let _permit = self
            .in_flight
            .try_acquire()
            .map_err(|_| ApiError::too_many_requests("too many requests at once; try again", 1))?;
        let user = self.authenticator.authenticate(&self.server, request.headers(), &peer)?;
        let (parts, body) = request.into_parts();
        let body = tokio::time::timeout(BODY_WAIT, Limited::new(body, BODY_BYTES_MAX).collect());
        let body = body.await.map_err(|_| ApiError::timeout("the body did not arrive in time"))?;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                ApiError::too_large(format!("the body must not be larger than {BODY_BYTES_MAX} bytes"))
            } else {
                ApiError::bad_request(format!("read the body: {error}"))
            }
        })?;
        Ok(self.server.handle(&user, Request::from_parts(parts, body.to_bytes())).await)
    }
}
