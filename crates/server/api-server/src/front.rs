//! From a request on a connection to its answer: who asks, how important it is, what it may take, and when it runs.

use std::{convert::Infallible, fmt, sync::Arc, thread::available_parallelism};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use lazaret_flow::{Caller, Level, seats_of_body, seats_of_list};
use tokio::sync::Semaphore;

use crate::{
    ApiError, Authenticator, Body, Peer, Requester, Server, User,
    access_log::AccessEntry,
    accounts::{AccountKey, Accounts},
    body_intake::{IntakeError, receive},
    compression::{self, accepts_gzip},
    connections::{Activity, Table},
    delivery::Delivery,
    flow_control::FlowControl,
    front_limits::{self, FrontLimits},
    open_requests::OpenRequest,
    query::Query,
    request::Path,
    request_permits::RequestPermits,
    respond::failure,
    streams::Piecewise,
    tunnel::Tunnel,
    websocket::{Handshake, Socket},
};

/// A body as large as this takes milliseconds of computing: a level has half of the machine for such bodies, so that others find a thread.
const HEAVY_BODY_BYTES: usize = 64 << 10;
/// After this many seconds a client may try again, as in Kubernetes.
const RETRY_AFTER_SECONDS: u32 = 1;

/// State shared by all connections.
pub(crate) struct Front {
    pub(crate) server: Server,
    pub(crate) limits: FrontLimits,
    pub(crate) table: Table,
    authenticator: Authenticator,
    flow: Arc<FlowControl>,
    inbound: Arc<Accounts>,
    outbound: Arc<Accounts>,
    watches: Arc<Accounts>,
    /// Requests with large bodies that are worked on, by level.
    heavy: [Arc<Semaphore>; Level::ALL.len()],
}

impl fmt::Debug for Front {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Front")
    }
}

/// The level of a user's connections.
pub(crate) fn level_of_user(user: &User) -> Level {
    Level::of(&Caller { name: &user.name, groups: &user.groups, health: false, lease: false })
}

/// The properties of a request that decide when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestTraits {
    health: bool,
    lease: bool,
    watch: bool,
    /// Answered by a node, for as long as that takes.
    stream: bool,
}

/// Subresources answered by nodes, by the last part of a path.
const STREAMS: &[&str] = &["log", "exec", "attach", "portforward", "proxy"];

impl RequestTraits {
    fn of(method: &Method, uri: &Uri) -> Self {
        let path = uri.path();
        let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
        let query = uri.query().unwrap_or_default();
        // Looked into only where it can be: most paths are those of single objects.
        let may_watch = path.contains("/watch/") || path.contains('%');
        let last = path.rsplit('/').next().unwrap_or_default();
        Self {
            stream: first == "api"
                && (STREAMS.contains(&last)
                    || path.contains("/proxy/")
                    || path.contains('%') && asks_node(&Path::parse(path))),
            health: matches!(first, "healthz" | "livez" | "readyz"),
            lease: path.starts_with("/apis/coordination.k8s.io/") && path.contains("/leases"),
            watch: *method == Method::GET
                && ((!query.is_empty() && Query::parse(query).flag("watch"))
                    || (may_watch && matches!(Path::parse(path), Path::Watch(_)))),
        }
    }
}

/// Whether a path leads to what nodes answer.
fn asks_node(path: &Path) -> bool {
    match path {
        Path::Objects(target) => {
            target.subresource.split('/').next().is_some_and(|first| STREAMS.contains(&first))
        }
        Path::Watch(_) | Path::Other(_) => false,
    }
}

/// Why a request is answered with 429 before it runs, as metrics tell it.
struct RefusedRequest {
    level: Level,
    reason: &'static str,
}

impl Front {
    pub(crate) fn new(server: Server, authenticator: Authenticator, limits: FrontLimits) -> Self {
        let threads = available_parallelism().map_or(1, |threads| threads.get() / 2).max(1);
        Self {
            flow: FlowControl::new(server.metrics()),
            table: Table::new(limits.connections, server.metrics().flow().clone()),
            inbound: Accounts::new(front_limits::inbound_bytes),
            outbound: Accounts::new(front_limits::outbound_bytes),
            watches: Accounts::new(front_limits::watches),
            heavy: Level::ALL.map(|_| Arc::new(Semaphore::new(threads))),
            server,
            limits,
            authenticator,
        }
    }

    /// Answers one request of a connection.
    pub(crate) async fn answer(
        self: Arc<Self>,
        activity: Arc<Activity>,
        mut request: Request<Incoming>,
        peer: Peer,
    ) -> Result<Response<Piecewise>, Infallible> {
        let mut delivery = Delivery::new(OpenRequest::new(&activity.requests));
        let socket = SocketRequest::of(&mut request);
        let entry = AccessEntry::begin(&request);
        let logged = |response: Response<Body>| {
            if let Some(entry) = entry {
                entry.refused(response.status().as_u16());
            }
            response
        };
        let response = match self.run(&activity, request, peer, &mut delivery).await {
            Ok(response) => match delivery.admit(response.body()) {
                Ok(()) => response,
                Err(level) => logged(self.refuse(&RefusedRequest { level, reason: "outbound-bytes" })),
            },
            Err(response) => logged(*response),
        };
        let mut response = response;
        if let Some(tunnel) = response.extensions_mut().remove::<Tunnel>() {
            activity.becomes(Socket::Tunnel(tunnel, delivery));
            return Ok(response.map(Piecewise::new));
        }
        Ok(match socket {
            Some(socket) => socket.answer(&activity, response, delivery),
            None => response.map(|body| Piecewise::new(body).delivered_by(delivery)),
        })
    }

    async fn run(
        &self,
        activity: &Arc<Activity>,
        request: Request<Incoming>,
        peer: Peer,
        delivery: &mut Delivery,
    ) -> Result<Response<Body>, Box<Response<Body>>> {
        lazaret_host::check(request.version(), request.headers())
            .map_err(|error| Box::new(malformed(&error)))?;
        let page = self
            .server
            .pages()
            .and_then(|pages| pages.answer(request.method(), request.uri(), request.headers()));
        if let Some(page) = page {
            return Ok(page.map(Body::full));
        }
        let Requester { user, session } = self
            .authenticator
            .authenticate(&self.server, request.headers(), &peer)
            .inspect_err(|_| {
                if let Some(sink) = self.server.alerts() {
                    sink.count_unauthenticated(request.uri().path());
                }
            })
            .map_err(|error| Box::new(failure(&error)))?;
        let asked = RequestTraits::of(request.method(), request.uri());
        let (health, lease) = (asked.health, asked.lease);
        let level = Level::of(&Caller { name: &user.name, groups: &user.groups, health, lease });
        let name: Arc<str> = user.name.as_str().into();
        let refused = |reason| Box::new(self.refuse(&RefusedRequest { level, reason }));
        if !activity.is_identified() {
            let level = level_of_user(&user);
            if level != Level::Anonymous && !self.table.identify(activity, level, &name) {
                return Err(refused("connections"));
            }
        }
        compression::check_request(request.headers()).map_err(|error| Box::new(failure(&error)))?;
        let long = asked.watch || asked.stream;
        if let Some(session) = session.filter(|_| long) {
            delivery.end_with(session);
        }
        let packed = *request.method() == Method::GET && !long && accepts_gzip(request.headers());
        let holder = AccountKey { level, user: name, connection: activity.id };
        let (parts, body) = request.into_parts();
        let received = match receive(body, &self.inbound, &holder).await {
            Ok(received) => received,
            Err(IntakeError::Full) => return Err(refused("inbound-bytes")),
            Err(IntakeError::Refused(error)) => return Err(Box::new(failure(&error))),
        };
        let watch = if long && level != Level::Exempt {
            Some(self.watches.take(&holder, 1).map_err(|_| refused("watches"))?)
        } else {
            None
        };
        let request = Request::from_parts(parts, received.bytes);
        let seats = if level == Level::Exempt { 1 } else { self.seats_of(&request, asked) };
        let seat = self
            .flow
            .seat(level, &holder.user, seats)
            .await
            .map_err(|_| Box::new(failure(&too_many_requests())))?;
        let held = RequestPermits::new(seat);
        let mut response = self.handle(level, user, request, &held).await;
        if packed {
            response = compression::compressed(response).await;
        }
        drop(received.held);
        let seat = held.into_seat().filter(|_| self.lingers(level, asked, &response));
        delivery.deliver(&self.outbound, holder, watch, seat);
        Ok(response)
    }

    /// The answer to a request that is not to run.
    fn refuse(&self, refused: &RefusedRequest) -> Response<Body> {
        self.flow.rejected(refused.level, refused.reason);
        failure(&too_many_requests())
    }

    /// How many seats a request takes: by the objects that it looks at, and by the length of its body.
    fn seats_of(&self, request: &Request<Bytes>, asked: RequestTraits) -> u32 {
        let body = seats_of_body(request.body().len());
        let listed = !asked.watch && matches!(*request.method(), Method::GET | Method::DELETE);
        let Path::Objects(target) = Path::parse(request.uri().path()) else { return body };
        if !listed || !target.name.is_empty() {
            return body;
        }
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let selected = query.has("labelSelector") || query.has("fieldSelector");
        let limit = query.number("limit").ok().flatten().and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.filter(|limit| *limit > 0 && !selected).unwrap_or(usize::MAX);
        body.max(seats_of_list(self.server.count(&target).min(limit)))
    }

    async fn handle(
        &self,
        level: Level,
        user: Arc<User>,
        mut request: Request<Bytes>,
        held: &RequestPermits,
    ) -> Response<Body> {
        request.extensions_mut().insert(held.clone());
        if level == Level::Exempt || request.body().len() < HEAVY_BODY_BYTES {
            return self.server.handle(&user, request).await;
        }
        // The semaphore is never closed. The server reads such a body on a thread of its own.
        if let Ok(turn) = Arc::clone(&self.heavy[level.index()]).acquire_owned().await {
            held.keep_turn(turn);
        }
        self.server.handle(&user, request).await
    }

    /// Whether an answer is still being rendered, and keeps its seat.
    fn lingers(&self, level: Level, asked: RequestTraits, response: &Response<Body>) -> bool {
        matches!(response.body(), Body::Stream(_)) && !asked.watch && !asked.stream && level != Level::Exempt
    }
}

/// A watch that was asked for over a websocket.
struct SocketRequest {
    handshake: Result<Handshake, ApiError>,
    upgrade: OnUpgrade,
}

impl SocketRequest {
    fn of(request: &mut Request<Incoming>) -> Option<Self> {
        let handshake = Handshake::of(request)?;
        RequestTraits::of(request.method(), request.uri())
            .watch
            .then(|| Self { handshake, upgrade: hyper::upgrade::on(request) })
    }

    /// The answer to the handshake; the events follow when the connection has become a websocket.
    fn answer(
        self,
        activity: &Activity,
        response: Response<Body>,
        delivery: Delivery,
    ) -> Response<Piecewise> {
        let watches = response.status() == StatusCode::OK && matches!(response.body(), Body::Stream(_));
        let answer = match self.handshake {
            Ok(handshake) if watches => {
                let events = Piecewise::new(response.into_body()).delivered_by(delivery);
                activity.becomes(Socket::new(self.upgrade, events));
                return handshake.accepted().map(Piecewise::new);
            }
            Err(error) if watches => failure(&error),
            Ok(_) | Err(_) => response,
        };
        answer.map(|body| Piecewise::new(body).delivered_by(delivery))
    }
}

/// The answer to a request that no other server would read as it was meant; nothing after it is read.
fn malformed(error: &lazaret_host::HostError) -> Response<Body> {
    let mut response = failure(&ApiError::bad_request(error.to_string()));
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn too_many_requests() -> ApiError {
    ApiError::too_many_requests("Too many requests, please try again later.", RETRY_AFTER_SECONDS)
}

#[cfg(test)]
#[path = "front_tests.rs"]
mod tests;
