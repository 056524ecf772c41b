//! Which headers travel between a client and a node: few, and never credentials.

use http::{
    HeaderMap, HeaderName, HeaderValue, Version,
    header::{
        ACCEPT, CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION, UPGRADE,
    },
    request::Parts,
};
use percent_encoding::percent_decode_str;

use crate::{ApiError, websocket::is_bearer_protocol};

/// Which protocols of a stream a SPDY client speaks, and which one was chosen.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Answers of a node's API are one of these. Anything else is bytes: a browser must not take it for a page of this server.
const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "text/plain; charset=utf-8",
    "text/plain",
    "text/plain; version=0.0.4; charset=utf-8",
    "application/openmetrics-text",
];

/// Whether a request asks to switch protocols, on a connection that can.
pub(super) fn upgrades(parts: &Parts) -> bool {
    let values = parts.headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks =
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case("upgrade"));
    asks && parts.headers.contains_key(UPGRADE) && parts.version == Version::HTTP_11
}

/// Headers of a request that a node needs to switch protocols.
pub(super) fn copy_upgrade(from: &HeaderMap, to: &mut HeaderMap) {
    to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for name in [UPGRADE, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION] {
        if let Some(value) = from.get(&name) {
            to.insert(name, value.clone());
        }
    }
    for value in from.get_all(STREAM_PROTOCOL) {
        to.append(STREAM_PROTOCOL, value.clone());
    }
    // A browser shows its token as one of the protocols.
    let values = from.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    let protocols = values.flat_map(|value| value.split(',')).map(str::trim);
    let protocols: Vec<&str> =
        protocols.filter(|protocol| !protocol.is_empty() && !is_bearer_protocol(protocol)).collect();
    if let Ok(value) = HeaderValue::from_str(&protocols.join(", "))
        && !protocols.is_empty()
    {
        to.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Headers of a node's answer that a client needs to switch protocols.
pub(super) fn of_switch(from: &HeaderMap) -> HeaderMap {
    let mut to = HeaderMap::new();
    to.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    for name in [UPGRADE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, STREAM_PROTOCOL] {
        if let Some(value) = from.get(&name) {
            to.insert(name, value.clone());
        }
    }
    to
}

/// Headers of any other request that a node needs.
pub(super) fn copy_plain(from: &HeaderMap, to: &mut HeaderMap) {
    for name in [ACCEPT, CONTENT_TYPE] {
        if let Some(value) = from.get(&name) {
            to.insert(name, value.clone());
        }
    }
}

/// The content type shown for an answer of a node.
pub(super) fn content_type(headers: &HeaderMap) -> &'static str {
    let said = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = CONTENT_TYPES.iter().find(|known| said.eq_ignore_ascii_case(known));
    let begins = |known: &&&str| said.starts_with(**known);
    known.or_else(|| CONTENT_TYPES.iter().find(begins)).copied().unwrap_or("application/octet-stream")
}

/// The path and query for a node. A path with `..` and the like is refused: a node's rules are by path.
pub(super) fn path(rest: &str, query: Option<&str>) -> Result<String, ApiError> {
    let path = if rest.is_empty() { "/" } else { rest };
    let leads_out = |part: &str| {
        let decoded = percent_decode_str(part).decode_utf8_lossy();
        decoded == "." || decoded == ".." || decoded.contains(['/', '\\', '\0'])
    };
    if path.split('/').any(leads_out) {
        return Err(ApiError::bad_request(format!("invalid path {path:?}")));
    }
    Ok(match query {
        Some(query) if !query.is_empty() => format!("{path}?{query}"),
        Some(_) | None => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_here() {
        let mut from = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("cookie", "secret"),
            ("impersonate-user", "root"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "a"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("x-stream-protocol-version", "v3.channel.k8s.io"),
        ] {
            from.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut to = HeaderMap::new();
        copy_upgrade(&from, &mut to);
        copy_plain(&from, &mut to);
        assert_eq!(to[SEC_WEBSOCKET_PROTOCOL], "v5.channel.k8s.io");
        assert_eq!(to.get_all(STREAM_PROTOCOL).iter().count(), 2);
        let shown = format!("{to:?}");
        assert!(
            !shown.contains("secret") && !shown.contains("c2VjcmV0") && !shown.contains("root"),
            "{shown}"
        );
    }

    #[test]
    fn a_path_leads_nowhere_else() {
        for (rest, fine) in [
            ("", true),
            ("/metrics/cadvisor", true),
            ("/logs/", true),
            ("/a%20b", true),
            ("/../api", false),
            ("/%2e%2e/api", false),
            ("/a%2fb", false),
            ("/.", false),
        ] {
            assert_eq!(path(rest, Some("a=b")).is_ok(), fine, "{rest}");
        }
        assert_eq!(path("", None).unwrap(), "/");
    }
}
