//! Connections: which ones there are, and whether they are in use.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lazaret_flow::{ConnectionId, ConnectionLimits, Connections, Identified, Level, Opened};
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use crate::{
    front_limits::FrontLimits, metrics::FlowMetrics, open_requests::OpenRequests, websocket::Socket,
};

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
    pub(crate) fn open(&self, address: IpAddr) -> Option<Arc<Activity>> {
        let number = match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            // A client with one address of a network has all of them.
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

    /// A connection has a user from now on; `false` if that user has too many.
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

    pub(crate) fn closed(&self, id: ConnectionId) {
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
    open.get(&id).is_some_and(|activity| activity.requests.is_idle())
}

/// The activity of a connection.
#[derive(Debug)]
pub(crate) struct Activity {
    pub(crate) id: ConnectionId,
    pub(crate) requests: Arc<OpenRequests>,
    identified: AtomicBool,
    /// The connection has to end.
    pub(crate) close: Notify,
    /// The websocket that the connection becomes.
    socket: Mutex<Option<Socket>>,
}

impl Activity {
    fn new(id: ConnectionId, started: Instant) -> Self {
        Self {
            id,
            requests: Arc::new(OpenRequests::new(started)),
            identified: AtomicBool::new(false),
            close: Notify::new(),
            socket: Mutex::new(None),
        }
    }

    /// From now on the connection is a websocket, once the answer to the handshake is sent.
    pub(crate) fn becomes(&self, socket: Socket) {
        *self.socket.lock().unwrap_or_else(PoisonError::into_inner) = Some(socket);
    }

    pub(crate) fn take_socket(&self) -> Option<Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.identified.load(Ordering::Relaxed)
    }

    /// Returns when nothing was asked over the connection for too long.
    pub(crate) async fn idle_for_too_long(&self, limits: &FrontLimits) {
        loop {
            let patience = match (self.requests.was_asked(), self.is_identified()) {
                (false, _) => limits.first_request,
                (true, false) => limits.idle_unidentified,
                (true, true) => limits.idle,
            };
            let due = self.requests.changed() + patience;
            if self.requests.is_idle() && due <= Instant::now() {
                return;
            }
            sleep_until(due.max(Instant::now() + Duration::from_millis(100))).await;
        }
    }
}
