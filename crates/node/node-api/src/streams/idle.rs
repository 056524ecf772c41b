//! Streams over which nothing goes for too long end.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

/// As kubelet's `streamingConnectionIdleTimeout`.
const IDLE_MAX: Duration = Duration::from_secs(4 * 3_600);

/// When something went over a stream last.
#[derive(Debug)]
pub(crate) struct Idle {
    started: Instant,
    last_ms: AtomicU64,
    count: AtomicU64,
}

impl Default for Idle {
    fn default() -> Self {
        Self { started: Instant::now(), last_ms: AtomicU64::new(0), count: AtomicU64::new(0) }
    }
}

impl Idle {
    pub(crate) fn touch(&self) {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(now, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// How often something went over it.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns when nothing went for [`IDLE_MAX`].
    pub(crate) async fn too_long(&self) {
        loop {
            let due = self.started + Duration::from_millis(self.last_ms.load(Ordering::Relaxed)) + IDLE_MAX;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}
