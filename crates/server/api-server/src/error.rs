//! Errors for clients: a Status, with the code, reason and causes that clients act on.

use std::fmt;

use lazaret_json::{Map, Value, json};
use lazaret_kinds::{Access, Errors, Kind};

/// A failure as the API states it.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status.
    pub code: u16,
    /// For machines.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// `details`, without what is absent.
    details: Option<Map>,
    /// Seconds after which a retry makes sense.
    pub retry_after: Option<u32>,
    /// Further warnings for the client.
    pub(crate) warnings: Vec<String>,
    /// The whole Status where a webhook made it.
    verbatim: Option<Value>,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        let (message, warnings) = (message.into(), Vec::new());
        Self { code, reason, message, details: None, retry_after: None, warnings, verbatim: None }
    }

    /// With further warnings before its own.
    pub(crate) fn after_warnings(mut self, warnings: &[String]) -> Self {
        self.warnings.splice(0..0, warnings.iter().cloned());
        self
    }

    pub(crate) fn with_warnings(self, warnings: Vec<String>) -> Self {
        Self { warnings, ..self }
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.detail("name", name);
        self.detail("group", &kind.group);
        self.detail("kind", &kind.plural);
        self
    }

    fn detail(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.details_mut().insert(key.to_owned(), value.into());
        }
    }

    fn details_mut(&mut self) -> &mut Map {
        self.details.get_or_insert_default()
    }

    /// With details, even if nothing is known: who looks into them must not fall.
    fn without_details(mut self) -> Self {
        self.details_mut();
        self
    }

    fn cause(&mut self, reason: &str, message: &str, field: &str) {
        let mut cause = Map::new();
        for (key, value) in [("reason", reason), ("message", message), ("field", field)] {
            if !value.is_empty() {
                cause.insert(key.to_owned(), value.into());
            }
        }
        if let Value::Array(causes) = self.details_mut().entry("causes").or_insert_with(|| json!([])) {
            causes.push(Value::Object(cause));
        }
    }

    pub(crate) fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.cause(reason, message, field);
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self.details_mut().insert("retryAfterSeconds", seconds.into());
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let what = kind.qualified_plural();
        let name_part = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        Self::new(403, "Forbidden", format!("{what}{name_part} is forbidden: {why}")).about(kind, name)
    }

    /// Refuses what a policy denies, for the reason that the policy gives.
    pub(crate) fn denied(kind: &Kind, name: &str, why: &str, reason: &str) -> Self {
        let (code, reason) = match reason {
            "Unauthorized" => (401, "Unauthorized"),
            "Forbidden" => (403, "Forbidden"),
            "RequestEntityTooLarge" => (413, "RequestEntityTooLarge"),
            _ => (422, "Invalid"),
        };
        Self { code, reason, ..Self::forbidden(kind, name, why) }.with_cause("", why, "")
    }

    /// Refuses what a webhook denies, in the words and with the code of its Status.
    pub(crate) fn denied_by_webhook(webhook: &str, said: &Value) -> Self {
        let denied = format!("admission webhook {webhook:?} denied the request");
        let text = |field: &str| said[field].as_str().unwrap_or_default();
        let message = match (text("message"), text("reason")) {
            ("", "") => format!("{denied} without explanation"),
            ("", words) | (words, _) => format!("{denied}: {words}"),
        };
        let code = match said["code"].as_i64().unwrap_or(0) {
            code @ 400..=999 => u16::try_from(code).unwrap_or(400),
            ..400 => 400,
            _ => 500,
        };
        let mut status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}});
        if said["metadata"].is_object() {
            status["metadata"] = said["metadata"].clone();
        }
        status["status"] = match text("status") {
            "" | "Success" => "Failure".into(),
            other => other.into(),
        };
        status["message"] = message.as_str().into();
        if !text("reason").is_empty() {
            status["reason"] = said["reason"].clone();
        }
        if said["details"].is_object() {
            status["details"] = said["details"].clone();
        }
        status["code"] = code.into();
        let seconds =
            said["details"]["retryAfterSeconds"].as_i64().and_then(|seconds| u32::try_from(seconds).ok());
        Self {
            retry_after: seconds.filter(|seconds| *seconds > 0),
            verbatim: Some(status),
            ..Self::new(code, "", message)
        }
    }

    /// Refuses an access to a resource, whether there is such a kind or not.
    pub(crate) fn forbidden_access(access: Access<'_>, why: &str) -> Self {
        let what = match access.group {
            "" => access.resource.to_owned(),
            group => format!("{}.{group}", access.resource),
        };
        let name = if access.name.is_empty() { String::new() } else { format!(" {:?}", access.name) };
        let mut error = Self::new(403, "Forbidden", format!("{what}{name} is forbidden: {why}"));
        error.detail("name", access.name);
        error.detail("group", access.group);
        error.detail("kind", access.resource);
        error
    }

    pub(crate) fn forbidden_path(path: &str, why: &str) -> Self {
        Self::new(403, "Forbidden", format!("forbidden: {why} path {path:?}"))
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.qualified_plural()))
            .about(kind, name)
    }

    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").without_details()
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .without_details()
    }

    pub(crate) fn not_acceptable(known: &str) -> Self {
        Self::new(406, "NotAcceptable", format!("only the following media types are accepted: {known}"))
            .without_details()
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str, deleting: bool) -> Self {
        let prefix = if deleting { "object is being deleted: " } else { "" };
        Self::new(
            409,
            "AlreadyExists",
            format!("{prefix}{} {name:?} already exists", kind.qualified_plural()),
        )
        .about(kind, name)
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified_plural()),
        )
        .about(kind, name)
    }

    /// The same where Kubernetes names the resource otherwise than everywhere else.
    pub(crate) fn conflict_of(resource: &str, name: &str, why: &str) -> Self {
        let text = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        let mut error = Self::new(409, "Conflict", text);
        error.detail("name", name);
        error.detail("kind", resource);
        error
    }

    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn apply_conflict(message: String) -> Self {
        Self::new(409, "Conflict", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(413, "RequestEntityTooLarge", message)
    }

    /// The body is encoded in a way that is not undone.
    pub(crate) fn unsupported_encoding() -> Self {
        let why = "the body of the request was in an unknown encoding - accepted content encodings include: identity";
        Self::new(415, "UnsupportedMediaType", why)
    }

    pub(crate) fn unsupported_media_type(known: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {known}"
            ),
        )
        .without_details()
    }

    /// The errors of validation.
    pub(crate) fn invalid(kind: &Kind, name: &str, errors: &Errors) -> Self {
        Self::found(&kind.qualified_kind(), name, &kind.group, &kind.kind, errors)
    }

    pub(crate) fn invalid_field(
        kind: &Kind,
        name: &str,
        field: &str,
        problem: lazaret_kinds::FieldProblem,
    ) -> Self {
        let mut errors = Errors::new();
        errors.push(field, problem);
        Self::invalid(kind, name, &errors)
    }

    /// A JSON patch that does not fit the object.
    // DEVIATION(patch-causes): the message says as little as in Kubernetes; the cause says more.
    pub(crate) fn does_not_apply(why: &str) -> Self {
        Self::new(422, "Invalid", "the server rejected our request due to an error in our request")
            .with_cause("UnexpectedServerResponse", why, "")
    }

    /// A patch that is no JSON.
    pub(crate) fn no_patch(why: impl fmt::Display) -> Self {
        Self::bad_request("invalid JSON patch").with_cause("", &why.to_string(), "")
    }

    /// Options of a request that cannot be, or do not go together.
    pub(crate) fn invalid_options(kind: &str, errors: &Errors) -> Self {
        Self::found(&format!("{kind}.meta.k8s.io"), "", "meta.k8s.io", kind, errors)
    }

    fn found(what: &str, name: &str, group: &str, kind: &str, errors: &Errors) -> Self {
        let list: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        let text = if let [only] = list.as_slice() { only.clone() } else { format!("[{}]", list.join(", ")) };
        let mut error = Self::new(422, "Invalid", format!("{what} {name:?} is invalid: {text}"));
        error.detail("name", name);
        error.detail("group", group);
        error.detail("kind", kind);
        for found in errors.list() {
            error.cause(found.reason(), &found.message(), &found.path);
        }
        error
    }

    /// `seconds` until another try is worth it; 0 if that is not known.
    pub(crate) fn too_many_requests(message: impl Into<String>, seconds: u32) -> Self {
        let error = Self::new(429, "TooManyRequests", message);
        if seconds == 0 { error } else { error.retry_after(seconds) }
    }

    /// The client took too long.
    pub(crate) fn timeout(message: impl Into<String>) -> Self {
        Self::new(408, "Timeout", message)
    }

    /// The request took longer than any may.
    pub(crate) fn request_timeout(message: &str) -> Self {
        Self::new(504, "Timeout", format!("Timeout: {message}")).without_details()
    }

    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    /// The error of a node that does not answer, or not as it should: in its own words, as Kubernetes does.
    pub(crate) fn of_backend(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// A node does not know what it was asked for.
    pub(crate) fn no_such_path_of(resource: &str, name: &str) -> Self {
        let text = format!("the server could not find the requested resource ( {resource} {name})");
        let mut error = Self::new(404, "NotFound", text);
        error.detail("name", name);
        error.detail("kind", resource);
        error
    }

    /// Options of a log that cannot be, or do not go together.
    pub(crate) fn invalid_log_options(name: &str, errors: &Errors) -> Self {
        Self::found("PodLogOptions", name, "", "PodLogOptions", errors)
    }

    pub(crate) fn not_implemented(message: impl Into<String>) -> Self {
        Self::new(501, "NotImplemented", message)
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::new(503, "ServiceUnavailable", message).retry_after(1)
    }

    /// Whether the write was done is not known.
    pub(crate) fn outcome_unknown(message: impl Into<String>) -> Self {
        Self::new(504, "Timeout", message).without_details()
    }

    /// A revision that has not come yet.
    pub(crate) fn revision_ahead(wanted: u64, current: u64) -> Self {
        Self::new(504, "Timeout", format!("Too large resource version: {wanted}, current: {current}"))
            .with_cause("ResourceVersionTooLarge", "Too large resource version", "")
            .retry_after(1)
    }

    /// As it goes over the wire.
    #[must_use]
    pub fn to_status(&self) -> Value {
        if let Some(status) = &self.verbatim {
            return status.clone();
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(details) = &self.details {
            status["details"] = Value::Object(details.clone());
        }
        status
    }
}
