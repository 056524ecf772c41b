//! How one connection is served.

use std::{net::IpAddr, pin::pin, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use lazaret_flow::ConnectionId;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::timeout,
};

use crate::{
    Peer, Tls,
    connections::Activity,
    front::{Front, level_of_user},
    stall::WriteTimeoutStream,
    streams::Streams,
};

/// Streams of one HTTP/2 connection: client-go sends all watches of a process over one.
const STREAMS_MAX: u32 = 1_000;
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// Bound on the bytes that one HTTP/1.1 connection buffers in each direction.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Bytes that an HTTP/2 client may send before they are read, on all streams together and on one.
const WINDOW_BYTES: u32 = 512 << 10;
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes that may wait to be sent on one HTTP/2 stream.
const STREAM_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Streams that a client has reset and the server has not handled yet: with more, the connection ends. The first number of CVE-2023-44487.
const RESET_STREAMS_MAX: usize = 20;
/// Streams that the server had to reset because of the client: with more, the connection ends.
const ERROR_STREAMS_MAX: usize = 256;
/// A head must have arrived after this long.
const HEADER_WAIT: Duration = Duration::from_secs(30);
const HANDSHAKE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
/// How long requests may take to end when a connection is to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// Serves a connection until it ends, is idle for too long, has to make room, or the server stops.
pub(crate) async fn serve<S>(
    front: Arc<Front>,
    tls: Option<Tls>,
    stream: S,
    address: IpAddr,
    stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Some(activity) = front.table.open(address) else { return };
    let _open = Open { front: &front, id: activity.id };
    let stream = WriteTimeoutStream::new(stream, front.limits.stall);
    let served = async {
        match tls {
            Some(tls) => {
                let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.acceptor().accept(stream)).await else {
                    front.server.metrics().handshake_failed();
                    return;
                };
                // The identity does not change while the connection lasts.
                let peer = tls.peer(stream.get_ref().1);
                if let Peer::Certified { user, .. } = &peer
                    && !front.table.identify(&activity, level_of_user(user), &user.name.as_str().into())
                {
                    return;
                }
                Box::pin(requests(&front, &activity, stream, peer, stop)).await;
            }
            None => Box::pin(requests(&front, &activity, stream, Peer::Nobody, stop)).await,
        }
    };
    tokio::select! {
        () = served => {}
        () = activity.close.notified() => {}
    }
}

/// Counts a connection out.
struct Open<'a> {
    front: &'a Front,
    id: ConnectionId,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.front.table.closed(self.id);
    }
}

async fn requests<S>(
    front: &Arc<Front>,
    activity: &Arc<Activity>,
    stream: S,
    peer: Peer,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = {
        let (front, activity) = (Arc::clone(front), Arc::clone(activity));
        service_fn(move |request| {
            Front::answer(Arc::clone(&front), Arc::clone(&activity), request, peer.clone())
        })
    };
    let builder = builder(front.limits.stall);
    let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let ended = tokio::select! {
        // How a connection ended is the client's affair.
        _ = connection.as_mut() => true,
        () = activity.idle_for_too_long(&front.limits) => {
            front.server.metrics().flow().connection_closed("idle");
            false
        }
        _ = stop.wait_for(|stop| *stop) => false,
    };
    if ended {
        // Its watch ends when the server stops.
        if let Some(socket) = activity.take_socket() {
            socket.run().await;
        }
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}

fn builder(stall: Duration) -> Builder<Streams> {
    let mut builder = Builder::new(Streams::new(stall));
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_WAIT)
        .max_buf_size(HTTP1_BUFFER_BYTES_MAX);
    // Floods of CONTINUATION and of empty frames end the connection in h2 itself: by the size of the header list, by the overhead of
    // frames.
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .initial_connection_window_size(WINDOW_BYTES)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .max_send_buf_size(STREAM_BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(RESET_STREAMS_MAX)
        .max_local_error_reset_streams(ERROR_STREAMS_MAX)
        .keep_alive_interval(Some(KEEP_ALIVE_EVERY));
    builder
}
