//! Lines of a log in CRI's format: `TIME STREAM TAGS CONTENT`.

use jiff::Timestamp;

use super::{LogStreams, Selection};

/// A line that was understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) at: Timestamp,
    pub(super) is_stderr: bool,
    /// Whether the program's own line goes on in the next one.
    pub(super) is_partial: bool,
    pub(super) content: &'a [u8],
}

impl<'a> Line<'a> {
    /// `None` for what is not of this format.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (at, stream, tags) = (parts.next()?, parts.next()?, parts.next()?);
        let is_stderr = match stream {
            b"stdout" => false,
            b"stderr" => true,
            _ => return None,
        };
        let at = std::str::from_utf8(at).ok()?.parse().ok()?;
        let first = tags.split(|byte| *byte == b':').next();
        Some(Self {
            at,
            is_stderr,
            is_partial: first == Some(b"P"),
            content: parts.next().unwrap_or_default(),
        })
    }
}

/// Makes what a client sees of lines.
#[derive(Debug)]
pub(super) struct Writer {
    selection: Selection,
    /// Bytes that may still be shown.
    left: u64,
    /// Whether the next content begins a line of the program.
    is_new_line: bool,
}

impl Writer {
    pub(super) fn new(selection: Selection) -> Self {
        let left = selection.limit_bytes.unwrap_or(u64::MAX);
        Self { selection, left, is_new_line: true }
    }

    /// Whether nothing more may be shown.
    pub(super) fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Adds a line, without its end, to what is shown. `goes_on`: the rest of it comes by [`Writer::raw`].
    pub(super) fn line(&mut self, line: &[u8], goes_on: bool, out: &mut Vec<u8>) -> bool {
        let Some(line) = Line::parse(line) else { return false };
        let begins = std::mem::replace(&mut self.is_new_line, !line.is_partial && !goes_on);
        let hidden = match self.selection.shown {
            LogStreams::All => false,
            LogStreams::Stdout => line.is_stderr,
            LogStreams::Stderr => !line.is_stderr,
        };
        if hidden || self.selection.since.is_some_and(|since| line.at < since) {
            return false;
        }
        if self.selection.timestamps && begins {
            self.put(format!("{:.9} ", line.at).as_bytes(), out);
        }
        self.put(line.content, out);
        if !line.is_partial && !goes_on {
            self.put(b"\n", out);
        }
        true
    }

    /// Adds more of a line that was too long for one piece.
    pub(super) fn raw(&mut self, more: &[u8], ends: bool, out: &mut Vec<u8>) {
        self.put(more, out);
        if ends {
            self.put(b"\n", out);
            self.is_new_line = true;
        }
    }

    fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        out.extend_from_slice(&bytes[..most]);
        self.left -= most as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(selection: Selection, lines: &[&str]) -> String {
        let (mut writer, mut out) = (Writer::new(selection), Vec::new());
        for line in lines {
            writer.line(line.as_bytes(), false, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    const LINES: &[&str] = &[
        "2026-01-01T00:00:01.5Z stdout F one",
        "nonsense",
        "2026-01-01T00:00:02Z stderr P tw",
        "2026-01-01T00:00:02Z stderr F o",
        "2026-01-01T00:00:03Z stdout F ",
        "2026-01-01T02:00:04+02:00 stdout F:x four and more",
    ];

    #[test]
    fn lines_are_shown_as_they_were_written() {
        let all = Selection::default();
        assert_eq!(shown(all.clone(), LINES), "one\ntwo\n\nfour and more\n");
        let stamped = "2026-01-01T00:00:01.500000000Z one\n2026-01-01T00:00:02.000000000Z two\n\
                       2026-01-01T00:00:03.000000000Z \n2026-01-01T00:00:04.000000000Z four and more\n";
        assert_eq!(shown(Selection { timestamps: true, ..all.clone() }, LINES), stamped);
        let since = Some("2026-01-01T00:00:03Z".parse().unwrap());
        assert_eq!(shown(Selection { since, ..all.clone() }, LINES), "\nfour and more\n");
        assert_eq!(shown(Selection { limit_bytes: Some(6), ..all.clone() }, LINES), "one\ntw");
        assert_eq!(shown(Selection { shown: LogStreams::Stderr, ..all.clone() }, LINES), "two\n");
        assert_eq!(shown(Selection { shown: LogStreams::Stdout, ..all }, LINES), "one\n\nfour and more\n");
    }
}
