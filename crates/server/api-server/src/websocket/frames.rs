//! Frames of RFC 6455: written to clients, and read from them as far as a watch needs to.

use bytes::{Buf, BytesMut};

/// A control frame has no longer payload.
const CONTROL_BYTES_MAX: usize = 125;
/// A client has nothing to send to a watch. Data that it sends all the same is skipped up to this length.
const DATA_BYTES_MAX: u64 = 64 << 10;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Text = 0x1,
    Close = 0x8,
    Ping = 0x9,
    Pong = 0xa,
}

/// Why a websocket is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseCode {
    Normal = 1000,
    ProtocolError = 1002,
    TooMuch = 1008,
    TooLarge = 1009,
}

/// A frame from a client.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReceivedFrame {
    Ping(Vec<u8>),
    Close,
    /// Nothing that needs an answer.
    Other,
}

/// Adds a frame with this payload.
pub(super) fn write(opcode: Opcode, payload: &[u8], out: &mut Vec<u8>) {
    out.push(0x80 | opcode as u8);
    if let Ok(short @ ..126) = u8::try_from(payload.len()) {
        out.push(short);
    } else if let Ok(medium) = u16::try_from(payload.len()) {
        out.push(126);
        out.extend_from_slice(&medium.to_be_bytes());
    } else {
        out.push(127);
        out.extend_from_slice(&(payload.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(payload);
}

/// Adds the frame that closes a websocket.
pub(super) fn write_close(code: CloseCode, out: &mut Vec<u8>) {
    write(Opcode::Close, &(code as u16).to_be_bytes(), out);
}

/// Reads the frames of a client from what arrived of them.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// Bytes of a data frame that are still to come, and are passed over.
    skip: u64,
}

impl Reader {
    /// The next frame; `None` if not all of it has arrived.
    ///
    /// # Errors
    /// Why the websocket is closed.
    pub(super) fn next(&mut self, arrived: &mut BytesMut) -> Result<Option<ReceivedFrame>, CloseCode> {
        let passed = usize::try_from(self.skip).unwrap_or(usize::MAX).min(arrived.len());
        arrived.advance(passed);
        self.skip -= passed as u64;
        if self.skip > 0 {
            return Ok(None);
        }
        let [first, second, rest @ ..] = &arrived[..] else { return Ok(None) };
        let (opcode, is_final, length) = (first & 0x0f, first & 0x80 != 0, second & 0x7f);
        // Extensions were not agreed on, and clients mask what they send.
        if first & 0x70 != 0 || second & 0x80 == 0 {
            return Err(CloseCode::ProtocolError);
        }
        let (length, length_bytes) = match length {
            126 => {
                let Some(bytes) = rest.first_chunk() else { return Ok(None) };
                (u64::from(u16::from_be_bytes(*bytes)), 2)
            }
            127 => {
                let Some(bytes) = rest.first_chunk() else { return Ok(None) };
                (u64::from_be_bytes(*bytes), 8)
            }
            short => (u64::from(short), 0),
        };
        let Some(mask) = rest.get(length_bytes..).and_then(|rest| rest.first_chunk::<4>()).copied() else {
            return Ok(None);
        };
        let head = 2 + length_bytes + mask.len();
        match opcode {
            0x0..=0x2 if length > DATA_BYTES_MAX => Err(CloseCode::TooLarge),
            0x0..=0x2 => {
                arrived.advance(head);
                self.skip = length;
                Ok(Some(ReceivedFrame::Other))
            }
            0x8..=0xa => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if !is_final || length > CONTROL_BYTES_MAX {
                    return Err(CloseCode::ProtocolError);
                }
                if arrived.len() < head + length {
                    return Ok(None);
                }
                arrived.advance(head);
                let masked = arrived.split_to(length);
                let payload =
                    masked.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
                Ok(Some(match opcode {
                    0x8 => ReceivedFrame::Close,
                    0x9 => ReceivedFrame::Ping(payload),
                    _ => ReceivedFrame::Other,
                }))
            }
            _ => Err(CloseCode::ProtocolError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mask = [1, 2, 3, 4];
        let mut out = Vec::new();
        write(Opcode::Text, payload, &mut out);
        out[0] = first;
        let head = out.len() - payload.len();
        out[1] |= 0x80;
        let mut frame = out[..head].to_vec();
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// The frames read when the bytes arrive in pieces of this size.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<ReceivedFrame>, CloseCode> {
        let (mut reader, mut arrived, mut all) = (Reader::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            arrived.extend_from_slice(piece);
            while let Some(received) = reader.next(&mut arrived)? {
                all.push(received);
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_are_read_however_they_arrive() {
        let mut bytes = masked(0x81, &[7; 300]);
        bytes.extend(masked(0x89, b"abc"));
        bytes.extend(masked(0x02, &[7; 65_536]));
        bytes.extend(masked(0x80, b""));
        bytes.extend(masked(0x8a, b""));
        bytes.extend(masked(0x88, &[3, 232]));
        let expected = [
            ReceivedFrame::Other,
            ReceivedFrame::Ping(b"abc".to_vec()),
            ReceivedFrame::Other,
            ReceivedFrame::Other,
            ReceivedFrame::Other,
            ReceivedFrame::Close,
        ];
        for piece in [1, 7, 100_000] {
            assert_eq!(read(&bytes, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn what_no_client_may_send_ends_the_websocket() {
        for (bytes, expected) in [
            (vec![0x81, 0x01, b'x'], CloseCode::ProtocolError),
            (masked(0xc1, b"x"), CloseCode::ProtocolError),
            (masked(0x83, b"x"), CloseCode::ProtocolError),
            (masked(0x09, b"x"), CloseCode::ProtocolError),
            (masked(0x89, &[7; 126]), CloseCode::ProtocolError),
            (masked(0x82, &[7; 65_537]), CloseCode::TooLarge),
            ([&[0x82, 0xff][..], &[0xff; 8], &[0; 4]].concat(), CloseCode::TooLarge),
        ] {
            assert_eq!(read(&bytes, bytes.len()), Err(expected), "{:?}", &bytes[..2]);
        }
    }

    #[test]
    fn lengths_are_written_as_the_standard_says() {
        for (length, head) in [
            (0, &[0x81, 0][..]),
            (125, &[0x81, 125]),
            (126, &[0x81, 126, 0, 126]),
            (65_535, &[0x81, 126, 255, 255]),
            (65_536, &[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            write(Opcode::Text, &vec![7; length], &mut out);
            assert_eq!((&out[..head.len()], out.len()), (head, head.len() + length));
        }
    }
}
