//! Requests that must be refused.

use std::{sync::atomic::Ordering, time::Duration};

use lazaret_server::{Identity, certificate_authority, client_certificate};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::{sleep, timeout},
};

use crate::{
    direct::Socket,
    played::{ENDLESS, TERMINAL},
    world::{PATIENCE, World, closed_port, finish},
};

const EXEC: &str = "/exec/default/web/app?command=true&output=1";
const V5: &str = "v5.channel.k8s.io";

/// Lets a user do these to nodes.
async fn allow(world: &World, user: &str, resource: &str, verbs: &[&str]) {
    let rules = json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]);
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    world.post(&format!("{roles}/clusterroles"), &json!({"metadata": {"name": user}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": user},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    world.post(&format!("{roles}/clusterrolebindings"), &binding).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_answers_nobody_who_may_not_ask() {
    let world = World::start().await;
    let logs = "/containerLogs/default/web/app";
    assert_eq!(world.ask_node(None, logs, "").await.0, 401);
    assert_eq!(world.ask_node(None, "/no/such/path", "").await.0, 401);
    assert_eq!(world.ask_node(None, logs, "Authorization: Bearer nonsense\r\n").await.0, 401);
    let eve = world.cluster.certificate_for("eve", "people");
    let (code, text) = world.ask_node(Some(&eve), logs, "").await;
    assert!(code == 403 && text.contains("user=eve, verb=get, resource=nodes, name=node-a"), "{text}");
    // A node has no more rights than any other user.
    let other = world.cluster.certificate_for("system:node:node-b", "system:nodes");
    assert_eq!(world.ask_node(Some(&other), logs, "").await.0, 403);
    // Reading is not running, whatever the method.
    allow(&world, "reader", "nodes/proxy", &["get"]).await;
    let reader = world.cluster.certificate_for("reader", "people");
    assert_eq!(world.ask_node(Some(&reader), logs, "").await.0, 200);
    let refused = Socket::open(world.node(Some(&reader)).await, EXEC, V5).await.err().unwrap();
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    allow(&world, "runner", "nodes/proxy", &["create"]).await;
    let runner = world.cluster.certificate_for("runner", "people");
    assert!(Socket::open(world.node(Some(&runner)).await, EXEC, V5).await.is_ok());
    allow(&world, "watcher", "nodes/stats", &["get"]).await;
    let watcher = world.cluster.certificate_for("watcher", "people");
    assert_eq!(world.ask_node(Some(&watcher), "/stats/summary", "").await.0, 200);
    assert_eq!(world.ask_node(Some(&watcher), "/pods", "").await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_as_good_as_what_its_owner_may_do() {
    let world = World::start().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    allow(&world, "system:serviceaccount:default:scraper", "nodes/metrics", &["get"]).await;
    for (name, path, expected) in [
        ("default", "/metrics", 403),
        ("scraper", "/metrics", 200),
        ("scraper", "/metrics/resource", 200),
        ("scraper", "/pods", 403),
        ("scraper", "/containerLogs/default/web/app", 403),
    ] {
        if (name, path) == ("scraper", "/metrics") {
            world.post(accounts, &json!({"metadata": {"name": name}})).await;
        }
        let made = world.post(&format!("{accounts}/{name}/token"), &json!({"spec": {}})).await;
        let token = made["status"]["token"].as_str().unwrap().to_owned();
        let bearer = format!("Authorization: Bearer {token}\r\n");
        assert_eq!(world.ask_node(None, path, &bearer).await.0, expected, "{name} {path}");
    }
    assert_eq!(world.ask_node(None, "/metrics", "Authorization: Bearer a.b.c\r\n").await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_authority_is_none() {
    let world = World::start().await;
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let other = certificate_authority(now).unwrap();
    let identity = Identity { name: lazaret_nodeapi::API_SERVER, group: "system:masters" };
    let forged = client_certificate(&other, identity, now).unwrap();
    // With TLS 1.3 a client learns of it when it reads.
    if let Ok(mut stream) = world.connect(world.port, Some(&forged)).await {
        let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(!matches!(timeout(PATIENCE, stream.read(&mut [0; 1])).await.unwrap(), Ok(1..)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exec_needs_permission_to_create() {
    let world = World::start().await;
    allow(&world, "getter", "pods/exec", &["get"]).await;
    allow(&world, "maker", "pods/exec", &["create"]).await;
    allow(&world, "both", "pods/exec", &["get", "create"]).await;
    let raw = ["get", "--raw", "/api/v1/namespaces/default/pods/web/exec?command=true&stdout=true"];
    for (user, expected) in [
        (
            "nobody",
            r#"User "nobody" cannot get resource "pods/exec" in API group "" in the namespace "default""#,
        ),
        (
            "getter",
            r#"User "getter" cannot create resource "pods/exec" in API group "" in the namespace "default""#,
        ),
        (
            "maker",
            r#"User "maker" cannot get resource "pods/exec" in API group "" in the namespace "default""#,
        ),
        ("both", "Upgrade request required"),
    ] {
        let config = world.cluster.kubeconfig_as(user, "people");
        let output = finish(world.kubectl_as(&config, &raw)).await;
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && why.contains(expected), "{user}: {why}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_lead_to_no_files() {
    let world = World::start().await;
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    std::fs::write(world.folder.path().join("secret"), "secret").unwrap();
    for path in [
        "/containerLogs/default/web/..%2f..%2fsecret",
        "/containerLogs/default/../../secret",
        "/containerLogs/%2e%2e/%2e%2e/secret",
        "/containerLogs/default/web/app/../../../secret",
        "/logs/secret",
        "/containerLogs/default/web/app%00",
        "/run/default/web/app",
        "//etc/passwd",
    ] {
        let (code, text) = world.ask_node(Some(&server), path, "").await;
        assert!(matches!(code, 400 | 404) && !text.contains("secret\n"), "{path}: {code}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_nothing_costs_no_memory() {
    let world = World::start().await;
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    let path = format!("/exec/default/web/app?command={ENDLESS}&output=1");
    let socket =
        Socket::open(world.node(Some(&server)).await, &path, V5).await.unwrap_or_else(|why| panic!("{why}"));
    let produced = || world.runtime.produced.load(Ordering::Relaxed);
    let mut last = usize::MAX;
    while produced() == 0 || produced() != last {
        last = produced();
        sleep(Duration::from_millis(200)).await;
        assert!(produced() < 32 << 20, "{} bytes were taken from the program", produced());
    }
    assert_eq!(world.runtime.running.load(Ordering::SeqCst), 1);
    drop(socket.into_inner());
    timeout(PATIENCE, async {
        while world.runtime.running.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("the program of a client that went is killed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_are_served_and_all_of_them_end() {
    let world = World::start().await;
    // Raises the limit of open files.
    let _ = world.cluster.address();
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    let path = format!("/exec/default/web/app?command={TERMINAL}&input=1&output=1&tty=1");
    let mut clients = tokio::task::JoinSet::new();
    let all_open = std::sync::Arc::new(tokio::sync::Barrier::new(1_000));
    let world = std::sync::Arc::new(world);
    // A handshake has to be over in some seconds, and a slow machine does not do a thousand at once.
    let handshakes = std::sync::Arc::new(tokio::sync::Semaphore::new(20));
    for number in 0..1_000 {
        let (world, server, path, all_open) = (world.clone(), server.clone(), path.clone(), all_open.clone());
        let handshakes = handshakes.clone();
        clients.spawn(async move {
            let turn = handshakes.acquire().await.unwrap();
            let socket = Socket::open(world.node(Some(&server)).await, &path, V5).await;
            drop(turn);
            let mut socket = socket.unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(socket.next().await, Some((1, Vec::new())), "{number}");
            all_open.wait().await;
            let said = number.to_string().into_bytes();
            socket.send(0, &said).await;
            assert_eq!(socket.next().await, Some((1, said)), "{number}");
        });
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
    timeout(PATIENCE, async {
        while world.runtime.running.load(Ordering::SeqCst) > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("every program has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_an_upgrade_holds_nothing() {
    let world = World::start().await;
    let server = world.cluster.certificate_for(lazaret_nodeapi::API_SERVER, "");
    let mut halves = Vec::new();
    for _ in 0..50 {
        let mut stream = world.node(Some(&server)).await;
        stream
            .write_all(b"GET /exec/default/web/app?command=terminal&output=1 HTTP/1.1\r\nHost: x\r\nUpgr")
            .await
            .unwrap();
        halves.push(stream);
    }
    assert_eq!(world.ask_node(Some(&server), "/healthz", "").await.0, 200);
    assert_eq!(world.runtime.running.load(Ordering::SeqCst), 0);
    // Bytes that are no websocket frame end the stream, and the program with it.
    let path = format!("/exec/default/web/app?command={TERMINAL}&input=1&output=1&tty=1");
    let socket =
        Socket::open(world.node(Some(&server)).await, &path, V5).await.unwrap_or_else(|why| panic!("{why}"));
    let mut stream = socket.into_inner();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(&rest[rest.len() - 4..], &[0x88, 2, 0x03, 0xea], "closed as an error of the protocol");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_not_the_node_is_not_talked_to() {
    let world = World::start().await;
    // The server itself, with its own certificate of the same authority.
    let own = world.cluster.address().port();
    world.make_node("mirror", "127.0.0.1", own).await;
    world.make_pod("lost", "mirror", &["app"]).await;
    let why = world.refused(&["get", "--raw", "/api/v1/nodes/mirror/proxy/api/v1/secrets"]).await;
    assert!(why.contains("failed to verify certificate") && why.contains("system:node:mirror"), "{why}");
    // Another node.
    world.make_node("other", "127.0.0.1", world.port).await;
    world.make_pod("elsewhere", "other", &["app"]).await;
    let why = world.refused(&["logs", "elsewhere"]).await;
    assert!(why.contains("failed to verify certificate"), "{why}");
    // Addresses at which no node is.
    world.make_node("metadata", "169.254.169.254", 80).await;
    world.make_pod("far", "metadata", &["app"]).await;
    let why = world.refused(&["logs", "far"]).await;
    assert!(why.contains("not connected to"), "{why}");
    // Without verification, this machine itself is not connected to.
    let why = world.refused(&["logs", "elsewhere", "--insecure-skip-tls-verify-backend"]).await;
    assert!(why.contains("address not allowed"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_talks_nonsense_or_is_gone_is_an_error() {
    let world = World::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(&[b'x'; 100_000]).await;
        }
    });
    world.make_node("babbling", "127.0.0.1", port).await;
    world.make_pod("babble", "babbling", &["app"]).await;
    for arguments in [&["logs", "babble"][..], &["exec", "babble", "--", "true"]] {
        let why = world.refused(arguments).await;
        assert!(why.contains("tls"), "{why}");
    }
    let (_taken, port) = closed_port();
    world.make_node("gone", "127.0.0.1", port).await;
    world.make_pod("orphan", "gone", &["app"]).await;
    let why = world.refused(&["logs", "orphan"]).await;
    assert!(why.contains("dial tcp") && why.contains("connection refused"), "{why}");
    let why = world.refused(&["exec", "orphan", "--", "true"]).await;
    assert!(why.contains("error dialing backend: dial tcp"), "{why}");
}
