//! Digests of content.

use std::{
    cell::Cell,
    fmt,
    io::{self, Read},
    rc::Rc,
};

use ring::digest::{Context, SHA256};

/// A SHA-256 digest, `sha256:` and 64 lowercase hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

const PREFIX: &str = "sha256:";

impl Digest {
    /// Reads `sha256:…`; other algorithms are not supported.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix(PREFIX)?;
        let is_valid =
            hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Its 64 digits: a file name.
    pub fn hex(&self) -> &str {
        &self.0[PREFIX.len()..]
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Works a digest out piece by piece.
pub(crate) struct Hasher(Context);

impl Hasher {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        use fmt::Write as _;
        let mut text = PREFIX.to_owned();
        for byte in self.0.finish().as_ref() {
            let _ = write!(text, "{byte:02x}");
        }
        Digest(text)
    }
}

/// Reads on, and works out the digest of what was read.
pub(crate) struct HashingReader<R> {
    inner: R,
    hasher: Hasher,
    count: Rc<Cell<u64>>,
}

impl<R: Read> HashingReader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, hasher: Hasher::new(), count: Rc::default() }
    }

    /// The bytes read so far, for code that has no access to this reader.
    pub(crate) fn count(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.count)
    }

    /// Reads the rest, and answers the digest of everything.
    pub(crate) fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.hasher.finish())
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}
