//! Frames, read and written.

use bytes::{Buf, Bytes, BytesMut};

use crate::headers::{Unpacker, pack};

/// A frame of the other side: kubectl sends at most 32 KiB at once.
const FRAME_BYTES_MAX: usize = 1 << 20;
const VERSION: u16 = 3;
const FIN: u8 = 1;
/// Identifiers have 31 bits.
const ID_MASK: u32 = 0x7fff_ffff;

/// A frame of the other side.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A new stream.
    Stream {
        /// Its number: odd when the client opened it.
        id: u32,
        /// Names, in lower case, and values.
        headers: Vec<(String, String)>,
        /// Whether the other side sends nothing more on it.
        is_last: bool,
    },
    /// Bytes of a stream.
    Data {
        /// Which stream.
        id: u32,
        /// The bytes.
        bytes: Bytes,
        /// Whether the other side sends nothing more on it.
        is_last: bool,
    },
    /// A stream ends at once, both ways.
    Reset {
        /// Which stream.
        id: u32,
    },
    /// To be answered with the same.
    Ping {
        /// Which ping.
        id: u32,
    },
    /// The other side ends the session.
    GoAway,
    /// Nothing that matters here.
    Other,
}

/// Reads the frames of a session.
#[derive(Debug)]
pub struct Reader {
    arrived: BytesMut,
    headers: Unpacker,
}

/// Why a session cannot go on.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Of a session that begins.
    pub fn new() -> Self {
        Self { arrived: BytesMut::new(), headers: Unpacker::new() }
    }

    /// Takes what arrived.
    pub fn arrive(&mut self, bytes: &[u8]) {
        self.arrived.extend_from_slice(bytes);
    }

    /// The next frame; `None` if not all of it has arrived.
    ///
    /// # Errors
    /// When what arrived is no frame, or too large.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Broken> {
        let Some(head) = self.arrived.first_chunk::<8>().copied() else { return Ok(None) };
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (first, flags, length) = (word(0), head[4], (word(4) & 0x00ff_ffff) as usize);
        if length > FRAME_BYTES_MAX {
            return Err(Broken);
        }
        if self.arrived.len() < 8 + length {
            return Ok(None);
        }
        self.arrived.advance(8);
        let payload = self.arrived.split_to(length).freeze();
        if first & !ID_MASK == 0 {
            return Ok(Some(Frame::Data { id: first, bytes: payload, is_last: flags & FIN != 0 }));
        }
        let [high, low, kind_high, kind_low, ..] = head;
        if u16::from_be_bytes([high & 0x7f, low]) != VERSION {
            return Err(Broken);
        }
        let id = |at: usize| {
            let bytes = payload.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Broken)?;
            Ok(u32::from_be_bytes(*bytes) & ID_MASK)
        };
        Ok(Some(match u16::from_be_bytes([kind_high, kind_low]) {
            1 => {
                let packed = payload.get(10..).ok_or(Broken)?;
                let headers = self.headers.unpack(packed).ok_or(Broken)?;
                Frame::Stream { id: id(0)?, headers, is_last: flags & FIN != 0 }
            }
            3 => Frame::Reset { id: id(0)? },
            6 => Frame::Ping { id: id(0)? },
            7 => Frame::GoAway,
            // Answers and further headers have blocks in the same compressed stream.
            2 | 8 => {
                let packed = payload.get(4..).ok_or(Broken)?;
                self.headers.unpack(packed).ok_or(Broken)?;
                Frame::Other
            }
            _ => Frame::Other,
        }))
    }
}

fn control(kind: u16, flags: u8, payload: &[&[u8]]) -> Vec<u8> {
    let length: usize = payload.iter().map(|piece| piece.len()).sum();
    let mut frame = (VERSION | 0x8000).to_be_bytes().to_vec();
    frame.extend(kind.to_be_bytes());
    frame.extend(flags_and_length(flags, length));
    payload.iter().for_each(|piece| frame.extend_from_slice(piece));
    frame
}

fn flags_and_length(flags: u8, length: usize) -> [u8; 4] {
    let length = u32::try_from(length).unwrap_or(u32::MAX) & 0x00ff_ffff;
    (u32::from(flags) << 24 | length).to_be_bytes()
}

/// Opens a stream, with names in lower case. The first headers of a session are packed with more.
pub fn open(id: u32, headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    // No stream that it belongs to, no priority, no slot.
    const ALONE: [u8; 6] = [0; 6];
    control(1, 0, &[&id.to_be_bytes(), &ALONE, &pack(headers, is_first)])
}

/// Accepts a stream. The first headers of a session are packed with more.
pub fn reply(id: u32, is_first: bool) -> Vec<u8> {
    control(2, 0, &[&id.to_be_bytes(), &pack(&[], is_first)])
}

/// Ends a stream at once, refused.
pub fn refuse(id: u32) -> Vec<u8> {
    const REFUSED_STREAM: u32 = 3;
    control(3, 0, &[&id.to_be_bytes(), &REFUSED_STREAM.to_be_bytes()])
}

/// Asks whether the other side is there, or answers that.
pub fn ping(id: u32) -> Vec<u8> {
    control(6, 0, &[&id.to_be_bytes()])
}

/// Bytes of a stream, and whether they are its last.
pub fn data(id: u32, bytes: &[u8], is_last: bool) -> Vec<u8> {
    let mut frame = id.to_be_bytes().to_vec();
    frame.extend(flags_and_length(if is_last { FIN } else { 0 }, bytes.len()));
    frame.extend_from_slice(bytes);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], piece: usize) -> Result<Vec<Frame>, Broken> {
        let (mut reader, mut all) = (Reader::new(), Vec::new());
        for piece in bytes.chunks(piece) {
            reader.arrive(piece);
            while let Some(frame) = reader.next_frame()? {
                all.push(frame);
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_are_read_however_they_arrive() {
        let bytes = [data(3, b"abc", false), data(3, b"", true), ping(1), refuse(5), reply(7, true)].concat();
        let expected = [
            Frame::Data { id: 3, bytes: Bytes::from_static(b"abc"), is_last: false },
            Frame::Data { id: 3, bytes: Bytes::new(), is_last: true },
            Frame::Ping { id: 1 },
            Frame::Reset { id: 5 },
            Frame::Other,
        ];
        for piece in [1, 5, 1_000] {
            assert_eq!(read(&bytes, piece).unwrap(), expected, "{piece}");
        }
    }

    #[test]
    fn streams_that_are_opened_are_read_with_their_headers() {
        let headers = |kind: &'static str| [("streamtype", kind), ("port", "80")];
        let bytes = [open(1, &headers("error"), true), open(3, &headers("stdin"), false)].concat();
        let stream = |id, kind: &str| Frame::Stream {
            id,
            headers: vec![("streamtype".into(), kind.into()), ("port".into(), "80".into())],
            is_last: false,
        };
        assert_eq!(read(&bytes, 3).unwrap(), [stream(1, "error"), stream(3, "stdin")]);
    }

    #[test]
    fn what_is_no_frame_ends_the_session() {
        let other_version = [0x80, 2, 0, 1, 0, 0, 0, 0];
        let too_long = [0, 0, 0, 1, 0, 0xff, 0xff, 0xff];
        let short_stream = control(1, 0, &[&[0; 4]]);
        let no_block = control(1, 0, &[&[0; 10], b"nonsense"]);
        for bytes in [&other_version[..], &too_long, &short_stream, &no_block] {
            assert_eq!(read(bytes, bytes.len()), Err(Broken));
        }
    }
}
