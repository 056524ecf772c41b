//! Who asks, and what they may do.

pub(crate) mod bootstrap;
mod rbac;
pub(crate) mod tokens;

use std::collections::BTreeMap;

use http::HeaderMap;
use lazaret_kinds::{Access, User};
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
    /// Who sent a request with these headers over a connection with this certificate (verified, as DER).
    ///
    /// # Errors
    /// When credentials are shown and do not hold, or somebody else's name is taken without permission.
    pub fn authenticate(
        &self,
        server: &Server,
        headers: &HeaderMap,
        certificate: Option<&[u8]>,
    ) -> Result<User, ApiError> {
        let user = match (certificate.and_then(of_certificate), bearer(headers)) {
            (Some(user), _) => user,
            (None, Some(token)) => self.of_token(server, token).ok_or_else(ApiError::unauthorized)?,
            (None, None) => User {
                name: ANONYMOUS.into(),
                groups: vec!["system:unauthenticated".into()],
                ..User::default()
            },
        };
        impersonated(server, headers, user)
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

/// The common name is the user, the organisations are the groups.
fn of_certificate(der: &[u8]) -> Option<User> {
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

/// Acts as somebody else, where that is allowed.
fn impersonated(server: &Server, headers: &HeaderMap, user: User) -> Result<User, ApiError> {
    let text = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let Some(name) = text("impersonate-user").into_iter().next() else { return Ok(user) };
    let groups = text("impersonate-group");
    let may = |resource: &str, name: &str| {
        let access =
            Access { verb: "impersonate", group: "", resource, subresource: "", namespace: "", name };
        server.may(&user, access).map_err(|_| {
            let why = format!(
                "User {:?} cannot impersonate resource {resource:?} in API group \"\" at the cluster scope",
                user.name
            );
            ApiError::forbidden_path(name, &why)
        })
    };
    may("users", &name)?;
    groups.iter().try_for_each(|group| may("groups", group))?;
    Ok(authenticated(User { name, groups, ..User::default() }))
}
