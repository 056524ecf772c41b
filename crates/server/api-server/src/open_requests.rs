//! The requests of one connection that are not answered to the last byte.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Counts the open requests of a connection.
#[derive(Debug)]
pub(crate) struct OpenRequests {
    open: AtomicU32,
    /// When that changed last, after `started`.
    changed_ms: AtomicU64,
    asked: AtomicBool,
    started: Instant,
}

impl OpenRequests {
    pub(crate) fn new(started: Instant) -> Self {
        let this = Self {
            open: AtomicU32::new(0),
            changed_ms: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            started,
        };
        this.touch();
        this
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.load(Ordering::Relaxed) == 0
    }

    /// Whether there ever was a request.
    pub(crate) fn was_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// When a request ended last, or when the connection began.
    pub(crate) fn changed(&self) -> Instant {
        self.started + Duration::from_millis(self.changed_ms.load(Ordering::Relaxed))
    }

    fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.changed_ms.store(now, Ordering::Relaxed);
    }
}

/// A request that is not answered to the last byte.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<OpenRequests>);

impl OpenRequest {
    pub(crate) fn new(requests: &Arc<OpenRequests>) -> Self {
        requests.open.fetch_add(1, Ordering::Relaxed);
        requests.asked.store(true, Ordering::Relaxed);
        Self(Arc::clone(requests))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.touch();
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
