//! One connection to a shim.

use std::os::unix::net::UnixStream;

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

use crate::protocol::{Decoder, Kind, PAYLOAD_BYTES_MAX, Reply, Request, frame, header};

/// Bytes of output buffered for a slow client. Output beyond them is left out, and the client learns how much: the container
/// never waits for a client.
const OUTPUT_BYTES_MAX: usize = 128 << 10;

/// One connection.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) socket: UnixStream,
    pub(super) is_attached: bool,
    pub(super) is_closed: bool,
    input: Decoder,
    output: Vec<u8>,
    left_out_bytes: u64,
}

/// A message from a client.
#[derive(Debug)]
pub(super) enum ClientMessage {
    Request(Request),
    Input(Vec<u8>),
    InputEnd,
    Resize(Vec<u8>),
}

impl Client {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self {
            socket,
            is_attached: false,
            is_closed: false,
            input: Decoder::default(),
            output: Vec::new(),
            left_out_bytes: 0,
        }
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what waits and takes what came, at most one buffer of it.
    pub(super) fn turn(&mut self, buffer: &mut [u8]) -> Vec<ClientMessage> {
        let mut heard = Vec::new();
        if self.flush().is_err() {
            self.is_closed = true;
            return heard;
        }
        match rustix::io::read(&self.socket, &mut *buffer) {
            Ok(0) => self.is_closed = true,
            Ok(count) => {
                self.input.push(&buffer[..count]);
                self.is_closed |= self.take(&mut heard).is_none();
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.is_closed = true,
        }
        heard
    }

    /// None when the client does not speak our protocol.
    fn take(&mut self, heard: &mut Vec<ClientMessage>) -> Option<()> {
        while let Some((kind, payload)) = self.input.next().ok()? {
            heard.push(match kind {
                Kind::Request => ClientMessage::Request(serde_json::from_slice(payload).ok()?),
                Kind::Stdin if self.is_attached => ClientMessage::Input(payload.to_vec()),
                Kind::StdinEnd if self.is_attached => ClientMessage::InputEnd,
                Kind::Resize => ClientMessage::Resize(payload.to_vec()),
                Kind::Stdin | Kind::StdinEnd | Kind::Stdout | Kind::Stderr | Kind::Reply => return None,
            });
        }
        Some(())
    }

    pub(super) fn reply(&mut self, reply: &Reply) {
        self.output.extend_from_slice(&reply.frame());
        self.is_closed |= self.flush().is_err();
    }

    /// Output of the container.
    pub(super) fn send(&mut self, kind: Kind, bytes: &[u8]) {
        if self.output.len() + bytes.len() > OUTPUT_BYTES_MAX {
            self.left_out_bytes += bytes.len() as u64;
            return;
        }
        if self.left_out_bytes > 0 {
            let text = format!(
                "\r\n[{} bytes of output were left out]\r\n",
                std::mem::take(&mut self.left_out_bytes)
            );
            self.output.extend_from_slice(&frame(kind, text.as_bytes()));
        }
        for chunk in bytes.chunks(PAYLOAD_BYTES_MAX) {
            self.output.extend_from_slice(&header(kind, chunk.len()));
            self.output.extend_from_slice(chunk);
        }
        self.is_closed |= self.flush().is_err();
    }

    /// Sends as much as fits.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        while !self.output.is_empty() {
            match send(&self.socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.output.drain(..count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.output.shrink_to(PAYLOAD_BYTES_MAX);
        Ok(())
    }
}
