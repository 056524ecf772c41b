//! Tokens of service accounts, renewed before they expire.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::{
    api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    api::core::v1::ServiceAccountTokenProjection,
};
use tokio::time::Instant;

use crate::{Objects, clock, pod::PodView};

/// Tokens that are kept. One that is dropped is asked for again when its volume is brought up to date.
const TOKENS_MAX: usize = 4096;
/// A token is a few KiB; more is not one.
const TOKEN_BYTES_MAX: usize = 64 << 10;
/// The API's own default and least.
const LIFE_DEFAULT_SECONDS: i64 = 3600;
/// A token is renewed after a day, however long it lives.
const LIFE_USED_MAX: Duration = Duration::from_secs(24 * 3600);
/// An answer that takes longer is not waited for.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);

/// A pod's UID, and the audience and lifetime of its token.
type Key = (String, String, i64);

#[derive(Clone)]
struct Token {
    text: String,
    renew_at: Instant,
    expires_at: Instant,
}

/// The tokens of all pods.
pub(crate) struct Tokens {
    objects: Arc<dyn Objects>,
    held: Mutex<BTreeMap<Key, Token>>,
}

/// Without the tokens.
impl fmt::Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tokens").field("objects", &self.objects).finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn new(objects: Arc<dyn Objects>) -> Self {
        Self { objects, held: Mutex::default() }
    }

    /// The token for a projection. One that has a fifth of its life left is renewed; when that fails, it is used until its end.
    pub(crate) async fn get(
        &self,
        view: &PodView<'_>,
        projection: &ServiceAccountTokenProjection,
    ) -> Result<String, String> {
        let audience = projection.audience.clone().unwrap_or_default();
        let life = projection.expiration_seconds.unwrap_or(LIFE_DEFAULT_SECONDS);
        let key = (view.uid.to_owned(), audience.clone(), life);
        let now = clock::now();
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(token) = held.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.text.clone());
        }
        match (self.request(view, audience, life).await, held) {
            (Ok(token), _) => {
                let text = token.text.clone();
                let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
                if held.len() >= TOKENS_MAX && !held.contains_key(&key) {
                    held.pop_first();
                }
                held.insert(key, token);
                Ok(text)
            }
            (Err(error), Some(token)) if now < token.expires_at => {
                tracing::warn!(pod = view.name, namespace = view.namespace, error, "renew token");
                Ok(token.text)
            }
            (Err(error), Some(_)) => Err(format!("token expired and refresh failed: {error}")),
            (Err(error), None) => Err(format!("failed to fetch token: {error}")),
        }
    }

    /// Forgets the tokens of a pod.
    pub(crate) fn forget(&self, uid: &str) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).retain(|(of, _, _), _| of != uid);
    }

    /// Forgets tokens that have expired. Those of a pod go with it; one that was asked for while its pod went is left to this.
    pub(crate) fn forget_expired(&self) {
        let now = clock::now();
        self.held.lock().unwrap_or_else(PoisonError::into_inner).retain(|_, token| now < token.expires_at);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn request(&self, view: &PodView<'_>, audience: String, life: i64) -> Result<Token, String> {
        let account = view.spec.service_account_name.as_deref().filter(|name| !name.is_empty());
        let account = account.unwrap_or("default");
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: (!audience.is_empty()).then(|| vec![audience]),
                expiration_seconds: Some(life),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Pod".to_owned()),
                    name: Some(view.name.to_owned()),
                    uid: Some(view.uid.to_owned()),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let from = clock::now();
        let answer = self.objects.token(view.namespace, account, request);
        let answer = match tokio::time::timeout(REQUEST_TIME_MAX, answer).await {
            Ok(answer) => answer?,
            Err(_) => return Err(format!("no answer within {} s", REQUEST_TIME_MAX.as_secs())),
        };
        // The server may grant another life than was asked for.
        let life = answer.spec.as_ref().and_then(|spec| spec.expiration_seconds).unwrap_or(life);
        let life = Duration::from_secs(u64::try_from(life).unwrap_or_default());
        let text = answer.status.and_then(|status| status.token).unwrap_or_default();
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX {
            return Err(format!("the answer has a token of {} bytes", text.len()));
        }
        Ok(Token { text, renew_at: from + (life / 5 * 4).min(LIFE_USED_MAX), expires_at: from + life })
    }
}
