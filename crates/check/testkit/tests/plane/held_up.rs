//! An allocation of a scheduler that was held up on its way, and arrives when another one leads.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use http::{Method, Request, Response};
use kube::client::Body;
use lazaret_controllers::{Options, Parts, Plane as Controllers, Rivals};
use lazaret_runtime::{Client, Metrics};
use lazaret_testkit::{Cluster, Plane};
use serde_json::{Value, json};
use tower_service::Service;

use crate::{
    rivals,
    stage::{DRIVER, Stage, pod, pod_path},
};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";

/// A network that keeps requests, though the client has given them up.
#[derive(Clone)]
struct Network {
    inner: kube::Client,
    kept: Arc<Kept>,
}

#[derive(Default)]
struct Kept {
    allocations: AtomicBool,
    all: AtomicBool,
    requests: Mutex<Vec<Request<Body>>>,
}

impl Kept {
    fn keeps(&self, request: &Request<Body>) -> bool {
        let path = request.uri().path();
        let allocates = path.contains("/resourceclaims/") && path.ends_with("/status");
        *request.method() != Method::GET
            && (self.all.load(Ordering::SeqCst) || allocates && self.allocations.load(Ordering::SeqCst))
    }

    fn allocations(&self) -> Vec<Request<Body>> {
        let requests = std::mem::take(&mut *self.requests.lock().unwrap());
        requests.into_iter().filter(|request| request.uri().path().contains("/resourceclaims/")).collect()
    }
}

impl Service<Request<Body>> for Network {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, kept } = self.clone();
        Box::pin(async move {
            if kept.keeps(&request) {
                kept.requests.lock().unwrap().push(request);
                return std::future::pending().await;
            }
            inner.send(request).await
        })
    }
}

/// One more scheduler.
fn start(stage: &Stage, identity: &str, client: kube::Client) -> Controllers {
    let options = Options {
        parts: Parts { scheduler: true, controllers: false, workloads: false },
        rivals: Some(Rivals { identity: identity.into(), lease: rivals::SHORT }),
        ..Options::default()
    };
    stage.cluster.block_on(async move {
        Controllers::start(Client::new(client), Metrics::default(), &options).await.unwrap()
    })
}

fn until_held_by(stage: &Stage, identity: &str) {
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lazaret-scheduler";
    stage.until(&format!("{identity} has the lease"), || {
        let lease = stage.try_request("GET", lease, "application/json", &Value::Null)?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        if holder == identity { Ok(()) } else { Err(holder) }
    });
}

/// A pod and its claim for the one device.
fn pod_with_claim(stage: &Stage, name: &str, claim: &str) {
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": DRIVER}});
    let body = json!({"metadata": {"name": claim}, "spec": {"devices": {"requests": [request]}}});
    stage.create(CLAIMS, &body);
    let pod = pod(name, &json!({"resourceClaimName": claim}));
    stage.create("/api/v1/namespaces/default/pods", &pod);
}

#[test]
fn an_allocation_that_arrives_after_a_fail_over_is_refused_with_the_name_of_the_holder() {
    let others = Options {
        parts: Parts { scheduler: false, controllers: true, workloads: true },
        ..Options::default()
    };
    let stage = Stage::of(Cluster::options().plane(Plane::simulated(1, 1).options(others)), 1);
    let kept = Arc::new(Kept::default());
    let network = Network { inner: stage.cluster.client(), kept: Arc::clone(&kept) };
    let client = stage.cluster.block_on(async move { kube::Client::new(network, "default") });
    let first = start(&stage, "first", client);
    until_held_by(&stage, "first");
    kept.allocations.store(true, Ordering::SeqCst);
    pod_with_claim(&stage, "held-up", "one");
    stage.until("the first allocates the device", || {
        let count = kept.requests.lock().unwrap().len();
        if count > 0 { Ok(()) } else { Err("no write of a claim".to_owned()) }
    });
    kept.all.store(true, Ordering::SeqCst);

    let second = start(&stage, "second", stage.cluster.client());
    stage.delete(&pod_path("held-up"));
    stage.gone("held-up");
    pod_with_claim(&stage, "after", "two");
    until_held_by(&stage, "second");
    stage.running("after");

    let late = kept.allocations();
    assert!(!late.is_empty());
    let client = stage.cluster.client();
    let answers: Vec<(u16, String)> = stage.cluster.block_on(async move {
        let mut answers = Vec::new();
        for request in late {
            let answer = client.send(request).await.unwrap();
            let code = answer.status().as_u16();
            let body = answer.into_body().collect_bytes().await.unwrap();
            answers.push((code, String::from_utf8_lossy(&body).into_owned()));
        }
        answers
    });
    for (code, body) in &answers {
        assert_eq!(*code, 409, "{body}");
        assert!(body.contains("is allocated to ResourceClaim default/two"), "{body}");
    }
    assert!(stage.get(&format!("{CLAIMS}/one"))["status"]["allocation"].is_null());
    let holder = stage.get(&format!("{CLAIMS}/two"));
    assert_eq!(holder["status"]["allocation"]["devices"]["results"].as_array().unwrap().len(), 1);
    stage.cluster.block_on(second.stop());
    drop(first);
}
