//! The first bytes of every file: what it is, which, and where it begins.

use crate::disk::DiskFile;
use crate::error::{OpenError, StorageError};

const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 56;

/// Which of the two kinds of file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    Log,
    Snapshot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FileKind,
    /// A segment's own number; for a snapshot, the segment that continues it.
    pub(super) number: u64,
    /// The revision before the first frame of a segment; the revision of a snapshot.
    pub(super) revision: u64,
    /// The number of the first frame of a segment, or of the segment that continues a snapshot.
    pub(super) next_seq: u64,
    /// The items in a snapshot.
    pub(super) items: u64,
}

impl FileKind {
    fn magic(self) -> [u8; 8] {
        match self {
            FileKind::Log => *b"LZRTLOG\xf7",
            FileKind::Snapshot => *b"LZRTSNP\xf7",
        }
    }
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.revision.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.next_seq.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.items.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..48]);
        bytes[48..52].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads and checks the header of a file. A file that bears its final name has one.
    pub(super) fn read(file: &dyn DiskFile, name: &str, kind: FileKind) -> Result<Header, OpenError> {
        let read = || StorageError::when("read", name);
        let damaged = |what: &str| OpenError::Damaged { file: name.into(), offset: 0, what: what.into() };
        if file.size().map_err(read())? < HEADER_BYTES as u64 {
            return Err(damaged("it is shorter than its header"));
        }
        let mut bytes = [0; HEADER_BYTES];
        file.read_at(0, &mut bytes).map_err(read())?;
        if bytes[..8] != kind.magic() {
            return Err(damaged("it does not begin like a file of this store"));
        }
        if u32_at(&bytes, 48) != crc32c::crc32c(&bytes[..48]) || bytes[52..] != [0; 4] {
            return Err(damaged("its header does not match its checksum"));
        }
        let found = u32_at(&bytes, 8);
        if found != VERSION {
            return Err(OpenError::Unsupported { file: name.into(), found, supported: VERSION });
        }
        Ok(Header {
            kind,
            number: u64_at(&bytes, 16),
            revision: u64_at(&bytes, 24),
            next_seq: u64_at(&bytes, 32),
            items: u64_at(&bytes, 40),
        })
    }
}

/// Reads a little-endian number; the caller knows that the bytes are there.
pub(super) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(number)
}

/// Reads a little-endian number; the caller knows that the bytes are there.
pub(super) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(number)
}
