//! Answers that go on end with the session that they belong to.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, Uri};
use lazaret_json::json;
use lazaret_server::{Pages, Requester, SessionEnd, SessionOver, User};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::watch,
    time::timeout,
};

use crate::{https::Cluster, wire::Client};

/// An answer that is not there by then does not come.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const IN_SESSION: &str = "Lazaret-Dashboard: secret\r\n";

/// One session of an administrator, which lasts as long as its sender.
#[derive(Debug)]
struct OneSession(watch::Receiver<()>);

impl Pages for OneSession {
    fn answer(&self, _: &Method, _: &Uri, _: &HeaderMap) -> Option<Response<Bytes>> {
        None
    }

    fn requester(&self, headers: &HeaderMap) -> Result<Option<Requester>, SessionOver> {
        if !headers.contains_key("lazaret-dashboard") {
            return Ok(None);
        }
        let mut end = self.0.clone();
        if end.has_changed().is_err() {
            return Err(SessionOver);
        }
        let groups = vec!["system:masters".to_owned(), "system:authenticated".to_owned()];
        let user = Arc::new(User { name: "viewer".to_owned(), groups, ..User::default() });
        let session = SessionEnd::new(async move { while end.changed().await.is_ok() {} });
        Ok(Some(Requester { user, session: Some(session) }))
    }
}

async fn start() -> (Cluster, watch::Sender<()>) {
    let cluster = Cluster::start().await;
    let session = watch::Sender::new(());
    cluster.server.serve_pages(OneSession(session.subscribe()));
    (cluster, session)
}

async fn make_secret(cluster: &Cluster, name: &str) {
    let admin = cluster.identity("root", "system:masters");
    let secret = json!({"metadata": {"name": name}}).to_string();
    assert_eq!(cluster.send(admin.as_ref(), None, "POST", SECRETS, &secret).await.0, 201);
}

#[tokio::test]
async fn a_watch_ends_with_its_session() {
    let (cluster, session) = start().await;
    make_secret(&cluster, "before").await;
    let mut stream = cluster.connect(None).await;
    let head = format!(
        "GET {SECRETS}?watch=true HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{IN_SESSION}\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("before") {
        let count = timeout(PATIENCE, stream.read_buf(&mut answer)).await.unwrap().unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&answer));
    }
    drop(session);
    make_secret(&cluster, "after").await;
    // The connection is closed once the answer has ended.
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the watch ends");
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("after") && answer.ends_with("0\r\n\r\n"), "{answer}");
    assert_eq!(cluster.send_with(None, IN_SESSION, "GET", SECRETS, "").await.0, 401);
}

#[tokio::test]
async fn a_watch_over_a_websocket_ends_with_its_session() {
    let (cluster, session) = start().await;
    make_secret(&cluster, "before").await;
    let (head, mut client) = Client::open(&cluster, None, &format!("{SECRETS}?watch=true"), IN_SESSION).await;
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    assert_eq!(client.event().await["object"]["metadata"]["name"], "before");
    drop(session);
    make_secret(&cluster, "after").await;
    assert_eq!(client.frame().await, (8, 1000_u16.to_be_bytes().to_vec()), "closed, without another event");
}

#[tokio::test]
async fn a_watch_by_a_certificate_goes_on() {
    let (cluster, session) = start().await;
    let admin = cluster.identity("root", "system:masters");
    let (_, mut client) = Client::open(&cluster, admin.as_ref(), &format!("{SECRETS}?watch=true"), "").await;
    drop(session);
    make_secret(&cluster, "after").await;
    assert_eq!(client.event().await["object"]["metadata"]["name"], "after");
}
