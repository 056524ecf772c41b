//! Answers.

use std::collections::HashSet;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, RETRY_AFTER, VARY, WARNING},
};
use lazaret_json::Value;

use crate::{ApiError, Body, tunnel::Tunnel};

/// A warning longer than this is cut once all of them together are longer than the other.
const WARNING_RUNES_MAX: usize = 256;
const WARNINGS_BYTES_MAX: usize = 4_096;
/// Warnings beyond this number of bytes are left out: clients refuse an answer with more headers than they expect.
const HEADERS_BYTES_MAX: usize = 16_384;

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Body,
    pub(crate) content_type: &'static str,
    pub(crate) warnings: Vec<String>,
    /// Tells one state of the body from another: who has this one needs no other.
    pub(crate) tag: Option<u64>,
    /// The tunnel that the connection becomes.
    pub(crate) tunnel: Option<Tunnel>,
}

impl Answer {
    fn new(code: u16, body: Body, content_type: &'static str) -> Self {
        Self { code, body, content_type, warnings: Vec::new(), tag: None, tunnel: None }
    }

    pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Self {
        Self::new(code, Body::full(body), "application/json")
    }

    pub(crate) fn value(code: u16, value: &Value) -> Self {
        Self::json(code, value.to_string())
    }

    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self::new(code, Body::full(text), "text/plain; charset=utf-8")
    }

    pub(crate) fn stream(body: Body) -> Self {
        Self::new(200, body, "application/json")
    }

    /// Switches protocols: the connection becomes one with a node.
    pub(crate) fn switching(tunnel: Tunnel) -> Self {
        Self { tunnel: Some(tunnel), ..Self::new(101, Body::full(""), "") }
    }

    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// The answer to a client that may have it already; `known` is its `If-None-Match`.
    pub(crate) fn not_modified_if(self, known: Option<&str>) -> Self {
        let has = |tag: u64| known.is_some_and(|known| known.split(',').any(|one| one.trim() == quoted(tag)));
        if self.tag.is_some_and(has) { Self { code: 304, body: Body::full(""), ..self } } else { self }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if let Some(tunnel) = self.tunnel {
            response.headers_mut().clone_from(tunnel.headers());
            put_warnings(response.headers_mut(), &self.warnings);
            response.extensions_mut().insert(tunnel);
            return response;
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        match self.tag.and_then(|tag| HeaderValue::try_from(quoted(tag)).ok()) {
            Some(tag) => {
                headers.insert(ETAG, tag);
                headers.insert(VARY, HeaderValue::from_static("Accept"));
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
            }
            None => {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
            }
        }
        put_warnings(headers, &self.warnings);
        response
    }
}

fn quoted(tag: u64) -> String {
    format!("\"{tag:016X}\"")
}

pub(crate) fn failure(error: &ApiError) -> Response<Body> {
    let answer = Answer::value(error.code, &error.to_status()).warn(error.warnings.iter().cloned());
    let mut response = answer.into_response();
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn put_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(String::len).sum();
    let most = if total > WARNINGS_BYTES_MAX { WARNING_RUNES_MAX } else { usize::MAX };
    let mut seen: HashSet<&String> = HashSet::new();
    let mut written = 0;
    for warning in warnings.iter().filter(|warning| seen.insert(warning)) {
        let text: String = warning.chars().filter(|c| !c.is_control()).take(most).collect();
        let quoted = format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        written += quoted.len();
        if written > HEADERS_BYTES_MAX {
            return;
        }
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}
