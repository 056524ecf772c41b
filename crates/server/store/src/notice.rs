//! Notices of a store to the program that runs it, at the time of the event: the store itself has no log.

use std::fmt;
use std::sync::Arc;

use lazaret_storage::StorageError;

/// Something that an operator has to know.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Bytes at the end of the log were cut off when the store was opened: a commit that was never acknowledged.
    TailCut {
        /// The segment.
        file: String,
        /// Where it ends now.
        offset: u64,
        /// The bytes that were cut off.
        bytes: u64,
    },
    /// A write failed: the store is read-only.
    BecameReadOnly(Arc<StorageError>),
    /// The store tried to write again, and that failed too.
    StillReadOnly {
        /// How often it was tried.
        attempts: u32,
        /// Why it failed this time.
        cause: Arc<StorageError>,
    },
    /// The store takes writes again. Writes that were in doubt are void.
    BecameWritable {
        /// How often it was tried.
        attempts: u32,
        /// The revision it continues from.
        revision: u64,
    },
    /// A snapshot failed; the log keeps everything and keeps growing.
    SnapshotFailed(Arc<StorageError>),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::TailCut { file, offset, bytes } => {
                write!(
                    f,
                    "cut {bytes} bytes off {file} at offset {offset}: a commit that was never acknowledged"
                )
            }
            Notice::BecameReadOnly(cause) => write!(f, "the store is read-only: {cause}"),
            Notice::StillReadOnly { attempts, cause } => {
                write!(f, "the store is still read-only after {attempts} attempts: {cause}")
            }
            Notice::BecameWritable { attempts, revision } => {
                write!(f, "the store takes writes again after {attempts} attempts, from revision {revision}")
            }
            Notice::SnapshotFailed(cause) => write!(f, "a snapshot failed: {cause}; the log keeps growing"),
        }
    }
}

/// The receiver of notices. Called on the store's own threads: it must return soon.
#[derive(Clone, Default)]
pub struct Observer(Option<Arc<Observe>>);

type Observe = dyn Fn(&Notice) + Send + Sync;

impl Observer {
    /// Calls `observe` for each notice.
    #[must_use]
    pub fn new(observe: impl Fn(&Notice) + Send + Sync + 'static) -> Observer {
        Observer(Some(Arc::new(observe)))
    }

    pub(crate) fn notify(&self, notice: &Notice) {
        if let Some(observe) = &self.0 {
            observe(notice);
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
