//! An agent is woken when it wants to be, and the log says what for. Alone in its process: whether a line is logged is decided once for all threads, by
//! the first that comes by.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Empty;
use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, Client, Effect, EffectId, Hub, Leadership, Metrics, News, Outcome, Perform,
    Precedence, RULES, Reply, Wake, run,
};
use tokio::sync::watch;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

const WHY: &str = "the sun rises";

/// Wants to be woken every 20 ms.
#[derive(Default)]
struct Sleeper {
    at: Option<Timestamp>,
}

impl Agent for Sleeper {
    type Effect = ();

    fn hear(&mut self, _: Timestamp, _: News) {}

    fn think(&mut self, now: Timestamp) {
        if self.at.is_none_or(|at| at <= now) {
            self.at = Some(now.plus_millis(20));
        }
    }

    fn lead(&mut self, _: Timestamp, _: bool) {}

    fn acknowledge(&mut self, _: Timestamp, _: EffectId, _: Reply) {}

    fn poll(&mut self) -> Option<Effect<()>> {
        None
    }

    fn wake(&self) -> Option<Wake> {
        self.at.map(|at| Wake::new(at, WHY))
    }
}

struct Nobody;

impl Perform<()> for Nobody {
    async fn perform(&self, (): ()) -> Reply {
        Outcome::Done.into()
    }
}

/// The reasons of wakes that were logged, each with its controller.
#[derive(Clone, Default)]
struct Reasons(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields {
    why: Option<String>,
    controller: Option<String>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "why" => self.why = Some(value.to_owned()),
            "controller" => self.controller = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

impl Subscriber for Reasons {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let (Some(why), Some(controller)) = (fields.why, fields.controller) {
            self.0.lock().unwrap().push(format!("{} {controller}: {why}", event.metadata().level()));
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn the_reason_of_a_wake_is_logged_at_debug() {
    let reasons = Reasons::default();
    let _logged = tracing::subscriber::set_default(reasons.clone());
    let client = Client::direct(|_| async {
        let mut answer = http::Response::new(Empty::<Bytes>::new());
        *answer.status_mut() = http::StatusCode::NOT_FOUND;
        answer
    });
    let hub = Hub::new(client, Metrics::default());
    let (stop, stopped) = watch::channel(false);
    let agent = run(
        Sleeper::default,
        Nobody,
        hub.listen_if_possible(&[], &[RULES]),
        Leadership::unrivalled(),
        hub.metrics().clone(),
        AgentOptions { name: "sleeper", in_flight_max: 1, precedence: Precedence::Usual },
        stopped,
    );
    let wait = async {
        while reasons.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        stop.send(true).unwrap();
    };
    let both = async { tokio::join!(agent, wait) };
    tokio::time::timeout(Duration::from_secs(60), both).await.unwrap();
    let logged = reasons.0.lock().unwrap();
    assert!(logged.iter().all(|line| *line == format!("DEBUG sleeper: {WHY}")), "{logged:?}");
}
