//! One call at a time, also among two instances of a driver.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::Instant,
};
use tonic::Status;

/// The name that the Go helper uses, so that a driver can be replaced by one in another language.
pub(crate) const FILE_NAME: &str = "serialize.lock";
/// How long a call waits for the other instance. Kubelet waits 45 s for the call.
const WAIT_MAX: Duration = Duration::from_secs(40);
/// Between two looks at a lock that another process holds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The callers that may call the driver at a time.
#[derive(Debug)]
pub(crate) enum Serialize {
    /// All.
    Off,
    /// One caller of this process.
    Process(Arc<Mutex<()>>),
    /// One caller of all processes that share a file.
    File(Arc<Mutex<()>>, PathBuf),
}

/// The right to call the driver, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallPermit {
    _file: Option<File>,
    _process: Option<OwnedMutexGuard<()>>,
}

impl Serialize {
    pub(crate) async fn turn(&self) -> Result<CallPermit, Status> {
        match self {
            Self::Off => Ok(CallPermit { _file: None, _process: None }),
            Self::Process(mutex) => {
                Ok(CallPermit { _file: None, _process: Some(Arc::clone(mutex).lock_owned().await) })
            }
            Self::File(mutex, path) => {
                let process = Arc::clone(mutex).lock_owned().await;
                let file = lock(path).await?;
                Ok(CallPermit { _file: Some(file), _process: Some(process) })
            }
        }
    }
}

async fn lock(path: &PathBuf) -> Result<File, Status> {
    let failed = |error: io::Error| Status::internal(format!("lock {}: {error}", path.display()));
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o666).open(path);
    let file = open.map_err(failed)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) if begin.elapsed() >= WAIT_MAX => {
                return Err(Status::aborted(format!(
                    "another instance of the driver holds {}",
                    path.display()
                )));
            }
            Err(TryLockError::WouldBlock) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}
