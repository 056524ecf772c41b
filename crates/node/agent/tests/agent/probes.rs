//! Containers that are asked by HTTPS and by gRPC how they are.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::api::PostParams;
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    plugin::{self, Reply},
    running::{images, start},
    runtime::Fake,
    world::{World, until},
};

/// A server with a self-signed certificate, which answers every request with this code.
async fn https(code: u16, tasks: &mut JoinSet<()>) -> u16 {
    let made = rcgen::generate_simple_self_signed(vec!["somebody.example.com".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let (acceptor, listener) =
        (TlsAcceptor::from(Arc::new(config)), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let port = listener.local_addr().unwrap().port();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut asked = [0; 1_024];
            let count = stream.read(&mut asked).await.unwrap_or(0);
            let code = if asked[..count].starts_with(b"GET /healthz HTTP/1.1\r\n") { code } else { 404 };
            let _ = stream.write_all(format!("HTTP/1.1 {code} x\r\n\r\n").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

/// A server of `grpc.health.v1.Health`: each service has a status, and an unknown one has none.
async fn grpc(statuses: BTreeMap<Vec<u8>, u8>, tasks: &mut JoinSet<()>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let statuses = Arc::new(statuses);
    tasks.spawn(async move {
        let mut open = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let statuses = Arc::clone(&statuses);
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let statuses = Arc::clone(&statuses);
                async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let body = plugin::read(request.into_body()).await;
                    // The frame, and the field with its length.
                    let asked = body.get(7..).unwrap_or_default();
                    let reply = match statuses.get(asked) {
                        Some(status) => Reply::Message(vec![8, *status]),
                        None => Reply::Status(12, "not here"),
                    };
                    Ok::<_, Infallible>(plugin::respond(reply))
                }
            });
            open.spawn(async move {
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    port
}

fn container(name: &str, probe: Value) -> Value {
    let mut probe = probe;
    (probe["periodSeconds"], probe["timeoutSeconds"]) = (1.into(), 20.into());
    json!({
        "name": name, "image": "i", "imagePullPolicy": "Never", "command": ["/bin/true"],
        "readinessProbe": probe,
    })
}

#[tokio::test]
async fn containers_are_asked_by_https_and_grpc() {
    let mut tasks = JoinSet::new();
    let (well, ill) = (https(200, &mut tasks).await, https(500, &mut tasks).await);
    let statuses = BTreeMap::from([(b"up".to_vec(), 1), (b"down".to_vec(), 2), (Vec::new(), 1)]);
    let health = grpc(statuses, &mut tasks).await;
    let (world, runtime) = (World::new().await, Fake::new());
    let images = images(&world).await;
    let agent = start(&world, &runtime, &images);
    let get =
        |port: u16, scheme: &str| json!({"httpGet": {"port": port, "scheme": scheme, "path": "/healthz"}});
    let ask = |service: &str| json!({"grpc": {"port": health, "service": service}});
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "hostNetwork": true,
            "automountServiceAccountToken": false,
            "containers": [
                container("https-well", get(well, "HTTPS")),
                container("https-ill", get(ill, "HTTPS")),
                container("http-to-https", get(well, "HTTP")),
                container("https-to-grpc", get(health, "HTTPS")),
                container("grpc-up", ask("up")),
                container("grpc-whole", ask("")),
                container("grpc-down", ask("down")),
                container("grpc-unknown", ask("nobody")),
            ],
        },
    });
    world.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    world.bind("p").await;
    for text in [
        "Readiness probe failed: HTTP probe failed with statuscode: 500",
        "Readiness probe failed: it does not answer by HTTP",
        "Readiness probe failed: tls: ",
        "Readiness probe failed: service unhealthy (responded with \"NOT_SERVING\")",
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): not here",
    ] {
        world.until_event("p", text).await;
    }
    let ready = until("three are ready", || async {
        let status = world.pods().get("p").await.unwrap().status.unwrap();
        let all = status.container_statuses.unwrap_or_default().into_iter();
        let ready: Vec<String> = all.filter(|one| one.ready).map(|one| one.name).collect();
        (ready.len() == 3).then_some(ready)
    })
    .await;
    assert_eq!(ready, ["https-well", "grpc-up", "grpc-whole"]);
    agent.stop().await;
}
