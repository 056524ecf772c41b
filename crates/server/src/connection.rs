//! Connections: which ones there are, whether they are in use, and how each is served.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    pin::pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use lazaret_flow::{ConnectionId, ConnectionLimits, Connections, Identified, Level, Opened};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};

use crate::{
    Peer, Tls,
    front::{Front, standing},
    front_limits::FrontLimits,
    metrics::FlowMetrics,
    stall::Impatient,
    streams::Streams,
    websocket::Socket,
};

/// Streams of one HTTP/2 connection: client-go sends all watches of a process over one.
const STREAMS_MAX: u32 = 1_000;
const HEADER_BYTES_MAX: u32 = 64 << 10;
/// What one HTTP/1.1 connection buffers at most in each direction.
const HTTP1_BUFFER_BYTES_MAX: usize = 64 << 10;
/// What an HTTP/2 client may send before it is read, on all streams together and on one.
const WINDOW_BYTES: u32 = 512 << 10;
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
/// What waits to be sent on one HTTP/2 stream.
const STREAM_BUFFER_BYTES_MAX: usize = 64 << 10;
/// Streams that a client has reset and nobody has looked at yet: with more, the connection ends. The first number of CVE-2023-44487.
const RESET_STREAMS_MAX: usize = 20;
/// Streams that the server had to reset because of the client: with more, the connection ends.
const ERROR_STREAMS_MAX: usize = 256;
/// A head must have arrived after this long.
const HEADER_WAIT: Duration = Duration::from_secs(30);
const HANDSHAKE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(30);
/// How long requests may take to end when a connection is to end.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// All connections of a server.
#[derive(Debug)]
pub(crate) struct Table {
    state: Mutex<State>,
    started: Instant,
    metrics: FlowMetrics,
}

#[derive(Debug)]
struct State {
    connections: Connections<Arc<str>>,
    open: BTreeMap<ConnectionId, Arc<Activity>>,
}

impl Table {
    pub(crate) fn new(limits: ConnectionLimits, metrics: FlowMetrics) -> Self {
        let state = State { connections: Connections::new(limits), open: BTreeMap::new() };
        Self { state: Mutex::new(state), started: Instant::now(), metrics }
    }

    /// A new connection; another one may have to go for it.
    fn open(&self, address: IpAddr) -> Option<Arc<Activity>> {
        let number = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            // Whoever has one address of a network has all of them.
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        };
        let mut state = self.lock();
        let State { connections, open } = &mut *state;
        let Opened::Kept(id, evicted) = connections.open(number, |id| is_idle(open, id)) else {
            self.metrics.connection_closed("table-full");
            return None;
        };
        self.evict(&mut state, evicted);
        let activity = Arc::new(Activity::new(id, self.started));
        state.open.insert(id, Arc::clone(&activity));
        self.metrics.connections(state.open.len());
        Some(activity)
    }

    /// A connection belongs to somebody from now on; `false` if that user has too many.
    pub(crate) fn identify(&self, activity: &Activity, level: Level, user: &Arc<str>) -> bool {
        let mut state = self.lock();
        let State { connections, open } = &mut *state;
        match connections.identify(activity.id, level, user, |id| is_idle(open, id)) {
            Identified::Kept(evicted) => {
                activity.identified.store(true, Ordering::Relaxed);
                self.evict(&mut state, evicted);
                true
            }
            Identified::Refused => {
                self.evict(&mut state, Some(activity.id));
                false
            }
        }
    }

    fn evict(&self, state: &mut State, id: Option<ConnectionId>) {
        if let Some(activity) = id.and_then(|id| state.open.get(&id)) {
            self.metrics.connection_closed("too-many");
            activity.close.notify_one();
        }
    }

    fn closed(&self, id: ConnectionId) {
        let mut state = self.lock();
        state.connections.close(id);
        state.open.remove(&id);
        self.metrics.connections(state.open.len());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_idle(open: &BTreeMap<ConnectionId, Arc<Activity>>, id: ConnectionId) -> bool {
    open.get(&id).is_some_and(|activity| activity.requests.load(Ordering::Relaxed) == 0)
}

/// What goes on over a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) id: ConnectionId,
    /// Requests that are not answered to the last byte.
    requests: AtomicU32,
    /// When that changed last.
    changed_ms: AtomicU64,
    asked: AtomicBool,
    identified: AtomicBool,
    close: Notify,
    /// The websocket that the connection becomes.
    socket: Mutex<Option<Socket>>,
    started: Instant,
}

impl Activity {
    fn new(id: ConnectionId, started: Instant) -> Self {
        let this = Self {
            id,
            requests: AtomicU32::new(0),
            changed_ms: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            identified: AtomicBool::new(false),
            close: Notify::new(),
            socket: Mutex::new(None),
            started,
        };
        this.touch();
        this
    }

    /// From now on the connection is a websocket, once the answer to the handshake is sent.
    pub(crate) fn becomes(&self, socket: Socket) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    fn take_socket(&self) -> Option<Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.identified.load(Ordering::Relaxed)
    }

    fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.changed_ms.store(now, Ordering::Relaxed);
    }

    /// Returns when nothing was asked over the connection for too long.
    async fn idle_for_too_long(&self, limits: &FrontLimits) {
        loop {
            let patience = match (self.asked.load(Ordering::Relaxed), self.is_identified()) {
                (false, _) => limits.first_request,
                (true, false) => limits.idle_unidentified,
                (true, true) => limits.idle,
            };
            let changed = self.started + Duration::from_millis(self.changed_ms.load(Ordering::Relaxed));
            let idle = self.requests.load(Ordering::Relaxed) == 0;
            let due = changed + patience;
            if idle && due <= Instant::now() {
                return;
            }
            sleep_until(due.max(Instant::now() + Duration::from_millis(100))).await;
        }
    }
}

/// A request that is not answered to the last byte.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Busy {
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.asked.store(true, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.touch();
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

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
    let stream = Impatient::new(stream, front.limits.stall);
    let served = async {
        match tls {
            Some(tls) => {
                let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.acceptor().accept(stream)).await else {
                    front.server.metrics().handshake_failed();
                    return;
                };
                // Who it is does not change while the connection lasts.
                let peer = tls.peer(stream.get_ref().1);
                if let Peer::Certified { user, .. } = &peer
                    && !front.table.identify(&activity, standing(user), &user.name.as_str().into())
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
