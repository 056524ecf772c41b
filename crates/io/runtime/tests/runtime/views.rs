//! An agent that asks for a current view is notified once it has one, however quiet or late the watch is; so is a new leader.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, AgentOptions, Client, Effect, EffectId, Hub, Leader, Leadership, LeaseOptions, Metrics, News,
    Outcome, PODS, Perform, Precedence, Reply, ViewWish, Wake, run,
};
use tokio::{sync::watch, task::JoinSet};

const POD: &str = r#"{"metadata":{"name":"late","namespace":"n","uid":"u","resourceVersion":"6"}}"#;

fn bookmark(revision: u64, ends: bool) -> String {
    let end = if ends { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"{revision}"{end}}}}}}}"#) + "\n"
}

/// There is one pod as of revision 7. Watches know nothing of it but those that were opened for a short time.
fn answer_of(request: &Request<Bytes>) -> Response<Text> {
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("watch=true") {
        let list = format!(r#"{{"metadata":{{"resourceVersion":"7"}},"items":[{POD}]}}"#);
        return Response::new(Text { text: Some(list.into()), ends: true });
    }
    let text = if query.contains("sendInitialEvents=true") {
        bookmark(5, true)
    } else if query.contains("timeoutSeconds=3&") {
        format!("{{\"type\":\"ADDED\",\"object\":{POD}}}\n") + &bookmark(8, false)
    } else {
        String::new()
    };
    Response::new(Text { text: Some(text.into()), ends: false })
}

/// A text, and then its end or nothing for ever.
pub(crate) struct Text {
    pub(crate) text: Option<Bytes>,
    pub(crate) ends: bool,
}

impl http_body::Body for Text {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        match self.text.take() {
            Some(text) => Poll::Ready(Some(Ok(http_body::Frame::data(text)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// Wants to see all pods, once, and tells what it heard.
struct Looker {
    asked: bool,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Agent for Looker {
    type Effect = ();

    fn hear(&mut self, _: Timestamp, news: News) {
        self.heard.lock().unwrap().push(match news {
            News::Listed(_, objects, revision) => format!("{} at {revision}", objects.len()),
            News::Set(_, object) => format!("+{}", object.key.name),
            News::Gone(_, object) => format!("-{}", object.key.name),
            News::Barred(..) => "barred".into(),
        });
    }

    fn think(&mut self, _: Timestamp) {}

    fn lead(&mut self, _: Timestamp, leading: bool) {
        // Of one that leads from the beginning there is nothing to tell.
        if leading && self.asked {
            self.heard.lock().unwrap().push("leads".into());
        }
    }

    fn acknowledge(&mut self, _: Timestamp, _: EffectId, _: Reply) {}

    fn poll(&mut self) -> Option<Effect<()>> {
        None
    }

    fn wake(&self) -> Option<Wake> {
        None
    }

    fn wants_view(&mut self) -> Option<ViewWish> {
        let asked = core::mem::replace(&mut self.asked, true);
        (!asked).then(|| ViewWish { number: 3, resources: vec![PODS] })
    }

    fn view_reached(&mut self, _: Timestamp, number: u64) {
        self.heard.lock().unwrap().push(format!("seen {number}"));
    }
}

struct Nobody;

impl Perform<()> for Nobody {
    async fn perform(&self, (): ()) -> Reply {
        Outcome::Done.into()
    }
}

#[tokio::test]
async fn a_view_is_reached_once_what_the_server_had_was_heard() {
    let client = Client::direct(|request: Request<Bytes>| async move { answer_of(&request) });
    let hub = Hub::new(client, Metrics::default());
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (stop, stopped) = watch::channel(false);
    let mut agents = JoinSet::new();
    agents.spawn(run(
        {
            let heard = Arc::clone(&heard);
            move || Looker { asked: false, heard: Arc::clone(&heard) }
        },
        Nobody,
        hub.listen(&[PODS]),
        Leadership::unrivalled(),
        Metrics::default(),
        AgentOptions { name: "looker", in_flight_max: 1, precedence: Precedence::Usual },
        stopped,
    ));
    while !heard.lock().unwrap().iter().any(|line| line.starts_with("seen")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.send(true).unwrap();
    agents.join_all().await;
    assert_eq!(*heard.lock().unwrap(), ["0 at 5", "+late", "seen 3"]);
}

/// The server of a new leader: its first watch of pods never says another word, and what is streamed anew is as of revision 7.
fn answer_to_candidate(request: &Request<Bytes>, lists: &AtomicUsize) -> Response<Text> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    if path.contains("/leases") {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        let lease = if body.is_empty() { "{}".to_owned() } else { body };
        let mut answer = Response::new(Text { text: Some(lease.into()), ends: true });
        if *request.method() == http::Method::GET {
            *answer.status_mut() = http::StatusCode::NOT_FOUND;
        }
        return answer;
    }
    if !query.contains("watch=true") {
        let list = r#"{"metadata":{"resourceVersion":"7"},"items":[]}"#;
        return Response::new(Text { text: Some(list.into()), ends: true });
    }
    let text = if query.contains("sendInitialEvents=true") {
        match lists.fetch_add(1, Ordering::SeqCst) {
            0 => bookmark(5, true),
            _ => bookmark(7, true),
        }
    } else {
        String::new()
    };
    Response::new(Text { text: Some(text.into()), ends: false })
}

/// Of few objects all are read again: no watch of this server ever says how far it is.
#[tokio::test]
async fn a_new_leader_reads_few_objects_again_instead_of_waiting_for_a_quiet_watch() {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let client = Client::direct(move |request: Request<Bytes>| {
        let answer = answer_to_candidate(&request, &counted);
        async move { answer }
    });
    let hub = Hub::new(client.clone(), Metrics::default());
    let (leader, leadership) = Leader::new(client, "n", "l", "me", LeaseOptions::default());
    let (release, released) = watch::channel(false);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (stop, stopped) = watch::channel(false);
    let mut agents = JoinSet::new();
    agents.spawn(leader.run(Metrics::default(), released));
    agents.spawn(run(
        {
            let heard = Arc::clone(&heard);
            move || Looker { asked: true, heard: Arc::clone(&heard) }
        },
        Nobody,
        hub.listen(&[PODS]),
        leadership,
        Metrics::default(),
        AgentOptions { name: "looker", in_flight_max: 1, precedence: Precedence::Usual },
        stopped,
    ));
    while !heard.lock().unwrap().iter().any(|line| line == "leads") {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.send(true).unwrap();
    release.send(true).unwrap();
    agents.join_all().await;
    assert_eq!(lists.load(Ordering::SeqCst), 2);
    assert_eq!(heard.lock().unwrap()[..3], ["0 at 5", "0 at 7", "leads"]);
}
