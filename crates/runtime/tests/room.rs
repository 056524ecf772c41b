//! How many effects an agent has under way, and what it does while there is no room for more.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Empty;
use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, Client, Hub, Leadership, Metrics, News, Outcome, Perform, Precedence, RULES, Reply,
    run,
};
use tokio::sync::{Semaphore, watch};

/// Always has something to do, and thinks that it is late.
#[derive(Clone, Default)]
struct Busy {
    thoughts: Arc<AtomicUsize>,
    next: u64,
}

impl Agent for Busy {
    type Effect = ();

    fn hear(&mut self, _: Timestamp, _: News) {}

    fn think(&mut self, _: Timestamp) {
        self.thoughts.fetch_add(1, Ordering::Relaxed);
    }

    fn lead(&mut self, _: Timestamp, _: bool) {}

    fn acknowledge(&mut self, _: Timestamp, _: u64, _: Reply) {}

    fn poll(&mut self) -> Option<(u64, ())> {
        self.next += 1;
        Some((self.next, ()))
    }

    fn wake(&self) -> Option<Timestamp> {
        Some(Timestamp::EPOCH)
    }
}

/// Ends an effect when it is let.
#[derive(Clone)]
struct Gate {
    begun: Arc<AtomicUsize>,
    leave: Arc<Semaphore>,
}

impl Perform<()> for Gate {
    async fn perform(&self, (): ()) -> Reply {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.leave.acquire().await.unwrap().forget();
        Outcome::Done.into()
    }
}

async fn until(count: &AtomicUsize, least: usize) {
    let reached = async {
        while count.load(Ordering::Relaxed) < least {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reached).await.unwrap();
}

#[tokio::test]
async fn room_grows_with_what_ends_and_who_has_none_waits() {
    let agent = Busy::default();
    let gate = Gate { begun: Arc::default(), leave: Arc::new(Semaphore::new(0)) };
    let (stop, stopped) = watch::channel(false);
    // There is nothing to hear of, which is news enough to begin.
    let client = Client::direct(|_| async {
        let mut answer = http::Response::new(Empty::<Bytes>::new());
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        answer
    });
    let hub = Hub::new(client, Metrics::default());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(run(
        agent.clone(),
        gate.clone(),
        hub.listen_if_possible(&[], &[RULES]),
        Leadership::unrivalled(),
        hub.metrics().clone(),
        AgentOptions { name: "busy", in_flight_max: 20, precedence: Precedence::Usual },
        stopped,
    ));
    until(&gate.begun, 2).await;
    let before = agent.thoughts.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gate.begun.load(Ordering::Relaxed), 2, "a few first");
    let idle = agent.thoughts.load(Ordering::Relaxed) - before;
    assert!(idle < 10, "it thought {idle} times with nothing to gain from it");

    gate.leave.add_permits(2);
    until(&gate.begun, 2 + 2 * 2).await;
    gate.leave.add_permits(50);
    until(&gate.begun, 52 + 20).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(gate.begun.load(Ordering::Relaxed), 52 + 20, "never more than its limit");

    stop.send(true).unwrap();
    gate.leave.add_permits(1_000);
    tasks.join_all().await;
}
