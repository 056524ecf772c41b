//! A container's log file: one line for each line of output, in CRI's format.

use std::{
    fs::File,
    io::{self, Write},
    path::PathBuf,
};

use crate::{append_to_log, clock};

/// Bytes of one line. A longer one is several, all but the last with the tag `P`.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Bytes of one file. Rotation is the caller's and comes long before; without it a container could fill the disk.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// Which of a program's two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Writes lines as they are complete.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: Option<File>,
    file_bytes: u64,
    file_bytes_max: u64,
    /// Bytes that are not in the file: it was full, or the disk was.
    lost_bytes: u64,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    out: Vec<u8>,
}

impl Log {
    pub(crate) fn open(path: PathBuf) -> io::Result<Self> {
        let mut log = Self {
            path,
            file: None,
            file_bytes: 0,
            file_bytes_max: FILE_BYTES_MAX,
            lost_bytes: 0,
            stdout: Vec::new(),
            stderr: Vec::new(),
            out: Vec::new(),
        };
        log.reopen()?;
        Ok(log)
    }

    /// Opens the file of this name, a new one when the old one was moved away.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        let file = append_to_log(&self.path)?;
        self.file_bytes = file.metadata()?.len();
        self.file = Some(file);
        if self.lost_bytes > 0 && self.file_bytes < self.file_bytes_max {
            let lost = std::mem::take(&mut self.lost_bytes);
            let text = format!("[{lost} bytes of output were not logged: the log file was full]");
            self.line(Stream::Stderr, "F", text.as_bytes());
            self.flush();
        }
        Ok(())
    }

    /// Takes what a program wrote.
    pub(crate) fn write(&mut self, stream: Stream, mut bytes: &[u8]) {
        let mut pending = std::mem::take(self.pending(stream));
        while !bytes.is_empty() {
            let room = LINE_BYTES_MAX - pending.len();
            let window = &bytes[..bytes.len().min(room)];
            if let Some(end) = window.iter().position(|byte| *byte == b'\n') {
                pending.extend_from_slice(&window[..end]);
                self.line(stream, "F", &pending);
                pending.clear();
                bytes = &bytes[end + 1..];
            } else {
                pending.extend_from_slice(window);
                bytes = &bytes[window.len()..];
                if pending.len() == LINE_BYTES_MAX {
                    self.line(stream, "P", &pending);
                    pending.clear();
                }
            }
        }
        *self.pending(stream) = pending;
        self.flush();
    }

    /// The stream has ended: what has no end of line is a line.
    pub(crate) fn end(&mut self, stream: Stream) {
        let pending = std::mem::take(self.pending(stream));
        if !pending.is_empty() {
            self.line(stream, "F", &pending);
            self.flush();
        }
    }

    fn pending(&mut self, stream: Stream) -> &mut Vec<u8> {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn line(&mut self, stream: Stream, tag: &str, text: &[u8]) {
        let stamp = clock::stamp(clock::now());
        let added = stamp.len() + stream.name().len() + text.len() + 5;
        let length = (self.out.len() + added) as u64;
        if self.file.is_none() || self.file_bytes + length > self.file_bytes_max {
            self.lost_bytes += text.len() as u64;
            return;
        }
        for part in
            [stamp.as_bytes(), b" ", stream.name().as_bytes(), b" ", tag.as_bytes(), b" ", text, b"\n"]
        {
            self.out.extend_from_slice(part);
        }
    }

    /// A line that cannot be written is lost and counted: a full disk must not stop the container.
    fn flush(&mut self) {
        let Some(file) = &mut self.file else { return };
        match file.write_all(&self.out) {
            Ok(()) => self.file_bytes += self.out.len() as u64,
            Err(_) => self.lost_bytes += self.out.len() as u64,
        }
        self.out.clear();
        // One very long burst must not keep its memory for the life of the container.
        self.out.shrink_to(4 * LINE_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn texts(path: &std::path::Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn lines_are_whole_whatever_pieces_arrive() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = Log::open(path.clone()).unwrap();
        log.write(Stream::Stdout, b"a");
        log.write(Stream::Stderr, b"e\n");
        log.write(Stream::Stdout, b"b\n\nc");
        log.end(Stream::Stdout);
        log.end(Stream::Stderr);
        assert_eq!(texts(&path), ["stderr F e", "stdout F ab", "stdout F ", "stdout F c"]);
    }

    #[test]
    fn a_long_line_is_cut_into_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = Log::open(path.clone()).unwrap();
        let mut text = vec![b'x'; 2 * LINE_BYTES_MAX + 1];
        text.push(b'\n');
        log.write(Stream::Stdout, &text);
        let lines = texts(&path);
        let tags: Vec<_> = lines.iter().map(|line| (&line[..8], line.len() - 9)).collect();
        assert_eq!(tags, [("stdout P", LINE_BYTES_MAX), ("stdout P", LINE_BYTES_MAX), ("stdout F", 1)]);
    }

    #[test]
    fn a_full_file_takes_no_more_and_the_next_one_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut log = Log::open(path.clone()).unwrap();
        log.file_bytes_max = 200;
        for _ in 0..100 {
            log.write(Stream::Stdout, b"0123456789\n");
        }
        let full = fs::metadata(&path).unwrap().len();
        assert!((100..=200).contains(&full), "{full}");
        let kept = texts(&path).len() as u64;
        fs::rename(&path, folder.path().join("0.log.old")).unwrap();
        log.reopen().unwrap();
        log.write(Stream::Stdout, b"on\n");
        let lost = (100 - kept) * 10;
        let notice = format!("stderr F [{lost} bytes of output were not logged: the log file was full]");
        assert_eq!(texts(&path), [notice, "stdout F on".to_owned()]);
    }
}
