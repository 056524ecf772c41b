//! Pulls from a registry on loopback that does whatever a test wants.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that cannot go on has failed; connections end with the test"
)]

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::common::{Content, RawTar, gzip, open};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use lazaret_images::{Digest, ImageError, Images, Keychain, PullError, PullOptions};
use tokio::net::TcpListener;

type Answer = Response<Full<Bytes>>;
type Handler = Arc<dyn Fn(&str, &HeaderMap, usize) -> Answer + Send + Sync>;

/// A registry, and what it was asked.
struct Registry {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, HeaderMap)>>>,
}

fn answer(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    Response::builder().status(status).body(Full::new(body.into())).unwrap()
}

fn not_found() -> Answer {
    answer(StatusCode::NOT_FOUND, r#"{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}"#)
}

impl Registry {
    /// `handler` gets the path, the headers, and how often this path was asked for before.
    async fn start(handler: impl Fn(&str, &HeaderMap, usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_with(None, handler).await
    }

    /// Over TLS, when there is an acceptor.
    async fn start_with(
        tls: Option<tokio_rustls::TlsAcceptor>,
        handler: impl Fn(&str, &HeaderMap, usize) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<(String, HeaderMap)>>> = Arc::default();
        let handler: Handler = Arc::new(handler);
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (handler, log, tls) = (Arc::clone(&handler), Arc::clone(&log), tls.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let path = request.uri().path_and_query().unwrap().to_string();
                        let before = {
                            let mut log = log.lock().unwrap();
                            let before = log.iter().filter(|(other, _)| *other == path).count();
                            log.push((path.clone(), request.headers().clone()));
                            before
                        };
                        let answer = handler(&path, request.headers(), before);
                        async move { Ok::<_, std::convert::Infallible>(answer) }
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = match tls {
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            http.serve_connection(TokioIo::new(stream), service).await
                        }
                        None => http.serve_connection(TokioIo::new(stream), service).await,
                    };
                });
            }
        });
        Self { address, asked }
    }

    fn image(&self, rest: &str) -> String {
        format!("{}/{rest}", self.address)
    }

    fn asked(&self, part: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|(path, _)| path.contains(part)).count()
    }
}

/// Everything of an image by path.
fn paths(content: &Content) -> BTreeMap<String, Vec<u8>> {
    let blob = |bytes: &Vec<u8>| (format!("/v2/team/app/blobs/{}", Digest::of(bytes)), bytes.clone());
    let mut paths: BTreeMap<String, Vec<u8>> = content.layers.iter().map(blob).collect();
    paths.extend([blob(&content.config)]);
    paths.insert("/v2/team/app/manifests/1".to_owned(), content.manifest.clone());
    paths.insert(
        format!("/v2/team/app/manifests/{}", Digest::of(&content.manifest)),
        content.manifest.clone(),
    );
    paths
}

fn content() -> Content {
    let lower = RawTar::default().directory("bin", 0o755).file("bin/app", "one").end();
    let upper = RawTar::default().file("bin/.wh.app", "").file("bin/more", "two").end();
    Content::new(&[lower, upper], gzip)
}

fn plain(content: &Content) -> impl Fn(&str, &HeaderMap, usize) -> Answer + Send + Sync + 'static {
    let paths = paths(content);
    move |path, _, _| paths.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
}

fn impatient() -> PullOptions {
    PullOptions { attempts: 3, first_backoff: Duration::from_millis(1), ..PullOptions::default() }
}

fn store() -> (tempfile::TempDir, Images) {
    let folder = tempfile::tempdir().unwrap();
    let images = open(folder.path()).with_pull_options(impatient());
    (folder, images)
}

async fn failure(images: &Images, name: &str) -> String {
    let error = images.pull(name, &Keychain::default()).await.unwrap_err();
    assert_eq!(error.reason(), "ErrImagePull");
    assert_eq!(images.list().await.unwrap(), []);
    let text = error.to_string();
    assert!(text.contains("127.0.0.1"), "the registry is not named: {text}");
    assert!(text.contains("team/app:1"), "the image is not named: {text}");
    text
}

#[tokio::test]
async fn an_image_is_pulled_and_found_by_all_its_names() {
    let content = content();
    let registry = Registry::start(plain(&content)).await;
    let (_folder, images) = store();
    let name = registry.image("team/app:1");
    let image = images.pull(&name, &Keychain::default()).await.unwrap();
    let digest = Digest::of(&content.manifest);
    assert_eq!(image.repo_digest, Some(format!("{}@{digest}", registry.image("team/app"))));
    assert_eq!(image.id, Digest::of(&content.config).to_string());
    assert_eq!(fs::read_to_string(image.layers[0].join("bin/more")).unwrap(), "two");
    assert_eq!(images.find(&name).await.unwrap(), image);
    assert_eq!(images.find(image.repo_digest.as_ref().unwrap()).await.unwrap().id, image.id);
    // By its digest, and without fetching a layer again.
    let by_digest =
        images.pull(&format!("{}@{digest}", registry.image("team/app")), &Keychain::default()).await.unwrap();
    assert_eq!(by_digest.layers, image.layers);
    assert_eq!(registry.asked(&Digest::of(&content.layers[0]).to_string()), 1);
}

#[tokio::test]
async fn an_index_gives_the_image_of_this_machine() {
    let content = content();
    let other = Content::new(&[RawTar::default().file("other", "").end()], gzip);
    let descriptor = |content: &Content, architecture: &str| {
        serde_json::json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": Digest::of(&content.manifest).to_string(), "size": content.manifest.len(),
            "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let own = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [descriptor(&other, "s390x"), descriptor(&content, own)]});
    let mut paths = paths(&content);
    let index = index.to_string().into_bytes();
    paths.insert("/v2/team/app/manifests/1".to_owned(), index.clone());
    let only_other = serde_json::json!({"schemaVersion": 2, "manifests": [descriptor(&other, "pdp11")]});
    paths.insert("/v2/team/app/manifests/2".to_owned(), only_other.to_string().into_bytes());
    let registry = Registry::start(move |path, _, _| {
        paths.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
    })
    .await;
    let (_folder, images) = store();
    let image = images.pull(&registry.image("team/app:1"), &Keychain::default()).await.unwrap();
    assert_eq!(image.id, Digest::of(&content.config).to_string());
    // The name means the index.
    assert!(image.repo_digest.unwrap().ends_with(Digest::of(&index).as_str()));
    let error =
        images.pull(&registry.image("team/app:2"), &Keychain::default()).await.unwrap_err().to_string();
    assert!(error.contains("there is no image for linux/"), "{error}");
}

#[tokio::test]
async fn content_that_is_not_what_was_asked_for_is_refused() {
    let content = content();
    for wrong in ["config", "layer", "manifest"] {
        let mut paths = paths(&content);
        let victim = match wrong {
            "config" => format!("/v2/team/app/blobs/{}", Digest::of(&content.config)),
            "layer" => format!("/v2/team/app/blobs/{}", Digest::of(&content.layers[1])),
            _ => format!("/v2/team/app/manifests/{}", Digest::of(&content.manifest)),
        };
        let body = paths.get_mut(&victim).unwrap();
        let last = body.len() - 2;
        body[last] ^= 0x20;
        let registry = Registry::start(move |path, _, _| {
            paths.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
        })
        .await;
        let (folder, images) = store();
        let error = if wrong == "manifest" {
            let name = format!("{}@{}", registry.image("team/app"), Digest::of(&content.manifest));
            images.pull(&name, &Keychain::default()).await.unwrap_err().to_string()
        } else {
            failure(&images, &registry.image("team/app:1")).await
        };
        assert!(error.contains("digest"), "{wrong}: {error}");
        // It is not asked for again: it would be as wrong.
        assert_eq!(registry.asked(victim.rsplit('/').next().unwrap()), 1, "{wrong}");
        assert_eq!(fs::read_dir(folder.path().join("ingest")).unwrap().count(), 0);
    }
}

/// A layer whose blob is right, and whose content is not what the configuration says.
#[tokio::test]
async fn a_layer_must_be_what_the_configuration_says() {
    let mut content = content();
    let other =
        Content::new(&[RawTar::default().file("x", "").end(), RawTar::default().file("y", "").end()], gzip);
    content.manifest = String::from_utf8(other.manifest.clone())
        .unwrap()
        .replace(Digest::of(&other.config).as_str(), Digest::of(&content.config).as_str())
        .replace(&format!("\"size\":{}", other.config.len()), &format!("\"size\":{}", content.config.len()))
        .into_bytes();
    content.layers = other.layers.clone();
    let registry = Registry::start(plain(&content)).await;
    let (_folder, images) = store();
    let error = failure(&images, &registry.image("team/app:1")).await;
    assert!(error.contains("the unpacked layer: the digest is"), "{error}");
}

#[tokio::test]
async fn what_breaks_off_is_tried_again() {
    let content = content();
    let paths = paths(&content);
    let layer = Digest::of(&content.layers[0]).to_string();
    let part = layer.clone();
    let registry = Registry::start(move |path, _, before| {
        let Some(body) = paths.get(path) else { return not_found() };
        let body = if path.ends_with(&part) && before == 0 { &body[..body.len() / 2] } else { body };
        match (path.contains("manifests"), before) {
            (true, 0) => answer(StatusCode::TOO_MANY_REQUESTS, ""),
            (true, 1) => answer(StatusCode::BAD_GATEWAY, ""),
            _ => answer(StatusCode::OK, body.to_vec()),
        }
    })
    .await;
    let (_folder, images) = store();
    images.pull(&registry.image("team/app:1"), &Keychain::default()).await.unwrap();
    assert_eq!((registry.asked("manifests"), registry.asked(&layer)), (3, 2));
}

#[tokio::test]
async fn attempts_are_limited() {
    let registry = Registry::start(|_, _, _| answer(StatusCode::TOO_MANY_REQUESTS, "")).await;
    let (_folder, images) = store();
    let error = failure(&images, &registry.image("team/app:1")).await;
    assert!(error.contains("429 Too Many Requests"), "{error}");
    assert_eq!(registry.asked("manifests"), 3);
    let registry = Registry::start(|_, _, _| not_found()).await;
    let error = failure(&images, &registry.image("team/app:1")).await;
    assert!(error.contains("404 Not Found: MANIFEST_UNKNOWN manifest unknown"), "{error}");
    assert_eq!(registry.asked("manifests"), 1);
}

#[tokio::test]
async fn sizes_are_limited() {
    let huge = Registry::start(|_, _, _| answer(StatusCode::OK, vec![b' '; (4 << 20) + 1])).await;
    let (_folder, images) = store();
    let error = failure(&images, &huge.image("team/app:1")).await;
    assert!(error.contains("the manifest has more than 4194304 bytes"), "{error}");

    // A blob that is longer than the manifest says.
    let content = content();
    let mut paths = paths(&content);
    let layer = format!("/v2/team/app/blobs/{}", Digest::of(&content.layers[0]));
    paths.get_mut(&layer).unwrap().extend([0; 100]);
    let registry = Registry::start(move |path, _, _| {
        paths.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
    })
    .await;
    let error = failure(&images, &registry.image("team/app:1")).await;
    assert!(error.contains("the blob has more than"), "{error}");
}

#[tokio::test]
async fn a_registry_that_does_not_answer_is_given_up() {
    // It accepts connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = format!("{}/team/app:1", listener.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let options = PullOptions { attempts: 2, stall_timeout: Duration::from_millis(50), ..impatient() };
    let images = open(folder.path()).with_pull_options(options);
    let error = failure(&images, &name).await;
    assert!(error.contains("did not answer within 50ms"), "{error}");
    // A port at which no process listens, and none can while the socket is there.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let name = format!("{}/team/app:1", taken.local_addr().unwrap());
    let (_folder, images) = store();
    let error = failure(&images, &name).await;
    assert!(error.to_lowercase().contains("connection refused"), "{error}");
}

fn keychain(registry: &str) -> Keychain {
    let config = serde_json::json!({"auths": {registry: {"username": "user", "password": "pass"}}});
    Keychain::parse(config.to_string().as_bytes()).unwrap()
}

#[tokio::test]
async fn a_token_is_fetched_with_the_password_of_the_pull_secret() {
    let content = content();
    let served = paths(&content);
    let address = Arc::new(Mutex::new(String::new()));
    let own = Arc::clone(&address);
    let registry = Registry::start(move |path, headers, _| {
        let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        if path.starts_with("/token") {
            // `user:pass`
            let is_user = authorization.as_deref() == Some("Basic dXNlcjpwYXNz");
            assert!(
                path.contains("service=registry") && path.contains("scope=repository%3Ateam%2Fapp%3Apull"),
                "{path}"
            );
            return if is_user {
                answer(StatusCode::OK, r#"{"token":"secret"}"#)
            } else {
                answer(StatusCode::UNAUTHORIZED, "")
            };
        }
        if authorization.as_deref() != Some("Bearer secret") {
            let challenge = format!(
                r#"Bearer realm="http://{}/token",service="registry",scope="repository:team/app:pull""#,
                own.lock().unwrap()
            );
            let mut refusal = answer(StatusCode::UNAUTHORIZED, "");
            refusal.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
            return refusal;
        }
        served.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
    })
    .await;
    *address.lock().unwrap() = registry.address.to_string();
    let (_folder, images) = store();
    let name = registry.image("team/app:1");
    let error = images.pull(&name, &Keychain::default()).await.unwrap_err();
    assert!(matches!(error, PullError::Unauthorized { .. }), "{error}");
    assert_eq!(error.reason(), "ErrImagePull");
    let secret = keychain(&registry.address.to_string());
    images.pull(&name, &secret).await.unwrap();
    // One token for the whole pull.
    assert_eq!(registry.asked("/token"), 2);
    assert!(!format!("{secret:?}").contains("pass"));
}

#[tokio::test]
async fn a_password_is_shown_to_nobody_else() {
    let thief = Registry::start(|_, _, _| answer(StatusCode::OK, r#"{"token":"x"}"#)).await;
    for (realm, permitted) in [
        (format!("http://{}/token", thief.address), true),
        ("http://registry.example/token".to_owned(), false),
        ("ftp://127.0.0.1/token".to_owned(), false),
    ] {
        let challenge = format!("Bearer realm=\"{realm}\"");
        let registry = Registry::start(move |_, _, _| {
            let mut refusal = answer(StatusCode::UNAUTHORIZED, "");
            refusal.headers_mut().insert("www-authenticate", challenge.parse().unwrap());
            refusal
        })
        .await;
        let (_folder, images) = store();
        let secret = keychain(&registry.address.to_string());
        let error = images.pull(&registry.image("team/app:1"), &secret).await.unwrap_err().to_string();
        assert_eq!(error.contains("not permitted"), !permitted, "{realm}: {error}");
    }
}

#[tokio::test]
async fn blobs_may_be_elsewhere_and_tokens_stay_home() {
    let content = content();
    let served = paths(&content);
    let blobs = Registry::start({
        let served = served.clone();
        move |path, headers, _| {
            assert!(!headers.contains_key("authorization"), "the token went along");
            let path = path.replace("/elsewhere", "/v2/team/app/blobs");
            served.get(&path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone()))
        }
    })
    .await;
    let elsewhere = blobs.address;
    let registry = Registry::start(move |path, headers, _| {
        if !headers.contains_key("authorization") {
            let mut refusal = answer(StatusCode::UNAUTHORIZED, "");
            refusal.headers_mut().insert("www-authenticate", "Basic realm=\"x\"".parse().unwrap());
            return refusal;
        }
        match path.strip_prefix("/v2/team/app/blobs") {
            Some(rest) => {
                let mut redirect = answer(StatusCode::TEMPORARY_REDIRECT, "");
                redirect
                    .headers_mut()
                    .insert("location", format!("http://{elsewhere}/elsewhere{rest}").parse().unwrap());
                redirect
            }
            None => served.get(path).map_or_else(not_found, |body| answer(StatusCode::OK, body.clone())),
        }
    })
    .await;
    let (_folder, images) = store();
    images.pull(&registry.image("team/app:1"), &keychain(&registry.address.to_string())).await.unwrap();
    assert_eq!(blobs.asked("elsewhere"), 3);
}

#[tokio::test]
async fn redirects_lead_to_https_or_home_and_end() {
    for (location, text) in [
        ("http://registry.example/x", "not permitted"),
        ("file:///etc/passwd", "not permitted"),
        ("//registry.example/x", "not permitted"),
        ("/v2/team/app/manifests/1", "more than 5 times"),
    ] {
        let registry = Registry::start(move |_, _, _| {
            let mut redirect = answer(StatusCode::FOUND, "");
            redirect.headers_mut().insert("location", location.parse().unwrap());
            redirect
        })
        .await;
        let (_folder, images) = store();
        let error = failure(&images, &registry.image("team/app:1")).await;
        assert!(error.contains(text), "{location}: {error}");
    }
}

#[tokio::test]
async fn the_same_image_is_pulled_once_at_a_time() {
    let content = content();
    let registry = Registry::start(plain(&content)).await;
    let (_folder, images) = store();
    let name = registry.image("team/app:1");
    let none = Keychain::default();
    let (one, two, three) =
        tokio::join!(images.pull(&name, &none), images.pull(&name, &none), images.pull(&name, &none));
    assert_eq!(one.unwrap(), two.unwrap());
    three.unwrap();
    assert_eq!(registry.asked("manifests"), 1);
    // Other credentials are another pull: they may not be enough.
    let secret = keychain(&registry.address.to_string());
    let (one, two) = tokio::join!(images.pull(&name, &none), images.pull(&name, &secret));
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(registry.asked("manifests"), 3);
    assert!(images.progress(&name).is_none());
}

#[tokio::test]
async fn a_pull_that_nobody_waits_for_ends_and_lets_the_store_go() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = format!("{}/team/app:1", listener.local_addr().unwrap());
    let (_folder, images) = store();
    let none = Keychain::default();
    {
        let pull = images.pull(&name, &none);
        tokio::pin!(pull);
        // Until the registry has a connection, the pull is in flight, and nothing is removed.
        tokio::select! {
            done = &mut pull => panic!("{done:?}"),
            accepted = listener.accept() => drop(accepted.unwrap().1),
        }
        assert!(images.progress(&name).is_some());
        assert!(matches!(images.prune().await, Err(ImageError::Busy(_))));
    }
    assert!(images.progress(&name).is_none());
    assert!(images.prune().await.is_ok());
}

#[tokio::test]
async fn a_name_that_is_none_has_its_own_reason() {
    let (_folder, images) = store();
    let error = images.pull("Not A Name", &Keychain::default()).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidImageName");
    assert!(error.to_string().starts_with("couldn't parse image name \"Not A Name\": "), "{error}");
}

#[tokio::test]
async fn layers_may_be_compressed_with_zstd_in_several_frames() {
    let zstd = |bytes: &[u8]| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let (left, right) = bytes.split_at(bytes.len() / 3);
        // A frame, one that readers skip, and another.
        let mut frames = ruzstd::encoding::compress_to_vec(left, level);
        frames.extend([0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        frames.extend(ruzstd::encoding::compress_to_vec(right, level));
        frames
    };
    let archive = RawTar::default().file("a", &"text ".repeat(100_000)).end();
    let registry = Registry::start(plain(&Content::new(&[archive], zstd))).await;
    let (_folder, images) = store();
    let image = images.pull(&registry.image("team/app:1"), &Keychain::default()).await.unwrap();
    assert_eq!(fs::read_to_string(image.layers[0].join("a")).unwrap(), "text ".repeat(100_000));
}

#[tokio::test]
async fn a_registry_over_https_is_asked_when_its_authority_is_trusted() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key.into())
            .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let registry = Registry::start_with(Some(acceptor), plain(&content())).await;
    let name = format!("localhost:{}/team/app:1", registry.address.port());
    let (_folder, images) = store();
    let trusting = |roots: Vec<Vec<u8>>| {
        images.clone().with_pull_options(PullOptions { extra_roots: roots, attempts: 1, ..impatient() })
    };
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.der().to_vec();
    let error = trusting(vec![other]).pull(&name, &Keychain::default()).await.unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(registry.asked("manifests"), 0);
    let images = trusting(vec![certificate.to_vec()]);
    images.pull(&name, &Keychain::default()).await.unwrap();
    // From HTTPS no redirect leads to plain HTTP, not on loopback either.
    assert!(registry.asked("blobs") > 0);
}

#[test]
fn pull_secrets_are_read() {
    assert!(Keychain::parse(br#"{"auths":{"r.example":{"auth":"dXNlcjpwYXNz"}}}"#).is_ok());
    assert!(Keychain::parse(br#"{"r.example":{"auth":"dXNlcjpwYXNz"}}"#).is_ok());
    assert!(Keychain::parse(br#"{"auths":{"r.example":{"auth":"dXNlcg=="}}}"#).is_err());
    let error = Keychain::parse(br#"{"auths":{"r.example":{"password":["hunter2"]}}}"#).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(Keychain::parse(b"").is_err());
}
