//! The API without a socket: a [`kube::Client`] whose requests are answered in this process.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body_util::BodyExt;
use tower_service::Service;

use crate::{ApiError, Body, Server, User, respond::failure};

impl Server {
    /// A client for `user`, with no socket between. The user's permissions are checked as over HTTP.
    #[must_use]
    pub fn client(&self, user: User) -> kube::Client {
        kube::Client::new(InProcess { server: self.clone(), user: Arc::new(user) }, "default")
    }
}

#[derive(Clone, Debug)]
struct InProcess {
    server: Server,
    user: Arc<User>,
}

impl Service<Request<kube::client::Body>> for InProcess {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (server, user) = (self.server.clone(), Arc::clone(&self.user));
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            Ok(match body.collect().await {
                Ok(body) => server.handle(&user, Request::from_parts(parts, body.to_bytes())).await,
                Err(error) => failure(&ApiError::bad_request(format!("the body could not be read: {error}"))),
            })
        })
    }
}
