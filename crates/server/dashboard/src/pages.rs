//! From a request below `/ui/` to its answer.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{
        ACCEPT, ACCEPT_ENCODING, ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY,
        CONTENT_TYPE, COOKIE, ETAG, HOST, IF_NONE_MATCH, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, VARY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::{
    assets::{self, Asset, STYLE},
    sessions::{SessionOver, Sessions, Visit},
};

const ROOT: &str = "/ui/";
/// Carries a one-time token. Only a page of the same origin can send it.
const LOGIN: HeaderName = HeaderName::from_static("lazaret-login");
/// Carries the page's secret.
const SECRET: HeaderName = HeaderName::from_static("lazaret-dashboard");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Nothing from elsewhere, nothing inline but the style of this very text, no frame around it, no text that becomes code.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(digest(&SHA256, STYLE.as_bytes()));
    let text = format!("{POLICY_START}; style-src 'sha256-{style}'");
    // Base64 and our own words have no character that a header cannot have.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(POLICY_START))
});
const POLICY_START: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// How a browser reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over TLS.
    Tls,
    /// In the clear, from the same machine alone.
    Loopback,
}

/// The pages and their sessions. `U` is the user of a session.
#[derive(Debug)]
pub struct Dashboard<U> {
    sessions: Mutex<Sessions<U>>,
    transport: Transport,
    cookie: String,
}

impl<U: Clone + ToString> Dashboard<U> {
    /// For a server that is reached at this port: cookies are the same for all ports of a host.
    #[must_use]
    pub fn new(transport: Transport, port: u16) -> Self {
        let prefix = match transport {
            Transport::Tls => "__Host-",
            Transport::Loopback => "",
        };
        Self { sessions: Mutex::default(), transport, cookie: format!("{prefix}lazaret-{port}") }
    }

    /// A token that `user` can sign in with, once and soon. It goes into the fragment of an address, which browsers do not send.
    pub fn invite(&self, now: u64, user: U) -> String {
        self.lock().invite(now, user)
    }

    /// Ends the sessions that are too old or were idle for too long, and so the answers that go on in them. To be called every few seconds.
    pub fn end_old_sessions(&self, now: u64) {
        self.lock().forget(now);
    }

    /// The session of a request, by cookie and secret; `None` where no secret is shown.
    ///
    /// # Errors
    /// When a secret is shown that no session has.
    pub fn visit(&self, now: u64, headers: &HeaderMap) -> Result<Option<Visit<U>>, SessionOver> {
        let Some(secret) = text(headers, &SECRET) else { return Ok(None) };
        let cookie = self.cookie_of(headers).ok_or(SessionOver)?;
        self.lock().visit(now, cookie, secret).map(Some).ok_or(SessionOver)
    }

    /// The answer to a request for a page; `None` where it is for something else.
    pub fn answer(
        &self,
        now: u64,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if path == "/ui" || path == "/" && reads && prefers_pages(headers) {
            return Some(redirect());
        }
        let name = path.strip_prefix(ROOT)?;
        Some(match (name, method) {
            ("session", &Method::GET) => self.session(now, headers),
            ("login", &Method::POST) => self.login(now, headers),
            ("logout", &Method::POST) => self.logout(now, headers),
            ("login" | "logout" | "session", _) => not_allowed(),
            _ => match assets::find(if name.is_empty() { "index.html" } else { name }) {
                Some(asset) if reads => file(asset, headers),
                Some(_) => not_allowed(),
                None => plain(StatusCode::NOT_FOUND, "there is no such page\n"),
            },
        })
    }

    fn session(&self, now: u64, headers: &HeaderMap) -> Response<Bytes> {
        if !is_same_site(headers) || !headers.contains_key(&SECRET) {
            return plain(StatusCode::FORBIDDEN, "only the page itself may ask for its session\n");
        }
        let Some(cookie) = self.cookie_of(headers) else { return signed_out() };
        let mut sessions = self.lock();
        match sessions.of_cookie(now, cookie) {
            Some(visit) => self.welcome(&visit.user, &sessions.secret(cookie)),
            None => signed_out(),
        }
    }

    fn login(&self, now: u64, headers: &HeaderMap) -> Response<Bytes> {
        if !is_same_site(headers) {
            return plain(StatusCode::FORBIDDEN, "only the page itself may sign in\n");
        }
        let Some(token) = text(headers, &LOGIN) else { return signed_out() };
        let mut sessions = self.lock();
        let Some(begun) = sessions.begin(now, token) else { return signed_out() };
        let Some(visit) = sessions.of_cookie(now, &begun.cookie) else { return signed_out() };
        let mut response = self.welcome(&visit.user, &sessions.secret(&begun.cookie));
        self.set_cookie(&mut response, &begun.cookie, "");
        response
    }

    fn logout(&self, now: u64, headers: &HeaderMap) -> Response<Bytes> {
        match (self.visit(now, headers), self.cookie_of(headers)) {
            (Ok(Some(_)), Some(cookie)) => {
                self.lock().end(cookie);
                let mut response = plain(StatusCode::OK, "signed out\n");
                self.set_cookie(&mut response, "", "; Max-Age=0");
                response
            }
            _ => signed_out(),
        }
    }

    fn welcome(&self, user: &U, secret: &str) -> Response<Bytes> {
        // In the clear a browser speaks HTTP/1.1, and has six connections for all tabs.
        let few = self.transport == Transport::Loopback;
        let body = json!({"user": user.to_string(), "secret": secret, "fewConnections": few});
        let mut response = plain(StatusCode::OK, "");
        *response.body_mut() = body.to_string().into();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }

    fn set_cookie(&self, response: &mut Response<Bytes>, value: &str, more: &str) {
        let secure = match self.transport {
            Transport::Tls => "; Secure",
            Transport::Loopback => "",
        };
        let text = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", self.cookie);
        if let Ok(value) = HeaderValue::try_from(text) {
            response.headers_mut().insert(SET_COOKIE, value);
        }
    }

    fn cookie_of<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
        lines
            .flat_map(|line| line.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find_map(|(name, value)| (name == self.cookie).then_some(value))
    }

    fn lock(&self) -> MutexGuard<'_, Sessions<U>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a person asks with a browser: API clients do not ask for HTML.
fn prefers_pages(headers: &HeaderMap) -> bool {
    text(headers, &ACCEPT)
        .is_some_and(|accept| accept.split(',').any(|one| one.trim().starts_with("text/html")))
}

/// Whether a request comes from a page of this origin, as far as the browser tells.
fn is_same_site(headers: &HeaderMap) -> bool {
    let site = text(headers, &FETCH_SITE).is_none_or(|site| matches!(site, "same-origin" | "none"));
    let origin = match (text(headers, &ORIGIN), text(headers, &HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from == host),
        // Over HTTP/2 the host is in the address: the browser's own word is all there is.
        (Some(_), None) => headers.contains_key(&FETCH_SITE),
        (None, _) => true,
    };
    site && origin
}

fn file(asset: &'static Asset, headers: &HeaderMap) -> Response<Bytes> {
    let tag = asset.tag();
    let known = text(headers, &IF_NONE_MATCH)
        .is_some_and(|known| known.split(',').any(|one| one.trim().trim_start_matches("W/") == tag));
    let (encoding, body) = match asset.brotli() {
        Some(brotli) if accepts(headers, "br") => (Some("br"), brotli),
        _ if accepts(headers, "gzip") => (Some("gzip"), asset.packed()),
        _ => (None, asset.bytes()),
    };
    let mut response = plain(if known { StatusCode::NOT_MODIFIED } else { StatusCode::OK }, "");
    if !known {
        *response.body_mut() = body;
    }
    let headers = response.headers_mut();
    if let Some(encoding) = encoding {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(asset.content_type));
    // Asked for again each time, and answered with 304: a new binary has a new page at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    response
}

/// Whether a browser takes answers in this encoding.
fn accepts(headers: &HeaderMap, encoding: &str) -> bool {
    text(headers, &ACCEPT_ENCODING).is_some_and(|accepted| {
        accepted.split(',').any(|one| {
            let (name, weight) = one.split_once(';').unwrap_or((one, ""));
            name.trim() == encoding && !matches!(weight.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000")
        })
    })
}

fn redirect() -> Response<Bytes> {
    let mut response = plain(StatusCode::FOUND, "");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(ROOT));
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn signed_out() -> Response<Bytes> {
    plain(StatusCode::UNAUTHORIZED, "sign in first\n")
}

fn not_allowed() -> Response<Bytes> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed here\n");
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
    response
}

/// An answer with what every answer carries.
fn plain(status: StatusCode, text: &'static str) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, "text/plain; charset=utf-8"),
        (CACHE_CONTROL, "no-store"),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    response
}
