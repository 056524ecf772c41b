//! Reads a log file to its end, and further while its container runs.

use std::{io, os::unix::fs::MetadataExt, path::Path, path::PathBuf, time::Duration};

use bytes::Bytes;
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncSeekExt, SeekFrom},
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{Selection, line::Writer, tail};

/// Bytes read from the file at once.
const READ_BYTES: usize = 32 << 10;
/// A line is looked at when it is whole, or this long: runtimes cut lines at 16 KiB.
const LINE_BYTES_MAX: usize = 64 << 10;
/// At the end of a log that is followed, the file is looked at after this long, and later and later up to the other.
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_millis(500);
/// A client that takes nothing for this long has gone.
const STALL: Duration = Duration::from_secs(600);

/// Why reading ended before the log did.
enum Ended {
    /// As much as was asked for was shown.
    Full,
    /// The client is gone.
    Gone,
    Io(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A log that a container has replaced by a link is not read: the link could lead to any file of the node.
fn open(path: &Path) -> io::Result<File> {
    lazaret_containers::open_log(path).map(File::from_std)
}

/// Copies what is asked for of a log to `pieces`. Following ends when `is_running` no longer says so.
pub(super) async fn copy(
    path: PathBuf,
    selection: Selection,
    is_running: impl Fn() -> bool + Send,
    pieces: mpsc::Sender<Bytes>,
) {
    match LogReader::new(&path, selection, pieces).copy(is_running).await {
        Ok(()) | Err(Ended::Full | Ended::Gone) => {}
        Err(Ended::Io(error)) => tracing::warn!(%error, path = %path.display(), "read a log"),
    }
}

struct LogReader<'a> {
    path: &'a Path,
    selection: Selection,
    writer: Writer,
    pieces: mpsc::Sender<Bytes>,
    /// The beginning of a line whose end was not read yet.
    begun: Vec<u8>,
    /// The rest of a line that was too long: shown, or passed over.
    rest_of_line: Option<bool>,
    position: u64,
}

impl<'a> LogReader<'a> {
    fn new(path: &'a Path, selection: Selection, pieces: mpsc::Sender<Bytes>) -> Self {
        let writer = Writer::new(selection.clone());
        Self { path, selection, writer, pieces, begun: Vec::new(), rest_of_line: None, position: 0 }
    }

    async fn copy(&mut self, is_running: impl Fn() -> bool + Send) -> Result<(), Ended> {
        let mut file = match open(self.path) {
            Ok(file) => file,
            // A container that was made just now has written nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.wait_for_file(&is_running).await {
                    Some(file) => file,
                    None => return Ok(()),
                }
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(lines) = self.selection.tail_lines {
            let length = file.metadata().await?.len();
            self.position = tail::start(&mut file, length, lines).await?;
            file.seek(SeekFrom::Start(self.position)).await?;
        }
        let mut wait = POLL_MIN;
        loop {
            // Asked before the end is looked for: what was written until then is read.
            let goes_on = self.selection.follow && is_running();
            if self.read_all(&mut file).await? {
                wait = POLL_MIN;
            }
            if let Some(next) = self.rotated(&file).await? {
                // The rest of the old file, and then the new one from its beginning.
                self.read_all(&mut file).await?;
                (file, self.position) = (next, 0);
                continue;
            }
            if !goes_on {
                return self.last().await;
            }
            if file.metadata().await?.len() < self.position {
                self.position = 0;
                self.begun.clear();
                file.seek(SeekFrom::Start(0)).await?;
                continue;
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.pieces.closed() => return Err(Ended::Gone),
            }
            wait = (wait * 2).min(POLL_MAX);
        }
    }

    /// Waits for a file that is not there yet.
    async fn wait_for_file(&self, is_running: &(impl Fn() -> bool + Send)) -> Option<File> {
        let mut wait = POLL_MIN;
        while self.selection.follow && is_running() && !self.pieces.is_closed() {
            sleep(wait).await;
            wait = (wait * 2).min(POLL_MAX);
            if let Ok(file) = open(self.path) {
                return Some(file);
            }
        }
        None
    }

    /// The file that is in the place of this one now, if it is another.
    async fn rotated(&self, file: &File) -> io::Result<Option<File>> {
        if !self.selection.follow {
            return Ok(None);
        }
        let Ok(next) = open(self.path) else { return Ok(None) };
        let (old, new) = (file.metadata().await?, next.metadata().await?);
        Ok(((old.dev(), old.ino()) != (new.dev(), new.ino())).then_some(next))
    }

    /// Whether there was anything until the end of the file.
    async fn read_all(&mut self, file: &mut File) -> Result<bool, Ended> {
        let mut block = vec![0; READ_BYTES];
        let mut any = false;
        loop {
            let read = file.read(&mut block).await?;
            if read == 0 {
                return Ok(any);
            }
            any = true;
            self.position += read as u64;
            let mut out = Vec::new();
            self.take(&block[..read], &mut out);
            self.send(out).await?;
        }
    }

    /// Sends the last line of an ended log, if it has no end of line.
    async fn last(&mut self) -> Result<(), Ended> {
        let begun = std::mem::take(&mut self.begun);
        let mut out = Vec::new();
        if !begun.is_empty() {
            self.writer.line(&begun, false, &mut out);
        }
        self.send(out).await
    }

    fn take(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() && !self.writer.is_full() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, after) = match end {
                Some(end) => (&bytes[..end], &bytes[end + 1..]),
                None => (bytes, &[][..]),
            };
            bytes = after;
            if let Some(is_shown) = self.rest_of_line {
                if is_shown {
                    self.writer.raw(part, end.is_some(), out);
                }
                if end.is_some() {
                    self.rest_of_line = None;
                }
                continue;
            }
            self.begun.extend_from_slice(part);
            if end.is_some() {
                self.writer.line(&self.begun, false, out);
                self.begun.clear();
            } else if self.begun.len() >= LINE_BYTES_MAX {
                self.rest_of_line = Some(self.writer.line(&self.begun, true, out));
                self.begun.clear();
            }
        }
    }

    async fn send(&mut self, out: Vec<u8>) -> Result<(), Ended> {
        if !out.is_empty() {
            match timeout(STALL, self.pieces.send(out.into())).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(Ended::Gone),
            }
        }
        if self.writer.is_full() { Err(Ended::Full) } else { Ok(()) }
    }
}
