//! The checkpoint file: whole or as it was before.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use lazaret_node::{Input, Outcome};
use tokio::sync::mpsc;

/// A checkpoint is not larger. 4096 claims with all that a plugin may answer are less.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Checkpoints that wait to be written. Each contains those before it: only the newest is.
const QUEUE_MAX: usize = 256;

/// What is in the file; none if there is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(Some(text))
}

/// Writes a file: beside it first, then in its place. What was there before is there until the new one is on disk.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let beside = folder.join(format!(".{}.new", name.to_string_lossy()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    File::open(folder)?.sync_all()
}

/// Writes checkpoints in the order in which they come.
pub(crate) fn writer(
    path: PathBuf,
    news: mpsc::Sender<Input>,
) -> (mpsc::Sender<(u64, Vec<u8>)>, impl Future<Output = ()>) {
    let (sender, mut queue) = mpsc::channel::<(u64, Vec<u8>)>(QUEUE_MAX);
    let task = async move {
        let mut waiting = Vec::new();
        while queue.recv_many(&mut waiting, QUEUE_MAX).await > 0 {
            let ids: Vec<u64> = waiting.iter().map(|(id, _)| *id).collect();
            let Some((_, text)) = waiting.drain(..).next_back() else { continue };
            let path = path.clone();
            let written = tokio::task::spawn_blocking(move || write(&path, &text)).await;
            let outcome = match written {
                Ok(Ok(())) => Outcome::Done,
                Ok(Err(error)) => Outcome::Failed(error.to_string()),
                Err(error) => Outcome::Failed(error.to_string()),
            };
            for id in ids {
                if news.send(Input::Outcome(id, outcome.clone())).await.is_err() {
                    return;
                }
            }
        }
    };
    (sender, task)
}
