//! The checkpoint file: whole or as it was before.

use std::{
    io,
    path::{Path, PathBuf},
};

use lazaret_driver::{read_bytes, write_bytes};
use lazaret_node::{Input, Outcome};
use tokio::sync::{mpsc, oneshot};
use tracing::error;

/// A checkpoint is not larger. 4096 claims with all that a plugin may answer are less.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Checkpoints that wait to be written. Each contains those before it: only the newest is.
const QUEUE_MAX: usize = 256;

/// What is in the file; none if there is no file.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    read_bytes(path, FILE_BYTES_MAX)
}

/// Writes checkpoints in the order in which they come, in a thread of its own: a pod waits for it, and each change of threads
/// takes time. The future ends with the thread.
pub(crate) fn writer(
    path: PathBuf,
    news: mpsc::Sender<Input>,
) -> (mpsc::Sender<(u64, Vec<u8>)>, impl Future<Output = ()>) {
    let (sender, queue) = mpsc::channel::<(u64, Vec<u8>)>(QUEUE_MAX);
    let (ends, ended) = oneshot::channel::<()>();
    let work = move || {
        write_all(&path, &news, queue);
        drop(ends);
    };
    // Without a thread nothing can be written: each checkpoint fails, and so nothing is prepared.
    let started = std::thread::Builder::new().name("checkpoint".into()).spawn(work);
    if let Err(error) = started {
        error!(%error, "start a thread that writes the checkpoint");
    }
    (sender, async { drop(ended.await) })
}

fn write_all(path: &Path, news: &mpsc::Sender<Input>, mut queue: mpsc::Receiver<(u64, Vec<u8>)>) {
    while let Some((id, mut text)) = queue.blocking_recv() {
        let mut ids = vec![id];
        while let Ok((id, newer)) = queue.try_recv() {
            ids.push(id);
            text = newer;
        }
        let outcome = match write_bytes(path, &text) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        for id in ids {
            // Nobody hears it when the agent ends; what waits is written all the same.
            let _ = news.blocking_send(Input::Outcome(id, outcome.clone()));
        }
    }
}
