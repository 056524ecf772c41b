//! The first bytes of every file: what it is, which, where it begins, and how it is encrypted.
//!
//! ```text
//! magic 8 | version 4 | flags 4 | number 8 | revision 8 | next frame 8 | count 8 | CRC32C of these 4 | zeros 4
//! key id 32 | salt 32 | tag 16 | CRC32C of all before 4 | zeros 4
//! ```
//! Version 1 has the first line alone and no flags; it is still read. The first line stays as it is in every version,
//! so that an older program can say that a file is too new for it.

use lazaret_storage::StorageError;

use super::seal::{self, Cipher, SALT_BYTES, TAG_BYTES};
use crate::disk::DiskFile;
use crate::error::OpenError;
use crate::keys::{EncryptionKeys, KEY_ID_BYTES_MAX};

const VERSION: u32 = 2;
const VERSION_1: u32 = 1;
const VERSION_1_BYTES: usize = 56;
pub(super) const HEADER_BYTES: usize = 144;

const SEALED: u32 = 1;
const HEALED: u32 = 2;

const KEY_ID: usize = VERSION_1_BYTES;
const SALT: usize = KEY_ID + KEY_ID_BYTES_MAX;
const TAG: usize = SALT + SALT_BYTES;
const CRC: usize = TAG + TAG_BYTES;

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
    /// The items in a snapshot; for a segment, the bytes of the segment before it that count (zero if there is none).
    pub(super) count: u64,
    /// Whether a segment begins after a failed write: bytes of the one before it beyond `count` are void, and
    /// revisions may have been left out.
    pub(super) healed: bool,
}

/// A header as it was read.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) header: Header,
    /// Its length, after which frames begin.
    pub(super) bytes: u64,
    /// Whether `count` of a segment says something.
    pub(super) counts_previous: bool,
    pub(super) key_id: Option<String>,
    pub(super) cipher: Cipher,
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
    /// The bytes of a new file's header and the cipher for its frames, both never used before.
    pub(super) fn encode(&self, keys: &EncryptionKeys) -> std::io::Result<([u8; HEADER_BYTES], Cipher)> {
        let key = keys.writing();
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.kind.magic());
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        let flags = if key.is_some() { SEALED } else { 0 } | if self.healed { HEALED } else { 0 };
        bytes[12..16].copy_from_slice(&flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.revision.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.next_seq.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.count.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..48]);
        bytes[48..52].copy_from_slice(&crc.to_le_bytes());
        let cipher = match key {
            None => Cipher::Plain,
            Some(key) => {
                let no_randomness = || std::io::Error::other("the operating system gives no random bytes");
                let salt = seal::new_salt().ok_or_else(no_randomness)?;
                bytes[KEY_ID..KEY_ID + key.id().len()].copy_from_slice(key.id().as_bytes());
                bytes[SALT..TAG].copy_from_slice(&salt);
                let cipher = Cipher::derive(key, &salt).ok_or_else(no_randomness)?;
                let tag = cipher.header_tag(&bytes[..TAG]);
                bytes[TAG..CRC].copy_from_slice(&tag);
                cipher
            }
        };
        let crc = crc32c::crc32c(&bytes[..CRC]);
        bytes[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
        Ok((bytes, cipher))
    }

    /// Reads and checks the header of a file. A file with its final name has one.
    pub(super) fn read(
        file: &dyn DiskFile,
        name: &str,
        kind: FileKind,
        keys: &EncryptionKeys,
    ) -> Result<Opened, OpenError> {
        let read = || StorageError::when("read", name);
        let damaged = |what: &str| OpenError::Damaged { file: name.into(), offset: 0, what: what.into() };
        let size = file.size().map_err(read())?;
        if size < VERSION_1_BYTES as u64 {
            return Err(damaged("it is shorter than its header"));
        }
        let mut bytes = [0; HEADER_BYTES];
        let whole = if size < HEADER_BYTES as u64 { VERSION_1_BYTES } else { HEADER_BYTES };
        file.read_at(0, &mut bytes[..whole]).map_err(read())?;
        if bytes[..8] != kind.magic() {
            return Err(damaged("it does not begin like a file of this store"));
        }
        if u32_at(&bytes, 48) != crc32c::crc32c(&bytes[..48]) || bytes[52..56] != [0; 4] {
            return Err(damaged("its header does not match its checksum"));
        }
        let flags = u32_at(&bytes, 12);
        let header = Header {
            kind,
            number: u64_at(&bytes, 16),
            revision: u64_at(&bytes, 24),
            next_seq: u64_at(&bytes, 32),
            count: u64_at(&bytes, 40),
            healed: flags & HEALED != 0,
        };
        let opened = |length: usize, key_id, cipher| Opened {
            header,
            bytes: length as u64,
            counts_previous: length > VERSION_1_BYTES,
            key_id,
            cipher,
        };
        match u32_at(&bytes, 8) {
            VERSION_1 => {
                check_plain(name, keys)?;
                Ok(opened(VERSION_1_BYTES, None, Cipher::Plain))
            }
            VERSION => {
                if whole < HEADER_BYTES {
                    return Err(damaged("it is shorter than its header"));
                }
                if u32_at(&bytes, CRC) != crc32c::crc32c(&bytes[..CRC]) || bytes[CRC + 4..] != [0; 4] {
                    return Err(damaged("its header does not match its checksum"));
                }
                if flags & SEALED == 0 {
                    check_plain(name, keys)?;
                    return Ok(opened(HEADER_BYTES, None, Cipher::Plain));
                }
                let (id, cipher) = unlock(&bytes, name, keys)?;
                Ok(opened(HEADER_BYTES, Some(id), cipher))
            }
            found => Err(OpenError::Unsupported { file: name.into(), found, supported: VERSION }),
        }
    }
}

/// With a key file, a file that is not encrypted is read only if the key file allows it: else an attacker who can write to the
/// disk could replace an encrypted file by a plain one.
fn check_plain(name: &str, keys: &EncryptionKeys) -> Result<(), OpenError> {
    match keys.source() {
        Some(source) if !keys.reads_plain() => {
            Err(OpenError::NotEncrypted { file: name.into(), key_file: source.into() })
        }
        Some(_) | None => Ok(()),
    }
}

fn unlock(
    bytes: &[u8; HEADER_BYTES],
    name: &str,
    keys: &EncryptionKeys,
) -> Result<(String, Cipher), OpenError> {
    let padded = &bytes[KEY_ID..SALT];
    let len = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    let id = String::from_utf8_lossy(&padded[..len]).into_owned();
    let refused = |why: String| OpenError::Key { file: name.into(), id: id.clone(), why };
    let Some(source) = keys.source() else {
        return Err(refused("no key file was given".into()));
    };
    let key = keys.find(&id).ok_or_else(|| refused(format!("{source} does not hold that key")))?;
    let mut salt = [0; SALT_BYTES];
    salt.copy_from_slice(&bytes[SALT..TAG]);
    let wrong = || refused(format!("the key of that id in {source} is another one"));
    let cipher = Cipher::derive(key, &salt).ok_or_else(wrong)?;
    if cipher.header_tag(&bytes[..TAG]) != bytes[TAG..CRC] {
        return Err(wrong());
    }
    Ok((id, cipher))
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

/// A header as version 1 of the format wrote it.
#[cfg(test)]
pub(super) fn version_1(header: &Header) -> [u8; VERSION_1_BYTES] {
    let (bytes, _) = header.encode(&EncryptionKeys::default()).unwrap();
    let mut old = [0; VERSION_1_BYTES];
    old.copy_from_slice(&bytes[..VERSION_1_BYTES]);
    old[8..12].copy_from_slice(&VERSION_1.to_le_bytes());
    if header.kind == FileKind::Log {
        old[40..48].fill(0);
    }
    let crc = crc32c::crc32c(&old[..48]);
    old[48..52].copy_from_slice(&crc.to_le_bytes());
    old
}
