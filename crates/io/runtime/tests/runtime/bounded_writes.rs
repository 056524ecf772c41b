//! A leader whose late writes would do harm gives them up, and lets those of the last leader end.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use lazaret_runtime::{Call, CallError, Client, Leader, Leadership, LeaseOptions, Metrics, PODS, PatchKind};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::views::Text;

/// Keeps one lease, and answers no other write.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    asked: Mutex<Vec<String>>,
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Response<Text> {
        if !request.uri().path().contains("/leases") {
            self.asked.lock().unwrap().push(request.uri().to_string());
            if *request.method() != Method::GET {
                std::future::pending::<()>().await;
            }
            return Response::new(Text { text: Some("{}".into()), ends: true });
        }
        let mut lease = self.lease.lock().unwrap();
        if *request.method() != Method::GET {
            let mut written: Value = serde_json::from_slice(request.body()).unwrap();
            written["metadata"] = json!({"name": "l", "namespace": "n", "resourceVersion": "1"});
            *lease = Some(written);
        }
        let text = lease.as_ref().map_or_else(|| "{}".to_owned(), Value::to_string);
        let mut answer = Response::new(Text { text: Some(text.into()), ends: true });
        if lease.is_none() {
            *answer.status_mut() = StatusCode::NOT_FOUND;
        }
        answer
    }
}

/// One who competes, and whether it leads.
fn candidate(server: &Arc<Server>) -> (Client, Leader, Leadership) {
    let seen = Arc::clone(server);
    let client = Client::direct(move |request| Arc::clone(&seen).answer(request));
    let candidate = Leader::new(client.clone(), "n", "l", "me", LeaseOptions::default());
    let (leader, leadership) = Leader::with_bounded_writes(candidate);
    (client.under(&leadership), leader, leadership)
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_is_given_up_and_the_server_is_asked_to_give_it_up_too() {
    let server = Arc::new(Server::default());
    let (client, leader, leadership) = candidate(&server);
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(leader.run(Metrics::default(), stopped));
    until(|| leadership.leads()).await;
    let patch = Call::patch(&PODS, "n", "p", "status", PatchKind::Apply { manager: "m" }, "{}");
    let unknown = client.send(patch).await.unwrap_err();
    assert_eq!(unknown, CallError::Unknown("no answer in 5 s".into()));
    client.send(Call::get(&PODS, "n", "p")).await.unwrap();
    let asked = [
        "/api/v1/namespaces/n/pods/p/status?force=true&fieldManager=m&timeout=5s",
        "/api/v1/namespaces/n/pods/p",
    ];
    assert_eq!(*server.asked.lock().unwrap(), asked);
    stop.send(true).unwrap();
    tasks.join_all().await;
    // It gave the lease back: the next one begins at once.
    let given_back = server.lease.lock().unwrap().clone().unwrap();
    assert_eq!(given_back["spec"]["holderIdentity"], "");
    let (_, leader, leadership) = candidate(&server);
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(leader.run(Metrics::default(), stopped));
    until(|| leadership.leads()).await;
    stop.send(true).unwrap();
    tasks.join_all().await;
}
