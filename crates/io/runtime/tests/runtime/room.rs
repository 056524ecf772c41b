//! How many effects an agent has in flight, and what it does while there is no room for more.
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
    Agent, AgentOptions, Client, Effect, EffectId, Hub, Leadership, Metrics, News, Outcome, Perform,
    Precedence, RULES, Reply, Wake, run,
};
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
};

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

    fn acknowledge(&mut self, _: Timestamp, _: EffectId, _: Reply) {}

    fn poll(&mut self) -> Option<Effect<()>> {
        self.next += 1;
        Some(Effect { id: EffectId(self.next), kind: () })
    }

    fn wake(&self) -> Option<Wake> {
        Some(Wake::now("there is always something to do"))
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

/// There is nothing to hear of, which is news enough to begin.
fn silent_hub() -> Hub {
    let client = Client::direct(|_| async {
        let mut answer = http::Response::new(Empty::<Bytes>::new());
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        answer
    });
    Hub::new(client, Metrics::default())
}

/// A busy agent at work, what it does, and what ends it.
fn start(
    hub: &Hub,
    in_flight_max: usize,
    precedence: Precedence,
    tasks: &mut JoinSet<()>,
) -> (Busy, Gate, watch::Sender<bool>) {
    let agent = Busy::default();
    let gate = Gate { begun: Arc::default(), leave: Arc::new(Semaphore::new(0)) };
    let (stop, stopped) = watch::channel(false);
    let made = agent.clone();
    tasks.spawn(run(
        move || made.clone(),
        gate.clone(),
        hub.listen_if_possible(&[], &[RULES]),
        Leadership::unrivalled(),
        hub.metrics().clone(),
        AgentOptions { name: "busy", in_flight_max, precedence },
        stopped,
    ));
    (agent, gate, stop)
}

#[tokio::test]
async fn room_grows_with_what_ends_and_who_has_none_waits() {
    let (hub, mut tasks) = (silent_hub(), JoinSet::new());
    let (agent, gate, stop) = start(&hub, 20, Precedence::Usual, &mut tasks);
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

#[tokio::test]
async fn who_is_patient_has_little_under_way_while_the_urgent_have_much() {
    let (hub, mut tasks) = (silent_hub(), JoinSet::new());
    let (_, urgent, stop_urgent) = start(&hub, 4, Precedence::Urgent, &mut tasks);
    urgent.leave.add_permits(2);
    until(&urgent.begun, 2 + 4).await;
    let (_, patient, stop) = start(&hub, 20, Precedence::Patient, &mut tasks);
    patient.leave.add_permits(30);
    until(&patient.begun, 30 + 2).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(patient.begun.load(Ordering::Relaxed), 30 + 2, "it goes on, two at a time");

    stop_urgent.send(true).unwrap();
    urgent.leave.add_permits(4);
    let mut ended = 30;
    let all = async {
        while patient.begun.load(Ordering::Relaxed) < ended + 20 {
            patient.leave.add_permits(1);
            ended += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();

    stop.send(true).unwrap();
    patient.leave.add_permits(1_000);
    tasks.join_all().await;
}
