//! Answers of a node, as they come.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use super::connect::Permit;
use crate::Chunks;

/// A body that a node sends, for as long as it does.
pub(super) struct NodeBody {
    body: Incoming,
    _held: Permit,
}

impl NodeBody {
    pub(super) fn new(body: Incoming, held: Permit) -> Self {
        Self { body, _held: held }
    }
}

impl Chunks for NodeBody {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Poll::Ready(Some(data));
                    }
                }
                // A node that goes away ends its answer, as in Kubernetes.
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(None),
            }
        }
    }
}
