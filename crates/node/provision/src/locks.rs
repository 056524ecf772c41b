//! One thing at a time for each pod.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::OwnedMutexGuard, task::spawn_blocking};

type PodLocks = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Locks of the pods for which something is done or waits.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: PodLocks,
}

impl Locks {
    pub(crate) fn len(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until nothing else is done for a pod.
    pub(crate) async fn lock(&self, uid: &str) -> PodGuard {
        let lock = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(held.entry(uid.to_owned()).or_default())
        };
        let guard = Some(lock.lock_owned().await);
        PodGuard(Arc::new(Inner { held: Arc::clone(&self.held), uid: uid.to_owned(), guard }))
    }
}

/// Work for a pod is in progress while this exists, or while a task that it spawned runs: the caller may be gone.
#[derive(Debug)]
pub(crate) struct PodGuard(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    held: PodLocks,
    uid: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl PodGuard {
    /// Does something that takes the time of a disk.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.spawn(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// The same, for work that says in text what went wrong.
    pub(crate) async fn run_text<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.spawn(work).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    pub(crate) async fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, tokio::task::JoinError> {
        let busy = Arc::clone(&self.0);
        spawn_blocking(move || {
            let result = work();
            drop(busy);
            result
        })
        .await
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.guard = None;
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        // No other task waits for it.
        if held.get(&self.uid).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            held.remove(&self.uid);
        }
    }
}
