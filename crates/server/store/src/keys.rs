//! The keys that a store's files are encrypted with, as a key file lists them.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use thiserror::Error;

/// Bytes of an AES-256 key.
pub(crate) const KEY_BYTES: usize = 32;
/// Bytes of a key's id: it is stored in the header of every file.
pub(crate) const KEY_ID_BYTES_MAX: usize = 32;
/// Keys in one file. Two are enough for a rotation; the limit bounds what is read.
const KEYS_MAX: usize = 64;
/// The line that stands for files that are not encrypted, as in Kubernetes' `EncryptionConfiguration`.
const IDENTITY: &str = "identity";

/// The entries of a key file, in order: the first one encrypts new files, all of them decrypt. The default has no
/// keys: files are written and read unencrypted.
#[derive(Clone)]
pub struct EncryptionKeys {
    entries: Arc<[Entry]>,
    /// Which file they come from, for messages.
    source: Option<Arc<str>>,
}

#[derive(Clone)]
enum Entry {
    Identity,
    Key(EncryptionKey),
}

/// One key and its id.
#[derive(Clone)]
pub struct EncryptionKey {
    id: String,
    secret: [u8; KEY_BYTES],
}

/// Why the text of a key file was refused. Never quotes a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum KeysInvalid {
    /// There is neither a key nor `identity` in it.
    #[error("it holds no key")]
    Empty,
    /// More than any rotation needs.
    #[error("it holds more than {KEYS_MAX} entries")]
    TooMany,
    /// A line that is neither `identity` nor an id and a key.
    #[error("line {0} is neither \"identity\" nor an id, a space and {KEY_BYTES} bytes in base64")]
    Line(usize),
    /// An id that cannot be stored.
    #[error("line {0}: an id has 1 to {KEY_ID_BYTES_MAX} letters, digits, '-', '_' or '.'")]
    Id(usize),
    /// Two entries of one name.
    #[error("line {line}: {id} occurs twice")]
    Repeated {
        /// The second one's line.
        line: usize,
        /// The id.
        id: String,
    },
}

impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(Entry::id)).finish()
    }
}

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({})", self.id)
    }
}

impl Default for EncryptionKeys {
    fn default() -> Self {
        EncryptionKeys { entries: Arc::new([Entry::Identity]), source: None }
    }
}

impl Entry {
    fn id(&self) -> &str {
        match self {
            Entry::Identity => IDENTITY,
            Entry::Key(key) => &key.id,
        }
    }
}

impl EncryptionKeys {
    /// Reads the text of a key file: one entry a line, empty lines and lines that begin with `#` aside. `source`
    /// names the file in messages.
    ///
    /// # Errors
    /// See [`KeysInvalid`].
    pub fn parse(text: &str, source: &str) -> Result<EncryptionKeys, KeysInvalid> {
        let mut entries: Vec<Entry> = Vec::new();
        let lines = text.lines().map(str::trim).enumerate().map(|(at, line)| (at + 1, line));
        for (at, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let entry = Entry::parse(line, at)?;
            if entries.iter().any(|earlier| earlier.id() == entry.id()) {
                return Err(KeysInvalid::Repeated { line: at, id: entry.id().into() });
            }
            if entries.len() == KEYS_MAX {
                return Err(KeysInvalid::TooMany);
            }
            entries.push(entry);
        }
        if entries.is_empty() {
            return Err(KeysInvalid::Empty);
        }
        Ok(EncryptionKeys { entries: entries.into(), source: Some(source.into()) })
    }

    /// The ids in order, `identity` among them.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(Entry::id)
    }

    /// The key for new files; `None` if they are not to be encrypted.
    pub(crate) fn writing(&self) -> Option<&EncryptionKey> {
        match self.entries.first() {
            Some(Entry::Key(key)) => Some(key),
            Some(Entry::Identity) | None => None,
        }
    }

    pub(crate) fn find(&self, id: &str) -> Option<&EncryptionKey> {
        self.entries.iter().find_map(|entry| match entry {
            Entry::Key(key) if key.id == id => Some(key),
            Entry::Key(_) | Entry::Identity => None,
        })
    }

    /// Whether files that are not encrypted may be read.
    pub(crate) fn reads_plain(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry, Entry::Identity))
    }

    /// The key file, if there is one.
    pub(crate) fn source(&self) -> Option<&str> {
        self.source.as_deref()
    }
}

impl Entry {
    fn parse(line: &str, at: usize) -> Result<Entry, KeysInvalid> {
        if line == IDENTITY {
            return Ok(Entry::Identity);
        }
        let (id, encoded) = line.split_once(char::is_whitespace).ok_or(KeysInvalid::Line(at))?;
        if !is_id(id) {
            return Err(KeysInvalid::Id(at));
        }
        let bytes = STANDARD.decode(encoded.trim()).map_err(|_| KeysInvalid::Line(at))?;
        let secret = bytes.try_into().map_err(|_| KeysInvalid::Line(at))?;
        Ok(Entry::Key(EncryptionKey { id: id.into(), secret }))
    }
}

fn is_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=KEY_ID_BYTES_MAX).contains(&id.len()) && id != IDENTITY && id.bytes().all(allowed)
}

impl EncryptionKey {
    /// A new key from the operating system's randomness, with an id that is random too.
    #[must_use]
    pub fn generate() -> Option<EncryptionKey> {
        let mut random = [0; KEY_BYTES + 4];
        SystemRandom::new().fill(&mut random).ok()?;
        let (secret, id) = random.split_first_chunk::<KEY_BYTES>()?;
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(EncryptionKey { id: format!("key-{id}"), secret: *secret })
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The line of a key file that holds it.
    #[must_use]
    pub fn line(&self) -> String {
        format!("{} {}", self.id, STANDARD.encode(self.secret))
    }

    pub(crate) fn secret(&self) -> &[u8; KEY_BYTES] {
        &self.secret
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> String {
        STANDARD.encode([byte; KEY_BYTES])
    }

    #[test]
    fn the_first_entry_writes_and_all_read() {
        let text = format!("# keys\n\n new {}\nold  {}\nidentity\n", key(1), key(2));
        let keys = EncryptionKeys::parse(&text, "F").unwrap();
        assert_eq!(keys.writing().map(EncryptionKey::id), Some("new"));
        assert_eq!(keys.find("old").map(|key| key.secret()[0]), Some(2));
        assert!(keys.reads_plain() && keys.find(IDENTITY).is_none());
        let off = EncryptionKeys::parse(&format!("identity\nold {}", key(2)), "F").unwrap();
        assert!(off.writing().is_none() && off.find("old").is_some());
    }

    #[test]
    fn what_is_no_key_file_is_refused_by_line() {
        let long = "x".repeat(KEY_ID_BYTES_MAX + 1);
        for (text, expected) in [
            ("\n# nothing\n".to_owned(), KeysInvalid::Empty),
            ("key".into(), KeysInvalid::Line(1)),
            ("\na AAAA".into(), KeysInvalid::Line(2)),
            (format!("a {}x", key(1)), KeysInvalid::Line(1)),
            (format!("a/b {}", key(1)), KeysInvalid::Id(1)),
            (format!("identity {}", key(1)), KeysInvalid::Id(1)),
            (format!("{long} {}", key(1)), KeysInvalid::Id(1)),
            (format!("a {}\na {}", key(1), key(2)), KeysInvalid::Repeated { line: 2, id: "a".into() }),
            ("identity\nidentity".into(), KeysInvalid::Repeated { line: 2, id: IDENTITY.into() }),
            ((0..=KEYS_MAX).map(|n| format!("k{n} {}\n", key(1))).collect(), KeysInvalid::TooMany),
        ] {
            assert_eq!(EncryptionKeys::parse(&text, "F").unwrap_err(), expected, "{text}");
        }
    }

    #[test]
    fn a_generated_key_reads_back_and_is_never_shown() {
        let key = EncryptionKey::generate().unwrap();
        let other = EncryptionKey::generate().unwrap();
        assert_ne!(key.secret(), other.secret());
        let keys = EncryptionKeys::parse(&key.line(), "F").unwrap();
        assert_eq!(keys.writing().unwrap().secret(), key.secret());
        let shown = format!("{keys:?} {key:?}");
        assert!(!shown.contains(&STANDARD.encode(key.secret())), "{shown}");
    }
}
