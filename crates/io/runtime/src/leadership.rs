//! The right of a process to act: one of several that do the same work has it at a time.

use lazaret_leader::Held;
use tokio::sync::watch;

use crate::Clock;

/// Whether this process may act, and in which term. Clones share the answer.
#[derive(Clone, Debug)]
pub struct Leadership {
    /// `None` where nobody competes.
    rivalled: Option<Rivalled>,
}

#[derive(Clone, Debug)]
struct Rivalled {
    held: watch::Receiver<Option<Held>>,
    clock: Clock,
    /// A write that takes longer is given up.
    write_ms_max: Option<i64>,
}

impl Leadership {
    /// For who has no rival: it always leads.
    #[must_use]
    pub fn unrivalled() -> Self {
        Self { rivalled: None }
    }

    /// For who has rivals: it leads while it holds a term.
    pub(crate) fn rivalled(held: watch::Receiver<Option<Held>>, clock: Clock) -> Self {
        Self { rivalled: Some(Rivalled { held, clock, write_ms_max: None }) }
    }

    /// A write that takes longer is given up.
    pub(crate) fn with_writes_within(self, write_ms_max: i64) -> Self {
        let bounded = |rivalled| Rivalled { write_ms_max: Some(write_ms_max), ..rivalled };
        Self { rivalled: self.rivalled.map(bounded) }
    }

    /// How long a write may be on its way; `None`: for as long as the server takes.
    pub(crate) fn write_ms_max(&self) -> Option<i64> {
        self.rivalled.as_ref().and_then(|rivalled| rivalled.write_ms_max)
    }

    /// Whether others may act when this process does not.
    #[must_use]
    pub fn is_rivalled(&self) -> bool {
        self.rivalled.is_some()
    }

    /// The number of the term in which this process may act now. Never out of date: a term that was not renewed in time is
    /// over, even if nobody has had the time to say so.
    #[must_use]
    pub fn term(&self) -> Option<u64> {
        match &self.rivalled {
            None => Some(0),
            Some(Rivalled { held, clock, .. }) => {
                held.borrow().filter(|held| held.lasts(clock.instants())).map(|held| held.number())
            }
        }
    }

    /// The number of the term in which this process may act now, or may act again once a renewal that is late succeeds. While it is there and
    /// [`term`](Self::term) is not, nothing is begun, and nothing that was begun is given up.
    #[must_use]
    pub fn standing(&self) -> Option<u64> {
        match &self.rivalled {
            None => Some(0),
            Some(Rivalled { held, clock, .. }) => {
                held.borrow().filter(|held| held.may_go_on(clock.instants())).map(|held| held.number())
            }
        }
    }

    /// Whether it leads now.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.term().is_some()
    }

    /// Waits until a term begins, pauses, goes on or ends.
    pub(crate) async fn changed(&mut self) {
        if let Some(Rivalled { held, .. }) = &mut self.rivalled
            && held.changed().await.is_ok()
        {
            return;
        }
        // A leadership without rivals or without a holder never changes again.
        std::future::pending().await
    }
}
