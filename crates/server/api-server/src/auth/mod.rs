//! Authentication and authorization.

pub(crate) mod attributes;
pub(crate) mod bootstrap;
pub(crate) mod bootstrap_tokens;
pub(crate) mod controllers;
mod covers;
mod default_roles;
pub(crate) mod escalation;
pub(crate) mod identity;
mod impersonation;
pub(crate) mod node;
mod rbac;
mod reviews;
mod rule;
pub(crate) mod tokens;

use std::{collections::BTreeMap, sync::Arc};

use http::HeaderMap;
use jiff::Timestamp;
use lazaret_kinds::User;

use crate::{ApiError, Requester, Server, SessionOver, clock, websocket::bearer_token};

pub use controllers::{ControllerRole, controller_roles, controller_user};
pub(crate) use impersonation::act_as;
pub use node::node_user;
pub use rbac::Rbac;
pub(crate) use reviews::user_info;
pub use tokens::TokenKeys;

use identity::authenticated;

/// The user of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// The identity of the client of a connection, by its certificate.
#[derive(Clone, Debug)]
pub enum Peer {
    /// There is no certificate.
    Nobody,
    /// The certificate was expired or not yet valid at the handshake.
    Refused,
    /// A verified certificate.
    Certified {
        /// The user that it names.
        user: Arc<User>,
        /// The last second of its validity.
        not_after: Timestamp,
    },
}

struct Expired;

impl Peer {
    fn user(&self, now: Timestamp) -> Result<Option<&Arc<User>>, Expired> {
        match self {
            Self::Nobody => Ok(None),
            Self::Certified { user, not_after } if now <= *not_after => Ok(Some(user)),
            Self::Certified { .. } | Self::Refused => Err(Expired),
        }
    }
}

/// Finds out who asks.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Tokens that were given out once and for all.
    pub static_tokens: BTreeMap<String, User>,
}

impl Authenticator {
    /// The sender of a request with these headers over a connection of `peer`, which showed a certificate when it was made.
    ///
    /// # Errors
    /// When credentials are invalid, or another user is impersonated without permission.
    pub fn authenticate(
        &self,
        server: &Server,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Requester, ApiError> {
        let Requester { user, session } = self.shown(server, headers, peer)?;
        Ok(Requester { user: impersonation::act_as(server, headers, user)?, session })
    }

    /// By credentials or by a session, before impersonation.
    fn shown(&self, server: &Server, headers: &HeaderMap, peer: &Peer) -> Result<Requester, ApiError> {
        let user = match (peer.user(clock::now()), bearer(headers)) {
            (Ok(Some(user)), _) => Arc::clone(user),
            // As in Kubernetes, a token counts even if the certificate is refused.
            (_, Some(token)) => Arc::new(self.of_token(server, token).ok_or_else(ApiError::unauthorized)?),
            (known, None) => match (bearer_token(headers)?, known) {
                (Some(token), _) => {
                    Arc::new(self.of_token(server, &token).ok_or_else(ApiError::unauthorized)?)
                }
                (None, Err(Expired)) => return Err(ApiError::unauthorized()),
                (None, Ok(_)) => match server.pages().map(|pages| pages.requester(headers)) {
                    Some(Err(SessionOver)) => return Err(ApiError::unauthorized()),
                    Some(Ok(Some(requester))) => return Ok(requester),
                    Some(Ok(None)) | None => Arc::new(User {
                        name: ANONYMOUS.into(),
                        groups: vec!["system:unauthenticated".into()],
                        ..User::default()
                    }),
                },
            },
        };
        Ok(user.into())
    }

    fn of_token(&self, server: &Server, token: &str) -> Option<User> {
        if token.len() > tokens::TOKEN_BYTES_MAX {
            return None;
        }
        if let Some(user) = self.static_tokens.get(token) {
            return Some(authenticated(user.clone()));
        }
        server.token_user(token)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim()).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_expires_during_a_connection_is_refused_from_then_on() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let peer = Peer::Certified { user: Arc::default(), not_after: at(100) };
        assert!(peer.user(at(100)).is_ok_and(|user| user.is_some()));
        assert!(peer.user(at(101)).is_err());
        assert!(Peer::Refused.user(at(0)).is_err());
        assert!(Peer::Nobody.user(at(0)).is_ok_and(|user| user.is_none()));
    }
}
