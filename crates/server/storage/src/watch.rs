//! Watches: every event of a prefix after a revision, in order, once.

use std::fmt::Debug;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::{Event, WatchError};

/// The part of a watch that a store implements.
pub trait WatchSource: Debug + Send {
    /// The next event, or the waker is called when there may be one. After an error, the same error again.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event>, WatchError>>;

    /// The revision up to which everything was delivered: the revision of a bookmark. It advances with the store even
    /// while no event concerns the prefix.
    fn progress(&mut self) -> u64;
}

/// Delivers every event of a prefix after a revision: no gap, no repeat, revisions strictly ascending.
///
/// A store keeps a bounded history for slow readers: when the next event is no longer there, the watch ends with
/// [`WatchError::Compacted`] and the reader must list again.
#[derive(Debug)]
pub struct Watch(Box<dyn WatchSource>);

impl Watch {
    /// A watch of a store.
    pub fn new(source: impl WatchSource + 'static) -> Watch {
        Watch(Box::new(source))
    }

    /// Waits for the next event. Dropping the future loses nothing. After an error, the same error again.
    ///
    /// # Errors
    /// [`WatchError`] when the watch has ended.
    pub async fn next(&mut self) -> Result<Arc<Event>, WatchError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    /// [`WatchError`] when the watch has ended.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, WatchError> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => result.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// [`next`](Watch::next) for a caller that polls.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Arc<Event>, WatchError>> {
        self.0.poll_next(context)
    }

    /// The revision up to which this watch has delivered everything. See [`WatchSource::progress`].
    pub fn progress(&mut self) -> u64 {
        self.0.progress()
    }
}
