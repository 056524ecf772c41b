//! One test for each limit, over connections without sockets and with a clock that jumps.

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use lazaret_json::json;
use lazaret_kinds::Access;
use lazaret_store::{Op, Store};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex},
    sync::watch,
    time::{Instant, sleep},
};

use super::*;
use crate::{Authorizer, ObjectStore, ServerOptions, connection};

/// Everybody may do everything: what is refused here is refused for other reasons.
struct AllowAll;

impl Authorizer for AllowAll {
    fn access(&self, _: &ObjectStore, _: &User, _: Access<'_>) -> Result<(), String> {
        Ok(())
    }

    fn path(&self, _: &ObjectStore, _: &User, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A front without a listener.
struct Rig {
    front: Arc<Front>,
    _stop: watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
}

impl Rig {
    fn new() -> Self {
        Self::with(FrontLimits::with_connections(8_192))
    }

    fn with(limits: FrontLimits) -> Self {
        let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
        let options = ServerOptions { authorizer: Box::new(AllowAll), ..ServerOptions::default() };
        let user = |name: &str, group: &str| {
            (name.to_owned(), User { name: name.into(), groups: vec![group.into()], ..User::default() })
        };
        let static_tokens: BTreeMap<String, User> = BTreeMap::from([
            user("admin", "system:masters"),
            user("system:node:a", "system:nodes"),
            user("alice", "people"),
            user("bob", "people"),
        ]);
        let front = Front::new(Server::new(store, options), Authenticator { static_tokens }, limits);
        let (stop, stopped) = watch::channel(false);
        Self { front: Arc::new(front), _stop: stop, stopped }
    }

    /// Objects of `bytes` bytes each.
    async fn fill(&self, objects: usize, bytes: usize) {
        for number in 0..objects {
            let object = json!({"metadata": {"name": format!("map-{number}"), "namespace": "default"}, "data": {"key": "x".repeat(bytes)}});
            let key = format!("/core/configmaps/default/map-{number:05}");
            self.front.server.store().txn(vec![Op::put(key, object.to_string())]).await.unwrap();
        }
    }

    fn connect(&self) -> DuplexStream {
        self.connect_from([127, 0, 0, 1].into())
    }

    #[allow(clippy::disallowed_methods, reason = "ends with the connection")]
    fn connect_from(&self, address: IpAddr) -> DuplexStream {
        let (near, far) = duplex(64 << 10);
        tokio::spawn(connection::serve(self.front.clone(), None, far, address, self.stopped.clone()));
        near
    }

    /// Asks over a connection of its own and reads the answer: its code, and all of it.
    async fn ask(&self, who: &str, path: &str) -> (u16, String) {
        let mut stream = self.connect();
        begin(&mut stream, who, "GET", path, "Connection: close\r\n").await;
        read_answer(&mut stream).await
    }

    fn metrics(&self) -> String {
        self.front.server.metrics().text(|_, _| true).unwrap()
    }
}

async fn begin(stream: &mut DuplexStream, who: &str, method: &str, path: &str, headers: &str) {
    let who = if who.is_empty() { String::new() } else { format!("Authorization: Bearer {who}\r\n") };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{who}{headers}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
}

async fn read_answer(stream: &mut DuplexStream) -> (u16, String) {
    let mut answer = Vec::new();
    // A connection that is cut has said what it said.
    let _ = stream.read_to_end(&mut answer).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    (text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0), text)
}

/// The code of the answer that comes next, without waiting for its end.
async fn read_code(stream: &mut DuplexStream) -> u16 {
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    std::str::from_utf8(&head[9..]).unwrap().parse().unwrap()
}

/// Lets everything run that can.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn half_sent_bodies_lock_nobody_out() {
    let rig = Rig::new();
    let mut half_sent = Vec::new();
    for _ in 0..640 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 1000\r\n").await;
        stream.write_all(b"{").await.unwrap();
        half_sent.push(stream);
    }
    settle().await;
    for (who, path) in [("admin", MAPS), ("", "/healthz"), ("", "/readyz"), ("bob", MAPS), ("alice", MAPS)] {
        assert_eq!(rig.ask(who, path).await.0, 200, "{who} {path}");
    }
    assert_eq!(rig.front.inbound.total(Level::Workload), 511 * ((32 << 10) + 1), "16 MiB for one user");
    assert_eq!(read_answer(half_sent.last_mut().unwrap()).await.0, 429);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_on_their_way_take_no_more_than_a_users_share() {
    let rig = Rig::new();
    let mut half_sent = Vec::new();
    for _ in 0..20 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 3000000\r\n").await;
        // The last byte never comes; a refused client cannot send all of it.
        let _ = stream.write_all(&vec![b' '; 2_900_000]).await;
        half_sent.push(stream);
    }
    settle().await;
    assert!(rig.front.inbound.total(Level::Workload) <= 16 << 20);
    assert_eq!(rig.ask("bob", MAPS).await.0, 200);
    drop(half_sent);
    settle().await;
    assert_eq!(rig.front.inbound.total(Level::Workload), 0, "all of it is given back");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_says_it_will_send_costs_nothing() {
    let rig = Rig::new();
    let mut stream = rig.connect();
    begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 3000000\r\n").await;
    settle().await;
    assert_eq!(rig.front.inbound.total(Level::Workload), 32 << 10);
    let mut stream = rig.connect();
    begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 3200000\r\n").await;
    assert_eq!(read_code(&mut stream).await, 413, "before a byte of it has come");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_given_up_and_a_slow_one_is_not() {
    let rig = Rig::new();
    let started = Instant::now();
    let mut stream = rig.connect();
    begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 1000\r\n").await;
    assert_eq!(read_code(&mut stream).await, 408);
    assert_eq!(started.elapsed().as_secs(), 10);
    let mut stream = rig.connect();
    begin(&mut stream, "alice", "POST", MAPS, "Content-Length: 1000000\r\n").await;
    for _ in 0..50 {
        // 20,000 bytes a second for 50 seconds.
        stream.write_all(&[b' '; 20_000]).await.unwrap();
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(read_code(&mut stream).await, 400, "it has arrived, and is no object");
}

#[tokio::test(start_paused = true)]
async fn silent_connections_are_closed() {
    let rig = Rig::new();
    let closed_after = async |mut stream: DuplexStream| {
        let started = Instant::now();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
        started.elapsed().as_secs()
    };
    assert_eq!(closed_after(rig.connect()).await, 15, "nothing was ever asked");
    let mut half_a_head = rig.connect();
    half_a_head.write_all(b"GET /healthz HTTP/1.1\r\nHo").await.unwrap();
    assert_eq!(
        closed_after(half_a_head).await,
        15 + 5,
        "and is cut after the time in which requests may end"
    );
    for (who, path) in [("", "/healthz"), ("alice", MAPS)] {
        let mut stream = rig.connect();
        begin(&mut stream, who, "GET", path, "").await;
        assert_eq!(read_code(&mut stream).await, 200);
        assert_eq!(closed_after(stream).await, 30, "{who}: the next head does not come");
    }
    assert!(rig.metrics().contains(r#"lazaret_connections_closed_total{reason="idle"} "#));
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the other end of a connection")]
async fn an_http2_connection_without_streams_is_told_to_go() {
    let rig = Rig::new();
    let (mut client, connection) = h2::client::handshake(rig.connect()).await.unwrap();
    let ended = tokio::spawn(connection);
    let request = Request::get("http://x/healthz").header("authorization", "Bearer alice").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status(), 200);
    let started = Instant::now();
    ended.await.unwrap().unwrap();
    assert_eq!(started.elapsed().as_secs(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_connections_closes_its_own_and_an_administrator_gets_in() {
    let rig = Rig::with(FrontLimits::with_connections(64));
    let mut admin = rig.connect();
    begin(&mut admin, "admin", "GET", &format!("{MAPS}?watch=true"), "").await;
    assert_eq!(read_code(&mut admin).await, 200);
    let mut flood = Vec::new();
    for _ in 0..1_000 {
        flood.push(rig.connect());
        settle().await;
    }
    for who in ["admin", "system:node:a", "alice", ""] {
        assert_eq!(rig.ask(who, "/healthz").await.0, 200, "{who}");
    }
    let text = rig.metrics();
    let open = text.lines().find_map(|line| line.strip_prefix("lazaret_connections ")).unwrap();
    assert!(open.parse::<usize>().unwrap() <= 1 + 8, "an eighth of the table for one address: {open}");
    assert!(flood[0].read_u8().await.is_err(), "the oldest is closed");
    let mut chunk = [0; 16];
    let watching = tokio::time::timeout(Duration::from_secs(1), admin.read_exact(&mut chunk)).await;
    assert!(
        watching.is_ok_and(|read| read.is_ok()),
        "the head goes on: the administrator's connection lives"
    );
}

#[tokio::test(start_paused = true)]
async fn a_user_has_so_many_connections_and_no_more() {
    let rig = Rig::with(FrontLimits::with_connections(64));
    let mut watching = Vec::new();
    for number in 0..10 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "GET", &format!("{MAPS}?watch=true"), "").await;
        let mut head = [0; 12];
        let answered = stream.read_exact(&mut head).await.is_ok() && head.ends_with(b"200");
        assert_eq!(answered, number < 8, "{number}");
        watching.push(stream);
    }
    assert_eq!(rig.ask("bob", MAPS).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn lists_that_nobody_reads_hold_little() {
    let rig = Rig::new();
    rig.fill(200, 20_000).await;
    let mut unread = Vec::new();
    for _ in 0..300 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "GET", MAPS, "").await;
        unread.push(stream);
    }
    sleep(Duration::from_secs(5)).await;
    let held = rig.front.outbound.total(Level::Workload);
    assert!((1 << 20..=16 << 20).contains(&held), "{held} bytes of 300 lists of 4 MB");
    let (code, list) = rig.ask("bob", MAPS).await;
    assert_eq!((code, list.matches(r#""name":"map-"#).count()), (200, 200), "others are served");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.front.outbound.total(Level::Workload), 0, "who takes nothing is cut");
}

/// A client's end that can stop reading.
struct PausableReader {
    stream: DuplexStream,
    paused: Arc<AtomicBool>,
}

impl AsyncRead for PausableReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.paused.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        Pin::new(&mut self.get_mut().stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PausableReader {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "the other end of a connection")]
async fn lists_that_nobody_reads_hold_little_over_http2_with_all_the_room_in_the_world() {
    let rig = Rig::new();
    rig.fill(100, 20_000).await;
    let paused = Arc::new(AtomicBool::new(false));
    let stream = PausableReader { stream: rig.connect(), paused: Arc::clone(&paused) };
    let (mut client, connection) = h2::client::Builder::new()
        .initial_window_size((1 << 31) - 1)
        .initial_connection_window_size((1 << 31) - 1)
        .handshake::<_, Bytes>(stream)
        .await
        .unwrap();
    tokio::spawn(connection);
    settle().await;
    paused.store(true, Ordering::Relaxed);
    let mut answers = Vec::new();
    for _ in 0..300 {
        let uri = format!("http://x{MAPS}");
        let request = Request::get(uri).header("authorization", "Bearer alice").body(()).unwrap();
        client = client.ready().await.unwrap();
        answers.push(client.send_request(request, true).unwrap());
    }
    sleep(Duration::from_secs(5)).await;
    let held = rig.front.outbound.total(Level::Workload);
    assert!((1 << 20..=8 << 20).contains(&held), "{held} bytes of 300 lists of 2 MB");
    let (code, list) = rig.ask("bob", MAPS).await;
    assert_eq!((code, list.matches(r#""name":"map-"#).count()), (200, 100), "others are served");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.front.outbound.total(Level::Workload), 0, "who takes nothing is cut");
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_whole_in_pieces_in_every_form() {
    let rig = Rig::new();
    rig.fill(30, 20_000).await;
    for (accept, name) in [
        ("application/json", "ConfigMapList"),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", "Table"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "PartialObjectMetadataList"),
    ] {
        let request = Request::get(MAPS).header("accept", accept).body(Bytes::new()).unwrap();
        let user = User { name: "alice".into(), ..User::default() };
        let response = rig.front.server.handle(&user, request).await;
        assert!(matches!(response.body(), Body::Stream(_)), "{name}");
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        let list: lazaret_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(list["kind"], name);
        let field = if name == "Table" { "rows" } else { "items" };
        assert_eq!(list[field].as_array().map(|items| items.len()), Some(30), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_of_a_user_have_a_limit() {
    let rig = Rig::new();
    let mut watching = Vec::new();
    for number in 0..22 {
        let mut stream = rig.connect();
        begin(&mut stream, "", "GET", &format!("{MAPS}?watch=true"), "").await;
        assert_eq!(read_code(&mut stream).await, if number < 20 { 200 } else { 429 }, "{number}");
        watching.push(stream);
    }
    watching.clear();
    settle().await;
    assert_eq!(rig.front.watches.total(Level::Anonymous), 0);
    assert!(rig.metrics().contains(
        r#"apiserver_flowcontrol_rejected_requests_total{priority_level="anonymous",reason="watches"} 2"#
    ));
}

#[tokio::test(start_paused = true)]
async fn one_users_slow_requests_leave_seats_to_everybody_else() {
    let rig = Rig::new();
    // Each waits three seconds for a revision that does not come, on a seat.
    let slow = format!("{MAPS}?resourceVersion=1000000&resourceVersionMatch=NotOlderThan");
    let mut slow_ones = Vec::new();
    for _ in 0..300 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "GET", &slow, "").await;
        slow_ones.push(stream);
    }
    settle().await;
    let text = rig.metrics();
    for expected in [
        // 280 seats, less 20 + 20 + 60 + 10 that are guaranteed to others.
        r#"apiserver_flowcontrol_current_executing_seats{priority_level="workload"} 170"#,
        r#"apiserver_flowcontrol_current_inqueue_requests{priority_level="workload"} 50"#,
        r#"apiserver_flowcontrol_rejected_requests_total{priority_level="workload",reason="queue-full"} 80"#,
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    let started = Instant::now();
    for (who, path) in [("admin", MAPS), ("", "/readyz"), ("system:node:a", MAPS), ("", MAPS)] {
        assert_eq!(rig.ask(who, path).await.0, 200, "{who} {path}");
    }
    assert!(started.elapsed() < Duration::from_secs(1), "at once");
    assert_eq!(rig.ask("bob", MAPS).await.0, 200);
    assert_eq!(started.elapsed().as_secs(), 2, "bob has the first seat that becomes free, before alice's 50");
    let mut codes = BTreeMap::new();
    for mut stream in slow_ones {
        *codes.entry(read_code(&mut stream).await).or_insert(0) += 1;
    }
    assert_eq!(codes, BTreeMap::from([(429, 80), (504, 220)]));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_when_to_try_again() {
    let rig = Rig::new();
    let answer = rig.front.refuse(&RefusedRequest { level: Level::Workload, reason: "watches" });
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (429, &"1".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_gives_up_the_place_in_the_queue_and_the_seat() {
    let rig = Rig::new();
    let slow = format!("{MAPS}?resourceVersion=1000000&resourceVersionMatch=NotOlderThan");
    let mut slow_ones = Vec::new();
    for _ in 0..220 {
        let mut stream = rig.connect();
        begin(&mut stream, "alice", "GET", &slow, "").await;
        slow_ones.push(stream);
    }
    settle().await;
    drop(slow_ones);
    settle().await;
    let text = rig.metrics();
    for expected in [
        r#"apiserver_flowcontrol_current_executing_seats{priority_level="workload"} 0"#,
        r#"apiserver_flowcontrol_current_inqueue_requests{priority_level="workload"} 0"#,
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
}

#[tokio::test]
async fn a_large_body_is_read_on_a_thread_of_its_own_and_answered() {
    let rig = Rig::new();
    let body = json!({"metadata": {"name": "large"}, "data": {"key": "x".repeat(200_000)}}).to_string();
    let mut stream = rig.connect();
    let head =
        format!("Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    begin(&mut stream, "alice", "POST", MAPS, &head).await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let (code, text) = read_answer(&mut stream).await;
    assert!(matches!(code, 201 | 404), "{text}");
}

#[test]
fn what_is_asked_for_is_known_from_method_path_and_query() {
    let nothing = RequestTraits { health: false, lease: false, watch: false, stream: false };
    let health = RequestTraits { health: true, ..nothing };
    let watch = RequestTraits { watch: true, ..nothing };
    let stream = RequestTraits { stream: true, ..nothing };
    for (method, uri, expected) in [
        ("GET", "/healthz", health),
        ("GET", "/readyz/etcd?verbose", health),
        ("GET", "/healthzz", nothing),
        (
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x",
            RequestTraits { lease: true, ..nothing },
        ),
        ("GET", "/api/v1/pods?watch=true", watch),
        ("GET", "/api/v1/pods?w%61tch=1", watch),
        ("GET", "/api/v1/pods?watch=false", nothing),
        ("GET", "/api/v1/watch/pods", watch),
        ("GET", "/api/v1/w%61tch/pods", watch),
        ("POST", "/api/v1/pods?watch=true", nothing),
        ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", stream),
        ("POST", "/api/v1/namespaces/a/pods/b/exec?command=x", stream),
        ("GET", "/api/v1/namespaces/a/pods/b/%65xec", stream),
        ("GET", "/api/v1/nodes/a/proxy/metrics/resource", stream),
        ("GET", "/api/v1/nodes/a/pro%78y/metrics", stream),
        ("GET", "/api/v1/namespaces/a/pods/b/status", nothing),
        ("GET", "/apis/apps/v1/namespaces/a/deployments/b/log", nothing),
    ] {
        let asked = RequestTraits::of(&method.parse().unwrap(), &uri.parse().unwrap());
        assert_eq!(asked, expected, "{method} {uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_take_seats_by_the_objects_they_look_at() {
    let rig = Rig::new();
    rig.fill(450, 10).await;
    for (method, path, seats) in [
        ("GET", MAPS.to_owned(), 5),
        ("DELETE", MAPS.to_owned(), 5),
        ("GET", format!("{MAPS}?limit=200"), 2),
        ("GET", format!("{MAPS}?limit=200&labelSelector=a"), 5),
        ("GET", format!("{MAPS}/map-1"), 1),
        ("GET", "/api/v1/namespaces/other/configmaps".to_owned(), 1),
        ("GET", "/nothing".to_owned(), 1),
    ] {
        let request = Request::builder().method(method).uri(&path).body(Bytes::new()).unwrap();
        let asked = RequestTraits::of(request.method(), request.uri());
        assert_eq!(rig.front.seats_of(&request, asked), seats, "{method} {path}");
    }
}
