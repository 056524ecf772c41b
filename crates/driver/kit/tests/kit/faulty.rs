//! A client whose requests fail as a test wants.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use http::{Request, Response};
use kube::client::Body;
use tonic::codegen::Service;

type Rule = dyn Fn(&Request<Body>) -> Option<u16> + Send + Sync;

/// Faults: a function from a request to the code that is answered instead.
#[derive(Clone, Default)]
pub(crate) struct Faults {
    rule: Arc<Mutex<Option<Arc<Rule>>>>,
    refused: Arc<AtomicUsize>,
}

impl Faults {
    pub(crate) fn set(&self, rule: impl Fn(&Request<Body>) -> Option<u16> + Send + Sync + 'static) {
        *self.rule.lock().unwrap() = Some(Arc::new(rule));
    }

    pub(crate) fn clear(&self) {
        *self.rule.lock().unwrap() = None;
    }

    /// How many requests were answered with a failure.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// The same client, with these faults.
    pub(crate) fn client(&self, inner: kube::Client) -> kube::Client {
        kube::Client::new(Faulty { inner, faults: self.clone() }, "default")
    }
}

#[derive(Clone)]
struct Faulty {
    inner: kube::Client,
    faults: Faults,
}

impl Service<Request<Body>> for Faulty {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let rule = self.faults.rule.lock().unwrap().clone();
        if let Some(code) = rule.and_then(|rule| rule(&request)) {
            self.faults.refused.fetch_add(1, Ordering::SeqCst);
            let status = format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Test","message":"told to fail","code":{code}}}"#
            );
            let answer = Response::builder().status(code).header("content-type", "application/json");
            return Box::pin(async move { Ok(answer.body(Body::from(status.into_bytes())).unwrap()) });
        }
        let inner = self.inner.clone();
        Box::pin(async move { inner.send(request).await })
    }
}
