//! A writer of tar archives, PAX where ustar has no room. The same entries give the same bytes.

use std::io::{self, Read, Write};

use crate::tar::{BLOCK, Entry, Kind, padding};

/// Writes entries, and at the end two empty blocks.
pub(crate) struct Writer<W: Write> {
    inner: W,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner }
    }

    pub(crate) fn add(&mut self, entry: &Entry, content: impl Read) -> io::Result<()> {
        let mut pax = Vec::new();
        if entry.path.len() > 100 || !entry.path.is_ascii() {
            record(&mut pax, "path", &entry.path);
        }
        if entry.link.len() > 100 || !entry.link.is_ascii() {
            record(&mut pax, "linkpath", &entry.link);
        }
        for (key, value) in [("size", entry.size), ("uid", entry.uid.into()), ("gid", entry.gid.into())] {
            let room = if key == "size" { 0o77_777_777_777 } else { 0o7_777_777 };
            if value > room {
                record(&mut pax, key, value.to_string().as_bytes());
            }
        }
        for (key, value) in &entry.attributes {
            record(&mut pax, &format!("SCHILY.xattr.{key}"), value);
        }
        if !pax.is_empty() {
            let size = pax.len() as u64;
            self.inner.write_all(&header(
                &short(b"PaxHeader/", &entry.path),
                b"",
                b'x',
                0o644,
                (0, 0),
                size,
                0,
                (0, 0),
            ))?;
            self.inner.write_all(&pax)?;
            self.pad(size)?;
        }
        let kind = match entry.kind {
            Kind::File => b'0',
            Kind::HardLink => b'1',
            Kind::SymbolicLink => b'2',
            Kind::Character => b'3',
            Kind::Block => b'4',
            Kind::Directory => b'5',
            Kind::Fifo => b'6',
        };
        let owner = (entry.uid, entry.gid);
        self.inner.write_all(&header(
            &entry.path,
            &entry.link,
            kind,
            entry.mode,
            owner,
            entry.size,
            entry.modified,
            entry.device,
        ))?;
        let copied = io::copy(&mut content.take(entry.size), &mut self.inner)?;
        if copied != entry.size {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the file became shorter while it was read",
            ));
        }
        self.pad(entry.size)
    }

    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.inner.write_all(&[0; 2 * BLOCK])?;
        self.inner.flush()?;
        Ok(self.inner)
    }

    fn pad(&mut self, size: u64) -> io::Result<()> {
        let zeros = [0; BLOCK];
        let count = usize::try_from(padding(size)).unwrap_or(0);
        self.inner.write_all(&zeros[..count])
    }
}

fn short(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    prefix.iter().chain(path.iter().take(80)).copied().collect()
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn record(pax: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    pax.extend(format!("{length} {key}=").bytes());
    pax.extend(value);
    pax.push(b'\n');
}

#[allow(clippy::too_many_arguments, reason = "the fields of a header")]
fn header(
    path: &[u8],
    link: &[u8],
    kind: u8,
    mode: u32,
    owner: (u32, u32),
    size: u64,
    modified: i64,
    device: (u32, u32),
) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let copy = |block: &mut [u8; BLOCK], at: usize, bytes: &[u8], room: usize| {
        let count = bytes.len().min(room);
        block[at..at + count].copy_from_slice(&bytes[..count]);
    };
    let octal = |block: &mut [u8; BLOCK], at: usize, value: u64, digits: usize| {
        let largest = (1_u64 << (3 * digits)) - 1;
        let text = format!("{:0digits$o}", if value > largest { 0 } else { value });
        copy(block, at, text.as_bytes(), digits);
    };
    copy(&mut block, 0, path, 100);
    octal(&mut block, 100, mode.into(), 7);
    octal(&mut block, 108, owner.0.into(), 7);
    octal(&mut block, 116, owner.1.into(), 7);
    octal(&mut block, 124, size, 11);
    octal(&mut block, 136, u64::try_from(modified).unwrap_or(0), 11);
    block[156] = kind;
    copy(&mut block, 157, link, 100);
    copy(&mut block, 257, b"ustar\x0000", 8);
    octal(&mut block, 329, device.0.into(), 7);
    octal(&mut block, 337, device.1.into(), 7);
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block, 148, sum, 6);
    block[154] = 0;
    block
}
