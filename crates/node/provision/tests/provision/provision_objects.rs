//! Requests to an API server, and how its answers are read.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use lazaret_provision::{ApiObjects, Objects};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Answers each request with what `answer` says of its first line and body: a code and an object. It ends with what is returned.
async fn server(answer: fn(&str, &str) -> (u16, Value)) -> (ApiObjects, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            serve(stream, answer).await;
        }
    });
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_namespace = "shop".to_owned();
    (ApiObjects::new(kube::Client::try_from(config).unwrap()), tasks)
}

async fn serve(mut stream: TcpStream, answer: fn(&str, &str) -> (u16, Value)) {
    let mut request = Vec::new();
    let body = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8(request.clone()).unwrap();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if body.len() >= length.unwrap_or(0) {
            break body.to_owned();
        }
    };
    let text = String::from_utf8(request).unwrap();
    let (code, object) = answer(text.lines().next().unwrap(), &body);
    let object = object.to_string();
    let head = format!("HTTP/1.1 {code} x\r\ncontent-type: application/json\r\nconnection: close\r\n");
    let whole = format!("{head}content-length: {}\r\n\r\n{object}", object.len());
    stream.write_all(whole.as_bytes()).await.unwrap();
}

fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let object = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
        "reason": reason, "code": code});
    (code, object)
}

#[tokio::test]
async fn objects_are_read_by_name() {
    let (objects, _server) = server(|line, _| match line {
        "GET /api/v1/namespaces/shop/configmaps/settings HTTP/1.1" => (200, json!({"data": {"a": "1"}})),
        "GET /api/v1/namespaces/shop/secrets/keys HTTP/1.1" => (200, json!({"data": {"a": "c2VjcmV0"}})),
        "GET /api/v1/namespaces/shop/secrets/other HTTP/1.1" => {
            status(403, "Forbidden", "secrets \"other\" is forbidden: no relationship found")
        }
        _ => status(404, "NotFound", "not found"),
    })
    .await;
    let found = objects.config_map("shop", "settings").await.unwrap().unwrap();
    assert_eq!(found.data.unwrap()["a"], "1");
    assert_eq!(objects.config_map("shop", "none").await.unwrap(), None);
    let found = objects.secret("shop", "keys").await.unwrap().unwrap();
    assert_eq!(found.data.unwrap()["a"].0, b"secret");
    assert_eq!(objects.secret("shop", "none").await.unwrap(), None);
    let refused = objects.secret("shop", "other").await.unwrap_err();
    assert_eq!(refused, "secrets \"other\" is forbidden: no relationship found");
}

#[tokio::test]
async fn tokens_are_asked_for_by_account() {
    let (objects, _server) = server(|line, body| match line {
        "POST /api/v1/namespaces/shop/serviceaccounts/robot/token? HTTP/1.1"
        | "POST /api/v1/namespaces/shop/serviceaccounts/robot/token HTTP/1.1" => {
            let mut object: Value = serde_json::from_str(body).unwrap();
            object["status"] = json!({"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"});
            (201, object)
        }
        _ => status(404, "NotFound", "serviceaccounts \"none\" not found"),
    })
    .await;
    let spec = TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = objects.token("shop", "robot", request.clone()).await.unwrap();
    assert_eq!(answer.status.unwrap().token.as_deref(), Some("t"));
    assert_eq!(answer.spec.unwrap().expiration_seconds, Some(600));
    let error = objects.token("shop", "none", request).await.unwrap_err();
    assert_eq!(error, "serviceaccounts \"none\" not found");
}
