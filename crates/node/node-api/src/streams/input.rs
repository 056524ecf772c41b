//! Messages of a client: input of the program, sizes of its terminal.

use bytes::{Bytes, BytesMut};
use lazaret_containers::Resize;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    Idle,
    channels::{CLOSE, Protocol, RESIZE, STDIN},
    output::Outgoing,
};
use crate::websocket::{CloseCode, Message, Reader};

/// Bytes read from a client at once.
const READ_BYTES: usize = 32 << 10;

/// Where a client's messages go.
pub(super) struct Input<'a> {
    pub(super) protocol: Protocol,
    pub(super) stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub(super) resize: Option<mpsc::Sender<Resize>>,
    pub(super) out: mpsc::Sender<Outgoing>,
    pub(super) idle: &'a Idle,
}

#[derive(Deserialize)]
struct Size {
    #[serde(rename = "Width", alias = "width")]
    width: u16,
    #[serde(rename = "Height", alias = "height")]
    height: u16,
}

impl Input<'_> {
    /// Carries messages until the client goes, or sends an invalid one.
    pub(super) async fn carry(mut self, mut stream: impl AsyncRead + Unpin) -> CloseCode {
        let (mut reader, mut arrived) = (Reader::default(), BytesMut::new());
        loop {
            loop {
                match reader.next(&mut arrived) {
                    Ok(Some(Message::Binary(message))) => self.message(&message).await,
                    Ok(Some(Message::Ping(payload))) => {
                        // Without room for an answer there is none: the client hears of the program instead.
                        let _ = self.out.try_send(Outgoing::Pong(payload));
                    }
                    Ok(Some(Message::Pong)) => {}
                    Ok(Some(Message::Close)) => return CloseCode::Normal,
                    Ok(None) => break,
                    Err(code) => return code,
                }
                self.idle.touch();
            }
            arrived.reserve(READ_BYTES);
            match stream.read_buf(&mut arrived).await {
                Ok(0) | Err(_) => return CloseCode::Normal,
                Ok(_) => {}
            }
        }
    }

    async fn message(&mut self, message: &Bytes) {
        match message.split_first() {
            Some((&STDIN, bytes)) => self.write(bytes).await,
            Some((&RESIZE, size)) => {
                if let (Some(resize), Ok(Size { width, height })) =
                    (&self.resize, serde_json::from_slice(size))
                {
                    // A size that was not read yet is as good as the next.
                    let _ = resize.try_send(Resize { width, height });
                }
            }
            Some((&CLOSE, [STDIN])) if self.protocol == Protocol::V5 => {
                if let Some(mut stdin) = self.stdin.take() {
                    let _ = stdin.shutdown().await;
                }
            }
            // Other channels are not the client's.
            Some(_) | None => {}
        }
    }

    async fn write(&mut self, bytes: &[u8]) {
        let Some(stdin) = &mut self.stdin else { return };
        let written = match stdin.write_all(bytes).await {
            Ok(()) => stdin.flush().await,
            failed => failed,
        };
        // The program reads no more; what it writes is still of interest.
        if written.is_err() {
            self.stdin = None;
        }
    }
}
