//! A webhook with TLS on loopback that answers as a test says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use lazaret_json::{Value, json};
use lazaret_server::{Pem, certificate_authority, server_certificate};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::https::now;

/// The reply of a webhook to a review.
pub(crate) enum Reply {
    /// Answers with `response`, the UID of the request put in.
    Response(Value),
    /// Answers with this, whatever it is.
    Raw(u16, Vec<u8>),
    /// Sends the client elsewhere.
    Redirect(String),
    /// Answers when the test is over.
    Hang,
}

type Behaviour = dyn Fn(&Value) -> Reply + Send + Sync;

/// A webhook that runs beside a test.
pub(crate) struct WebhookServer {
    pub(crate) port: u16,
    authority: Pem,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<Mutex<usize>>,
}

/// Looks for a request before a test gives up.
const POLLS_MAX: usize = 60_000;

impl WebhookServer {
    pub(crate) async fn start(answer: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        Self::named(&["localhost", "hook.default.svc"], answer).await
    }

    /// One whose certificate is for these names.
    pub(crate) async fn named(
        names: &[&str],
        answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let authority = certificate_authority(now()).unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let own = server_certificate(&authority, &names, now()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (seen, connections) = (Arc::<Mutex<Vec<Value>>>::default(), Arc::<Mutex<usize>>::default());
        let behaviour: Arc<Behaviour> = Arc::new(answer);
        let accepting = accept(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            behaviour,
            seen.clone(),
            connections.clone(),
        );
        #[allow(clippy::disallowed_methods, reason = "the webhook runs beside the test")]
        tokio::spawn(accepting);
        Self { port, authority, seen, connections }
    }

    /// How a webhook is configured that is here.
    pub(crate) fn client_config(&self) -> Value {
        json!({"url": format!("https://localhost:{}/check", self.port), "caBundle": self.ca_bundle()})
    }

    pub(crate) fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.authority.certificate)
    }

    /// The requests of all reviews so far.
    pub(crate) fn seen(&self) -> Vec<Value> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub(crate) fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }

    /// Waits until `count` reviews have come.
    pub(crate) async fn reached(&self, count: usize) {
        for _ in 0..POLLS_MAX {
            if self.seen.lock().unwrap().len() >= count {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        panic!("{} of {count} requests have reached the webhook", self.seen.lock().unwrap().len());
    }
}

async fn accept(
    listener: TcpListener,
    tls: TlsAcceptor,
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Vec<Value>>>,
    connections: Arc<Mutex<usize>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        *connections.lock().unwrap() += 1;
        let (tls, behaviour, seen) = (tls.clone(), behaviour.clone(), seen.clone());
        #[allow(clippy::disallowed_methods, reason = "a connection of the webhook runs beside the test")]
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, behaviour.clone(), seen.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let mut asked = review["request"].clone();
    asked["apiVersionOfReview"] = review["apiVersion"].clone();
    asked["target"] = format!("{path}?{query}").into();
    seen.lock().unwrap().push(asked.clone());
    let json = |code: u16, body: Vec<u8>| {
        let response = Response::builder().status(code).header("Content-Type", "application/json");
        Ok(response.body(Full::new(Bytes::from(body))).unwrap())
    };
    match behaviour(&asked) {
        Reply::Response(mut response) => {
            if response["uid"].is_null() {
                response["uid"] = asked["uid"].clone();
            }
            let review =
                json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            json(200, review.to_string().into_bytes())
        }
        Reply::Raw(code, body) => json(code, body),
        Reply::Redirect(to) => {
            Ok(Response::builder().status(307).header("Location", to).body(Full::default()).unwrap())
        }
        Reply::Hang => std::future::pending().await,
    }
}

/// A response that allows a request and changes the object.
pub(crate) fn patching(operations: &Value) -> Reply {
    let patch = STANDARD.encode(operations.to_string());
    Reply::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}

/// A response that allows a request.
pub(crate) fn allowing() -> Reply {
    Reply::Response(json!({"allowed": true}))
}
