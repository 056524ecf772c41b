//! Who asks, and what they may do.

pub(crate) mod bootstrap;
mod impersonation;
pub(crate) mod node;
mod rbac;
pub(crate) mod tokens;

use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use lazaret_kinds::User;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{ApiError, Server};

pub use rbac::Rbac;
pub use tokens::TokenKeys;

/// Whoever shows no credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Finds out who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Tokens that were given out once and for all.
    pub static_tokens: BTreeMap<String, User>,
}

impl Authenticator {
    /// Who sent a request with these headers over a connection of `peer`, who showed a certificate when it was made.
    ///
    /// # Errors
    /// When credentials are shown and do not hold, or somebody else's name is taken without permission.
    pub fn authenticate(
        &self,
        server: &Server,
        headers: &HeaderMap,
        peer: Option<&Arc<User>>,
    ) -> Result<Arc<User>, ApiError> {
        let user = match (peer, bearer(headers)) {
            (Some(user), _) => Arc::clone(user),
            (None, Some(token)) => Arc::new(self.of_token(server, token).ok_or_else(ApiError::unauthorized)?),
            (None, None) => Arc::new(User {
                name: ANONYMOUS.into(),
                groups: vec!["system:unauthenticated".into()],
                ..User::default()
            }),
        };
        impersonation::act_as(server, headers, user)
    }

    fn of_token(&self, server: &Server, token: &str) -> Option<User> {
        if let Some(user) = self.static_tokens.get(token) {
            return Some(authenticated(user.clone()));
        }
        server.token_user(token).map(authenticated)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::trim).filter(|token| !token.is_empty())
}

/// Whom a verified certificate (as DER) names: the common name is the user, the organisations are the groups.
pub(crate) fn of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups =
        subject.iter_organization().filter_map(|entry| entry.as_str().ok()).map(str::to_owned).collect();
    Some(authenticated(User { name, groups, ..User::default() }))
}

fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == "system:authenticated") {
        user.groups.push("system:authenticated".into());
    }
    user
}
