//! Frames: checksummed, numbered pieces of a file.
//!
//! ```text
//! magic 4 | kind 4 | payload length 4 | payload CRC32C 4 | number 8 | base revision 8 | header CRC32C 4 | payload | end mark 4
//! ```
//! In an encrypted file the payload is ciphertext and its tag; the checksum is that of the ciphertext, so a torn frame
//! is distinguished from a damaged one without the key. Kind, length, number and base revision are bound to the tag.
//!
//! The first and the last byte are never zero, so a sector of a frame that never reached the disk shows as zeros
//! (see [`tail`](super::tail)).

use std::io;

use super::header::{u32_at, u64_at};
use super::seal::Cipher;
use crate::disk::DiskFile;

pub(super) const MAGIC: [u8; 4] = [0xf7, b'L', b'Z', 0x96];
const END_MARK: [u8; 4] = [0x5d, 0xb3, 0x6a, 0xe9];
pub(super) const HEADER_BYTES: usize = 36;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// One group commit.
    Commit,
    /// Some items of a snapshot.
    Items,
    /// The end of a snapshot.
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    pub(super) seq: u64,
    pub(super) base: u64,
    payload_len: u32,
    payload_crc: u32,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: FrameKind,
    pub(super) seq: u64,
    /// The revision before the first change in it.
    pub(super) base: u64,
    pub(super) payload: Vec<u8>,
    /// Where the next frame begins.
    pub(super) end: u64,
}

/// The content at some offset of a file.
#[derive(Debug)]
pub(super) enum Found {
    Frame(Frame),
    /// The end of the file.
    End,
    /// Something that is not a whole frame.
    Unreadable(&'static str),
    /// A whole frame that this file's key did not write.
    Forged(&'static str),
}

impl FrameKind {
    fn code(self) -> u32 {
        match self {
            FrameKind::Commit => 1,
            FrameKind::Items => 2,
            FrameKind::End => 3,
        }
    }

    fn from_code(code: u32) -> Option<FrameKind> {
        [FrameKind::Commit, FrameKind::Items, FrameKind::End].into_iter().find(|kind| kind.code() == code)
    }
}

/// Appends a frame to a buffer; `fill` appends its payload.
pub(super) fn encode(
    buffer: &mut Vec<u8>,
    cipher: &Cipher,
    kind: FrameKind,
    seq: u64,
    base: u64,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let start = buffer.len();
    let payload_start = start + HEADER_BYTES;
    buffer.resize(payload_start, 0);
    fill(buffer);
    let payload_len = u32_len(buffer.len() - payload_start + cipher.overhead());
    cipher.seal(buffer, payload_start, seq, &bound(kind, payload_len, seq, base));
    let payload_crc = crc32c::crc32c(&buffer[payload_start..]);

    let header = &mut buffer[start..start + HEADER_BYTES];
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&kind.code().to_le_bytes());
    header[8..12].copy_from_slice(&payload_len.to_le_bytes());
    header[12..16].copy_from_slice(&payload_crc.to_le_bytes());
    header[16..24].copy_from_slice(&seq.to_le_bytes());
    header[24..32].copy_from_slice(&base.to_le_bytes());
    let crc = crc32c::crc32c(&header[..32]);
    header[32..].copy_from_slice(&crc.to_le_bytes());
    buffer.extend_from_slice(&END_MARK);
}

/// The part of a frame's header that an encrypted payload is bound to.
fn bound(kind: FrameKind, payload_len: u32, seq: u64, base: u64) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..4].copy_from_slice(&kind.code().to_le_bytes());
    bytes[4..8].copy_from_slice(&payload_len.to_le_bytes());
    bytes[8..16].copy_from_slice(&seq.to_le_bytes());
    bytes[16..].copy_from_slice(&base.to_le_bytes());
    bytes
}

/// Lengths are bounded far below 4 GiB by the limits of transactions, keys and groups.
pub(super) fn u32_len(len: usize) -> u32 {
    u32::try_from(len).expect("a frame is smaller than 4 GiB")
}

impl FrameHeader {
    /// Reads a header if there is a valid one at the beginning of `bytes`.
    pub(super) fn decode(bytes: &[u8]) -> Option<FrameHeader> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        if bytes[..4] != MAGIC || u32_at(bytes, 32) != crc32c::crc32c(&bytes[..32]) {
            return None;
        }
        Some(FrameHeader {
            kind: FrameKind::from_code(u32_at(bytes, 4))?,
            payload_len: u32_at(bytes, 8),
            payload_crc: u32_at(bytes, 12),
            seq: u64_at(bytes, 16),
            base: u64_at(bytes, 24),
        })
    }

    /// The bytes of the whole frame.
    pub(super) fn frame_bytes(&self) -> u64 {
        (HEADER_BYTES + END_MARK.len()) as u64 + u64::from(self.payload_len)
    }
}

/// Reads the frame at `offset` of a file of `size` bytes.
pub(super) fn read(file: &dyn DiskFile, cipher: &Cipher, offset: u64, size: u64) -> io::Result<Found> {
    if offset >= size {
        return Ok(Found::End);
    }
    if size - offset < HEADER_BYTES as u64 {
        return Ok(Found::Unreadable("the file ends within a frame's header"));
    }
    let mut header = [0; HEADER_BYTES];
    file.read_at(offset, &mut header)?;
    let Some(header) = FrameHeader::decode(&header) else {
        return Ok(Found::Unreadable("a frame's header does not match its checksum"));
    };
    let end = offset + header.frame_bytes();
    if end > size {
        return Ok(Found::Unreadable("the file ends within a frame"));
    }
    let mut payload = vec![0; header.payload_len as usize + END_MARK.len()];
    file.read_at(offset + HEADER_BYTES as u64, &mut payload)?;
    let mark = payload.split_off(header.payload_len as usize);
    if crc32c::crc32c(&payload) != header.payload_crc || mark != END_MARK {
        return Ok(Found::Unreadable("a frame's payload does not match its checksum"));
    }
    let FrameHeader { kind, seq, base, payload_len, .. } = header;
    if !cipher.open(&mut payload, seq, &bound(kind, payload_len, seq, base)) {
        return Ok(Found::Forged("a frame was not encrypted with the key of its file"));
    }
    Ok(Found::Frame(Frame { kind, seq, base, payload, end }))
}
