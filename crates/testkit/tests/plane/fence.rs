//! Who gets the lease with an old view of the world.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame};
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tower_service::Service;

use crate::{
    rivals,
    stage::{DRIVER, Stage, taint},
};

/// A way to the server on which watches of taint rules can be held up.
#[derive(Clone)]
struct Road {
    inner: kube::Client,
    blocked: watch::Receiver<bool>,
    /// Watches of taint rules that were opened.
    watches: Arc<AtomicU64>,
}

impl Service<Request<Body>> for Road {
    type Response = Response<Held>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, blocked, watches } = self.clone();
        let of_rules = request.uri().path().ends_with("/devicetaintrules")
            && request.uri().query().unwrap_or_default().contains("watch=true");
        watches.fetch_add(u64::from(of_rules), Ordering::Relaxed);
        Box::pin(async move {
            let response = inner.send(request).await?;
            let wait = of_rules.then(|| free(blocked.clone()));
            Ok(response.map(|body| Held { body, wait, blocked }))
        })
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Done as soon as the road is free.
fn free(mut blocked: watch::Receiver<bool>) -> Wait {
    Box::pin(async move {
        // A road whose guard is gone is free.
        let _ = blocked.wait_for(|blocked| !blocked).await;
    })
}

/// An answer of which nothing comes through while the road is blocked.
struct Held {
    body: Body,
    /// `None` for what is never held up.
    wait: Option<Wait>,
    blocked: watch::Receiver<bool>,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = <Body as HttpBody>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(wait) = &mut self.wait {
            if wait.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.wait = Some(free(self.blocked.clone()));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }
}

/// Names of the pods that nobody has asked to go.
fn alive(stage: &Stage) -> BTreeSet<String> {
    let pods = stage.list("/api/v1/namespaces/default/pods");
    let alive = pods.iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    alive.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The first evicts slowly, the rule is withdrawn, the first dies. The second, whose watch of rules has been silent for a
/// while, gets the lease and believes that all the others have to go as well.
#[test]
fn who_gets_the_lease_does_not_go_by_a_rule_that_was_deleted_before() {
    let stage = rivals::stage();
    let first = rivals::start(&stage, "first", rivals::LONG, stage.cluster.client());
    rivals::until_held_by(&stage, "first");
    let (block, blocked) = watch::channel(false);
    let watches = Arc::new(AtomicU64::new(0));
    let road = Road { inner: stage.cluster.client(), blocked, watches: Arc::clone(&watches) };
    let client = stage.cluster.block_on(async move { kube::Client::new(road, "default") });
    let second = rivals::start(&stage, "second", rivals::LONG, client);
    stage.until("the second watches", || {
        if watches.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err("not yet".into()) }
    });
    stage.template("one", &json!([]));
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    names.iter().for_each(|name| stage.pod(name, "one"));
    names.iter().for_each(|name| {
        stage.running(name);
    });
    let mut slow = taint("NoExecute");
    slow["evictionsPerSecond"] = 1.into();
    stage.rule("v1alpha3", "all", &json!({"driver": DRIVER}), &slow);
    stage.until("a burst and one more are gone", || match alive(&stage).len() {
        ..20 => Ok(()),
        left => Err(format!("{left} left")),
    });

    block.send(true).unwrap();
    stage.delete("/apis/resource.k8s.io/v1/devicetaintrules/all");
    stage.rule("v1", "nothing", &json!({"driver": DRIVER, "device": "none"}), &taint("NoExecute"));
    stage.condition("nothing", "shows that the first has heard of both", |_| true);
    drop(first);
    let before = watches.load(Ordering::Relaxed);
    let left = alive(&stage);
    assert!(left.len() > 10, "the second has something to do wrong: {left:?}");
    rivals::until_held_by(&stage, "second");
    stage.until("the second doubts its view", || {
        assert_eq!(alive(&stage), left, "evicted by a rule that is gone");
        match watches.load(Ordering::Relaxed) {
            opened if opened > before => Ok(()),
            opened => Err(format!("{opened} watches")),
        }
    });
    assert_eq!(alive(&stage), left, "evicted by a rule that is gone");

    block.send(false).unwrap();
    let mut left = left;
    let chosen = left.pop_first().unwrap();
    let (pool, device) = stage.device_of(&chosen);
    stage.rule("v1", "one", &json!({"driver": DRIVER, "pool": pool, "device": device}), &taint("NoExecute"));
    stage.gone(&chosen);
    assert_eq!(alive(&stage), left, "evicted by a rule that is gone");
    stage.cluster.block_on(second.stop());
}
