//! A server that cannot stream a list is asked for plain ones.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use lazaret_runtime::{Client, Hub, Metrics, News, PODS, WatchState};

/// As an API server answers whose etcd does not tell how far it is: the watch begins, and its first event is an error.
const NO_PROGRESS: &str = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","code":500,"reason":"InternalError",
"message":"a watch stream was requested by the client but the required storage feature RequestWatchProgress is disabled"}}"#;

fn answer(request: &Request<Bytes>) -> String {
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("watch=true") {
        return r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"6"}}]}"#.to_owned();
    }
    if query.contains("sendInitialEvents=true") {
        return NO_PROGRESS.replace('\n', "") + "\n";
    }
    String::new()
}

#[tokio::test(start_paused = true)]
async fn an_error_in_a_streamed_list_is_followed_by_a_plain_list() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let client = Client::direct(move |request: Request<Bytes>| {
        let query = request.uri().query().unwrap_or_default();
        log.lock().unwrap().push(query.contains("sendInitialEvents=true"));
        let answer = answer(&request);
        async move {
            // A watch with nothing to tell does not end.
            if answer.is_empty() {
                std::future::pending::<()>().await;
            }
            Response::new(answer)
        }
    });
    let hub = Hub::new(client, Metrics::default());
    let mut inbox = hub.listen(&[PODS]);
    assert_eq!(hub.watches(), [(PODS, WatchState::Waiting)]);
    let News::Listed(_, pods, revision) = inbox.next().await else { panic!("a list comes first") };
    assert_eq!((pods.len(), revision), (1, 7));
    assert_eq!(hub.watches(), [(PODS, WatchState::Synced)]);
    let streamed = asked.lock().unwrap().iter().filter(|streamed| **streamed).count();
    assert_eq!(streamed, 1, "it does not ask for what was refused");
}
