//! One call of one webhook.

use std::time::Duration;

use bytes::Bytes;
use lazaret_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::{client::Hook, limits::WebhookLimits, response};
use crate::{ApiError, ObjectStore, random};

/// An annotation for an audit log is cut at this number of bytes.
const ANNOTATION_BYTES_MAX: usize = 10 << 10;
/// Bound on the annotations of an answer that are kept.
const ANNOTATIONS_MAX: usize = 20;

/// Whether webhooks of a configuration may change objects; as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookType {
    Mutating,
    Validating,
}

impl WebhookType {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// How a webhook is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallOptions {
    pub(super) stage: WebhookType,
    pub(super) dry_run: bool,
    /// When the whole request ends.
    pub(super) deadline: Instant,
}

/// The answer of a webhook that allows a request.
#[derive(Debug, Default)]
pub(super) struct WebhookAnswer {
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// Why a request does not go on.
#[derive(Debug)]
pub(super) enum CallError {
    /// The webhook could not be asked, or its answer is none. `code` is for metrics.
    Failed { why: String, code: u16 },
    /// It refused.
    Rejected(Box<ApiError>),
    /// It was not asked.
    Internal(Box<ApiError>),
}

pub(super) struct Caller<'a> {
    pub(super) stored: &'a ObjectStore,
    pub(super) limits: &'a WebhookLimits,
    pub(super) hook: &'a Hook,
}

impl Caller<'_> {
    pub(super) async fn call(
        &self,
        review: &Value,
        options: &CallOptions,
    ) -> Result<WebhookAnswer, CallError> {
        let webhook = &self.hook.webhook;
        let failed = |why: String, code| CallError::Failed { why, code };
        if options.dry_run && !webhook.supports_dry_run {
            let why = format!("admission webhook {:?} does not support dry run", webhook.name);
            return Err(CallError::Internal(Box::new(ApiError::bad_request(why))));
        }
        let Some(version) = webhook.review_version else {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(failed(why.to_owned(), 400));
        };
        let now = Instant::now();
        if now >= options.deadline {
            let error = ApiError::request_timeout("request did not complete within requested timeout");
            return Err(CallError::Internal(Box::new(error)));
        }
        let deadline = options.deadline.min(now + Duration::from_secs(webhook.timeout_seconds));
        let uid = random::uid();
        let url = self.hook.url(seconds(deadline - now));
        let posted = timeout_at(deadline, self.post(&uid, version.api_version(), review, &url)).await;
        let post_failed = |why: &str| format!("failed to call webhook: Post {url:?}: {why}");
        let (status, body) = match posted {
            Ok(Ok(response)) => response,
            Ok(Err(why)) => return Err(failed(why.render(&post_failed), why.code)),
            Err(_) => return Err(failed(post_failed("context deadline exceeded"), 503)),
        };
        let answer = response::read(status, &body, version)
            .map_err(|error| failed(format!("failed to call webhook: {}", error.why), error.code))?;
        let answer = response::verify(answer, &uid, version, options.stage == WebhookType::Mutating)
            .map_err(|why| failed(format!("received invalid webhook response: {why}"), 503))?;
        self.note(&answer.annotations, &uid);
        if !answer.allowed {
            let error = ApiError::denied_by_webhook(&webhook.name, &answer.status);
            return Err(CallError::Rejected(Box::new(error.with_warnings(answer.warnings))));
        }
        let patch = response::patch(&answer.patch)
            .map_err(|why| failed(format!("received undecodable patch in webhook response: {why}"), 503))?;
        if patch.is_some() && answer.patch_type != "JSONPatch" {
            return Err(failed(format!("unsupported patch type {:?}", answer.patch_type), 400));
        }
        Ok(WebhookAnswer { patch, warnings: answer.warnings })
    }

    async fn post(
        &self,
        uid: &str,
        api_version: &str,
        review: &Value,
        url: &str,
    ) -> Result<(u16, Bytes), super::client::PostError> {
        let _own = self.hook.calls.acquire().await;
        let _all = self.limits.calls().acquire().await;
        let mut request = review.clone();
        request["uid"] = uid.into();
        let body = json!({"kind": "AdmissionReview", "apiVersion": api_version, "request": request});
        let body = Bytes::from(body.to_string());
        drop(request);
        self.hook.post(self.stored, url, body).await
    }

    // DEVIATION(policy-audit): there is no audit log to put it into.
    fn note(&self, annotations: &[(String, String)], uid: &str) {
        let webhook = self.hook.webhook.name.as_str();
        for (key, value) in annotations.iter().take(ANNOTATIONS_MAX) {
            let mut end = value.len().min(ANNOTATION_BYTES_MAX);
            while !value.is_char_boundary(end) {
                end -= 1;
            }
            tracing::info!(target: "audit", webhook, key, value = &value[..end], review = uid, "audit");
        }
    }
}

/// Whole seconds, rounded up.
fn seconds(left: Duration) -> u64 {
    left.as_secs() + u64::from(left.subsec_nanos() > 0)
}
