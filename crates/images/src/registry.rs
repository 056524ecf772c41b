//! A client of registries: the part of the distribution API that pulls need.

use std::{net::IpAddr, path::Path, pin::Pin, sync::Mutex, time::Duration};

use base64::Engine as _;
use bytes::Bytes;
use http::{
    HeaderMap, Request, Response, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, LOCATION, RETRY_AFTER, USER_AGENT, WWW_AUTHENTICATE},
};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    sync::watch,
    time::{Instant, Sleep, sleep, timeout},
};

use crate::{
    Digest, Progress, Reference, challenge::Challenge, digest::Hasher, document::MANIFEST_TYPES,
    keychain::Credentials, tls,
};

/// Answers of token servers and texts of errors.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// What of a registry's own words is repeated.
const ERROR_TEXT_CHARS_MAX: usize = 256;
/// Blobs are often elsewhere, at one or two removes.
const REDIRECTS_MAX: usize = 5;
/// Within each [`PullOptions::stall_timeout`] so much must come, or less when it is the rest.
const WINDOW_BYTES_MIN: u64 = 16 << 10;
/// A registry that asks for a longer pause is asked again by a later pull.
const RETRY_AFTER_SECONDS_MAX: u64 = 30;

/// How patient a pull is, and whom it trusts.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// How often a request is sent, when the registry is not reachable, overloaded, or fails.
    pub attempts: u32,
    /// The pause before the second attempt; it doubles each time.
    pub first_backoff: Duration,
    /// How long a registry may take to answer, or stop in the middle of a blob.
    pub stall_timeout: Duration,
    /// Certificates (DER) of authorities that are trusted besides the machine's own. With one, a registry on loopback is asked over HTTPS.
    pub extra_roots: Vec<Vec<u8>>,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            attempts: 5,
            first_backoff: Duration::from_millis(500),
            stall_timeout: Duration::from_secs(60),
            extra_roots: Vec::new(),
        }
    }
}

/// Why a registry did not give what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It may go well another time.
    Passing { text: String, after: Option<Duration> },
    /// It will not.
    Lasting(String),
    /// These credentials, or none, are not enough.
    Unauthorized(String),
}

type HttpClient = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// One repository of a registry, as one user.
pub(crate) struct Registry<'a> {
    client: HttpClient,
    options: &'a PullOptions,
    /// `https://HOST`.
    base: String,
    repository: String,
    credentials: Option<&'a Credentials>,
    authorization: Mutex<Option<String>>,
}

impl<'a> Registry<'a> {
    pub(crate) fn new(
        client: HttpClient,
        options: &'a PullOptions,
        image: &Reference,
        credentials: Option<&'a Credentials>,
    ) -> Self {
        let host = match image.registry() {
            "docker.io" => "registry-1.docker.io",
            other => other,
        };
        let scheme = if is_loopback(host) && options.extra_roots.is_empty() { "http" } else { "https" };
        Self {
            client,
            options,
            base: format!("{scheme}://{host}"),
            repository: image.repository().to_owned(),
            credentials,
            authorization: Mutex::default(),
        }
    }

    pub(crate) fn client(options: &PullOptions) -> Result<HttpClient, Failure> {
        let tls = tls::config(&options.extra_roots).map_err(Failure::Lasting)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(options.stall_timeout));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        Ok(Client::builder(TokioExecutor::new()).build(connector))
    }

    /// A manifest or an index, by tag or digest.
    pub(crate) async fn manifest(&self, version: &str, bytes_max: u64) -> Result<Vec<u8>, Failure> {
        let path = format!("/v2/{}/manifests/{version}", self.repository);
        let mut attempts = self.attempts();
        loop {
            match self.manifest_once(&path, bytes_max).await {
                Ok(content) => return Ok(content),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    async fn manifest_once(&self, path: &str, bytes_max: u64) -> Result<Vec<u8>, Failure> {
        let response = self.get(path, &MANIFEST_TYPES.join(", ")).await?;
        self.read_all(response, bytes_max, "the manifest").await
    }

    /// A small blob, checked.
    pub(crate) async fn document(&self, digest: &Digest, size: u64) -> Result<Vec<u8>, Failure> {
        let mut attempts = self.attempts();
        loop {
            match self.document_once(digest, size).await {
                Ok(content) => return Ok(content),
                Err(failure) => attempts.pause(failure).await?,
            }
        }
    }

    async fn document_once(&self, digest: &Digest, size: u64) -> Result<Vec<u8>, Failure> {
        let response = self.get(&self.blob_path(digest), "*/*").await?;
        let content = self.read_all(response, size, "the blob").await?;
        if (content.len() as u64) < size {
            return Err(incomplete(digest, content.len() as u64, size));
        }
        check(digest, &Digest::of(&content))?;
        Ok(content)
    }

    /// Writes a blob to a file, and checks its digest on the way.
    pub(crate) async fn blob(
        &self,
        digest: &Digest,
        size: u64,
        target: &Path,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), Failure> {
        let mut attempts = self.attempts();
        loop {
            let mut count = 0;
            match self.blob_once(digest, size, target, progress, &mut count).await {
                Ok(()) => return Ok(()),
                Err(failure) => {
                    progress.send_modify(|progress| {
                        progress.bytes_done = progress.bytes_done.saturating_sub(count)
                    });
                    attempts.pause(failure).await?;
                }
            }
        }
    }

    async fn blob_once(
        &self,
        digest: &Digest,
        size: u64,
        target: &Path,
        progress: &watch::Sender<Progress>,
        count: &mut u64,
    ) -> Result<(), Failure> {
        let response = self.get(&self.blob_path(digest), "*/*").await?;
        let mut chunks = self.chunks(response, size, "the blob")?;
        let mut file = File::create(target).await.map_err(|error| local(&error))?;
        let mut hasher = Hasher::new();
        while let Some(chunk) = chunks.next().await? {
            hasher.update(&chunk);
            file.write_all(&chunk).await.map_err(|error| local(&error))?;
            let read = chunk.len() as u64;
            *count += read;
            progress.send_modify(|progress| progress.bytes_done += read);
        }
        if *count < size {
            return Err(incomplete(digest, *count, size));
        }
        file.flush().await.map_err(|error| local(&error))?;
        check(digest, &hasher.finish())
    }

    fn blob_path(&self, digest: &Digest) -> String {
        format!("/v2/{}/blobs/{digest}", self.repository)
    }

    fn attempts(&self) -> Attempts {
        Attempts { left: self.options.attempts.saturating_sub(1), pause: self.options.first_backoff }
    }

    /// Asks, proves who asks when that is wanted, and goes where the answer is.
    async fn get(&self, path: &str, accept: &str) -> Result<Response<Incoming>, Failure> {
        let url = format!("{}{path}", self.base);
        let mut has_proven = false;
        loop {
            let response = self.follow(&url, accept).await?;
            let status = response.status();
            if status.is_success() {
                return Ok(response);
            }
            if status == StatusCode::UNAUTHORIZED && !has_proven {
                has_proven = true;
                self.prove(response.headers()).await?;
                continue;
            }
            return Err(self.refused(response, path).await);
        }
    }

    async fn follow(&self, url: &str, accept: &str) -> Result<Response<Incoming>, Failure> {
        let mut url: Uri = url.parse().map_err(|_| Failure::Lasting(format!("{url:?} is no address")))?;
        let home = url.authority().cloned();
        for _ in 0..=REDIRECTS_MAX {
            // Whoever the registry sends us to does not learn our token.
            let authorization = if url.authority() == home.as_ref() { self.authorization() } else { None };
            let response = self.send(&url, Some(accept), authorization).await?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            url = self.redirected(&url, location.unwrap_or_default())?;
        }
        Err(Failure::Lasting(format!("the registry redirects more than {REDIRECTS_MAX} times")))
    }

    /// Where a redirect leads: to the same registry, or to anything over HTTPS. A registry on loopback may send to loopback.
    fn redirected(&self, from: &Uri, location: &str) -> Result<Uri, Failure> {
        let absolute = if location.starts_with('/') && !location.starts_with("//") {
            let origin = from.authority().map(ToString::to_string).unwrap_or_default();
            format!("{}://{origin}{location}", from.scheme_str().unwrap_or("https"))
        } else {
            location.to_owned()
        };
        let wrong = || {
            Failure::Lasting(format!(
                "the registry redirects to {:?}, which is not permitted",
                shown(location)
            ))
        };
        let url: Uri = absolute.parse().map_err(|_| wrong())?;
        if self.may_ask(&url) { Ok(url) } else { Err(wrong()) }
    }

    fn may_ask(&self, url: &Uri) -> bool {
        let is_plain_registry = self.base.starts_with("http://");
        match url.scheme_str() {
            Some("https") => url.host().is_some(),
            Some("http") => {
                is_plain_registry && url.authority().is_some_and(|host| is_loopback(host.as_str()))
            }
            _ => false,
        }
    }

    async fn send(
        &self,
        url: &Uri,
        accept: Option<&str>,
        authorization: Option<String>,
    ) -> Result<Response<Incoming>, Failure> {
        let mut request =
            Request::get(url).header(USER_AGENT, concat!("lazaret/", env!("CARGO_PKG_VERSION")));
        if let Some(accept) = accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Empty::new()).map_err(|error| Failure::Lasting(error.to_string()))?;
        match timeout(self.options.stall_timeout, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(passing(format!("{}: {}", place(url), causes(&error)))),
            Err(_) => {
                Err(passing(format!("{} did not answer within {:?}", place(url), self.options.stall_timeout)))
            }
        }
    }

    fn authorization(&self) -> Option<String> {
        self.authorization.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// Gets what the registry wants to see: a token of its token server, or the password itself.
    async fn prove(&self, headers: &HeaderMap) -> Result<(), Failure> {
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
        *self.authorization.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(authorization);
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

    /// What an answer other than success means.
    async fn refused(&self, response: Response<Incoming>, what: &str) -> Failure {
        let status = response.status();
        let after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(|seconds: u64| Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)));
        let body = self.read_all(response, TOKEN_BYTES_MAX, "the error").await.unwrap_or_default();
        let text = format!("{what}: {status}{}", own_words(&body));
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Failure::Unauthorized(text),
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => Failure::Passing { text, after },
            status if status.is_server_error() => Failure::Passing { text, after },
            _ => Failure::Lasting(text),
        }
    }

    async fn read_all(
        &self,
        response: Response<Incoming>,
        bytes_max: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, Failure> {
        let mut chunks = self.chunks(response, bytes_max, what)?;
        let mut content = Vec::new();
        while let Some(chunk) = chunks.next().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    fn chunks(
        &self,
        response: Response<Incoming>,
        bytes_max: u64,
        what: &'static str,
    ) -> Result<Chunks, Failure> {
        let announced: Option<u64> =
            response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let stall_timeout = self.options.stall_timeout;
        let body = response.into_body();
        let chunks = Chunks {
            body,
            bytes_max,
            what,
            count: 0,
            window: 0,
            stall_timeout,
            deadline: Box::pin(sleep(stall_timeout)),
        };
        match announced {
            Some(announced) if announced > bytes_max => Err(chunks.too_large()),
            _ => Ok(chunks),
        }
    }
}

/// How often a request may still be sent.
struct Attempts {
    left: u32,
    pause: Duration,
}

impl Attempts {
    /// Waits, when it may go well another time.
    async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let Failure::Passing { text, after } = failure else { return Err(failure) };
        if self.left == 0 {
            return Err(Failure::Passing { text, after });
        }
        tracing::debug!(%text, "a request to a registry is sent again");
        sleep(after.unwrap_or(self.pause)).await;
        self.left -= 1;
        self.pause = self.pause.saturating_mul(2);
        Ok(())
    }
}

/// An answer piece by piece: no more than is permitted, and not for ever.
struct Chunks {
    body: Incoming,
    bytes_max: u64,
    what: &'static str,
    count: u64,
    /// Bytes since the deadline was put off.
    window: u64,
    stall_timeout: Duration,
    deadline: Pin<Box<Sleep>>,
}

impl Chunks {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let frame = tokio::select! {
                frame = self.body.frame() => frame,
                () = &mut self.deadline => {
                    return Err(passing(format!("{} stopped coming for {:?}", self.what, self.stall_timeout)));
                }
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame =
                frame.map_err(|error| passing(format!("{} broke off: {}", self.what, causes(&error))))?;
            let Ok(chunk) = frame.into_data() else { continue };
            self.count += chunk.len() as u64;
            self.window += chunk.len() as u64;
            if self.count > self.bytes_max {
                return Err(self.too_large());
            }
            if self.window >= WINDOW_BYTES_MIN {
                self.window = 0;
                self.deadline.as_mut().reset(Instant::now() + self.stall_timeout);
            }
            return Ok(Some(chunk));
        }
    }

    fn too_large(&self) -> Failure {
        Failure::Lasting(format!("{} has more than {} bytes", self.what, self.bytes_max))
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
}

fn incomplete(digest: &Digest, count: u64, size: u64) -> Failure {
    passing(format!("the blob {digest} ended after {count} of {size} bytes"))
}

fn passing(text: String) -> Failure {
    Failure::Passing { text, after: None }
}

/// The disk of this machine.
fn local(error: &std::io::Error) -> Failure {
    Failure::Lasting(format!("write the blob: {error}"))
}

fn check(expected: &Digest, actual: &Digest) -> Result<(), Failure> {
    if expected == actual {
        return Ok(());
    }
    Err(Failure::Lasting(format!("the digest of the blob is {actual}, not {expected}")))
}

/// Whether an authority, `HOST[:PORT]`, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn place(url: &Uri) -> String {
    url.authority().map(ToString::to_string).unwrap_or_default()
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// A text from outside, made fit to be shown.
fn shown(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(ERROR_TEXT_CHARS_MAX).collect()
}

/// What a registry says about its refusal.
fn own_words(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Errors {
        errors: Vec<OneError>,
    }
    #[derive(Deserialize)]
    struct OneError {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let Ok(Errors { errors }) = serde_json::from_slice(body) else { return String::new() };
    let texts: Vec<String> =
        errors.into_iter().take(4).map(|error| format!("{} {}", error.code, error.message)).collect();
    if texts.is_empty() { String::new() } else { format!(": {}", shown(&texts.join("; "))) }
}
