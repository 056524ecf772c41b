//! Calls of the driver: bounded in number, and finished whatever becomes of the caller.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Semaphore, TryAcquireError, oneshot};
use tonic::Status;

use crate::tasks::Tasks;

/// Calls that run or wait for their turn. Kubelet tries again every 90 s; a driver that hangs must not pile them up.
const CALLS_MAX: usize = 64;

/// Calls of the driver in flight.
#[derive(Debug)]
pub(crate) struct Calls {
    places: Arc<Semaphore>,
    tasks: Mutex<Tasks>,
}

impl Default for Calls {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(CALLS_MAX)), tasks: Mutex::default() }
    }
}

impl Calls {
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl Future<Output = Result<R, Status>> + Send + 'static,
    ) -> Result<R, Status> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|error| match error {
            TryAcquireError::NoPermits => Status::resource_exhausted("too many calls wait for the driver"),
            TryAcquireError::Closed => Status::unavailable("the driver ends"),
        })?;
        let (sender, answer) = oneshot::channel();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            let result = call.await;
            drop(place);
            // Kubelet may have stopped waiting.
            let _ = sender.send(result);
        });
        // The task ends without an answer when the driver panics.
        answer.await.unwrap_or_else(|_| Err(Status::internal("the driver panicked")))
    }

    /// Waits for calls in flight; no more are begun.
    pub(crate) async fn drain(&self) {
        self.places.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.join().await;
    }
}
