//! The checkpoint's files: written in a thread, each write as the newest.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    time::Duration,
};

use lazaret_driver::{exchange, overwrite, read_bytes, sync_folder};
use lazaret_node::{CheckpointFile, Disk, Exchanged, Files, FilesError, Input, Outcome, SPARES, Written};
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

/// The checkpoint and the files beside it.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointDirectory {
    path: PathBuf,
    spares: [PathBuf; SPARES],
}

impl Disk for CheckpointDirectory {
    type Error = io::Error;

    fn read(&mut self, which: CheckpointFile) -> io::Result<Option<Vec<u8>>> {
        let path = match which {
            CheckpointFile::Checkpoint => &self.path,
            CheckpointFile::Spare(at) => &self.spares[at],
        };
        read_bytes(path, FILE_BYTES_MAX)
    }

    fn write_spare(&mut self, spare: usize, text: &[u8]) -> io::Result<Written> {
        overwrite(&self.spares[spare], text).map(|is_new| if is_new { Written::Anew } else { Written::Over })
    }

    fn exchange(&mut self, spare: usize) -> io::Result<Exchanged> {
        let are_both = exchange(&self.spares[spare], &self.path)?;
        Ok(if are_both { Exchanged::Both } else { Exchanged::Replaced })
    }

    fn sync_names(&mut self) -> io::Result<()> {
        sync_folder(&self.path)
    }
}

/// The files, and the newest checkpoint that is in them.
pub(crate) fn open(path: &Path) -> Result<(Files<CheckpointDirectory>, Option<Vec<u8>>), StartError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let spares = ["new", "spare"].map(|end| path.with_file_name(format!(".{name}.{end}")));
    Files::open(CheckpointDirectory { path: path.to_owned(), spares }).map_err(|error| match error {
        FilesError::Disk(source) => StartError::Io { path: path.to_owned(), source },
        FilesError::Checkpoint(source) => StartError::Checkpoint { path: path.to_owned(), source },
    })
}

/// Writes checkpoints in the order in which they come, in a thread of its own: a pod waits for it, and each change of threads
/// takes time. The future ends with the thread.
pub(crate) fn writer(
    path: &Path,
    files: Files<CheckpointDirectory>,
    news: mpsc::Sender<Input>,
) -> (SyncSender<Order>, impl Future<Output = ()> + use<>) {
    let (sender, queue) = sync_channel(QUEUE_MAX);
    let (ends, ended) = oneshot::channel::<()>();
    let names = Names::start(path);
    let work = move || {
        write_all(files, &names, &news, &queue);
        drop(ends);
    };
    // Without a thread nothing can be written: each checkpoint fails, and so nothing is prepared.
    let started = std::thread::Builder::new().name("checkpoint".into()).spawn(work);
    if let Err(error) = started {
        error!(%error, "start a thread that writes the checkpoint");
    }
    (sender, async { drop(ended.await) })
}

fn write_all(
    mut files: Files<CheckpointDirectory>,
    names: &Names,
    news: &mpsc::Sender<Input>,
    queue: &Receiver<Order>,
) {
    let settle = |files: &mut Files<CheckpointDirectory>| {
        if let Err(error) = files.settle() {
            warn!(%error, "sync the directory of the checkpoint: it is tried again with the next one");
        }
    };
    while let Ok(order) = queue.recv() {
        let (ids, text) = gather(order, queue);
        files.synced(names.synced.load(Ordering::Acquire));
        let outcome = match files.write(&text) {
            Ok(()) => Outcome::Done,
            Err(error) => Outcome::Failed(error.to_string()),
        };
        for id in ids {
            // The receiver is gone when the agent ends; queued checkpoints are written all the same.
            let _ = news.blocking_send(Input::Outcome(id, outcome.clone()));
        }
        if !names.sync(files.exchanges()) {
            settle(&mut files);
        }
    }
    settle(&mut files);
}

/// Syncs the names of the files beside the thread that writes them, while plugins work.
#[derive(Debug)]
struct Names {
    /// Exchanges that are to be synced, and that are.
    wanted: Arc<AtomicU64>,
    synced: Arc<AtomicU64>,
    wake: SyncSender<()>,
}

impl Names {
    fn start(path: &Path) -> Self {
        // One is enough: who is woken syncs all that is wanted by then.
        let (wake, woken) = sync_channel(1);
        let names = Self { wanted: Arc::default(), synced: Arc::default(), wake };
        let (wanted, synced, path) = (Arc::clone(&names.wanted), Arc::clone(&names.synced), path.to_owned());
        let work = move || {
            while woken.recv().is_ok() {
                let begun_after = wanted.load(Ordering::Acquire);
                match sync_folder(&path) {
                    Ok(()) => synced.store(begun_after, Ordering::Release),
                    Err(error) => warn!(%error, "sync the directory of the checkpoint"),
                }
            }
        };
        // Without this thread the writer syncs the names itself.
        let started = std::thread::Builder::new().name("checkpoint-names".into()).spawn(work);
        if let Err(error) = started {
            error!(%error, "start a thread that syncs the directory of the checkpoint");
        }
        names
    }

    /// Begins to sync the names of this many exchanges; whether there is a thread that does.
    fn sync(&self, exchanges: u64) -> bool {
        self.wanted.store(exchanges, Ordering::Release);
        !matches!(self.wake.try_send(()), Err(TrySendError::Disconnected(())))
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
