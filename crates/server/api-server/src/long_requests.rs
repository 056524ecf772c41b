//! How many requests that take long are answered at a time.

use std::{num::NonZero, sync::Arc, thread};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Long requests that are answered at a time at least; on machines with more processors as many as there are.
const CONCURRENT_MIN: usize = 2;

/// How many long requests may be answered at a time: each has a thread and a tree of its object.
#[derive(Debug)]
pub(crate) struct LongRequests(Arc<Semaphore>);

impl Default for LongRequests {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        Self(Arc::new(Semaphore::new(processors.max(CONCURRENT_MIN))))
    }
}

impl LongRequests {
    /// Waits until one more may be answered.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, AcquireError> {
        Arc::clone(&self.0).acquire_owned().await
    }
}
