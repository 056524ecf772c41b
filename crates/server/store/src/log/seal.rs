//! Encryption of one file: AES-256-GCM under a key that no other file has.
//!
//! A file's key is derived (HKDF-SHA256) from the key of the key file and 32 random bytes in the file's header. The
//! nonce of a frame is its number. So a nonce repeats only if one file gets two frames of one number, which never
//! happens: a file is appended to by the process that created it alone, and after a failed append not even by that
//! one. See `docs/decisions/encryption-at-rest.md`.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};

use crate::keys::EncryptionKey;

pub(super) const SALT_BYTES: usize = 32;
pub(super) const TAG_BYTES: usize = 16;

/// Separates this use of a key from any other.
const PURPOSE: &[u8] = b"lazaret store file, AES-256-GCM";
/// The first bytes of nonces: frames and the header are numbered apart.
const FRAME: u32 = 0;
const HEADER: u32 = u32::MAX;

/// How the frames of a file are written and read.
#[derive(Debug)]
pub(super) enum Cipher {
    Plain,
    Sealed(Box<LessSafeKey>),
}

impl Cipher {
    /// The cipher of the file with this salt. `None` only if the library refuses, which it does for lengths that
    /// these are not.
    pub(super) fn derive(key: &EncryptionKey, salt: &[u8; SALT_BYTES]) -> Option<Cipher> {
        let secret = Salt::new(HKDF_SHA256, salt).extract(key.secret());
        let derived = secret.expand(&[PURPOSE], &AES_256_GCM).ok()?;
        Some(Cipher::Sealed(Box::new(LessSafeKey::new(UnboundKey::from(derived)))))
    }

    pub(super) fn is_sealed(&self) -> bool {
        matches!(self, Cipher::Sealed(_))
    }

    /// Bytes that encryption adds to a frame.
    pub(super) fn overhead(&self) -> usize {
        if self.is_sealed() { TAG_BYTES } else { 0 }
    }

    /// Encrypts `buffer[start..]` in place and appends the tag.
    pub(super) fn seal(&self, buffer: &mut Vec<u8>, start: usize, seq: u64, bound: &[u8]) {
        if let Cipher::Sealed(key) = self {
            let tag = key
                .seal_in_place_separate_tag(nonce(FRAME, seq), Aad::from(bound), &mut buffer[start..])
                .expect("a frame is smaller than 4 GiB");
            buffer.extend_from_slice(tag.as_ref());
        }
    }

    /// Decrypts in place and takes the tag off; false if the bytes were not written under this key and number.
    pub(super) fn open(&self, payload: &mut Vec<u8>, seq: u64, bound: &[u8]) -> bool {
        let Cipher::Sealed(key) = self else { return true };
        let opened = key.open_in_place(nonce(FRAME, seq), Aad::from(bound), payload).map(|plain| plain.len());
        opened.map(|len| payload.truncate(len)).is_ok()
    }

    /// A tag over a file's header: proves that the key is the right one and the header the one that was written.
    pub(super) fn header_tag(&self, header: &[u8]) -> [u8; TAG_BYTES] {
        let mut bytes = [0; TAG_BYTES];
        if let Cipher::Sealed(key) = self {
            let tag = key
                .seal_in_place_separate_tag(nonce(HEADER, 0), Aad::from(header), &mut [])
                .expect("a header is small");
            bytes.copy_from_slice(tag.as_ref());
        }
        bytes
    }
}

fn nonce(domain: u32, number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&domain.to_le_bytes());
    bytes[4..].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Random bytes for a new file; `None` if the operating system has none to give.
pub(super) fn new_salt() -> Option<[u8; SALT_BYTES]> {
    let mut salt = [0; SALT_BYTES];
    SystemRandom::new().fill(&mut salt).ok().map(|()| salt)
}
