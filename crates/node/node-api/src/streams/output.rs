//! The output of a program, as messages of a websocket.

use std::{io, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::timeout,
};

use super::{Idle, channels::ERROR};
use crate::websocket::{self, CloseCode};

/// Messages that wait for a client that is slow: with more, the program waits.
pub(super) const QUEUE_MAX: usize = 8;
/// Bytes read from a program at once. kubectl reads up to 32 KiB.
const READ_BYTES: usize = 16 << 10;
/// A client that takes nothing for this long has gone.
const STALL: Duration = Duration::from_secs(600);

/// A message to a client.
#[derive(Debug)]
pub(super) enum Outgoing {
    Data {
        channel: u8,
        bytes: Bytes,
    },
    Pong(Bytes),
    /// The last: how the program ended.
    End(Value),
}

/// Copies an output of a program to a channel until it ends.
pub(super) async fn copy(
    from: Option<Box<dyn AsyncRead + Send + Unpin>>,
    channel: u8,
    out: mpsc::Sender<Outgoing>,
    idle: &Idle,
) {
    let Some(mut from) = from else { return };
    let mut block = vec![0; READ_BYTES];
    loop {
        match from.read(&mut block).await {
            // A terminal whose last program has ended fails with an error instead of ending.
            Ok(0) | Err(_) => return,
            Ok(read) => {
                idle.touch();
                let bytes = Bytes::copy_from_slice(&block[..read]);
                if out.send(Outgoing::Data { channel, bytes }).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Sends until the end was sent.
pub(super) async fn send(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
) -> io::Result<()> {
    while let Some(next) = queue.recv().await {
        let (frame, is_last) = match next {
            Outgoing::Data { channel, bytes } => (websocket::binary(&[&[channel], &bytes]), false),
            Outgoing::Pong(payload) => (websocket::pong(&payload), false),
            Outgoing::End(status) => {
                let mut frames = websocket::binary(&[&[ERROR], status.to_string().as_bytes()]);
                frames.extend(websocket::close(CloseCode::Normal));
                (frames, true)
            }
        };
        let written = timeout(STALL, async {
            stream.write_all(&frame).await?;
            stream.flush().await
        });
        written.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        if is_last {
            return Ok(());
        }
    }
    Ok(())
}
