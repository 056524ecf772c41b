//! Events of any size: what a server can send is read, and what it cannot have meant stops nobody.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use lazaret_runtime::{Client, Hub, Metrics, News, PODS};

/// Pieces of a watch, and then nothing for ever.
struct Pieces(Vec<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.pop().map_or(Poll::Pending, |piece| Poll::Ready(Some(Ok(Frame::data(piece)))))
    }
}

fn event(name: &str, version: u64, bytes: usize) -> String {
    let note = "x".repeat(bytes);
    format!(
        r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}","namespace":"n","uid":"u","resourceVersion":"{version}","annotations":{{"note":"{note}"}}}}}}}}"#
    ) + "\n"
}

/// Answers the first question with this text, in pieces as they come from a socket; later ones with silence.
fn client(text: String) -> Client {
    let first = std::sync::Mutex::new(Some(text));
    Client::direct(move |_: Request<Bytes>| {
        let text = Bytes::from(first.lock().unwrap().take().unwrap_or_default());
        let mut pieces: Vec<Bytes> = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            pieces.push(rest.split_to(rest.len().min(64 << 10)));
        }
        pieces.reverse();
        async move { Response::new(Pieces(pieces)) }
    })
}

#[tokio::test]
async fn an_event_of_nine_megabytes_is_read_and_one_that_is_too_large_is_passed_over() {
    let end = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"4","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
    let text = [
        event("large", 1, 9 << 20),
        event("too-large", 2, 40 << 20),
        event("small", 3, 0),
        format!("{end}\n"),
        event("later", 5, 40 << 20),
        event("last", 6, 0),
    ];
    let metrics = Metrics::default();
    let hub = Hub::new(client(text.concat()), metrics.clone());
    let mut inbox = hub.listen(&[PODS]);
    let News::Listed(_, objects, 4) = inbox.next().await else { panic!("a list first") };
    let names: Vec<&str> = objects.iter().map(|object| object.key.name.as_str()).collect();
    assert_eq!(names, ["large", "small"]);
    let News::Set(_, object) = inbox.next().await else { panic!("then a change") };
    assert_eq!(object.key.name.as_str(), "last");
    let text = metrics.text();
    assert!(text.contains(r#"lazaret_watch_events_too_large_total{resource="pods"} 2"#), "{text}");
}
