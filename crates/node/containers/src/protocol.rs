//! The protocol between agent and shim: frames of a kind, a length and a payload.

use serde::{Deserialize, Serialize};

/// Bytes of one payload. More is sent as several frames.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 32 << 10;
/// The kind and the length.
const HEADER_BYTES: usize = 5;

/// The kind of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Bytes for the program's input.
    Stdin = 0,
    /// Bytes of its output.
    Stdout = 1,
    /// Bytes of its errors.
    Stderr = 2,
    /// The input ends here.
    StdinEnd = 3,
    /// The size of the terminal: columns and rows, each 2 bytes, the high one first.
    Resize = 4,
    /// A [`Reply`].
    Reply = 5,
    /// A [`Request`].
    Request = 6,
}

/// A request of an agent to the shim of a container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start the program.
    Start,
    /// Send this signal to the first process.
    Signal(i32),
    /// From here on, frames of input and output.
    Attach,
    /// Open the log file again.
    ReopenLog,
}

/// The reply of a shim.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It is done.
    Done,
    /// The program was started and cannot be run, or something failed.
    Failed {
        /// Why, for a person.
        message: String,
        /// Whether the program is at fault, and not the runtime.
        cannot_run: bool,
    },
    /// Frames follow.
    Attached {
        /// Whether the program has a terminal.
        tty: bool,
        /// Whether the program has an input.
        stdin: bool,
    },
    /// A program that was executed has ended.
    Exited(i32),
}

impl Reply {
    pub(crate) fn frame(&self) -> Vec<u8> {
        frame(Kind::Reply, &serde_json::to_vec(self).unwrap_or_default())
    }
}

impl Request {
    pub(crate) fn frame(&self) -> Vec<u8> {
        frame(Kind::Request, &serde_json::to_vec(self).unwrap_or_default())
    }
}

/// One frame. The payload is cut at [`PAYLOAD_BYTES_MAX`]: who has more makes several.
pub(crate) fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
    let mut bytes = Vec::with_capacity(HEADER_BYTES + payload.len());
    bytes.extend_from_slice(&header(kind, payload.len()));
    bytes.extend_from_slice(payload);
    bytes
}

/// The header of a payload of at most [`PAYLOAD_BYTES_MAX`] bytes.
pub(crate) fn header(kind: Kind, length: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [kind as u8, a, b, c, d]
}

/// Frames out of bytes that arrive in any pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    taken: usize,
}

/// Bytes that are no frame.
#[derive(Debug)]
pub(crate) struct Malformed;

impl Decoder {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(crate) fn next(&mut self) -> Result<Option<(Kind, &[u8])>, Malformed> {
        let Some((head, rest)) = self.bytes[self.taken..].split_at_checked(HEADER_BYTES) else {
            return Ok(None);
        };
        let kind = kind(head[0]).ok_or(Malformed)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        if length > PAYLOAD_BYTES_MAX {
            return Err(Malformed);
        }
        if rest.len() < length {
            return Ok(None);
        }
        let start = self.taken + HEADER_BYTES;
        self.taken = start + length;
        Ok(Some((kind, &self.bytes[start..start + length])))
    }
}

fn kind(byte: u8) -> Option<Kind> {
    use Kind::{Reply, Request, Resize, Stderr, Stdin, StdinEnd, Stdout};
    [Stdin, Stdout, Stderr, StdinEnd, Resize, Reply, Request].into_iter().find(|kind| *kind as u8 == byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_any_pieces() {
        let mut sent = frame(Kind::Stdout, b"abc");
        sent.extend(frame(Kind::StdinEnd, b""));
        for piece in 1..=sent.len() {
            let (mut decoder, mut seen) = (Decoder::default(), Vec::new());
            for bytes in sent.chunks(piece) {
                decoder.push(bytes);
                while let Some((kind, payload)) = decoder.next().unwrap() {
                    seen.push((kind, payload.to_vec()));
                }
            }
            assert_eq!(seen, [(Kind::Stdout, b"abc".to_vec()), (Kind::StdinEnd, Vec::new())]);
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_before_it_is_kept() {
        for bytes in [[7, 0, 0, 0, 1], [0, 0xff, 0, 0, 0]] {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            assert!(decoder.next().is_err());
        }
    }
}
