//! A webhook with its connections.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, client::conn::http1::SendRequest};
use lazaret_kinds::admission::{Address, Url, Webhook};
use rustls::ClientConfig;
use tokio::{sync::Semaphore, time::Instant};

use super::{connection, resolve, trust};
use crate::{ObjectStore, input, log_pace::LogPace};

/// A longer answer is none: no patch of an object of 1.5 MiB is longer.
const RESPONSE_BYTES_MAX: usize = input::BODY_BYTES_MAX;
/// Calls of one webhook in flight at a time; further ones wait, within their own time.
const WEBHOOK_CALLS_MAX: usize = 64;
/// Connections to a webhook that are kept for the next call.
const IDLE_CONNECTIONS_MAX: usize = 8;
/// A connection that was idle for this time is not used again.
const IDLE_SECONDS_MAX: u64 = 90;
const USER_AGENT: &str = "kube-apiserver-admission";
const HTTPS_PORT: u16 = 443;

/// A webhook, and what calls of it share.
pub(crate) struct Hook {
    pub(super) webhook: Webhook,
    /// Configuration and name.
    id: Arc<str>,
    pub(super) calls: Semaphore,
    pub(super) log: LogPace,
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
    idle: Mutex<Vec<IdleConnection>>,
}

struct IdleConnection {
    /// Host and port that it is connected to.
    to: String,
    since: Instant,
    sender: SendRequest<Full<Bytes>>,
}

/// Why nothing was answered.
#[derive(Debug)]
pub(super) struct PostError {
    why: String,
    /// Before anything was sent: then there is no URL to speak of.
    unsent: bool,
    /// For metrics.
    pub(super) code: u16,
}

impl PostError {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), unsent: false, code: 503 }
    }

    /// In Kubernetes' words, the URL put in front where it belongs.
    pub(super) fn render(&self, with_url: &impl Fn(&str) -> String) -> String {
        if self.unsent { self.why.clone() } else { with_url(&self.why) }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hook").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Where a call goes.
struct CallTarget {
    /// Host and port to connect to.
    to: String,
    /// The name that the certificate must be for.
    name: String,
    /// The host in the request.
    host: String,
}

impl Hook {
    pub(crate) fn new(webhook: Webhook) -> Self {
        Self {
            id: format!("{}/{}", webhook.configuration, webhook.name).into(),
            webhook,
            calls: Semaphore::new(WEBHOOK_CALLS_MAX),
            log: LogPace::default(),
            tls: OnceLock::new(),
            idle: Mutex::default(),
        }
    }

    /// Configuration and name.
    pub(super) fn id(&self) -> Arc<str> {
        self.id.clone()
    }

    /// The URL of a call, as errors show it.
    pub(super) fn url(&self, timeout_seconds: u64) -> String {
        let (authority, path) = match &self.webhook.address {
            Address::Url(text) => {
                let url = Url::parse(text).unwrap_or_default();
                (url.authority(), url.path)
            }
            Address::Service { namespace, name, path, port } => {
                (format!("{name}.{namespace}.svc:{port}"), path.clone())
            }
        };
        let path = path.trim_matches('/');
        format!("https://{authority}/{path}?timeout={timeout_seconds}s")
    }

    fn place(&self, stored: &ObjectStore) -> Result<CallTarget, PostError> {
        match &self.webhook.address {
            Address::Url(text) => {
                let url = Url::parse(text).map_err(PostError::new)?;
                let port = url.port.unwrap_or(HTTPS_PORT);
                let host = url.authority();
                let bracketed = Url { port: None, ..url.clone() }.authority();
                Ok(CallTarget { to: format!("{bracketed}:{port}"), name: url.host, host })
            }
            Address::Service { namespace, name, port, .. } => {
                let to = resolve::endpoint(stored, namespace, name, *port).map_err(PostError::new)?;
                let name = format!("{name}.{namespace}.svc");
                Ok(CallTarget { to, host: format!("{name}:{port}"), name })
            }
        }
    }

    /// The TLS configuration, with the authority of the webhook's certificate.
    fn tls(&self) -> Result<Arc<ClientConfig>, PostError> {
        let made = self.tls.get_or_init(|| {
            let bundle = STANDARD.decode(&self.webhook.ca_bundle).map_err(|error| error.to_string())?;
            trust::config(&bundle).map(Arc::new)
        });
        made.clone().map_err(|why| PostError {
            why: format!("could not get REST client: {why}"),
            unsent: true,
            code: 500,
        })
    }

    /// Sends a review and waits for the answer. A connection that is kept is used if there is one; if it turns out to be closed before
    /// anything was sent, a new one is. A redirection is an answer like any other: nothing is called that the configuration does not name.
    pub(super) async fn post(
        &self,
        stored: &ObjectStore,
        url: &str,
        body: Bytes,
    ) -> Result<(u16, Bytes), PostError> {
        let tls = self.tls()?;
        let place = self.place(stored)?;
        let (_, target) = url.split_once("://").unwrap_or(("", url));
        let path = target.find('/').map_or("/", |at| &target[at..]);
        let mut request = Request::post(path)
            .header(header::HOST, &place.host)
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, "application/json, */*")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body))
            .map_err(|error| PostError::new(error.to_string()))?;
        while let Some(mut sender) = self.take_idle(&place.to) {
            match sender.try_send_request(request).await {
                Ok(response) => return self.receive(place.to, sender, response).await,
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(PostError::new(connection::broken(error.error()))),
                },
            }
        }
        let mut sender = connection::open(&place.to, &place.name, tls).await.map_err(PostError::new)?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| PostError::new(connection::broken(&error)))?;
        self.receive(place.to, sender, response).await
    }

    async fn receive(
        &self,
        to: String,
        sender: SendRequest<Full<Bytes>>,
        response: http::Response<Incoming>,
    ) -> Result<(u16, Bytes), PostError> {
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| {
            PostError::new(if error.is::<http_body_util::LengthLimitError>() {
                format!("the response is longer than {RESPONSE_BYTES_MAX} bytes")
            } else {
                "unexpected EOF".to_owned()
            })
        })?;
        self.keep(to, sender);
        Ok((status, body.to_bytes()))
    }

    fn take_idle(&self, to: &str) -> Option<SendRequest<Full<Bytes>>> {
        let mut idle = self.idle();
        let fresh = Instant::now().checked_sub(Duration::from_secs(IDLE_SECONDS_MAX));
        idle.retain(|one| !one.sender.is_closed() && fresh.is_none_or(|fresh| one.since >= fresh));
        let at = idle.iter().rposition(|one| one.to == to && one.sender.is_ready())?;
        Some(idle.swap_remove(at).sender)
    }

    fn keep(&self, to: String, sender: SendRequest<Full<Bytes>>) {
        let mut idle = self.idle();
        if idle.len() < IDLE_CONNECTIONS_MAX && !sender.is_closed() {
            idle.push(IdleConnection { to, since: Instant::now(), sender });
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
