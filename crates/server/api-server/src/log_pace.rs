//! One line in a while, however often something happens.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// One line of a kind in this time.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// When lines were written, by kind.
#[derive(Debug, Default)]
pub(crate) struct LogPace {
    kinds: Mutex<Vec<Kind>>,
}

#[derive(Clone, Debug, Default)]
struct Kind {
    last: Option<Instant>,
    since: u64,
}

impl LogPace {
    /// It happened: whether a line is due, and how often it happened since the last one.
    pub(crate) fn due(&self, kind: usize) -> Option<u64> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() <= kind {
            kinds.resize(kind + 1, Kind::default());
        }
        let kind = &mut kinds[kind];
        kind.since += 1;
        if kind.last.is_some_and(|last| last.elapsed() < LINE_EVERY) {
            return None;
        }
        kind.last = Some(Instant::now());
        Some(std::mem::take(&mut kind.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_happens_often_is_told_now_and_then_with_a_count() {
        let pace = LogPace::default();
        assert_eq!((pace.due(1), pace.due(1), pace.due(0)), (Some(1), None, Some(1)));
        tokio::time::sleep(LINE_EVERY).await;
        assert_eq!((pace.due(1), pace.due(1)), (Some(2), None));
    }
}
