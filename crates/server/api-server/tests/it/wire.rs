//! Forms of answers: compressed, over a websocket, as text, and the document of older clients.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::{io::Read, time::Duration};

use crate::https::Cluster;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::read::GzDecoder;
use lazaret_json::{Value, json};
use lazaret_server::Pem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

async fn start() -> (Cluster, Option<Pem>) {
    let cluster = Cluster::start().await;
    let admin = cluster.identity("root", "system:masters");
    (cluster, admin)
}

fn map(name: &str, bytes: usize) -> String {
    json!({"metadata": {"name": name}, "data": {"x": "0123456789".repeat(bytes / 10)}}).to_string()
}

fn unpacked(content: &[u8]) -> Value {
    let mut text = String::new();
    GzDecoder::new(content).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The content of an answer in chunks.
fn joined(mut content: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = content.windows(2).position(|window| window == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&content[..end]).unwrap(), 16).unwrap();
        all.extend_from_slice(&content[end + 2..end + 2 + length]);
        content = &content[end + 4 + length..];
    }
    all
}

#[tokio::test]
async fn long_answers_are_compressed_for_those_who_ask() {
    let (cluster, admin) = start().await;
    let admin = admin.as_ref();
    for (name, bytes) in [("large", 200_000), ("small", 1_000), ("other", 100_000)] {
        assert_eq!(cluster.send(admin, None, "POST", MAPS, &map(name, bytes)).await.0, 201);
    }
    let gzip = "Accept-Encoding: gzip\r\n";
    for (path, headers, packed) in [
        (format!("{MAPS}/large"), gzip, true),
        (format!("{MAPS}/small"), gzip, false),
        (format!("{MAPS}/large"), "", false),
        (MAPS.to_owned(), gzip, true),
        (MAPS.to_owned(), "", false),
        (format!("{MAPS}?limit=1"), gzip, true),
        (format!("{MAPS}?fieldSelector=metadata.name%3Dsmall"), gzip, false),
        ("/openapi/v2".to_owned(), gzip, true),
    ] {
        let (head, content) = cluster.exchange(admin, headers, "GET", &path, "").await;
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        assert_eq!(head.contains("content-encoding: gzip"), packed, "{path} {headers}");
        let content = if head.contains("transfer-encoding: chunked") { joined(&content) } else { content };
        let value: Value = if packed {
            assert!(
                head.contains("vary: accept-encoding")
                    || head.contains("vary: accept\r\nvary: accept-encoding")
            );
            unpacked(&content)
        } else {
            serde_json::from_slice(&content).unwrap()
        };
        assert!(value.is_object());
    }
}

#[tokio::test]
async fn bodies_that_would_have_to_be_unpacked_are_refused() {
    let (cluster, admin) = start().await;
    let headers = "Content-Encoding: gzip\r\n";
    let (code, status) = cluster.send_with(admin.as_ref(), headers, "POST", MAPS, &map("x", 10)).await;
    assert_eq!((code, &status["reason"]), (415, &json!("UnsupportedMediaType")));
    let headers = "Content-Encoding: identity\r\n";
    assert_eq!(cluster.send_with(admin.as_ref(), headers, "POST", MAPS, &map("x", 10)).await.0, 201);
}

#[tokio::test]
async fn a_request_has_one_host() {
    let (cluster, admin) = start().await;
    for (version, hosts, code) in [
        ("1.1", "Host: localhost:7443\r\n", "200 "),
        ("1.1", "host: [::1]\r\n", "200 "),
        ("1.0", "", "200 "),
        ("1.1", "", "400 "),
        ("1.1", "Host: localhost\r\nHost: localhost\r\n", "400 "),
        ("1.0", "Host: a\r\nHost: b\r\n", "400 "),
        ("1.1", "Host: a@b\r\n", "400 "),
    ] {
        for path in ["/version", "/ui/", MAPS] {
            let mut stream = cluster.connect(admin.as_ref()).await;
            let head = format!("GET {path} HTTP/{version}\r\nConnection: close\r\n{hosts}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer).await;
            let (_, said) = answer.split_once(' ').unwrap();
            let found = said.starts_with(code) || path == "/ui/" && code == "200 " && said.starts_with("404");
            assert!(found, "HTTP/{version} {hosts:?} {path}: {answer}");
        }
    }
}

#[tokio::test]
async fn text_is_text_whatever_form_is_asked_for() {
    let (cluster, admin) = start().await;
    let admin = admin.as_ref();
    for (path, accept, code, content_type) in [
        ("/healthz", "text/plain", 200, "text/plain; charset=utf-8"),
        ("/livez?verbose", "text/plain", 200, "text/plain; charset=utf-8"),
        ("/readyz", "application/vnd.kubernetes.protobuf", 200, "text/plain; charset=utf-8"),
        ("/readyz/ping", "text/html", 200, "text/plain; charset=utf-8"),
        ("/metrics", "text/plain;version=0.0.4;q=0.3", 200, ""),
        ("/version", "text/plain", 200, "application/json"),
        ("/", "text/plain", 200, "application/json"),
        ("/openapi/v3", "text/plain", 200, "application/json"),
        ("/openapi/v2", "text/plain", 406, "application/json"),
        ("/api", "text/plain", 406, "application/json"),
        (MAPS, "text/plain", 406, "application/json"),
    ] {
        let (head, _) = cluster.exchange(admin, &format!("Accept: {accept}\r\n"), "GET", path, "").await;
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{path}: {head}");
        let head = head.to_ascii_lowercase();
        assert!(head.contains(&format!("content-type: {content_type}")), "{path}: {head}");
    }
    let read = async |path: &str| cluster.exchange(admin, "", "GET", path, "").await.1;
    assert_eq!(read("/livez").await, b"ok");
    assert_eq!(
        String::from_utf8(read("/livez?verbose&exclude=ping&exclude=etcd&exclude=b&exclude=a").await)
            .unwrap(),
        "[+]ping excluded: ok\n[+]log ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nlivez check passed\n"
    );
}

#[tokio::test]
async fn whoever_shows_no_credentials_sees_health_and_version_and_nothing_else() {
    let (cluster, _) = start().await;
    for (path, code) in [
        ("/healthz", 200),
        ("/livez", 200),
        ("/readyz", 200),
        ("/version", 200),
        ("/metrics", 403),
        ("/", 403),
        ("/api", 403),
        ("/apis", 403),
        ("/openapi/v2", 403),
        ("/openapi/v3", 403),
        ("/api/v1/namespaces/kube-public/configmaps", 403),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", 403),
        ("/debug/pprof", 403),
    ] {
        assert_eq!(cluster.send(None, None, "GET", path, "").await.0, code, "{path}");
    }
}

#[tokio::test]
async fn the_document_of_older_clients_is_cached_by_its_tag() {
    let (cluster, admin) = start().await;
    let admin = admin.as_ref();
    let (head, content) = cluster.exchange(admin, "", "GET", "/openapi/v2", "").await;
    let document: Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(document["swagger"], "2.0");
    let request = &document["definitions"]["io.k8s.api.certificates.v1.CertificateSigningRequest"];
    let kind = json!({"group": "certificates.k8s.io", "version": "v1", "kind": "CertificateSigningRequest"});
    assert_eq!(request["x-kubernetes-group-version-kind"], json!([kind]));
    let spec = "#/definitions/io.k8s.api.certificates.v1.CertificateSigningRequestSpec";
    assert_eq!(request["properties"]["spec"]["$ref"], spec);
    let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
    let names: Vec<&Value> =
        patch["parameters"].as_array().unwrap().iter().map(|parameter| &parameter["name"]).collect();
    assert!(
        names.iter().any(|name| **name == "dryRun") && names.iter().any(|name| **name == "fieldValidation")
    );
    let tag = |head: &str| {
        let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with("etag:")).unwrap();
        line.split_once(": ").unwrap().1.to_owned()
    };
    let known = format!("If-None-Match: {}\r\n", tag(&head));
    let (again, content) = cluster.exchange(admin, &known, "GET", "/openapi/v2", "").await;
    assert!(again.starts_with("HTTP/1.1 304") && content.is_empty(), "{again}");
    for accept in [
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    ] {
        let (head, content) =
            cluster.exchange(admin, &format!("Accept: {accept}\r\n"), "GET", "/openapi/v2", "").await;
        assert!(head.contains("application/com.github.proto-openapi.spec.v2.v1.0+protobuf"), "{head}");
        assert_eq!(content[..5], *b"\x0a\x032.0");
    }
    // A new kind makes a new document.
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            }}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(cluster.send(admin, None, "POST", path, &definition.to_string()).await.0, 201);
    let (_, content) = cluster.exchange(admin, &known, "GET", "/openapi/v2", "").await;
    let document: Value = serde_json::from_slice(&content).unwrap();
    let thing = &document["definitions"]["com.example.v1.Thing"];
    assert_eq!(thing["properties"]["spec"]["properties"]["size"]["type"], "integer");
}

/// A websocket of a client: what has arrived of it.
pub(crate) struct Client {
    stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
    arrived: Vec<u8>,
}

impl Client {
    /// Asks for a websocket; the answer to the handshake is the head.
    pub(crate) async fn open(
        cluster: &Cluster,
        who: Option<&Pem>,
        path: &str,
        headers: &str,
    ) -> (String, Self) {
        let mut client = Self { stream: cluster.connect(who).await, arrived: Vec::new() };
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{HANDSHAKE}{headers}\r\n");
        client.stream.write_all(head.as_bytes()).await.unwrap();
        loop {
            if let Some(end) = client.arrived.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8(client.arrived.drain(..end + 4).collect()).unwrap();
                return (head, client);
            }
            client.read().await;
        }
    }

    async fn read(&mut self) {
        let read = self.stream.read_buf(&mut self.arrived);
        let count = tokio::time::timeout(Duration::from_secs(60), read).await.expect("something in time");
        assert!(
            count.unwrap_or(0) > 0,
            "the connection has ended: {:?}",
            String::from_utf8_lossy(&self.arrived)
        );
    }

    /// The next frame: its opcode and payload.
    pub(crate) async fn frame(&mut self) -> (u8, Vec<u8>) {
        loop {
            if let [first, second, rest @ ..] = &self.arrived[..] {
                assert_eq!(first & 0xf0, 0x80, "whole frames");
                let (length, at) = match second {
                    126 if rest.len() >= 2 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), 4),
                    127 if rest.len() >= 8 => {
                        (usize::try_from(u64::from_be_bytes(rest[..8].try_into().unwrap())).unwrap(), 10)
                    }
                    126 | 127 => (usize::MAX / 2, 0),
                    short => (usize::from(*short), 2),
                };
                if self.arrived.len() >= at + length {
                    let opcode = first & 0x0f;
                    let frame: Vec<u8> = self.arrived.drain(..at + length).collect();
                    return (opcode, frame[at..].to_vec());
                }
            }
            self.read().await;
        }
    }

    pub(crate) async fn event(&mut self) -> Value {
        let (opcode, payload) = self.frame().await;
        assert_eq!(opcode, 1, "text");
        serde_json::from_slice(&payload).unwrap()
    }

    async fn send(&mut self, first: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        let mut frame = vec![first, 0x80 | length, 0, 0, 0, 0];
        frame.extend_from_slice(payload);
        self.stream.write_all(&frame).await.unwrap();
    }
}

#[tokio::test]
async fn a_watch_over_a_websocket_has_a_frame_for_each_event() {
    let (cluster, admin) = start().await;
    let admin = admin.as_ref();
    for name in ["a", "b"] {
        assert_eq!(cluster.send(admin, None, "POST", MAPS, &map(name, 200_000)).await.0, 201);
    }
    let (head, mut client) = Client::open(&cluster, admin, &format!("{MAPS}?watch=true"), "").await;
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    for name in ["a", "b"] {
        let event = client.event().await;
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!(name)));
    }
    // Data from the client is skipped; pings are answered.
    client.send(0x81, b"hello").await;
    client.send(0x89, b"there?").await;
    assert_eq!(client.frame().await, (0xa, b"there?".to_vec()));
    assert_eq!(cluster.send(admin, None, "DELETE", &format!("{MAPS}/a"), "").await.0, 200);
    assert_eq!(client.event().await["type"], "DELETED");
    client.send(0x88, &1000_u16.to_be_bytes()).await;
    assert_eq!(client.frame().await, (8, 1000_u16.to_be_bytes().to_vec()));
}

#[tokio::test]
async fn a_websocket_ends_with_its_watch_and_with_what_no_client_may_send() {
    let (cluster, admin) = start().await;
    let admin = admin.as_ref();
    let (_, mut client) =
        Client::open(&cluster, admin, &format!("{MAPS}?watch=true&timeoutSeconds=1"), "").await;
    loop {
        let (opcode, payload) = client.frame().await;
        if opcode == 8 {
            assert_eq!(payload, 1000_u16.to_be_bytes());
            break;
        }
    }
    let (_, mut client) = Client::open(&cluster, admin, "/api/v1/nodes?watch=true", "").await;
    client.send(0xf1, b"").await;
    assert_eq!(client.frame().await, (8, 1002_u16.to_be_bytes().to_vec()));
    let (_, mut client) = Client::open(&cluster, admin, "/api/v1/nodes?watch=true", "").await;
    client.stream.write_all(&[[0x82, 0xff].as_slice(), &[0x7f; 12]].concat()).await.unwrap();
    assert_eq!(client.frame().await, (8, 1009_u16.to_be_bytes().to_vec()));
}

#[tokio::test]
async fn a_token_among_the_subprotocols_authenticates_and_is_not_repeated() {
    let (cluster, admin) = start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, token) = cluster.send(admin.as_ref(), None, "POST", accounts, "{\"spec\":{}}").await;
    assert_eq!(code, 201, "{token}");
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let binding = json!({
        "metadata": {"name": "all"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", bindings, &binding.to_string()).await.0, 201);
    let protocol = |token: &str| {
        format!(
            "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{}, base64.binary.k8s.io\r\n",
            URL_SAFE_NO_PAD.encode(token)
        )
    };
    let path = "/api/v1/namespaces?watch=true";
    let (head, mut client) = Client::open(&cluster, None, path, &protocol(&token)).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert!(head.to_ascii_lowercase().contains("sec-websocket-protocol: base64.binary.k8s.io\r\n"), "{head}");
    assert!(!head.contains("bearer"), "{head}");
    assert_eq!(client.event().await["type"], "ADDED");
    for (headers, code) in [(protocol("wrong"), "401"), (String::new(), "403")] {
        let (head, _) = Client::open(&cluster, None, path, &headers).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {code}")), "{head}");
    }
}
