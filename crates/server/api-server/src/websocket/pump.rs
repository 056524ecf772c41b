//! Carries the events of a watch to a websocket.

use std::{fmt, future::poll_fn, io, pin::Pin, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use memchr::memchr;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{MissedTickBehavior, interval},
};

use super::frames::{CloseCode, Opcode, Reader, ReceivedFrame, write, write_close};
use crate::{delivery::Delivery, streams::Piecewise, tunnel::Tunnel};

/// A client that is silent is asked this often whether it is there; one that is gone is noticed when nothing can be sent to it.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Frames that a client may send between two pings of the server.
const FRAMES_PER_PERIOD_MAX: usize = 1_000;
/// Bytes that are read from a client at once.
const READ_BYTES: usize = 4 << 10;

/// The use of a connection that switches protocols.
pub(crate) enum Socket {
    /// A websocket that a watch is sent to.
    Watch {
        /// The connection, once it has switched.
        upgrade: OnUpgrade,
        events: Piecewise,
    },
    /// One with a node. The resources of the request are held as long.
    Tunnel(Tunnel, Delivery),
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

impl Socket {
    pub(crate) fn new(upgrade: OnUpgrade, events: Piecewise) -> Self {
        Self::Watch { upgrade, events }
    }

    /// Sends events until there are no more, or carries what goes to and from a node, until the client goes or its session is over. How it
    /// ended is the client's affair.
    pub(crate) async fn run(self) {
        match self {
            Self::Watch { upgrade, events } => {
                if let Ok(upgraded) = upgrade.await {
                    let _ = carry(TokioIo::new(upgraded), events).await;
                }
            }
            Self::Tunnel(tunnel, delivery) => within_session(tunnel.run(), delivery).await,
        }
    }
}

/// Gives `work` up when the session is over. The resources of the request are held as long.
async fn within_session(work: impl Future<Output = ()>, mut delivery: Delivery) {
    tokio::select! {
        () = work => {}
        () = delivery.session_over() => {}
    }
}

async fn carry(mut stream: impl AsyncRead + AsyncWrite + Unpin, mut events: Piecewise) -> io::Result<()> {
    let (mut lines, mut out) = (Lines::default(), Vec::new());
    let (mut reader, mut arrived, mut frames) = (Reader::default(), BytesMut::new(), 0);
    let mut ping = interval(PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping.tick().await;
    let code = loop {
        out.clear();
        tokio::select! {
            piece = next_piece(&mut events) => match piece {
                Some(piece) => lines.frame(&piece, &mut out),
                None => break CloseCode::Normal,
            },
            read = async { arrived.reserve(READ_BYTES); stream.read_buf(&mut arrived).await } => {
                if read? == 0 {
                    return Ok(());
                }
                match answers(&mut reader, &mut arrived, &mut frames, &mut out) {
                    Ok(()) => {}
                    Err(code) => break code,
                }
            },
            _ = ping.tick() => {
                frames = 0;
                write(Opcode::Ping, b"", &mut out);
            },
        }
        if !out.is_empty() {
            stream.write_all(&out).await?;
            stream.flush().await?;
        }
    };
    write_close(code, &mut out);
    stream.write_all(&out).await?;
    stream.shutdown().await
}

/// Adds the answers to what a client sent.
fn answers(
    reader: &mut Reader,
    arrived: &mut BytesMut,
    frames: &mut usize,
    out: &mut Vec<u8>,
) -> Result<(), CloseCode> {
    while let Some(received) = reader.next(arrived)? {
        *frames += 1;
        if *frames > FRAMES_PER_PERIOD_MAX {
            return Err(CloseCode::TooMuch);
        }
        match received {
            ReceivedFrame::Ping(payload) => write(Opcode::Pong, &payload, out),
            ReceivedFrame::Close => return Err(CloseCode::Normal),
            ReceivedFrame::Other => {}
        }
    }
    Ok(())
}

async fn next_piece(events: &mut Piecewise) -> Option<Bytes> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *events).poll_frame(context)).await?;
        if let Ok(data) = frame.ok()?.into_data() {
            return Some(data);
        }
    }
}

/// The text of events, one a line, in pieces that may end anywhere.
#[derive(Debug, Default)]
struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Adds a frame for each line that ends in this piece.
    fn frame(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            if self.begun.is_empty() {
                write(Opcode::Text, line, out);
            } else {
                self.begun.extend_from_slice(line);
                write(Opcode::Text, &std::mem::take(&mut self.begun), out);
            }
            rest = after;
        }
        self.begun.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, pin::pin, sync::Arc};

    use tokio::{
        sync::oneshot,
        time::{Instant, timeout},
    };

    use super::*;
    use crate::{
        SessionEnd,
        open_requests::{OpenRequest, OpenRequests},
    };

    #[test]
    fn each_line_is_a_frame_wherever_pieces_end() {
        let text = b"{\"a\":1}\n{}\n{\"b\":\"long\"}\n";
        let mut expected = Vec::new();
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            write(Opcode::Text, line, &mut expected);
        }
        for size in 1..=text.len() {
            let (mut lines, mut out) = (Lines::default(), Vec::new());
            text.chunks(size).for_each(|piece| lines.frame(piece, &mut out));
            assert_eq!(out, expected, "{size}");
            assert!(lines.begun.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_carried_to_and_from_a_node_ends_with_its_session() {
        let delivery = || Delivery::new(OpenRequest::new(&Arc::new(OpenRequests::new(Instant::now()))));
        let (end, ended) = oneshot::channel::<()>();
        let mut within = delivery();
        within.end_with(SessionEnd::new(async move { drop(ended.await) }));
        let mut exec = pin!(within_session(pending(), within));
        assert!(timeout(PING_EVERY, exec.as_mut()).await.is_err(), "it goes on as long as the session");
        drop(end);
        exec.await;
        let without = within_session(pending(), delivery());
        assert!(timeout(PING_EVERY, without).await.is_err(), "other credentials have no session");
        within_session(async {}, delivery()).await;
    }

    #[test]
    fn a_client_that_floods_is_closed() {
        let ping = [0x89, 0x80, 0, 0, 0, 0];
        let mut arrived = BytesMut::from(&ping.repeat(FRAMES_PER_PERIOD_MAX + 1)[..]);
        let (mut reader, mut frames, mut out) = (Reader::default(), 0, Vec::new());
        assert_eq!(answers(&mut reader, &mut arrived, &mut frames, &mut out), Err(CloseCode::TooMuch));
    }
}
