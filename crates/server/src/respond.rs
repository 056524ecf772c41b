//! Answers.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WARNING},
};
use lazaret_json::Value;

use crate::{ApiError, Body};

/// A warning longer than this is cut once all of them together are longer than the other.
const WARNING_RUNES_MAX: usize = 256;
const WARNINGS_BYTES_MAX: usize = 4_096;

/// An answer in the making.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Body,
    pub(crate) content_type: &'static str,
    pub(crate) warnings: Vec<String>,
}

impl Answer {
    pub(crate) fn json(code: u16, body: impl Into<Bytes>) -> Self {
        Self { code, body: Body::full(body), content_type: "application/json", warnings: Vec::new() }
    }

    pub(crate) fn value(code: u16, value: &Value) -> Self {
        Self::json(code, value.to_string())
    }

    pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self { code, body: Body::full(text), content_type: "text/plain; charset=utf-8", warnings: Vec::new() }
    }

    pub(crate) fn stream(body: Body) -> Self {
        Self { code: 200, body, content_type: "application/json", warnings: Vec::new() }
    }

    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        put_warnings(headers, &self.warnings);
        response
    }
}

pub(crate) fn failure(error: &ApiError) -> Response<Body> {
    let mut response = Answer::value(error.code, &error.to_status()).into_response();
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn put_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let total: usize = warnings.iter().map(String::len).sum();
    let mut seen: Vec<&String> = Vec::new();
    for warning in warnings {
        if seen.contains(&warning) {
            continue;
        }
        seen.push(warning);
        let most = if total > WARNINGS_BYTES_MAX { WARNING_RUNES_MAX } else { usize::MAX };
        let text: String = warning.chars().filter(|c| !c.is_control()).take(most).collect();
        let quoted = format!("299 - \"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_bytes(quoted.as_bytes()) {
            headers.append(WARNING, value);
        }
    }
}
