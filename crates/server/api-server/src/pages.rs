//! Pages for people beside the API, with sessions of their own. The program around a server may bring some; the server has none.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use lazaret_kinds::User;

/// A session is shown that is unknown or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOver;

/// Ready when a session is over.
pub struct SessionEnd(Pin<Box<dyn Future<Output = ()> + Send>>);

impl SessionEnd {
    /// Ready when `end` is.
    pub fn new(end: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(end))
    }
}

impl Future for SessionEnd {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionEnd")
    }
}

/// The user of a request, and the session that it belongs to.
#[derive(Debug)]
pub struct Requester {
    /// The user that asks.
    pub user: Arc<User>,
    /// Watches and streams end with it; `None` for credentials that are shown with each request.
    pub session: Option<SessionEnd>,
}

impl From<Arc<User>> for Requester {
    fn from(user: Arc<User>) -> Self {
        Self { user, session: None }
    }
}

/// Pages for people. They are answered before authentication, so they must hold nothing secret and cost little.
pub trait Pages: Send + Sync + fmt::Debug {
    /// The answer, where the path is that of a page.
    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response<Bytes>>;

    /// Whose session these headers show. Its user has the rights that this user has anywhere else.
    ///
    /// # Errors
    /// When a session is shown that does not hold.
    fn requester(&self, headers: &HeaderMap) -> Result<Option<Requester>, SessionOver>;
}
