//! Pages for people beside the API, with sessions of their own. The program around a server may bring some; the server has none.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use lazaret_kinds::User;

/// A session is shown that is unknown or over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionOver;

/// Pages for people. They are answered before authentication, so they must hold nothing secret and cost little.
pub trait Pages: Send + Sync + fmt::Debug {
    /// The answer, where the path is that of a page.
    fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Response<Bytes>>;

    /// Whose session these headers show. Its user has the rights that this user has anywhere else.
    ///
    /// # Errors
    /// When a session is shown that does not hold.
    fn user(&self, headers: &HeaderMap) -> Result<Option<Arc<User>>, SessionOver>;
}
