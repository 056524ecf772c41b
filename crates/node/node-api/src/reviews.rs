//! Reviews of tokens and permissions by the API server, cached for a while.

use std::{
    collections::BTreeMap,
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::Caller;

/// Answers of each kind that are remembered: more than a node has clients.
const REMEMBERED_MAX: usize = 4_096;
/// How long answers hold, as kubelet has it by default.
const TOKEN_HOLDS: Duration = Duration::from_secs(120);
const ALLOWED_HOLDS: Duration = Duration::from_secs(300);
const REFUSED_HOLDS: Duration = Duration::from_secs(30);
/// How long the API server may take.
const REVIEW_WAIT: Duration = Duration::from_secs(10);
/// A longer token is invalid.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// An answer of the API server, or why there is none.
pub type Review<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// Reviews tokens and permissions.
pub trait Reviews: Send + Sync {
    /// The owner of a token; `None` if it is invalid.
    fn token<'a>(&'a self, token: &'a str) -> Review<'a, Option<Caller>>;

    /// Whether the caller may do `verb` to `nodes/SUBRESOURCE` of this node.
    fn may<'a>(&'a self, caller: &'a Caller, verb: &'a str, subresource: &'a str) -> Review<'a, bool>;
}

/// Asks the API server, by TokenReview and SubjectAccessReview.
pub struct ApiReviews {
    client: kube::Client,
    node: String,
    tokens: AnswerCache<[u8; 32], Option<Caller>>,
    permissions: AnswerCache<(Caller, String, String), bool>,
}

impl fmt::Debug for ApiReviews {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ApiReviews").field("node", &self.node).finish_non_exhaustive()
    }
}

impl ApiReviews {
    /// Asks by this client, for a node.
    #[must_use]
    pub fn new(client: kube::Client, node: impl Into<String>) -> Self {
        Self {
            client,
            node: node.into(),
            tokens: AnswerCache::default(),
            permissions: AnswerCache::default(),
        }
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        let request = Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
        match timeout(REVIEW_WAIT, self.client.request::<Value>(request)).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err("the API server does not answer".to_owned()),
        }
    }
}

impl Reviews for ApiReviews {
    fn token<'a>(&'a self, token: &'a str) -> Review<'a, Option<Caller>> {
        Box::pin(async move {
            if token.len() > TOKEN_BYTES_MAX {
                return Ok(None);
            }
            // The token itself is kept nowhere.
            let mut key = [0; 32];
            key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
            if let Some(known) = self.tokens.get(&key) {
                return Ok(known);
            }
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
            });
            let answer = self.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
            let status = &answer["status"];
            let caller = (status["authenticated"] == true).then(|| of_user(&status["user"])).flatten();
            self.tokens.put(key, caller.clone(), TOKEN_HOLDS);
            Ok(caller)
        })
    }

    fn may<'a>(&'a self, caller: &'a Caller, verb: &'a str, subresource: &'a str) -> Review<'a, bool> {
        Box::pin(async move {
            let key = (caller.clone(), verb.to_owned(), subresource.to_owned());
            if let Some(known) = self.permissions.get(&key) {
                return Ok(known);
            }
            let review = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
                "spec": {
                    "user": caller.name, "groups": caller.groups, "uid": caller.uid,
                    "resourceAttributes": {
                        "version": "v1", "resource": "nodes", "verb": verb, "subresource": subresource, "name": self.node,
                    },
                },
            });
            let answer = self.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await?;
            let allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
            self.permissions.put(key, allowed, if allowed { ALLOWED_HOLDS } else { REFUSED_HOLDS });
            Ok(allowed)
        })
    }
}

fn of_user(user: &Value) -> Option<Caller> {
    let name = user["username"].as_str().filter(|name| !name.is_empty())?.to_owned();
    let groups = user["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(Value::as_str).map(str::to_owned).collect();
    Some(Caller { name, groups, uid: user["uid"].as_str().unwrap_or_default().to_owned() })
}

/// Answers and until when they hold.
struct AnswerCache<K, V>(Mutex<BTreeMap<K, (Instant, V)>>);

impl<K, V> Default for AnswerCache<K, V> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<K: Ord, V: Clone> AnswerCache<K, V> {
    fn get(&self, key: &K) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, value)| value.clone())
    }

    fn put(&self, key: K, value: V, holds: Duration) {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.retain(|_, (until, _)| *until > now);
        }
        // A caller with many tokens has each of them reviewed, and evicts no other entry of the cache.
        if known.len() < REMEMBERED_MAX {
            known.insert(key, (now + holds, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_forgotten_in_time_and_no_more_than_a_number_are_kept() {
        let known = AnswerCache::default();
        known.put(0, "a", Duration::from_secs(5));
        assert_eq!(known.get(&0), Some("a"));
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(known.get(&0), None);
        for key in 1..=REMEMBERED_MAX + 10 {
            known.put(key, "b", Duration::from_secs(5));
        }
        assert_eq!(known.0.lock().unwrap().len(), REMEMBERED_MAX);
    }
}
