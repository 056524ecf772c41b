//! A reader of tar archives that believes nothing: ustar, GNU's long names, PAX headers.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use crate::error::{Context, ImageError, Result, invalid};

pub(crate) const BLOCK: usize = 512;
/// As long as a path may be on Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4_096;
/// A PAX header: attributes of one file. Linux permits 64 KiB for one attribute.
const PAX_BYTES_MAX: u64 = 1 << 20;
/// Headers before one entry: a long name, a long link, a PAX header.
const EXTENSIONS_MAX: usize = 8;

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    HardLink,
    SymbolicLink,
    Character,
    Block,
    Directory,
    Fifo,
}

/// The head of one entry.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) modified: i64,
    pub(crate) size: u64,
    pub(crate) device: (u32, u32),
    pub(crate) attributes: BTreeMap<String, Vec<u8>>,
    /// Where its content begins in the archive.
    pub(crate) offset: u64,
}

/// Reads entries one by one. As a reader, it reads the content of the entry that [`Reader::next`] answered last.
pub(crate) struct Reader<R> {
    inner: R,
    position: u64,
    left: u64,
    padding: u64,
}

impl<R: Read> Reader<R> {
    pub(crate) fn new(inner: R) -> Self {
        Self { inner, position: 0, left: 0, padding: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<Option<Entry>> {
        self.skip_content()?;
        let mut pax = BTreeMap::new();
        let (mut long_path, mut long_link) = (None, None);
        for _ in 0..EXTENSIONS_MAX {
            let Some(block) = self.block()? else { return Ok(None) };
            let size = number(&block[124..136], "size")?;
            match block[156] {
                b'L' => long_path = Some(text(self.extension(size, PATH_BYTES_MAX as u64 + 1)?)),
                b'K' => long_link = Some(text(self.extension(size, PATH_BYTES_MAX as u64 + 1)?)),
                b'x' => read_pax(&self.extension(size, PAX_BYTES_MAX)?, &mut pax)?,
                // For all entries that follow: Docker and containerd ignore it, and so do we.
                b'g' => drop(self.extension(size, PAX_BYTES_MAX)?),
                _ => return self.entry(&block, size, pax, long_path, long_link).map(Some),
            }
        }
        Err(invalid("the archive has too many headers before one entry"))
    }

    fn entry(
        &mut self,
        block: &[u8; BLOCK],
        size: u64,
        mut pax: BTreeMap<String, Vec<u8>>,
        long_path: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> Result<Entry> {
        if pax.keys().any(|key| key.starts_with("GNU.sparse.")) {
            return Err(invalid("the archive has sparse files, which are not supported"));
        }
        let path = pax.remove("path").or(long_path).unwrap_or_else(|| short_path(block));
        let link = pax.remove("linkpath").or(long_link).unwrap_or_else(|| text(block[157..257].to_vec()));
        if path.len() > PATH_BYTES_MAX || link.len() > PATH_BYTES_MAX {
            return Err(invalid(format!("a path in the archive has more than {PATH_BYTES_MAX} bytes")));
        }
        if path.contains(&0) || link.contains(&0) {
            return Err(invalid("a path in the archive has a NUL byte"));
        }
        let kind = match block[156] {
            b'0' | 0 | b'7' if path.ends_with(b"/") => Kind::Directory,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::SymbolicLink,
            b'3' => Kind::Character,
            b'4' => Kind::Block,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => {
                return Err(invalid(format!(
                    "{}: entries of type {:?} are not supported",
                    String::from_utf8_lossy(&path),
                    char::from(other)
                )));
            }
        };
        let size = decimal(&mut pax, "size")?.unwrap_or(size);
        let small = |value: u64, what: &str| {
            u32::try_from(value).map_err(|_| invalid(format!("the archive has a {what} of {value}")))
        };
        let uid = decimal(&mut pax, "uid")?.map_or_else(|| number(&block[108..116], "uid"), Ok)?;
        let gid = decimal(&mut pax, "gid")?.map_or_else(|| number(&block[116..124], "gid"), Ok)?;
        let modified = match pax.remove("mtime") {
            Some(value) => seconds(&value),
            None => number(&block[136..148], "mtime")
                .ok()
                .and_then(|value| i64::try_from(value).ok())
                .unwrap_or(0),
        };
        let device = if matches!(kind, Kind::Character | Kind::Block) {
            (
                small(number(&block[329..337], "device")?, "device number")?,
                small(number(&block[337..345], "device")?, "device number")?,
            )
        } else {
            (0, 0)
        };
        let attributes = pax
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("SCHILY.xattr.")?.to_owned(), value)))
            .collect();
        self.left = if kind == Kind::File { size } else { 0 };
        // Old archives give links a size without a content.
        self.padding = if kind == Kind::File { padding(size) } else { 0 };
        Ok(Entry {
            path,
            link,
            kind,
            mode: small(number(&block[100..108], "mode")?, "mode")? & 0o7777,
            uid: small(uid, "uid")?,
            gid: small(gid, "gid")?,
            modified,
            size: self.left,
            device,
            attributes,
            offset: self.position,
        })
    }

    fn skip_content(&mut self) -> Result<()> {
        let skip = self
            .left
            .checked_add(self.padding)
            .ok_or_else(|| invalid("the archive has an impossible size"))?;
        let skipped = io::copy(&mut (&mut self.inner).take(skip), &mut io::sink())
            .context(|| "read the archive".into())?;
        self.position += skipped;
        (self.left, self.padding) = (0, 0);
        if skipped < skip { Err(truncated()) } else { Ok(()) }
    }

    /// The next header, or nothing at the end. An archive may end without its two empty blocks.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while filled < BLOCK {
            match self.inner.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(truncated()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImageError::Io { what: "read the archive".into(), source: error }),
            }
        }
        self.position += BLOCK as u64;
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let stored = number(&block[148..156], "checksum")?;
        let sum: u64 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) })
            .sum();
        if stored != sum {
            return Err(invalid("the archive is damaged: a header has a wrong checksum"));
        }
        Ok(Some(block))
    }

    fn extension(&mut self, size: u64, limit: u64) -> Result<Vec<u8>> {
        if size > limit {
            return Err(ImageError::TooLarge {
                what: format!("a header of {size} bytes in the archive"),
                limit,
            });
        }
        let mut content = Vec::new();
        (&mut self.inner).take(size).read_to_end(&mut content).context(|| "read the archive".into())?;
        if (content.len() as u64) < size {
            return Err(truncated());
        }
        self.position += size;
        self.padding = padding(size);
        self.skip_content()?;
        Ok(content)
    }
}

impl<R: Read> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.inner.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive is truncated"));
        }
        self.left -= read as u64;
        self.position += read as u64;
        Ok(read)
    }
}

fn truncated() -> ImageError {
    invalid("the archive is truncated")
}

/// Zeros after a content, up to the next block.
pub(crate) fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// Up to the first NUL.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(end) = bytes.iter().position(|byte| *byte == 0) {
        bytes.truncate(end);
    }
    bytes
}

fn short_path(block: &[u8; BLOCK]) -> Vec<u8> {
    let name = text(block[..100].to_vec());
    let is_posix = &block[257..263] == b"ustar\0";
    let prefix = if is_posix { text(block[345..500].to_vec()) } else { Vec::new() };
    if prefix.is_empty() { name } else { [prefix, name].join(&b'/') }
}

/// Octal digits, or GNU's binary form for large values.
fn number(field: &[u8], what: &str) -> Result<u64> {
    let wrong = || invalid(format!("the archive has a header with a wrong {what}"));
    if field.first().is_some_and(|byte| byte & 0x80 != 0) {
        let (first, rest) = field.split_first().ok_or_else(wrong)?;
        let mut value = u64::from(first & 0x7f);
        for byte in rest {
            value = value
                .checked_mul(256)
                .and_then(|value| value.checked_add(u64::from(*byte)))
                .ok_or_else(wrong)?;
        }
        return Ok(value);
    }
    let digits: Vec<u8> = field.iter().copied().filter(|byte| !matches!(byte, 0 | b' ')).collect();
    let mut value = 0_u64;
    for digit in digits {
        if !(b'0'..=b'7').contains(&digit) {
            return Err(wrong());
        }
        value = value
            .checked_mul(8)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')))
            .ok_or_else(wrong)?;
    }
    Ok(value)
}

fn decimal(pax: &mut BTreeMap<String, Vec<u8>>, key: &str) -> Result<Option<u64>> {
    let Some(value) = pax.remove(key) else { return Ok(None) };
    std::str::from_utf8(&value)
        .ok()
        .and_then(|value| value.parse().ok())
        .map(Some)
        .ok_or_else(|| invalid(format!("the archive has a header with a wrong {key}")))
}

/// Whole seconds of `1700000000.25`.
fn seconds(value: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(value);
    text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
}

/// Records of the form `LENGTH KEY=VALUE\n`.
fn read_pax(mut content: &[u8], into: &mut BTreeMap<String, Vec<u8>>) -> Result<()> {
    let wrong = || invalid("the archive has a damaged PAX header");
    while !content.is_empty() {
        let space = content.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length: usize = std::str::from_utf8(&content[..space])
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(wrong)?;
        if length <= space + 1 || length > content.len() || content[length - 1] != b'\n' {
            return Err(wrong());
        }
        let record = &content[space + 1..length - 1];
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        let key = std::str::from_utf8(&record[..equals]).map_err(|_| wrong())?;
        into.insert(key.to_owned(), record[equals + 1..].to_vec());
        content = &content[length..];
    }
    Ok(())
}
