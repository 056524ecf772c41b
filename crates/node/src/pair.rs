//! The checkpoint on disk: two files that change places.
//!
//! One has the name that kubelet reads and writes; the spare beside it is ours. A checkpoint is written over the spare and
//! synced, and then the two change places. Each has the number of its write, which kubelet skips: the newer one can be told
//! whichever name it has.
//!
//! **Invariant.** A write is reported when its text is synced, and before the exchange of the names is: one sync, and the
//! second one happens while a plugin works. Whatever of it a power loss undoes,
//!
//! 1. [`FilePair::open`] gives the last checkpoint that was reported, or a later one. So nothing is prepared that the
//!    checkpoint does not know: a plugin is called after the report. Both files have a number and a durable name before a
//!    report may precede the sync of the names; where that is not so (the first write, a file of kubelet's, a file system
//!    that cannot exchange) the names are synced first.
//! 2. The file with kubelet's name is whole, and no older than the write before the last one. A kubelet that takes over has
//!    what it promises itself: it syncs its file and renames it, and does not sync the directory. For this the spare is not
//!    written over while the last exchange is not synced: it may still be the file that kubelet would find.
//!
//! A crash of the process alone undoes nothing: names that are not synced are seen by whoever comes next.

use alloc::vec::Vec;

use crate::checkpoint::{self, CheckpointError};

/// One of the two files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that kubelet reads.
    Checkpoint,
    /// The one beside it.
    Spare,
}

/// What became of the spare when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was there.
    Over,
    /// It had to be made: its name is not on disk yet.
    Anew,
}

/// What became of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Each file has the other's name.
    Both,
    /// The spare has replaced the checkpoint, and there is no spare any more.
    Replaced,
}

/// Where the files are.
pub trait Disk {
    /// Why something cannot be done.
    type Error;

    /// What is in a file; none if there is no file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self, which: Which) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Writes over the spare, or makes it. Its text is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written. Anything may be in it then.
    fn write_spare(&mut self, text: &[u8]) -> Result<Written, Self::Error>;

    /// The files change places. Seen by everybody when this returns; on disk after [`Disk::sync_names`].
    ///
    /// # Errors
    /// When they cannot. They are as they were then.
    fn exchange(&mut self) -> Result<Exchanged, Self::Error>;

    /// The names are on disk when this returns.
    ///
    /// # Errors
    /// When nobody knows whether they are.
    fn sync_names(&mut self) -> Result<(), Self::Error>;
}

/// Why the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairError<E> {
    /// They cannot be read, or cannot change places.
    Disk(E),
    /// The checkpoint cannot be trusted.
    Checkpoint(CheckpointError),
}

/// The files, and the newest checkpoint that is in them; or why there is none.
pub type Opened<D> = Result<(FilePair<D>, Option<Vec<u8>>), PairError<<D as Disk>::Error>>;

/// The two files, for the one who writes them.
#[derive(Debug)]
pub struct FilePair<D> {
    disk: D,
    /// Of the last write that was begun.
    sequence: u64,
    /// The names are on disk.
    is_synced: bool,
    /// Both files are there and the checkpoint has a number: a newer text would be found in the spare.
    is_pair: bool,
}

impl<D: Disk> FilePair<D> {
    /// Finds the newest checkpoint, and gives it kubelet's name if it does not have it.
    ///
    /// # Errors
    /// When files cannot be read, or the checkpoint cannot be trusted. What is in the spare does not replace a damaged one:
    /// nobody knows whether it is newer.
    pub fn open(mut disk: D) -> Opened<D> {
        let found = disk.read(Which::Checkpoint).map_err(PairError::Disk)?;
        let spare = disk.read(Which::Spare).map_err(PairError::Disk)?;
        let in_spare = spare.as_deref().and_then(|text| checkpoint::sequence(text).ok().flatten());
        let number = match &found {
            Some(text) => checkpoint::sequence(text).map_err(PairError::Checkpoint)?,
            // Nobody wrote one, or a person has removed it: what is in the spare is over as well.
            None => None,
        };
        let sequence = number.max(in_spare).unwrap_or(0);
        let is_newer = number.is_some() && in_spare > number;
        if is_newer {
            disk.exchange().map_err(PairError::Disk)?;
        }
        let is_synced = disk.sync_names().is_ok();
        let is_pair = number.is_some() && spare.is_some();
        let newest = if is_newer { spare } else { found };
        Ok((Self { disk, sequence, is_synced, is_pair }, newest))
    }

    /// Writes a checkpoint. When this returns, whoever opens the files finds it, also after a power loss.
    /// [`FilePair::settle`] does the rest.
    ///
    /// # Errors
    /// When that is not certain.
    pub fn write(&mut self, text: &[u8]) -> Result<(), D::Error> {
        self.settle()?;
        self.sequence = self.sequence.saturating_add(1);
        let written = self.disk.write_spare(&checkpoint::numbered(text, self.sequence))?;
        let is_found_anyway = self.is_pair && written == Written::Over;
        let exchanged = self.disk.exchange()?;
        self.is_synced = false;
        self.is_pair = exchanged == Exchanged::Both;
        if is_found_anyway { Ok(()) } else { self.settle() }
    }

    /// Sees to it that the names are on disk. To be called when nobody waits.
    ///
    /// # Errors
    /// When they may not be. The next write tries it again.
    pub fn settle(&mut self) -> Result<(), D::Error> {
        if !self.is_synced {
            self.disk.sync_names()?;
            self.is_synced = true;
        }
        Ok(())
    }
}
