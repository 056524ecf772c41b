//! A watch as a client sees it: the existing objects, then the changes, until its time is up.
//!
//! Nothing runs for it in the background and nothing is kept for it: it goes on when the client takes more. A client that takes nothing
//! falls behind the history of the store and gets an error, or is cut.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use lazaret_storage::{Item, Watch, WatchError};
use tokio::{
    sync::watch::Receiver,
    time::{Instant, Sleep, sleep_until},
};

use super::frames::Frames;
use crate::{ApiError, body::Chunks};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark comes this long before the end, so that the client can begin again from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events that are sent in one chunk at most.
const EVENTS_PER_CHUNK: usize = 64;
/// Chunks in which a watch finds no event before it yields.
const CHUNKS_PER_TURN: usize = 8;
/// A chunk that is as long as this is sent as it is: longer ones are no faster, and cost fresh memory.
const CHUNK_BYTES: usize = 32 << 10;

/// The stream of a watch.
pub(super) struct Stream {
    frames: Frames,
    phase: Phase,
    watch: Result<Watch, ApiError>,
    from: u64,
    times: Times,
}

/// How far it is.
enum Phase {
    /// The existing objects are being sent.
    Beginning { items: std::vec::IntoIter<Arc<Item>>, end_marker: bool },
    /// Changes are sent as they happen.
    Following,
    /// There is no more.
    Ended,
}

impl Stream {
    pub(super) fn new(frames: Frames, watch: Result<Watch, ApiError>, from: u64, times: Times) -> Self {
        Self { frames, phase: Phase::Following, watch, from, times }
    }

    /// Tells of these first, and then, if `end_marker`, that this was all.
    pub(super) fn beginning_with(mut self, items: Vec<Arc<Item>>, end_marker: bool) -> Self {
        self.phase = Phase::Beginning { items: items.into_iter(), end_marker };
        self
    }

    /// The next piece of the existing objects; `None` when all are sent. Objects that are not selected cost as much as others: after some of
    /// them the task yields.
    fn begin(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Phase::Beginning { items, end_marker } = &mut self.phase else { return Poll::Ready(None) };
        if self.watch.is_ok() {
            if items.len() > 0 {
                let text = self.frames.initial(items.by_ref().take(EVENTS_PER_CHUNK), CHUNK_BYTES);
                if text.is_empty() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                return Poll::Ready(Some(text));
            }
            if std::mem::take(end_marker) {
                return Poll::Ready(Some(self.frames.bookmark(self.from, true)));
            }
        }
        self.phase = Phase::Following;
        Poll::Ready(None)
    }

    fn follow(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let watch = match &mut self.watch {
            Ok(watch) => watch,
            Err(error) => {
                self.phase = Phase::Ended;
                return Poll::Ready(Some(self.frames.failure(error)));
            }
        };
        for _ in 0..CHUNKS_PER_TURN {
            match self.times.poll(context) {
                Poll::Ready(Time::Over) => {
                    self.phase = Phase::Ended;
                    return Poll::Ready(None);
                }
                Poll::Ready(Time::Bookmark) => {
                    return Poll::Ready(Some(self.frames.bookmark(watch.progress(), false)));
                }
                Poll::Pending => {}
            }
            let event = match watch.poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(event)) => event,
                Poll::Ready(Err(error)) => {
                    let progress = watch.progress();
                    self.phase = Phase::Ended;
                    return Poll::Ready(Some(self.frames.failure(&too_old(&error, progress))));
                }
            };
            let mut chunk = self.frames.event(&event);
            // Further pending events go in one piece. A failure shows again at the next look.
            for _ in 1..EVENTS_PER_CHUNK {
                if chunk.len() >= CHUNK_BYTES {
                    break;
                }
                let Ok(Some(next)) = watch.try_next() else { break };
                chunk = joined(chunk, self.frames.event(&next));
            }
            if !chunk.is_empty() {
                return Poll::Ready(Some(chunk));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Chunks for Stream {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.begin(context) {
            Poll::Ready(None) => {}
            more @ (Poll::Ready(Some(_)) | Poll::Pending) => return more,
        }
        match self.phase {
            Phase::Beginning { .. } | Phase::Following => self.follow(context),
            Phase::Ended => Poll::Ready(None),
        }
    }

    fn retained_bytes(&self) -> usize {
        match &self.phase {
            Phase::Beginning { items, .. } => size_of_val(items.as_slice()),
            Phase::Following | Phase::Ended => 0,
        }
    }
}

/// Most chunks are one event, whose text is shared by all who see it.
fn joined(first: Bytes, second: Bytes) -> Bytes {
    match (first.is_empty(), second.is_empty()) {
        (true, _) => second,
        (_, true) => first,
        (false, false) => {
            let mut text = first.try_into_mut().unwrap_or_else(|shared| shared.as_ref().into());
            text.extend_from_slice(&second);
            text.freeze()
        }
    }
}

pub(super) fn too_old(error: &WatchError, from: u64) -> ApiError {
    match error {
        WatchError::Compacted { oldest, .. } => {
            ApiError::expired(format!("too old resource version: {from} ({oldest})"))
        }
        other => ApiError::internal(other),
    }
}

/// When a watch ends, and when it says how far it is.
pub(super) struct Times {
    deadline: Instant,
    bookmarks: bool,
    bookmark_at: Instant,
    timer: Pin<Box<Sleep>>,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
}

enum Time {
    Bookmark,
    Over,
}

impl Times {
    pub(super) fn new(deadline: Instant, bookmarks: bool, mut ending: Receiver<bool>) -> Self {
        let bookmark_at = (Instant::now() + BOOKMARK_EVERY).min(deadline - BOOKMARK_BEFORE_END);
        let first = if bookmarks { bookmark_at } else { deadline };
        let ending = async move {
            // The value is true, or its sender is gone: the server has ended.
            let _ = ending.wait_for(|ending| *ending).await;
        };
        Self {
            deadline,
            bookmarks,
            bookmark_at,
            timer: Box::pin(sleep_until(first)),
            ending: Box::pin(ending),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Time> {
        if self.ending.as_mut().poll(context).is_ready() {
            return Poll::Ready(Time::Over);
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            if now >= self.deadline {
                return Poll::Ready(Time::Over);
            }
            let due = self.bookmarks && now >= self.bookmark_at;
            if due {
                let last = self.deadline - BOOKMARK_BEFORE_END;
                self.bookmark_at =
                    if self.bookmark_at >= last { self.deadline } else { (now + BOOKMARK_EVERY).min(last) };
            }
            let next = if self.bookmarks { self.bookmark_at.min(self.deadline) } else { self.deadline };
            self.timer.as_mut().reset(next);
            if due {
                return Poll::Ready(Time::Bookmark);
            }
        }
        Poll::Pending
    }
}
