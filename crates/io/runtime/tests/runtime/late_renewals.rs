//! A leader whose lease is renewed late pauses, and goes on with what it was doing.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use lazaret_machine::EffectId;
use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, Client, Effect, Hub, Leader, LeaseOptions, Metrics, News, Outcome, PODS, Perform,
    Precedence, Reply, Wake, run,
};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use crate::views::Text;

const LEASE: LeaseOptions = LeaseOptions { duration_ms: 1_000, renew_deadline_ms: 750, retry_ms: 250 };
/// Longer than the deadline, so that the answer is given up.
const LATE: Duration = Duration::from_millis(1_200);

/// A server without pods that keeps one lease and answers one renewal late while `is_slow` is set.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Value>>,
    writes: AtomicUsize,
    is_slow: AtomicBool,
}

impl Server {
    async fn answer(self: Arc<Self>, request: Request<Bytes>) -> Response<Text> {
        if !request.uri().path().contains("/leases") {
            return Response::new(pods(request.uri().query().unwrap_or_default()));
        }
        if *request.method() == Method::PATCH && self.is_slow.swap(false, Ordering::SeqCst) {
            tokio::time::sleep(LATE).await;
        }
        let mut lease = self.lease.lock().unwrap();
        if *request.method() != Method::GET {
            let version = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
            let mut written: Value = serde_json::from_slice(request.body()).unwrap();
            written["metadata"] =
                json!({"name": "l", "namespace": "n", "resourceVersion": version.to_string()});
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

/// None, as of revision 7.
fn pods(query: &str) -> Text {
    let is_watch = query.contains("watch=true");
    let text = if is_watch {
        let end = json!({"k8s.io/initial-events-end": "true"});
        let mark = json!({"metadata": {"resourceVersion": "7", "annotations": end}});
        format!("{}\n", json!({"type": "BOOKMARK", "object": mark}))
    } else {
        json!({"metadata": {"resourceVersion": "7"}, "items": []}).to_string()
    };
    Text { text: Some(text.into()), ends: !is_watch }
}

/// Always has something to do while it leads.
struct Busy {
    leads: bool,
    sent: u64,
    told: Arc<Mutex<Vec<bool>>>,
}

impl Agent for Busy {
    type Effect = ();

    fn hear(&mut self, _: Timestamp, _: News) {}

    fn think(&mut self, _: Timestamp) {}

    fn lead(&mut self, _: Timestamp, leading: bool) {
        self.leads = leading;
        self.told.lock().unwrap().push(leading);
    }

    fn acknowledge(&mut self, _: Timestamp, _: EffectId, _: Reply) {}

    fn poll(&mut self) -> Option<Effect<()>> {
        self.sent += 1;
        self.leads.then_some(Effect { id: EffectId(self.sent), kind: () })
    }

    fn wake(&self) -> Option<Wake> {
        None
    }
}

/// Counts what is done, and takes a little.
struct Counted(Arc<AtomicUsize>);

impl Perform<()> for Counted {
    async fn perform(&self, (): ()) -> Reply {
        self.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        Outcome::Done.into()
    }
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_leader_goes_on_after_a_renewal_that_was_late() {
    let server = Arc::new(Server::default());
    let seen = Arc::clone(&server);
    let client = Client::direct(move |request| Arc::clone(&seen).answer(request));
    let hub = Hub::new(client.clone(), Metrics::default());
    let (leader, leadership) = Leader::new(client, "n", "l", "me", LEASE);
    let (stop, stopped) = watch::channel(false);
    let (told, done) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    tasks.spawn(leader.run(Metrics::default(), stopped.clone()));
    tasks.spawn(run(
        {
            let told = Arc::clone(&told);
            move || Busy { leads: false, sent: 0, told: Arc::clone(&told) }
        },
        Counted(Arc::clone(&done)),
        hub.listen(&[PODS]),
        leadership.clone(),
        Metrics::default(),
        AgentOptions { name: "busy", in_flight_max: 1, precedence: Precedence::Usual },
        stopped,
    ));
    until(|| done.load(Ordering::SeqCst) > 10).await;
    server.is_slow.store(true, Ordering::SeqCst);
    until(|| !leadership.leads()).await;
    assert_eq!(leadership.standing(), Some(1));
    // One more may have begun in the last moment.
    let at_most = done.load(Ordering::SeqCst) + 1;
    until(|| done.load(Ordering::SeqCst) > at_most || leadership.leads()).await;
    assert!(done.load(Ordering::SeqCst) <= at_most || leadership.leads(), "nothing is done without a lease");
    until(|| done.load(Ordering::SeqCst) > at_most + 10).await;
    assert_eq!(*told.lock().unwrap(), [true], "what it was doing is not given up");
    stop.send(true).unwrap();
    tasks.join_all().await;
}
