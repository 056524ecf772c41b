//! `kubectl device ui`: the dashboard for any cluster, with the user's own kubeconfig.
//!
//! As `kubectl proxy` does, it listens on this machine alone and passes requests on as the user of the kubeconfig. Unlike it, it answers only
//! the page that was opened with the printed address: whoever else reaches the port gets the files of the page and nothing of the cluster.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{
    body::{Bytes, Frame, Incoming, SizeHint},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use lazaret_dashboard::{Dashboard, SessionEnd, Transport};
use lazaret_runtime::Body;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinSet};

use super::{Session, write::whoami};
use crate::{Error, Verdict, api::Api, clock, live_args::UiArgs};

/// As large as a body may be that an API server takes.
const BODY_BYTES_MAX: usize = 3 << 20;
/// A browser has six for a page; several pages and browsers may be open.
const CONNECTIONS_MAX: usize = 64;
/// A connection that sends no request within this time is closed.
const HEADER_PATIENCE: Duration = Duration::from_secs(10);
/// After a connection could not be accepted, the next is tried after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// How often sessions are looked at that are too old.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Paths that the page reads. Other paths are not forwarded.
const PATHS: [&str; 5] = ["/api/", "/apis/", "/version", "/metrics", "/readyz"];
/// Headers of requests and answers that are forwarded. The user's credentials are added by the client, never by the page.
const REQUEST_HEADERS: [header::HeaderName; 2] = [header::ACCEPT, header::CONTENT_TYPE];
const ANSWER_HEADERS: [header::HeaderName; 3] = [header::CONTENT_TYPE, header::RETRY_AFTER, header::WARNING];

/// Passes on what the page asks.
#[derive(Debug)]
pub(crate) struct Proxy {
    api: Api,
    dashboard: Dashboard<String>,
    hosts: [String; 2],
}

pub(super) async fn run(session: &mut Session<'_>, args: UiArgs) -> Result<Verdict, Error> {
    let user = whoami(session).await.unwrap_or_else(|| "unknown".to_owned());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await?;
    let port = listener.local_addr()?.port();
    let proxy = Arc::new(Proxy::new(session.api.clone(), port));
    let token = proxy.dashboard.invite(seconds(), user);
    session.console.line(&format!("dashboard: http://127.0.0.1:{port}/ui/#token={token}"))?;
    session.console.note("the address works once, within 15 minutes; Ctrl-C ends it");
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = look.tick() => proxy.dashboard.end_old_sessions(seconds()),
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    tokio::time::sleep(ACCEPT_RETRY).await;
                    continue;
                };
                // A connection too many is closed at once.
                let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
                let proxy = Arc::clone(&proxy);
                connections.spawn(async move {
                    let service = service_fn(move |request| {
                        let proxy = Arc::clone(&proxy);
                        async move { Ok::<_, Infallible>(proxy.answer(request).await) }
                    });
                    let mut server = http1::Builder::new();
                    server.timer(TokioTimer::new()).header_read_timeout(HEADER_PATIENCE);
                    // A browser that went away is no news.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    drop(place);
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            _ = tokio::signal::ctrl_c() => return Ok(Verdict::Yes),
        }
    }
}

fn seconds() -> u64 {
    clock::now().as_secs().try_into().unwrap_or_default()
}

impl Proxy {
    pub(crate) fn new(api: Api, port: u16) -> Self {
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        Self { api, dashboard: Dashboard::new(Transport::Loopback, port), hosts }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err(error) = lazaret_host::check(request.version(), request.headers()) {
            return refusal(StatusCode::BAD_REQUEST, &format!("{error}\n"));
        }
        let (parts, body) = request.into_parts();
        // A name that somebody else made point here is not ours.
        let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        if !host.is_some_and(|host| self.hosts.iter().any(|ours| ours == host)) {
            return refusal(StatusCode::FORBIDDEN, "this address is served for 127.0.0.1 alone\n");
        }
        let path = parts.uri.path();
        if let Some(page) = self.dashboard.answer(seconds(), &parts.method, path, &parts.headers) {
            return page.map(whole);
        }
        let Ok(Some(visit)) = self.dashboard.visit(seconds(), &parts.headers) else {
            return refusal(StatusCode::UNAUTHORIZED, "open the address that kubectl device ui printed\n");
        };
        if !is_passed_on(path) {
            return refusal(StatusCode::NOT_FOUND, "the page does not need this path\n");
        }
        let bytes = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(collected) => collected.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n");
            }
            Err(_) => return refusal(StatusCode::BAD_REQUEST, "the body ended early\n"),
        };
        let target = parts.uri.path_and_query().map_or(path, |target| target.as_str());
        match self.pass_on(&parts.method, target, &parts.headers, bytes).await {
            Ok(answer) => answer.map(|body| within_session(body, visit.end)),
            Err(error) => {
                refusal(StatusCode::BAD_GATEWAY, &format!("the API server does not answer: {error}\n"))
            }
        }
    }

    async fn pass_on(
        &self,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, Error> {
        let unreachable = |cause: String| Error::Unreachable { action: "pass on".to_owned(), cause };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .body(body)
            .map_err(|error| unreachable(error.to_string()))?;
        copy(headers, request.headers_mut(), &REQUEST_HEADERS);
        let answer = self.api.client.answer(request).await.map_err(|error| unreachable(error.to_string()))?;
        let (parts, body) = answer.into_parts();
        let mut answer = Response::new(body);
        *answer.status_mut() = parts.status;
        copy(&parts.headers, answer.headers_mut(), &ANSWER_HEADERS);
        let headers = answer.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        Ok(answer)
    }
}

/// Whether a path is one that the page reads. A path that could mean another one after decoding is refused.
fn is_passed_on(path: &str) -> bool {
    let plain = !path.contains("..") && !path.contains("//") && !path.to_ascii_lowercase().contains("%2f");
    // A proxy or a shell in a pod is no business of the page.
    let inward = path.split('/').any(|part| ["proxy", "exec", "attach", "portforward"].contains(&part));
    plain
        && !inward
        && PATHS
            .iter()
            .any(|known| if known.ends_with('/') { path.starts_with(known) } else { path == *known })
}

fn copy(from: &HeaderMap, to: &mut HeaderMap, names: &[header::HeaderName]) {
    for name in names {
        for value in from.get_all(name) {
            to.append(name, value.clone());
        }
    }
}

/// An answer that ends with the session in which it was asked for: watches go on for longer.
fn within_session(body: Body, end: SessionEnd) -> Body {
    WithinSession { body, end: Some(Box::pin(end.reached())) }.boxed_unsync()
}

struct WithinSession {
    body: Body,
    /// `None` once the session is over.
    end: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl hyper::body::Body for WithinSession {
    type Data = Bytes;
    type Error = <Body as hyper::body::Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let is_over = self.end.as_mut().is_none_or(|end| end.as_mut().poll(context).is_ready());
        if is_over {
            self.end = None;
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn refusal(status: StatusCode, text: &str) -> Response<Body> {
    let mut answer = Response::new(whole(Bytes::copy_from_slice(text.as_bytes())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}
