//! How a pull proves who asks.

use std::sync::PoisonError;

use base64::Engine as _;
use http::{HeaderMap, Uri, header::WWW_AUTHENTICATE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{Failure, Registry, TOKEN_BYTES_MAX, shown};
use crate::challenge::Challenge;

impl Registry<'_> {
    pub(super) fn authorization(&self) -> Option<String> {
        self.authorization.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gets what the registry wants to see: a token of its token server, or the password itself.
    pub(super) async fn authenticate(&self, headers: &HeaderMap) -> Result<(), Failure> {
        let challenge = headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .find_map(Challenge::parse)
            .ok_or_else(|| {
                Failure::Unauthorized("the registry wants to know who asks, and does not say how".into())
            })?;
        let authorization = match challenge {
            Challenge::Basic => self.basic().ok_or_else(|| {
                Failure::Unauthorized("the registry wants a user name and a password".into())
            })?,
            Challenge::Bearer { realm, service, scope } => {
                format!("Bearer {}", self.token(&realm, service.as_deref(), scope.as_deref()).await?)
            }
        };
        *self.authorization.lock().unwrap_or_else(PoisonError::into_inner) = Some(authorization);
        Ok(())
    }

    fn basic(&self) -> Option<String> {
        let credentials = self.credentials?;
        let text = format!("{}:{}", credentials.username, credentials.password);
        Some(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text)))
    }

    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<String, Failure> {
        let own_scope = format!("repository:{}:pull", self.repository);
        let mut url = format!("{realm}{}", if realm.contains('?') { '&' } else { '?' });
        url.push_str(&format!(
            "scope={}",
            utf8_percent_encode(scope.unwrap_or(&own_scope), NON_ALPHANUMERIC)
        ));
        if let Some(service) = service {
            url.push_str(&format!("&service={}", utf8_percent_encode(service, NON_ALPHANUMERIC)));
        }
        let wrong = || {
            Failure::Lasting(format!(
                "the registry names {:?} as its token server, which is not permitted",
                shown(realm)
            ))
        };
        let url: Uri = url.parse().map_err(|_| wrong())?;
        if !self.may_ask(&url) {
            return Err(wrong());
        }
        let response = self.send(&url, None, self.basic()).await?;
        if !response.status().is_success() {
            return Err(self.refused(response, "the token").await);
        }
        let body = self.read_all(response, TOKEN_BYTES_MAX, "the token").await?;
        let answer: TokenAnswer = serde_json::from_slice(&body)
            .map_err(|_| Failure::Lasting("the token server's answer is not valid".into()))?;
        let token = answer
            .token
            .or(answer.access_token)
            .filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        token.ok_or_else(|| Failure::Lasting("the token server answered no token".into()))
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}
