//! Streams into pods: a request that becomes a websocket, and what is carried over it.

mod channels;
mod idle;
mod input;
mod output;
mod remote;
mod status;

use std::{pin::Pin, sync::Arc};

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use lazaret_containers::Runtime;

use self::{
    channels::{Protocol, StreamOptions},
    remote::{Program, Remote},
};
use crate::{
    Found, NotFound, Pods,
    request::{Endpoint, Parameters, Place},
    respond::{self, Body},
    spdy,
    websocket::{Handshake, upgrade_of},
};

pub(crate) use idle::Idle;

/// The arguments of a program, all together: as the kernel has it, more or less.
const COMMAND_BYTES_MAX: usize = 128 << 10;
/// The protocol of port-forward: SPDY in messages of a websocket.
const TUNNEL_PROTOCOL: &str = "SPDY/3.1+portforward.k8s.io";
// DEVIATION(no-spdy)
/// The error for clients that would switch to SPDY.
const NO_SPDY: &str = "this node streams over websockets alone, and not over SPDY/3.1: use kubectl 1.30 or newer (1.31 or newer for port-forward)";

/// A connection that becomes a stream when the answer to its request is sent.
pub(crate) struct Stream {
    upgrade: OnUpgrade,
    what: StreamKind,
}

enum StreamKind {
    Remote(Box<Remote>),
    Ports(Box<spdy::Session>),
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Stream")
    }
}

impl Stream {
    /// Runs to the end of the stream. The program or forward that was started for it ends with it.
    pub(crate) async fn run(self) {
        let Ok(upgraded) = self.upgrade.await else { return };
        let stream = TokioIo::new(upgraded);
        let running: Pin<Box<dyn Future<Output = ()> + Send>> = match self.what {
            StreamKind::Remote(remote) => Box::pin(remote.run(stream)),
            StreamKind::Ports(session) => Box::pin(session.run(stream)),
        };
        running.await;
    }
}

/// A stream and the answer that begins it, or why there is none. An error of the pod is reported first: a client that may not
/// have one protocol tries another, and shows the last answer.
pub(crate) fn begin(
    pods: &Arc<dyn Pods>,
    runtime: &Arc<dyn Runtime>,
    asked: &Endpoint,
    parameters: &Parameters,
    request: &mut Request<Incoming>,
) -> Result<(Response<Body>, Stream), Box<Response<Body>>> {
    let bad = |why: String| Box::new(respond::text(StatusCode::BAD_REQUEST, why));
    let what: Choose = match asked {
        Endpoint::Exec(place) => {
            let options = StreamOptions::of(parameters).map_err(|why| bad(why.to_owned()))?;
            let command: Vec<String> = parameters.all("command").map(str::to_owned).collect();
            if command.is_empty() || command.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
                return Err(
                    bad("you must specify a command of at most 128 KiB for the container".to_owned()),
                );
            }
            let found = running(pods, place)?;
            remote(Remote {
                runtime: Arc::clone(runtime),
                id: found.container,
                options,
                program: Program::Exec(command),
                protocol: (),
            })
        }
        Endpoint::Attach(place) => {
            let mut options = StreamOptions::of(parameters).map_err(|why| bad(why.to_owned()))?;
            let found = running(pods, place)?;
            options.stdin &= found.stdin;
            options.tty = found.tty;
            options.stderr &= !found.tty;
            remote(Remote {
                runtime: Arc::clone(runtime),
                id: found.container,
                options,
                program: Program::Attach,
                protocol: (),
            })
        }
        Endpoint::PortForward(place) => {
            let found = pods.find_sandbox(&place.namespace, &place.pod).map_err(|why| not_found(&why))?;
            check_uid(place, &found.pod_uid)?;
            let session = spdy::Session::new(Arc::clone(runtime), found.id, place.pod.clone());
            Box::new(move |handshake| {
                let speaks = handshake.protocols.iter().any(|protocol| protocol == TUNNEL_PROTOCOL);
                speaks.then(|| (TUNNEL_PROTOCOL, StreamKind::Ports(Box::new(session))))
            })
        }
        Endpoint::Health
        | Endpoint::Pods
        | Endpoint::Stats
        | Endpoint::Metrics
        | Endpoint::ResourceMetrics
        | Endpoint::Log(_) => {
            return Err(Box::new(respond::text(StatusCode::NOT_FOUND, "404 page not found")));
        }
    };
    switch(request, what)
}

type Choose = Box<dyn FnOnce(&Handshake) -> Option<(&'static str, StreamKind)>>;

fn remote(remote: Remote<()>) -> Choose {
    Box::new(move |handshake| {
        let (name, protocol) = Protocol::choose(&handshake.protocols)?;
        Some((name, StreamKind::Remote(Box::new(remote.over(protocol)))))
    })
}

/// The answer that makes a websocket of a connection.
fn switch(
    request: &mut Request<Incoming>,
    choose: Choose,
) -> Result<(Response<Body>, Stream), Box<Response<Body>>> {
    let refuse = |code, why: &str| Box::new(respond::text(code, why));
    match upgrade_of(request.headers()).as_deref() {
        Some("websocket") => {}
        Some(other) if other.starts_with("spdy/") => {
            let mut refused = refuse(StatusCode::UPGRADE_REQUIRED, NO_SPDY);
            refused.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            return Err(refused);
        }
        Some(_) | None => return Err(refuse(StatusCode::BAD_REQUEST, "Upgrade request required")),
    }
    let handshake = Handshake::of(request).map_err(|why| refuse(StatusCode::BAD_REQUEST, why))?;
    let (protocol, what) = choose(&handshake).ok_or_else(|| {
        let why = format!("none of the subprotocols {:?} is known here", handshake.protocols);
        refuse(StatusCode::BAD_REQUEST, &why)
    })?;
    let mut response = Response::new(Body::Full(None));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(&handshake.accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    if !protocol.is_empty() {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    Ok((response, Stream { upgrade: hyper::upgrade::on(request), what }))
}

fn not_found(why: &NotFound) -> Box<Response<Body>> {
    Box::new(respond::text(StatusCode::NOT_FOUND, why.to_string()))
}

/// A container that does not run. No colon may be in it: clients that speak SPDY read an answer with one as YAML, and show nothing of it.
fn not_running(place: &Place) -> NotFound {
    NotFound::NotStarted(format!("container not found ({:?})", place.container))
}

fn check_uid(place: &Place, uid: &str) -> Result<(), Box<Response<Body>>> {
    match &place.uid {
        Some(wanted) if wanted != uid => Err(not_found(&NotFound::Unknown("pod does not exist".to_owned()))),
        Some(_) | None => Ok(()),
    }
}

fn running(pods: &Arc<dyn Pods>, place: &Place) -> Result<Found, Box<Response<Body>>> {
    let found = pods.find(&place.namespace, &place.pod, Some(&place.container), false);
    let found = found.map_err(|why| match why {
        NotFound::Unknown(_) => not_found(&why),
        NotFound::NotStarted(_) => not_found(&not_running(place)),
    })?;
    check_uid(place, &found.pod_uid)?;
    if found.is_running { Ok(found) } else { Err(not_found(&not_running(place))) }
}
