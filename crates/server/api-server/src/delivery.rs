//! Resources held by an answer that is being sent: bytes that are rendered and not sent, a watch, a seat while a list is being rendered. And what
//! ends an answer that goes on: the session that it belongs to.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use lazaret_flow::Level;
use tokio::time::{Sleep, sleep};

use crate::{
    Body, SessionEnd,
    accounts::{AccountKey, Accounts, HeldAmount},
    flow_control::Seat,
    open_requests::OpenRequest,
};

/// A list keeps its seats while it is rendered, but no longer than this: a client that does not read is no work.
const SEAT_HELD: Duration = Duration::from_secs(1);
/// A stream whose user has too much on its way out looks again after this long.
const RETRY_EVERY: Duration = Duration::from_millis(50);
/// Room that a stream asks for before it renders the next piece, at least and at most.
const ROOM_BYTES_MIN: usize = 64 << 10;
const ROOM_BYTES_MAX: usize = 1 << 20;
/// The cost of a stream besides its bytes.
const STREAM_BYTES: usize = 4 << 10;

/// The resources held by an answer. All are released when the answer is sent, or given up.
#[derive(Debug)]
pub(crate) struct Delivery {
    account: Option<(Arc<Accounts>, AccountKey)>,
    /// The whole of an answer that was rendered at once, or what a stream keeps for what is still to come.
    whole: Option<Arc<HeldAmount>>,
    retry: Option<Pin<Box<Sleep>>>,
    session: Session,
    _busy: OpenRequest,
    _watch: Option<HeldAmount>,
    _seat: Option<Arc<Mutex<Option<Seat>>>>,
}

/// The session that ends an answer.
#[derive(Debug)]
enum Session {
    /// The answer ends by itself alone.
    None,
    /// The answer ends with this at the latest.
    Open(SessionEnd),
    Over,
}

impl Delivery {
    pub(crate) fn new(busy: OpenRequest) -> Self {
        let session = Session::None;
        Self { account: None, whole: None, retry: None, session, _busy: busy, _watch: None, _seat: None }
    }

    /// Nothing more of the answer is sent once the session is over.
    pub(crate) fn end_with(&mut self, session: SessionEnd) {
        self.session = Session::Open(session);
    }

    /// Ready when the session of the answer is over, again and again; never where it has none.
    pub(crate) fn poll_session_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.session {
            Session::None => Poll::Pending,
            Session::Open(end) => {
                ready!(Pin::new(end).poll(context));
                self.session = Session::Over;
                Poll::Ready(())
            }
            Session::Over => Poll::Ready(()),
        }
    }

    /// Returns when the session of the answer is over; never where it has none.
    pub(crate) async fn session_over(&mut self) {
        poll_fn(|context| self.poll_session_over(context)).await;
    }

    /// The resources held by the answer of a request that has run.
    pub(crate) fn deliver(
        &mut self,
        outbound: &Arc<Accounts>,
        holder: AccountKey,
        watch: Option<HeldAmount>,
        seat: Option<Seat>,
    ) {
        // Administrators are trusted, as everywhere: what they do not read is limited by their connections alone.
        self.account = (holder.level != Level::Exempt).then(|| (Arc::clone(outbound), holder));
        self._watch = watch;
        self._seat = seat.map(|seat| {
            let shared = Arc::new(Mutex::new(Some(seat)));
            release_after_delay(&shared);
            shared
        });
    }

    /// Counts an answer in.
    ///
    /// # Errors
    /// The level, if its user has too much on its way out.
    pub(crate) fn admit(&mut self, body: &Body) -> Result<(), Level> {
        let Some((accounts, holder)) = &self.account else { return Ok(()) };
        let bytes = match body {
            Body::Full(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Body::Stream(chunks) => chunks.retained_bytes() + STREAM_BYTES,
        };
        let held = accounts.take(holder, bytes).map_err(|_| holder.level)?;
        self.whole = Some(Arc::new(held));
        Ok(())
    }

    /// A piece of an answer that was rendered at once.
    pub(crate) fn of_whole(&self, piece: Bytes) -> Bytes {
        counted(piece, self.whole.clone())
    }

    /// Waits until there is room for another piece; `next` is how long it will be, if that is known.
    pub(crate) fn poll_room(&mut self, context: &mut Context<'_>, next: usize) -> Poll<Option<HeldAmount>> {
        let Some((accounts, holder)) = &self.account else { return Poll::Ready(None) };
        loop {
            if let Some(timer) = &mut self.retry {
                ready!(timer.as_mut().poll(context));
                self.retry = None;
            }
            match accounts.take(holder, next.clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX)) {
                Ok(held) => return Poll::Ready(Some(held)),
                Err(_) => self.retry = Some(Box::pin(sleep(RETRY_EVERY))),
            }
        }
    }
}

/// Bytes that count as held until the last of them is sent, however long the protocol keeps them.
pub(crate) fn counted(piece: Bytes, held: Option<Arc<HeldAmount>>) -> Bytes {
    match held {
        Some(held) => Bytes::from_owner(Counted { piece, _held: held }),
        None => piece,
    }
}

struct Counted {
    piece: Bytes,
    _held: Arc<HeldAmount>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

#[allow(clippy::disallowed_methods, reason = "ends by itself after a second")]
fn release_after_delay(seat: &Arc<Mutex<Option<Seat>>>) {
    let seat = Arc::downgrade(seat);
    tokio::spawn(async move {
        sleep(SEAT_HELD).await;
        if let Some(seat) = seat.upgrade() {
            let given_up = seat.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(given_up);
        }
    });
}
