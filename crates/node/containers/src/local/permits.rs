//! How many programs are executed in the containers of a pod at a time. Each pod has its own count: probes that never end, or people
//! who never leave, make no other pod wait, whose own probes would fail meanwhile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::RuntimeError;

/// Programs with a time limit: probes and hooks. Each takes a shim of a few MiB and, while it starts, an OCI runtime's program. More
/// wait, within their own time.
const PROGRAMS_PER_POD_MAX: usize = 8;
/// Programs without one, which users execute. More are refused: it is not known when one ends.
const SESSIONS_PER_POD_MAX: usize = 16;

#[derive(Clone)]
struct PodPermits {
    programs: Arc<Semaphore>,
    sessions: Arc<Semaphore>,
}

impl PodPermits {
    fn new() -> Self {
        let of = |count| Arc::new(Semaphore::new(count));
        Self { programs: of(PROGRAMS_PER_POD_MAX), sessions: of(SESSIONS_PER_POD_MAX) }
    }

    fn is_used(&self) -> bool {
        Arc::strong_count(&self.programs) > 1 || Arc::strong_count(&self.sessions) > 1
    }
}

/// The counts of pods in which something is executed now.
#[derive(Default)]
pub(super) struct Permits(Mutex<BTreeMap<String, PodPermits>>);

impl Permits {
    /// Waits until one more program may run in a pod, or a connection be made to it.
    pub(super) async fn program(&self, pod: &str) -> Result<OwnedSemaphorePermit, RuntimeError> {
        let programs = self.of(pod).programs;
        // None is ever closed.
        programs.acquire_owned().await.map_err(|error| RuntimeError::Failed(error.to_string()))
    }

    /// One more program that may run for as long as it likes.
    pub(super) fn session(&self, pod: &str) -> Result<OwnedSemaphorePermit, RuntimeError> {
        let full = || {
            format!("{SESSIONS_PER_POD_MAX} programs are executed in the pod already: end one of them first")
        };
        self.of(pod).sessions.try_acquire_owned().map_err(|_| RuntimeError::NotPossible(full()))
    }

    /// The counts of a pod. Counts that are not held are dropped here.
    fn of(&self, pod: &str) -> PodPermits {
        let mut pods = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pods.retain(|_, counts| counts.is_used());
        pods.entry(pod.to_owned()).or_insert_with(PodPermits::new).clone()
    }
}
