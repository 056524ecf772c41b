//! One request to the API, and what can become of it.

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use serde::Deserialize;
use thiserror::Error;

use crate::{Clock, Leadership, Resource};

/// The API, in this process or far away. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    transport: Transport,
    /// Without it, nothing is written.
    leadership: Option<Leadership>,
    /// The user that is impersonated.
    acts_as: Option<Arc<str>>,
    /// The client of each controller, where each has an identity of its own.
    identities: Option<Identities>,
    clock: Clock,
}

/// Gives the client of a controller, by its name.
type Identities = Arc<dyn Fn(&str) -> Client + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a server's answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

type Transport = Arc<dyn Fn(Request<Bytes>) -> Answering + Send + Sync>;

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, String>> + Send>>;

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Client")
    }
}

/// The `User-Agent` of every request, from which a server derives the field manager of plain writes.
const USER_AGENT: &str = concat!("lazaret/", env!("CARGO_PKG_VERSION"));

/// The header that names the user whose rights count.
const IMPERSONATE_USER: &str = "impersonate-user";

/// An answer larger than this is not read: ten times the largest object that a server takes, for a list has several.
pub(crate) const ANSWER_BYTES_MAX: usize = 32 << 20;

/// How a patch is to be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A list of operations.
    Json,
    /// A merge of objects; lists are replaced.
    Merge,
    /// A merge that knows the keys of lists.
    Strategic,
    /// A server-side apply: sets the fields that the manager names and takes over those that others own.
    Apply {
        /// The field manager that owns the fields afterwards.
        manager: &'static str,
    },
}

/// A request for one object, not yet sent.
#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    path: String,
    content_type: &'static str,
    body: Bytes,
}

/// Why a call did not do what it should. Texts are the server's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// No such object, or no such resource.
    #[error("not found: {0}")]
    NotFound(String),
    /// There is one of that name.
    #[error("already exists: {0}")]
    AlreadyExists(String),
    /// The object is not as the request expected.
    #[error("conflict: {0}")]
    Conflict(String),
    /// The request makes no sense, now and always.
    #[error("refused: {0}")]
    Invalid(String),
    /// This user may not do it.
    #[error("not permitted: {0}")]
    Forbidden(String),
    /// Come back later: too much load.
    #[error("not now: {0}")]
    TooMany(String),
    /// A disruption budget does not permit it now.
    #[error("not now: {0}")]
    Budget(String),
    /// The history that was asked for is gone.
    #[error("history is gone: {0}")]
    Expired(String),
    /// The server failed before doing anything, or could not be reached.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The answer was lost: the request may have been carried out.
    #[error("unknown outcome: {0}")]
    Unknown(String),
}

/// Why a request has no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// The server refused: the status code and the body of its answer.
    #[error("the server answered with status {0}")]
    Refused(u16, Bytes),
    /// The answer has more bytes than this.
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    /// The answer is not of the form that was asked for.
    #[error("{0}")]
    Unreadable(String),
    /// The connection failed, or there can be no such request.
    #[error("{0}")]
    Failed(String),
    /// A write of a process that no longer leads. It was not sent.
    #[error("another may lead by now")]
    NotLeading,
}

impl RequestError {
    pub(crate) fn unreadable(error: impl ToString) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<RequestError> for CallError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Refused(code, body) => Self::of(code, &body),
            RequestError::TooLarge(_)
            | RequestError::Unreadable(_)
            | RequestError::Failed(_)
            | RequestError::NotLeading => Self::Unavailable(error.to_string()),
        }
    }
}

impl Call {
    /// Creates an object.
    #[must_use]
    pub fn create(resource: &Resource, namespace: &str, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, resource.path(namespace, "", ""), "application/json", body)
    }

    /// Creates an object, whose fields belong to this manager.
    #[must_use]
    pub fn create_as(resource: &Resource, namespace: &str, manager: &str, body: impl Into<Bytes>) -> Self {
        let path = format!("{}?fieldManager={manager}", resource.path(namespace, "", ""));
        Self::new(Method::POST, path, "application/json", body)
    }

    /// Creates something under an object: a binding, an eviction.
    #[must_use]
    pub fn create_under(
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::new(Method::POST, resource.path(namespace, name, subresource), "application/json", body)
    }

    /// Reads an object.
    #[must_use]
    pub fn get(resource: &Resource, namespace: &str, name: &str) -> Self {
        Self::new(Method::GET, resource.path(namespace, name, ""), "application/json", Bytes::new())
    }

    /// Reads a subresource of an object.
    #[must_use]
    pub fn get_under(resource: &Resource, namespace: &str, name: &str, subresource: &str) -> Self {
        Self::get_at(resource.path(namespace, name, subresource))
    }

    /// Reads what is at a path.
    #[must_use]
    pub fn get_at(path: String) -> Self {
        Self::new(Method::GET, path, "application/json", Bytes::new())
    }

    /// Creates an object in the collection at a path.
    #[must_use]
    pub fn create_at(path: String, body: impl Into<Bytes>) -> Self {
        Self::new(Method::POST, path, "application/json", body)
    }

    /// Deletes what is at a path: an object, or all of a collection.
    #[must_use]
    pub fn delete_at(path: String) -> Self {
        Self::new(Method::DELETE, path, "application/json", "{}")
    }

    /// Replaces an object or its subresource.
    #[must_use]
    pub fn replace(
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::new(Method::PUT, resource.path(namespace, name, subresource), "application/json", body)
    }

    /// Changes an object or its subresource. Preconditions (`metadata.uid`, `metadata.resourceVersion`) are part of the body.
    #[must_use]
    pub fn patch(
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: &str,
        kind: PatchKind,
        body: impl Into<Bytes>,
    ) -> Self {
        let mut path = resource.path(namespace, name, subresource);
        let content_type = match kind {
            PatchKind::Json => "application/json-patch+json",
            PatchKind::Merge => "application/merge-patch+json",
            PatchKind::Strategic => "application/strategic-merge-patch+json",
            PatchKind::Apply { manager } => {
                path.push_str("?force=true&fieldManager=");
                path.push_str(manager);
                "application/apply-patch+yaml"
            }
        };
        Self::new(Method::PATCH, path, content_type, body)
    }

    /// Deletes an object; `options` is a `DeleteOptions` and holds the preconditions.
    #[must_use]
    pub fn delete(resource: &Resource, namespace: &str, name: &str, options: impl Into<Bytes>) -> Self {
        Self::new(Method::DELETE, resource.path(namespace, name, ""), "application/json", options)
    }

    fn new(method: Method, path: String, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { method, path, content_type, body: body.into() }
    }
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

impl Status {
    /// The message of the disruption budget that refuses, if one does.
    fn budget(&self) -> Option<String> {
        let causes = self.details.iter().flat_map(|details| &details.causes);
        let cause = causes.into_iter().find(|cause| cause.reason == "DisruptionBudget")?;
        Some(format!("{} {}", self.message, cause.message).trim().to_owned())
    }
}

impl Client {
    /// Over a kube client.
    #[must_use]
    pub fn new(kube: kube::Client) -> Self {
        let transport = move |request: Request<Bytes>| -> Answering {
            let kube = kube.clone();
            Box::pin(async move {
                let answer = kube.send(request.map(kube::client::Body::from)).await;
                answer.map(|answer| answer.map(boxed)).map_err(|error| told(&error))
            })
        };
        Self::over(Arc::new(transport))
    }

    /// To a server in this process: a request is a call, and nothing stands between that would have to be woken.
    #[must_use]
    pub fn direct<F, A, B>(answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Send + Sync + 'static,
        A: Future<Output = Response<B>> + Send + 'static,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let transport = move |request: Request<Bytes>| -> Answering {
            let answer = answer(request);
            Box::pin(async move { Ok(answer.await.map(boxed)) })
        };
        Self::over(Arc::new(transport))
    }

    fn over(transport: Transport) -> Self {
        Self { transport, leadership: None, acts_as: None, identities: None, clock: Clock::default() }
    }

    /// The same, where each controller writes as a user of its own: `client_of` gives the client of a controller by the controller's name.
    #[must_use]
    pub fn with_identities(self, client_of: impl Fn(&str) -> Self + Send + Sync + 'static) -> Self {
        Self { identities: Some(Arc::new(client_of)), ..self }
    }

    /// The client with which a controller writes: as a user of its own where there [are such](Self::with_identities), and else the same.
    #[must_use]
    pub fn of_controller(&self, name: &str) -> Self {
        let Some(client_of) = &self.identities else { return self.clone() };
        let Self { transport, acts_as, .. } = client_of(name);
        Self { transport, acts_as, ..self.clone() }
    }

    /// The same, which [sends](Self::send) every call as this user: whether it may, the server decides by the rights of that user.
    #[must_use]
    pub fn acting_as(&self, user: &str) -> Self {
        Self { acts_as: Some(user.into()), ..self.clone() }
    }

    /// The same, which looks right before each write whether this process still leads, and does not send it if not.
    #[must_use]
    pub fn under(&self, leadership: &Leadership) -> Self {
        let leadership = Some(leadership.clone()).filter(Leadership::is_rivalled);
        Self { leadership, ..self.clone() }
    }

    /// The same, for whom this clock shows the time.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// The clock of whoever uses this client.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sends a request as it is.
    ///
    /// # Errors
    /// When the server cannot be reached, or may not be asked for this.
    pub async fn answer(&self, request: Request<Bytes>) -> Result<Response<Body>, RequestError> {
        let follows = self.leadership.as_ref().is_some_and(|leadership| !leadership.leads());
        if follows && request.method() != Method::GET {
            return Err(RequestError::NotLeading);
        }
        let limit = self.leadership.as_ref().and_then(Leadership::write_ms_max);
        let Some(limit) = limit.filter(|_| request.method() != Method::GET) else {
            return (self.transport)(request).await.map_err(RequestError::Failed);
        };
        let seconds = limit.max(0).unsigned_abs().div_ceil(1_000);
        let sent = (self.transport)(with_timeout(request, seconds));
        match tokio::time::timeout(Duration::from_secs(seconds), sent).await {
            Ok(answer) => answer.map_err(RequestError::Failed),
            Err(_) => Err(RequestError::Failed(format!("no answer in {seconds} s"))),
        }
    }

    /// The body of a good answer, not yet read.
    pub(crate) async fn open(&self, request: Request<Bytes>) -> Result<Body, RequestError> {
        let response = self.answer(request).await?;
        let (status, body) = (response.status(), response.into_body());
        if status.is_success() {
            return Ok(body);
        }
        Err(RequestError::Refused(status.as_u16(), whole(body, ANSWER_BYTES_MAX).await?))
    }

    /// Sends a request as it is, and reads the body of a good answer.
    ///
    /// # Errors
    /// When the server refuses it or cannot be reached, or its answer is too large.
    pub async fn request(&self, request: Request<Bytes>) -> Result<Bytes, RequestError> {
        whole(self.open(request).await?, ANSWER_BYTES_MAX).await
    }

    /// Whether the server knows a resource in that version.
    ///
    /// # Errors
    /// When the server cannot be asked.
    pub async fn serves(&self, resource: &Resource) -> Result<bool, CallError> {
        let group =
            if resource.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", resource.group) };
        let path = format!("{group}{}", resource.version);
        let found = match self.send(Call::new(Method::GET, path, "application/json", Bytes::new())).await {
            Ok(found) => found,
            Err(CallError::NotFound(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let list: serde_json::Value =
            serde_json::from_slice(&found).map_err(|error| CallError::Unavailable(error.to_string()))?;
        let Some(resources) = list["resources"].as_array() else {
            return Err(CallError::Unavailable("the answer does not say which resources are served".into()));
        };
        Ok(resources.iter().any(|entry| entry["name"] == resource.plural))
    }

    /// Sends a call and gives the object that came back.
    ///
    /// # Errors
    /// The server's refusal, by the reaction that it needs.
    pub async fn send(&self, call: Call) -> Result<Bytes, CallError> {
        let writes = call.method != Method::GET;
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(http::header::CONTENT_TYPE, call.content_type)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::USER_AGENT, USER_AGENT);
        if let Some(user) = &self.acts_as {
            request = request.header(IMPERSONATE_USER, &**user);
        }
        let request = request.body(call.body).map_err(|error| CallError::Invalid(error.to_string()))?;
        self.request(request).await.map_err(|error| match error {
            // It was sent, and nobody knows what came of it.
            RequestError::TooLarge(_) | RequestError::Unreadable(_) | RequestError::Failed(_) if writes => {
                CallError::Unknown(error.to_string())
            }
            RequestError::Refused(..)
            | RequestError::TooLarge(_)
            | RequestError::Unreadable(_)
            | RequestError::Failed(_)
            | RequestError::NotLeading => error.into(),
        })
    }
}

/// The request, which the server gives up after this long.
fn with_timeout(request: Request<Bytes>, seconds: u64) -> Request<Bytes> {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.to_string();
    let separator = if path.contains('?') { '&' } else { '?' };
    if let Ok(uri) = format!("{path}{separator}timeout={seconds}s").parse() {
        parts.uri = uri;
    }
    Request::from_parts(parts, body)
}

fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

/// All of a body that is not larger than this.
pub(crate) async fn whole(mut body: Body, bytes_max: usize) -> Result<Bytes, RequestError> {
    let (mut first, mut all) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| RequestError::Failed(told(&*error)))?;
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + all.len() + piece.len() > bytes_max {
            return Err(RequestError::TooLarge(bytes_max));
        }
        if first.is_empty() && all.is_empty() {
            // Most bodies are one piece, which need not be copied.
            first = piece;
        } else {
            all.extend_from_slice(&core::mem::take(&mut first));
            all.extend_from_slice(&piece);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// An error with its causes: the outermost seldom says what went wrong.
pub(crate) fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

impl CallError {
    pub(crate) fn of(code: u16, body: &[u8]) -> Self {
        let status = serde_json::from_slice::<Status>(body).unwrap_or_else(|_| Status {
            reason: String::new(),
            message: String::from_utf8_lossy(&body[..body.len().min(512)]).into_owned(),
            details: None,
        });
        let budget = status.budget();
        let text = status.message;
        match (code, status.reason.as_str()) {
            (403 | 429, _) if budget.is_some() => Self::Budget(budget.unwrap_or_default()),
            (404, _) => Self::NotFound(text),
            (409, "AlreadyExists") => Self::AlreadyExists(text),
            (409, _) => Self::Conflict(text),
            (410, _) => Self::Expired(text),
            (401 | 403, _) => Self::Forbidden(text),
            (429, _) => Self::TooMany(text),
            (500 | 503, _) => Self::Unavailable(text),
            (504, _) => Self::Unknown(text),
            (400..=499, _) => Self::Invalid(text),
            _ => Self::Unknown(format!("{code}: {text}")),
        }
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::TooMany(_)
            | Self::Budget(_)
            | Self::Unavailable(_)
            | Self::Unknown(_)
            | Self::Conflict(_)
            | Self::Expired(_) => true,
            Self::NotFound(_) | Self::AlreadyExists(_) | Self::Invalid(_) | Self::Forbidden(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    fn body(pieces: &'static [&'static str]) -> Body {
        boxed(Pieces(pieces.iter()))
    }

    struct Pieces(std::slice::Iter<'static, &'static str>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, BoxError>>> {
            let piece = self.0.next();
            std::task::Poll::Ready(piece.map(|piece| Ok(http_body::Frame::data(Bytes::from(*piece)))))
        }
    }

    #[tokio::test]
    async fn a_controller_writes_as_a_user_of_its_own_where_there_are_such() {
        let named = |name: &str| {
            let name = name.to_owned();
            Client::direct(move |request: Request<Bytes>| {
                let acts_as =
                    request.headers().get(IMPERSONATE_USER).map(|user| user.to_str().unwrap().to_owned());
                std::future::ready(Response::new(format!("{name} {}", acts_as.unwrap_or_default())))
            })
        };
        let call = || Call::get_at("/".to_owned());
        let one = named("all");
        assert_eq!(one.of_controller("a").send(call()).await.unwrap(), "all ");
        let each = one.with_identities(named);
        assert_eq!(each.send(call()).await.unwrap(), "all ");
        assert_eq!(each.of_controller("a").send(call()).await.unwrap(), "a ");
        assert_eq!(each.of_controller("a").acting_as("u").send(call()).await.unwrap(), "a u");
        let impersonated = named("all").with_identities(move |name| named("all").acting_as(name));
        assert_eq!(impersonated.of_controller("b").send(call()).await.unwrap(), "all b");
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_limit() {
        assert_eq!(whole(body(&[]), 3).await, Ok(Bytes::new()));
        assert_eq!(whole(body(&["abc"]), 3).await, Ok(Bytes::from("abc")));
        assert_eq!(whole(body(&["a", "", "bc"]), 3).await, Ok(Bytes::from("abc")));
        assert_eq!(whole(body(&["a", "bc", "d"]), 3).await, Err(RequestError::TooLarge(3)));
        assert_eq!(whole(boxed(Full::new(Bytes::from("abcd"))), 3).await, Err(RequestError::TooLarge(3)));
    }
}
