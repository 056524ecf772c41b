//! A client of registries: the part of the distribution API that pulls need.

mod auth;
mod transfer;

use std::{net::IpAddr, path::Path, sync::Mutex, time::Duration};

use bytes::Bytes;
use http::{
    Request, Response, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, LOCATION, RETRY_AFTER, USER_AGENT},
};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde::Deserialize;
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    sync::watch,
    time::{sleep, timeout},
};

pub(crate) use transfer::Failure;
use transfer::{Attempts, Chunks, causes, check, incomplete, local, passing};

use crate::{
    Digest, Progress, Reference, digest::Hasher, document::MANIFEST_TYPES, keychain::Credentials, tls,
};

/// Answers of token servers and texts of errors.
const TOKEN_BYTES_MAX: u64 = 1 << 20;
/// Characters of a registry's error text that are repeated.
const ERROR_TEXT_CHARS_MAX: usize = 256;
/// Blobs are often elsewhere, at one or two removes.
const REDIRECTS_MAX: usize = 5;
/// A registry that asks for a longer pause is asked again by a later pull.
const RETRY_AFTER_SECONDS_MAX: u64 = 30;

/// Timeouts and attempts of a pull, and the authorities that it trusts.
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
                self.authenticate(response.headers()).await?;
                continue;
            }
            return Err(self.refused(response, path).await);
        }
    }

    async fn follow(&self, url: &str, accept: &str) -> Result<Response<Incoming>, Failure> {
        let mut url: Uri = url.parse().map_err(|_| Failure::Lasting(format!("{url:?} is no address")))?;
        let home = url.authority().cloned();
        for _ in 0..=REDIRECTS_MAX {
            // The target of a redirect does not receive our token.
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

    /// The failure that an unsuccessful response means.
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

/// A text from outside, made fit to be shown.
fn shown(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).take(ERROR_TEXT_CHARS_MAX).collect()
}

/// The registry's own text about its refusal.
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
