//! An agent that decides without a pause: what it sends is begun at once, and not when it has nothing more to decide.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, Effect, EffectId, Hub, Leadership, Metrics, News, Outcome, PODS, Perform,
    Precedence, Reply, Wake, run,
};
use tokio::sync::watch;

use crate::restarts::client;

/// Turns after which an agent that was never interrupted gives up.
const TURNS_MAX: usize = 1_000;
const EFFECTS: usize = 3;

/// The turns that there were when each effect was begun and answered.
#[derive(Clone, Default)]
struct Counts {
    turns: Arc<AtomicUsize>,
    begun_late: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
}

/// Sends one effect after the other, and always has more to decide.
struct Busy {
    counts: Counts,
    leads: bool,
    sent: usize,
    /// The turn in which the last effect was sent, until it is answered.
    in_flight_since: Option<usize>,
    done: watch::Sender<bool>,
}

impl Agent for Busy {
    type Effect = usize;

    fn hear(&mut self, _: Timestamp, _: News) {}

    fn think(&mut self, _: Timestamp) {}

    fn lead(&mut self, _: Timestamp, leads: bool) {
        self.leads = leads;
    }

    fn acknowledge(&mut self, _: Timestamp, _: EffectId, _: Reply) {
        self.in_flight_since = None;
        if self.sent == EFFECTS {
            self.done.send_replace(true);
        }
    }

    fn poll(&mut self) -> Option<Effect<usize>> {
        if !self.leads {
            return None;
        }
        if self.in_flight_since.is_none() && self.sent < EFFECTS {
            let turn = self.counts.turns.load(Ordering::Relaxed);
            self.in_flight_since = Some(turn);
            self.sent += 1;
            return Some(Effect { id: EffectId(self.sent as u64), kind: turn });
        }
        // A turn that takes long.
        self.counts.turns.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn wake(&self) -> Option<Wake> {
        let turns = self.counts.turns.load(Ordering::Relaxed);
        (turns < TURNS_MAX).then(|| Wake::new(Timestamp::EPOCH, "there is always more to decide"))
    }
}

impl Perform<usize> for Counts {
    async fn perform(&self, sent_in: usize) -> Reply {
        let late = self.turns.load(Ordering::Relaxed) - sent_in;
        self.begun_late.fetch_max(late, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        Outcome::Done.into()
    }
}

#[tokio::test]
async fn what_a_busy_agent_sends_is_begun_before_it_decides_again() {
    let counts = Counts::default();
    let metrics = Metrics::default();
    let hub = Hub::new(client(), metrics.clone());
    let (stop, stopped) = watch::channel(false);
    let (done, mut is_done) = watch::channel(false);
    let own = counts.clone();
    let make = move || Busy {
        counts: own.clone(),
        leads: false,
        sent: 0,
        in_flight_since: None,
        done: done.clone(),
    };
    let options = AgentOptions { name: "busy", in_flight_max: 4, precedence: Precedence::Usual };
    let running =
        run(make, counts.clone(), hub.listen(&[PODS]), Leadership::unrivalled(), metrics, options, stopped);
    let ending = async {
        is_done.wait_for(|done| *done).await.unwrap();
        stop.send_replace(true);
    };
    tokio::join!(running, ending);
    assert_eq!(counts.begun.load(Ordering::Relaxed), EFFECTS);
    assert_eq!(counts.begun_late.load(Ordering::Relaxed), 0, "turns between sending and beginning");
    let turns = counts.turns.load(Ordering::Relaxed);
    assert!(turns <= 4 * EFFECTS, "it noticed the answers and the end after {turns} turns");
}
