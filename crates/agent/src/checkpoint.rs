//! The checkpoint's files: written in a thread, each write as the newest.

use std::{
    io,
    path::PathBuf,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    time::Duration,
};

use lazaret_driver::{beside, exchange, overwrite, read_bytes, sync_folder};
use lazaret_node::{Disk, Exchanged, FilePair, Input, Outcome, PairError, Which, Written};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use crate::StartError;

/// A checkpoint is not larger. 4096 claims with all that a plugin may answer are less.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Checkpoints that wait to be written. Each contains those before it: only the newest is.
const QUEUE_MAX: usize = 256;
/// How long a checkpoint that no pod waits for waits for the next one, which contains it. The note of the next pod then waits
/// for one sync alone.
const UNAWAITED_MAX: Duration = Duration::from_millis(20);

/// A checkpoint to write.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) id: u64,
    pub(crate) text: Vec<u8>,
    pub(crate) is_awaited: bool,
}

/// The checkpoint and the file beside it.
#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    spare: PathBuf,
}

impl Disk for Files {
    type Error = io::Error;

    fn read(&mut self, which: Which) -> io::Result<Option<Vec<u8>>> {
        let path = match which {
            Which::Checkpoint => &self.path,
            Which::Spare => &self.spare,
        };
        read_bytes(path, FILE_BYTES_MAX)
    }

    fn write_spare(&mut self, text: &[u8]) -> io::Result<Written> {
        overwrite(&self.spare, text).map(|is_new| if is_new { Written::Anew } else { Written::Over })
    }

    fn exchange(&mut self) -> io::Result<Exchanged> {
        let are_both = exchange(&self.spare, &self.path)?;
        Ok(if are_both { Exchanged::Both } else { Exchanged::Replaced })
    }

    fn sync_names(&mut self) -> io::Result<()> {
        sync_folder(&self.path)
    }
}

/// The files, and the newest checkpoint that is in them.
pub(crate) fn open(path: PathBuf) -> Result<(FilePair<Files>, Option<Vec<u8>>), StartError> {
    let spare = beside(&path).map_err(StartError::io(&path))?;
    FilePair::open(Files { path: path.clone(), spare }).map_err(|error| match error {
        PairError::Disk(source) => StartError::Io { path, source },
        PairError::Checkpoint(source) => StartError::Checkpoint { path, source },
    })
}

/// Writes checkpoints in the order in which they come, in a thread of its own: a pod waits for it, and each change of threads
/// takes time. The future ends with the thread.
pub(crate) fn writer(
    files: FilePair<Files>,
    news: mpsc::Sender<Input>,
) -> (SyncSender<Order>, impl Future<Output = ()>) {
    let (sender, queue) = sync_channel(QUEUE_MAX);
    let (ends, ended) = oneshot::channel::<()>();
    let work = move || {
        write_all(files, &news, &queue);
        drop(ends);
    };
    // Without a thread nothing can be written: each checkpoint fails, and so nothing is prepared.
    let started = std::thread::Builder::new().name("checkpoint".into()).spawn(work);
    if let Err(error) = started {
        error!(%error, "start a thread that writes the checkpoint");
    }
    (sender, async { drop(ended.await) })
}

fn write_all(mut files: FilePair<Files>, news: &mpsc::Sender<Input>, queue: &Receiver<Order>) {
    while let Ok(order) = queue.recv() {
        let (ids, text) = gather(order, queue);
        let outcome = match files.write(&text) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        for id in ids {
            // Nobody hears it when the agent ends; what waits is written all the same.
            let _ = news.blocking_send(Input::Outcome(id, outcome.clone()));
        }
        // While the plugin works.
        if let Err(error) = files.settle() {
            warn!(%error, "sync the directory of the checkpoint: it is tried again with the next one");
        }
    }
}

/// The newest checkpoint that is to be written now, and all that it answers.
fn gather(first: Order, queue: &Receiver<Order>) -> (Vec<u64>, Vec<u8>) {
    let (mut ids, mut text) = (vec![first.id], first.text);
    let mut take = |order: Order| {
        ids.push(order.id);
        text = order.text;
    };
    if !first.is_awaited {
        match queue.recv_timeout(UNAWAITED_MAX) {
            Ok(order) => take(order),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
    while let Ok(order) = queue.try_recv() {
        take(order);
    }
    (ids, text)
}
