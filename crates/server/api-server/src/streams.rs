//! One of many answers on a connection that is not taken is cut alone.
//!
//! Over HTTP/2 a client may read one answer and leave another unread. The unread one holds its remaining bytes, so it must
//! not do so for ever. Each stream is a task; it notes whether its body waits for data or for room to send it, and ends
//! when there was no room for too long. The protocol resets a stream that is dropped with its task, and nothing else on the connection notices.

use std::{
    convert::Infallible,
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::rt::Executor;
use tokio::time::{Sleep, sleep};

use crate::{
    Body,
    accounts::HeldAmount,
    delivery::{Delivery, counted},
};

/// A long answer is handed over in pieces of this size: a piece cannot be taken back. A client that is to keep a stream takes one in
/// the time of patience.
const PIECE_BYTES: usize = 64 << 10;
/// A body that is a little longer than a piece is not cut in two.
const PIECE_BYTES_MAX: usize = PIECE_BYTES + (PIECE_BYTES >> 1);

tokio::task_local! {
    static PROGRESS: Arc<Progress>;
}

/// How far the body of a stream is. It belongs to one task; only the type must be shareable.
#[derive(Debug, Default)]
struct Progress {
    /// Pieces that were handed over, or [`NOT_WAITING`].
    pieces: AtomicU32,
}

/// There is no body yet, or it has nothing to say for now.
const NOT_WAITING: u32 = 0;

impl Progress {
    /// A piece was handed over: there must be room for it before the next is asked for.
    fn set_pending(&self, pieces: u32) {
        self.pieces.store(pieces.max(1), Ordering::Relaxed);
    }

    fn set_idle(&self) {
        self.pieces.store(NOT_WAITING, Ordering::Relaxed);
    }
}

/// Runs the streams of HTTP/2 connections.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    patience: Duration,
}

impl Streams {
    /// Streams that are cut when the client takes nothing of theirs for `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    #[allow(clippy::disallowed_methods, reason = "a task for each stream, which ends with it")]
    fn execute(&self, stream: F) {
        tokio::spawn(with_stall_timeout(self.patience, stream));
    }
}

async fn with_stall_timeout(patience: Duration, stream: impl Future<Output = ()>) {
    let progress = Arc::new(Progress::default());
    let mut stream = pin!(PROGRESS.scope(progress.clone(), stream));
    let mut known = NOT_WAITING;
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|context| {
        if stream.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let now = progress.pieces.load(Ordering::Relaxed);
        if now != std::mem::replace(&mut known, now) {
            timer = None;
        }
        if now == NOT_WAITING {
            return Poll::Pending;
        }
        timer.get_or_insert_with(|| Box::pin(sleep(patience))).as_mut().poll(context)
    })
    .await;
}

/// A body that notes how far it is, in pieces.
#[derive(Debug)]
pub(crate) struct Piecewise {
    body: Body,
    /// The rest of a chunk, and its account.
    rest: Bytes,
    held: Option<Arc<HeldAmount>>,
    delivery: Option<Delivery>,
    progress: Option<Arc<Progress>>,
    pieces: u32,
}

impl Piecewise {
    /// A body of the stream that is being answered, if this is one.
    pub(crate) fn new(body: Body) -> Self {
        let progress = PROGRESS.try_with(Arc::clone).ok();
        let pieces = 1;
        // A client that gives no room for the first piece must not keep the answer either.
        if let Some(progress) = &progress {
            progress.set_pending(pieces);
        }
        Self { body, rest: Bytes::new(), held: None, delivery: None, progress, pieces }
    }

    /// The same body, whose bytes are counted until they are sent.
    pub(crate) fn delivered_by(self, delivery: Delivery) -> Self {
        Self { delivery: Some(delivery), ..self }
    }

    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match &mut self.body {
            Body::Full(bytes) => {
                let piece = match bytes {
                    Some(rest) if rest.len() > PIECE_BYTES_MAX => Some(rest.split_to(PIECE_BYTES)),
                    _ => bytes.take(),
                };
                Poll::Ready(piece.map(|piece| match &self.delivery {
                    Some(delivery) => delivery.of_whole(piece),
                    None => piece,
                }))
            }
            Body::Stream(chunks) => {
                if let Some(delivery) = &mut self.delivery
                    && delivery.poll_session_over(context).is_ready()
                {
                    return Poll::Ready(None);
                }
                if self.rest.is_empty() {
                    self.held = None;
                    let room = match &mut self.delivery {
                        Some(delivery) => ready!(delivery.poll_room(context, chunks.next_bytes())),
                        None => None,
                    };
                    let Some(chunk) = ready!(chunks.poll_chunk(context)) else { return Poll::Ready(None) };
                    self.held = room.map(|mut room| {
                        room.shrink_to(chunk.len());
                        Arc::new(room)
                    });
                    self.rest = chunk;
                }
                let whole = self.rest.len() <= PIECE_BYTES_MAX;
                let length = if whole { self.rest.len() } else { PIECE_BYTES };
                Poll::Ready(Some(counted(self.rest.split_to(length), self.held.clone())))
            }
        }
    }
}

impl http_body::Body for Piecewise {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.poll_piece(context);
        if let Some(progress) = &this.progress {
            if matches!(piece, Poll::Ready(Some(_))) {
                this.pieces = this.pieces.wrapping_add(1);
                progress.set_pending(this.pieces);
            } else {
                progress.set_idle();
            }
        }
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::Chunks;
    use bytes::Bytes;
    use http::{Request, Response};
    use hyper::{body::Incoming, service::service_fn};
    use hyper_util::{
        rt::{TokioIo, TokioTimer},
        server::conn::auto::Builder,
    };
    use std::sync::Weak;
    use tokio::io::duplex;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// As much as the client takes, or one piece an hour.
    struct TestBody {
        _alive: Arc<()>,
        endless: bool,
        timer: Pin<Box<Sleep>>,
    }

    impl Chunks for TestBody {
        fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
            if !self.endless {
                if self.timer.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.timer = Box::pin(sleep(Duration::from_secs(3600)));
            }
            Poll::Ready(Some(Bytes::from_static(&[b'x'; 1000])))
        }
    }

    /// A connection whose `/endless` never ends, whose `/large` is long and whose `/quiet` says something once an hour; who notices when
    /// an answer is dropped.
    #[allow(clippy::disallowed_methods, reason = "both ends of a connection, for as long as the test lasts")]
    async fn connect() -> (h2::client::SendRequest<Bytes>, Weak<()>) {
        let (near, far) = duplex(1 << 20);
        let alive = Arc::new(());
        let noticed = Arc::downgrade(&alive);
        let service = service_fn(move |request: Request<Incoming>| {
            let alive = alive.clone();
            async move {
                let body = match request.uri().path() {
                    "/large" => Body::full(vec![b'x'; 1 << 20]),
                    path => {
                        let timer = Box::pin(sleep(Duration::ZERO));
                        Body::Stream(Box::new(TestBody { _alive: alive, endless: path == "/endless", timer }))
                    }
                };
                Ok::<_, Infallible>(Response::new(Piecewise::new(body)))
            }
        });
        tokio::spawn(async move {
            let mut builder = Builder::new(Streams::new(PATIENCE));
            builder.http2().timer(TokioTimer::new());
            builder.serve_connection(TokioIo::new(far), service).into_owned().await
        });
        let (client, connection) = h2::client::handshake(near).await.unwrap();
        tokio::spawn(connection);
        (client.ready().await.unwrap(), noticed)
    }

    async fn ask(client: &mut h2::client::SendRequest<Bytes>, path: &str) -> h2::RecvStream {
        let request = Request::get(format!("http://x{path}")).body(()).unwrap();
        let (response, _) = client.send_request(request, true).unwrap();
        response.await.unwrap().into_body()
    }

    /// Reads all that comes; gives room for more or does not.
    async fn read(body: &mut h2::RecvStream, takes: bool) -> Result<usize, h2::Error> {
        let mut length = 0;
        while let Some(piece) = body.data().await {
            length += piece.as_ref().map_or(0, Bytes::len);
            let piece = piece?;
            if takes {
                body.flow_control().release_capacity(piece.len())?;
            }
        }
        Ok(length)
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_of_one_stream_loses_that_alone() {
        let (mut client, kept) = connect().await;
        let mut quiet = ask(&mut client, "/quiet").await;
        let mut stuck = ask(&mut client, "/endless").await;
        assert_eq!(kept.strong_count(), 3);
        let cut = read(&mut stuck, false).await.unwrap_err();
        assert_eq!(cut.reason(), Some(h2::Reason::CANCEL));
        drop(stuck);
        assert_eq!(kept.strong_count(), 2, "what the answer held is let go");
        for _ in 0..3 {
            let piece = quiet.data().await.unwrap().unwrap();
            quiet.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_eq!(read(&mut ask(&mut client, "/large").await, true).await.unwrap(), 1 << 20);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_answer_that_nobody_takes_is_cut_as_well() {
        let (mut client, _) = connect().await;
        let mut body = ask(&mut client, "/large").await;
        let cut = read(&mut body, false).await.unwrap_err();
        assert_eq!(cut.reason(), Some(h2::Reason::CANCEL));
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "both ends of a connection, for as long as the test lasts")]
    async fn an_answer_for_which_there_never_is_room_is_cut() {
        let (near, far) = duplex(1 << 20);
        let alive = Arc::new(());
        let kept = Arc::downgrade(&alive);
        let service = service_fn(move |_: Request<Incoming>| {
            let timer = Box::pin(sleep(Duration::ZERO));
            let talk = TestBody { _alive: alive.clone(), endless: true, timer };
            async move { Ok::<_, Infallible>(Response::new(Piecewise::new(Body::Stream(Box::new(talk))))) }
        });
        tokio::spawn(async move {
            let builder = Builder::new(Streams::new(PATIENCE));
            builder.serve_connection(TokioIo::new(far), service).into_owned().await
        });
        let (client, connection) =
            h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(near).await.unwrap();
        tokio::spawn(connection);
        let mut body = ask(&mut client.ready().await.unwrap(), "/endless").await;
        assert_eq!(kept.strong_count(), 2);
        let cut = read(&mut body, false).await.unwrap_err();
        assert_eq!(cut.reason(), Some(h2::Reason::CANCEL));
        assert_eq!(kept.strong_count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_slow_is_served() {
        let (mut client, _) = connect().await;
        let mut body = ask(&mut client, "/large").await;
        let mut length = 0;
        while let Some(piece) = body.data().await {
            let piece = piece.unwrap();
            length += piece.len();
            // 5,000 bytes a second.
            tokio::time::sleep(Duration::from_millis(piece.len() as u64 / 5)).await;
            body.flow_control().release_capacity(piece.len()).unwrap();
        }
        assert_eq!(length, 1 << 20);
    }
}
