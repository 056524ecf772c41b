//! The lines of a watch, from pieces of any size.

use bytes::{Buf, BytesMut};
use memchr::memchr;

/// A longer line is passed over. A server takes objects of up to 3 MiB and may write them in another version, with a record of owners, and with
/// characters escaped that it took plain; ten times as much is no object of the Kubernetes API.
pub(crate) const LINE_BYTES_MAX: usize = 32 << 20;
/// How much of a line that is too long is kept, to tell people what it was.
const BEGINNING_BYTES: usize = 256;

/// A line, without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    /// Its length, and how it began.
    TooLong(usize, &'a [u8]),
}

/// Cuts pieces into lines. Never holds more than [`LINE_BYTES_MAX`] and one piece.
#[derive(Debug)]
pub(crate) struct Lines {
    most: usize,
    buffer: BytesMut,
    /// Bytes at the beginning of the buffer that are known to hold no end of a line.
    searched: usize,
    /// Bytes of an overlong line that were skipped.
    passed: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::of_at_most(LINE_BYTES_MAX)
    }
}

impl Lines {
    fn of_at_most(most: usize) -> Self {
        Self { most, buffer: BytesMut::new(), searched: 0, passed: 0 }
    }

    /// Adds a piece, and hands on each line that it completes.
    pub(crate) fn add<E>(
        &mut self,
        piece: &[u8],
        mut each: impl FnMut(Line<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = piece;
        // Most pieces are whole lines, which need not be put together.
        while self.buffer.is_empty()
            && let Some(end) = memchr(b'\n', rest).filter(|end| *end <= self.most)
        {
            each(Line::Whole(&rest[..end]))?;
            rest = &rest[end + 1..];
        }
        self.buffer.extend_from_slice(rest);
        while let Some(end) = memchr(b'\n', &self.buffer[self.searched..]) {
            let length = self.searched + end;
            let passed = core::mem::take(&mut self.passed);
            let text = &self.buffer[..length];
            let whole = passed == 0 && length <= self.most;
            each(if whole { Line::Whole(text) } else { Line::TooLong(passed + length, text) })?;
            self.buffer.advance(length + 1);
            self.searched = 0;
        }
        let beginning = if self.passed > 0 { BEGINNING_BYTES } else { self.most };
        if self.buffer.len() > beginning {
            self.passed += self.buffer.len() - BEGINNING_BYTES.min(self.most);
            self.buffer = BytesMut::from(&self.buffer[..BEGINNING_BYTES.min(self.most)]);
        }
        self.searched = self.buffer.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(most: usize, text: &[u8], piece: usize) -> Vec<String> {
        let (mut lines, mut told) = (Lines::of_at_most(most), Vec::new());
        for piece in text.chunks(piece) {
            let each = |line: Line<'_>| {
                told.push(match line {
                    Line::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                    Line::TooLong(length, _) => format!("<{length}>"),
                });
                Ok::<(), ()>(())
            };
            lines.add(piece, each).unwrap();
            assert!(lines.buffer.len() <= most + piece.len());
        }
        told
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let text = format!("one\n{}\n\ntwo\n{}\nthree\nunfinished", "x".repeat(1_000), "y".repeat(301));
        for piece in [1, 2, 7, 64, 300] {
            assert_eq!(
                cut(300, text.as_bytes(), piece),
                ["one", "<1000>", "", "two", "<301>", "three"],
                "{piece}"
            );
        }
    }

    #[test]
    fn how_it_began_is_kept() {
        let mut lines = Lines::of_at_most(1_000);
        let text = format!("begin{}\n", "x".repeat(5_000));
        let mut told = Vec::new();
        for piece in text.as_bytes().chunks(100) {
            let each = |line: Line<'_>| {
                if let Line::TooLong(length, begin) = line {
                    told.push((length, begin.starts_with(b"begin"), begin.len()));
                }
                Ok::<(), ()>(())
            };
            lines.add(piece, each).unwrap();
        }
        assert_eq!(told.len(), 1);
        assert!(told[0].0 == 5_005 && told[0].1, "{told:?}");
    }
}
