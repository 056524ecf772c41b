//! An agent that panics is started again, and so is one whose clock was set; no effect is lost or carried out twice.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use lazaret_model::{Text, Timestamp};
use lazaret_runtime::{
    Agent, AgentOptions, Client, Clock, Effect, EffectId, Hub, Leadership, Metrics, News, Outcome, PODS,
    Perform, Precedence, Reply, Wake, run,
};
use tokio::{sync::watch, task::JoinSet};

const PODS_THERE: usize = 20;
/// Longer than any clock is set by.
const LATE_MS: i64 = 36_000_000;

/// A server with some pods that nothing ever happens to: a list, then a watch without events.
pub(crate) fn client() -> Client {
    Client::direct(|request: Request<Bytes>| async move { answer_of(&request) })
}

fn answer_of(request: &Request<Bytes>) -> Response<Body> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let pods = (0..PODS_THERE).map(|number| {
            format!(r#"{{"metadata":{{"name":"p-{number}","namespace":"n","uid":"u-{number}","resourceVersion":"{}"}}}}"#, number + 1)
        });
    if !query.contains("watch=true") {
        return Response::new(whole(format!(
            r#"{{"metadata":{{"resourceVersion":"{PODS_THERE}"}},"items":[{}]}}"#,
            pods.collect::<Vec<_>>().join(",")
        )));
    }
    let mut lines: String = String::new();
    if query.contains("sendInitialEvents=true") {
        pods.for_each(|pod| lines.push_str(&format!("{{\"type\":\"ADDED\",\"object\":{pod}}}\n")));
    }
    lines.push_str(&format!(
            r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{PODS_THERE}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}}}"#
        ));
    lines.push('\n');
    Response::new(without_end(lines))
}

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

fn whole(text: String) -> Body {
    http_body_util::Full::new(Bytes::from(text)).boxed_unsync()
}

/// The text, and then nothing for ever.
fn without_end(text: String) -> Body {
    struct Endless(Option<Bytes>);
    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            match self.0.take() {
                Some(text) => std::task::Poll::Ready(Some(Ok(http_body::Frame::data(text)))),
                None => std::task::Poll::Pending,
            }
        }
    }
    Endless(Some(Bytes::from(text))).boxed_unsync()
}

/// The effects that were carried out: each pod is marked once.
#[derive(Clone, Default)]
struct World {
    marked: Arc<Mutex<BTreeSet<Text>>>,
    performed: Arc<AtomicUsize>,
    panics_at: Arc<BTreeSet<usize>>,
}

impl World {
    fn marked(&self) -> usize {
        self.marked.lock().unwrap().len()
    }
}

/// Marks a pod that is not marked; some panic before they do, some after.
impl Perform<Text> for World {
    async fn perform(&self, pod: Text) -> Reply {
        let number = self.performed.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let panics = self.panics_at.contains(&number);
        assert!(!panics || number.is_multiple_of(2), "effect {number} panics before it is done");
        let marked = self.marked.lock().unwrap().insert(pod);
        assert!(!panics, "effect {number} panics after it was done");
        if marked { Outcome::Done.into() } else { Outcome::Gone.into() }
    }
}

/// Wants every pod marked, one after the other and some time apart.
struct Marker {
    waiting: BTreeMap<Text, Timestamp>,
    in_flight: BTreeMap<u64, Text>,
    next: u64,
    now: Timestamp,
    leading: bool,
    apart_ms: i64,
    /// From which of them on it would wait for much longer; only its first life does.
    late_from: usize,
    heard: usize,
    panics_on: Option<usize>,
    went_back: Arc<AtomicUsize>,
}

impl Marker {
    fn tell(&mut self, now: Timestamp) {
        if now < self.now {
            self.went_back.fetch_add(1, Ordering::Relaxed);
        }
        self.now = now;
    }
}

impl Agent for Marker {
    type Effect = Text;

    fn hear(&mut self, now: Timestamp, news: News) {
        self.tell(now);
        self.heard += 1;
        assert!(self.panics_on != Some(self.heard), "news {} make it panic", self.heard);
        if let News::Listed(_, objects, _) = news {
            for (number, object) in objects.iter().enumerate() {
                let late_ms = if number < self.late_from { 0 } else { LATE_MS };
                let after = self.apart_ms * i64::try_from(number).unwrap() + late_ms;
                self.waiting.insert(object.key.name.clone(), now.plus_millis(after));
            }
        }
    }

    fn think(&mut self, now: Timestamp) {
        self.tell(now);
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.tell(now);
        self.leading = leading;
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.tell(now);
        let pod = self.in_flight.remove(&effect.0).unwrap();
        if !matches!(reply.outcome, Outcome::Done | Outcome::Gone) {
            self.waiting.insert(pod, now);
        }
    }

    fn poll(&mut self) -> Option<Effect<Text>> {
        let due = self.leading && self.waiting.values().any(|at| *at <= self.now);
        let pod = self.waiting.iter().find(|(_, at)| **at <= self.now && due)?.0.clone();
        self.waiting.remove(&pod);
        self.next += 1;
        self.in_flight.insert(self.next, pod.clone());
        Some(Effect { id: EffectId(self.next), kind: pod })
    }

    fn wake(&self) -> Option<Wake> {
        self.waiting.values().min().map(|at| Wake::new(*at, "a pod is to be marked"))
    }
}

struct Stage {
    world: World,
    metrics: Metrics,
    lives: Arc<AtomicUsize>,
    went_back: Arc<AtomicUsize>,
    _hub: Hub,
    _stop: watch::Sender<bool>,
    _tasks: JoinSet<()>,
}

/// Starts a marker; `panics` says on which of its news each life panics.
fn start(
    client: Client,
    world: World,
    apart_ms: i64,
    panics: impl Fn(usize) -> Option<usize> + Send + Sync + 'static,
) -> Stage {
    let metrics = Metrics::default();
    let hub = Hub::new(client, metrics.clone());
    let (stop, stopped) = watch::channel(false);
    let (lives, went_back) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, back) = (Arc::clone(&lives), Arc::clone(&went_back));
    let make = move || {
        let life = counted.fetch_add(1, Ordering::Relaxed);
        Marker {
            waiting: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            next: 0,
            now: Timestamp::EPOCH,
            leading: false,
            apart_ms,
            late_from: if life == 0 && apart_ms > 0 { PODS_THERE / 2 } else { PODS_THERE },
            heard: 0,
            panics_on: panics(life),
            went_back: Arc::clone(&back),
        }
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(run(
        make,
        world.clone(),
        hub.listen(&[PODS]),
        Leadership::unrivalled(),
        metrics.clone(),
        AgentOptions { name: "marker", in_flight_max: 4, precedence: Precedence::Usual },
        stopped,
    ));
    Stage { world, metrics, lives, went_back, _hub: hub, _stop: stop, _tasks: tasks }
}

async fn until(what: impl Fn() -> bool) {
    let reached = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reached).await.unwrap();
}

fn works(metrics: &Metrics) -> bool {
    metrics.health().checks().iter().all(|(_, works)| *works)
}

#[tokio::test]
async fn an_effect_that_panics_is_acknowledged_as_unknown_and_done_once() {
    let world = World { panics_at: Arc::new(BTreeSet::from([0, 3, 4, 11])), ..World::default() };
    let stage = start(client(), world, 0, |_| None);
    until(|| stage.world.marked() == PODS_THERE).await;
    until(|| stage.world.performed.load(Ordering::Relaxed) == PODS_THERE + 4).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(stage.world.performed.load(Ordering::Relaxed), PODS_THERE + 4, "each that panicked once more");
    assert_eq!(stage.lives.load(Ordering::Relaxed), 1, "the agent itself is well");
    let text = stage.metrics.text();
    assert!(text.contains(r#"lazaret_effect_panics_total{controller="marker"} 4"#), "{text}");
    assert!(works(&stage.metrics), "an effect that panicked is no task that is down");
}

#[tokio::test]
async fn an_agent_that_panics_is_made_anew_and_told_everything() {
    let stage = start(client(), World::default(), 0, |life| (life < 2).then_some(1));
    until(|| stage.lives.load(Ordering::Relaxed) >= 2).await;
    assert!(!works(&stage.metrics), "who panicked is not well before it has run for a while");
    until(|| stage.world.marked() == PODS_THERE).await;
    assert_eq!(stage.world.performed.load(Ordering::Relaxed), PODS_THERE, "none twice");
    let text = stage.metrics.text();
    assert!(text.contains(r#"lazaret_task_panics_total{task="marker"} 2"#), "{text}");
}

#[tokio::test]
async fn a_watch_that_panics_begins_anew() {
    let asked = AtomicUsize::new(0);
    let flaky = Client::direct(move |request: Request<Bytes>| {
        assert!(asked.fetch_add(1, Ordering::Relaxed) > 0, "the transport panics");
        async move { answer_of(&request) }
    });
    let stage = start(flaky, World::default(), 0, |_| None);
    until(|| stage.world.marked() == PODS_THERE).await;
    assert_eq!(stage.lives.load(Ordering::Relaxed), 1);
    let text = stage.metrics.text();
    assert!(text.contains(r#"lazaret_task_panics_total{task="watch/pods"} 1"#), "{text}");
}

/// Half of what is to be done is waited for when the clock is set back by an hour, or forward: the agent is made anew, and all is done once, each
/// in its time.
#[tokio::test]
async fn a_clock_that_is_set_keeps_nobody_waiting() {
    for by_ms in [-3_600_000, 3_600_000] {
        let clock = Clock::default();
        let stage = start(client().with_clock(clock.clone()), World::default(), 30, |_| None);
        until(|| stage.world.marked() == PODS_THERE / 2).await;
        clock.set_by(by_ms);
        until(|| stage.world.marked() == PODS_THERE).await;
        assert_eq!(stage.lives.load(Ordering::Relaxed), 2, "one before and one after");
        assert_eq!(stage.went_back.load(Ordering::Relaxed), 0, "no agent saw time go back");
        assert!(works(&stage.metrics));
    }
}
