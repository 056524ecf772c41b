//! A client service on which the watches of one resource can be held up.

use std::{
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
use tokio::sync::watch;
use tower_service::Service;

use crate::stage::Stage;

/// A client service on which the watches of one resource can be held up.
#[derive(Clone)]
struct BlockableService {
    inner: kube::Client,
    plural: &'static str,
    blocked: watch::Receiver<bool>,
    /// Watches of it that were opened.
    watches: Arc<AtomicU64>,
}

/// Holds up the watches.
pub(crate) struct Guard {
    block: watch::Sender<bool>,
    watches: Arc<AtomicU64>,
}

impl Guard {
    pub(crate) fn block(&self, blocked: bool) {
        self.block.send(blocked).unwrap();
    }

    /// How many watches were opened.
    pub(crate) fn watches(&self) -> u64 {
        self.watches.load(Ordering::Relaxed)
    }
}

/// A client of the server whose watches of this resource can be held up, and the guard that does so.
pub(crate) fn blockable_service(stage: &Stage, plural: &'static str) -> (kube::Client, Guard) {
    let (block, blocked) = watch::channel(false);
    let watches = Arc::new(AtomicU64::new(0));
    let blockable_service =
        BlockableService { inner: stage.cluster.client(), plural, blocked, watches: Arc::clone(&watches) };
    let client = stage.cluster.block_on(async move { kube::Client::new(blockable_service, "default") });
    (client, Guard { block, watches })
}

impl Service<Request<Body>> for BlockableService {
    type Response = Response<BlockableBody>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { inner, plural, blocked, watches } = self.clone();
        let path = request.uri().path();
        let held = path.rsplit('/').next() == Some(plural)
            && request.uri().query().unwrap_or_default().contains("watch=true");
        watches.fetch_add(u64::from(held), Ordering::Relaxed);
        Box::pin(async move {
            let response = inner.send(request).await?;
            let wait = held.then(|| free(blocked.clone()));
            Ok(response.map(|body| BlockableBody { body, wait, blocked }))
        })
    }
}

type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Done as soon as the service is not blocked.
fn free(mut blocked: watch::Receiver<bool>) -> Wait {
    Box::pin(async move {
        // A service whose guard is gone is not blocked.
        let _ = blocked.wait_for(|blocked| !blocked).await;
    })
}

/// An answer of which nothing comes through while the service is blocked.
struct BlockableBody {
    body: Body,
    /// `None` for what is never held up.
    wait: Option<Wait>,
    blocked: watch::Receiver<bool>,
}

impl HttpBody for BlockableBody {
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
