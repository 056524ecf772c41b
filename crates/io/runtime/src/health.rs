//! Which tasks of a process are down.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A task that was started again counts as working when it has not panicked for this time.
const STEADY: Duration = Duration::from_secs(5);

/// The tasks of one process, and whether each works. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Health {
    tasks: Arc<Mutex<BTreeMap<String, State>>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Works,
    Down,
    /// It was started again then.
    Again(Instant),
}

impl Health {
    /// Each task by its name, and whether it works. One that panicked does not before it has run for some seconds again.
    #[must_use]
    pub fn checks(&self) -> Vec<(String, bool)> {
        let works = |state: &State| match state {
            State::Works => true,
            State::Down => false,
            State::Again(since) => since.elapsed() >= STEADY,
        };
        self.lock().iter().map(|(name, state)| (name.clone(), works(state))).collect()
    }

    pub(crate) fn started(&self, task: &str) {
        self.lock().entry(task.to_owned()).or_insert(State::Works);
    }

    pub(crate) fn panicked(&self, task: &str) {
        self.lock().insert(task.to_owned(), State::Down);
    }

    pub(crate) fn ended(&self, task: &str) {
        self.lock().remove(task);
    }

    pub(crate) fn started_again(&self, task: &str) {
        self.lock().insert(task.to_owned(), State::Again(Instant::now()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, State>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_panicked_works_again_after_a_while_without_another_panic() {
        let health = Health::default();
        health.started("a");
        health.started("b");
        let works = |health: &Health| health.checks().into_iter().map(|(_, works)| works).collect::<Vec<_>>();
        assert_eq!(works(&health), [true, true]);
        health.panicked("a");
        tokio::time::advance(STEADY * 10).await;
        assert_eq!(works(&health), [false, true]);
        health.started_again("a");
        assert_eq!(works(&health), [false, true]);
        tokio::time::advance(STEADY).await;
        assert_eq!(works(&health), [true, true]);
    }
}
