//! Whether a request asks for a websocket, and the answer to it.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{
        CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
        UPGRADE,
    },
};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::{ApiError, Body};

/// Appended to a client's key, by RFC 6455.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BEARER_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";
const KEY_BYTES_MAX: usize = 64;

/// The headers of a client that requests a websocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    accept: String,
    /// The first subprotocol that is no token.
    protocol: Option<String>,
}

impl Handshake {
    /// `None`: an ordinary request.
    ///
    /// # Errors
    /// When the handshake is not one of RFC 6455.
    pub(crate) fn of<B>(request: &Request<B>) -> Option<Result<Self, ApiError>> {
        let headers = request.headers();
        let asks = headers.contains_key(UPGRADE)
            && request.method() == Method::GET
            && request.version() == Version::HTTP_11
            && is_upgrade(headers);
        asks.then(|| Self::read(headers))
    }

    fn read(headers: &HeaderMap) -> Result<Self, ApiError> {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        if text(SEC_WEBSOCKET_VERSION) != Some("13") {
            return Err(ApiError::bad_request("Sec-WebSocket-Version must be 13"));
        }
        let key = text(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
        let key = key.ok_or_else(|| ApiError::bad_request("Sec-WebSocket-Key is missing"))?;
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
        let protocol = protocols(headers).find(|protocol| !protocol.starts_with(BEARER_PREFIX));
        Ok(Self { accept: STANDARD.encode(hash), protocol: protocol.map(str::to_owned) })
    }

    /// The answer that makes the connection a websocket.
    pub(crate) fn accepted(&self) -> Response<Body> {
        let mut response = Response::new(Body::full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let protocol = self.protocol.as_deref().map(|protocol| (SEC_WEBSOCKET_PROTOCOL, protocol));
        for (name, value) in [(SEC_WEBSOCKET_ACCEPT, self.accept.as_str())].into_iter().chain(protocol) {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|value| value.trim().eq_ignore_ascii_case(wanted))
    };
    has(UPGRADE, "websocket") && has(CONNECTION, "upgrade")
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|protocol| !protocol.is_empty())
}

/// Whether a subprotocol is a token: it is for this server alone.
pub(crate) fn is_bearer_protocol(protocol: &str) -> bool {
    protocol.starts_with(BEARER_PREFIX)
}

/// The token that a client shows as a subprotocol, because a browser lets it set no other header. There must be another subprotocol, which
/// is the one that is accepted.
///
/// # Errors
/// When there are several tokens, one that cannot be read, or no other subprotocol.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    if !headers.contains_key(UPGRADE) || !is_upgrade(headers) {
        return Ok(None);
    }
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        protocols(headers).partition(|protocol| protocol.starts_with(BEARER_PREFIX));
    match tokens.as_slice() {
        [] => Ok(None),
        [token] if !others.is_empty() => {
            let encoded = token.strip_prefix(BEARER_PREFIX).unwrap_or_default();
            let decoded =
                URL_SAFE_NO_PAD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            decoded.filter(|token| !token.is_empty()).map(Some).ok_or_else(ApiError::unauthorized)
        }
        _ => Err(ApiError::unauthorized()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    const ASKED: [(&str, &str); 4] = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];

    #[test]
    fn a_handshake_is_answered_as_the_standard_says() {
        let handshake = Handshake::of(&request(&ASKED)).unwrap().unwrap();
        let response = handshake.accepted();
        assert_eq!(response.status(), 101);
        assert_eq!(response.headers()[SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key(SEC_WEBSOCKET_PROTOCOL));
        for left_out in 0..2 {
            let mut asked = ASKED.to_vec();
            asked.remove(left_out);
            assert_eq!(Handshake::of(&request(&asked)), None);
        }
        for left_out in 2..4 {
            let mut asked = ASKED.to_vec();
            asked.remove(left_out);
            assert!(Handshake::of(&request(&asked)).unwrap().is_err());
        }
    }

    #[test]
    fn a_token_is_a_subprotocol_that_is_never_repeated() {
        let token = format!("{BEARER_PREFIX}{}", URL_SAFE_NO_PAD.encode("abc.def"));
        let read = |protocols: &str| {
            let mut asked = ASKED.to_vec();
            asked.push(("sec-websocket-protocol", protocols));
            let request = request(&asked);
            let accepted = Handshake::of(&request).unwrap().unwrap().accepted();
            let chosen = accepted.headers().get(SEC_WEBSOCKET_PROTOCOL);
            let chosen = chosen.map(|value| value.to_str().unwrap().to_owned());
            (bearer_token(request.headers()).map_err(|error| error.code), chosen)
        };
        let chosen = Some("base64.binary.k8s.io".to_owned());
        let both = format!("{token}, base64.binary.k8s.io");
        assert_eq!(read(&both), (Ok(Some("abc.def".into())), chosen.clone()));
        assert_eq!(read("base64.binary.k8s.io"), (Ok(None), chosen.clone()));
        assert_eq!(read(&token), (Err(401), None), "no other subprotocol");
        assert_eq!(read(&format!("{token},{token},base64.binary.k8s.io")), (Err(401), chosen.clone()));
        assert_eq!(read(&format!("{BEARER_PREFIX}%,base64.binary.k8s.io")), (Err(401), chosen));
        let plain = request(&[("sec-websocket-protocol", both.as_str())]);
        assert_eq!(bearer_token(plain.headers()).map_err(|error| error.code), Ok(None), "no websocket");
    }
}
