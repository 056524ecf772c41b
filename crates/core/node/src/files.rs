//! The checkpoint on disk: three files that change places.
//!
//! One has the name that kubelet reads and writes; two spares beside it are ours. A checkpoint is written over a spare and
//! synced, and then that spare and the checkpoint change places. Each has the number of its write, which kubelet skips: the
//! newest one can be told whichever name it has.
//!
//! **Invariant.** A write is reported when its text is synced, and before the exchange of the names is: one sync, and the
//! second one happens while a plugin works. Whichever part of it a power loss undoes,
//!
//! 1. [`Files::open`] gives the last checkpoint that was reported, or a later one. So nothing is prepared that the checkpoint
//!    does not know: a plugin is called after the report. All files have durable names, and the checkpoint has a number,
//!    before a report may precede the sync of the names; where that is not so (the first writes, a file of kubelet's, a file
//!    system that cannot exchange) the names are synced first.
//! 2. The file with kubelet's name is whole, and at most two reports old. A kubelet that takes over has what it promises
//!    itself: it syncs its file and renames it, and does not sync the directory. For this a spare is not written over
//!    while it may be the file that kubelet would find, which is until the exchange that gave it its name is synced. With
//!    two spares one can be written while the names of the last exchange are being synced.
//!
//! A crash of the process alone undoes nothing: the next process sees names that are not synced.

use alloc::vec::Vec;

use crate::checkpoint::{self, CheckpointError};

/// Files beside the checkpoint.
pub const SPARES: usize = 2;

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointFile {
    /// The one that kubelet reads.
    Checkpoint,
    /// One beside it, from 0 on.
    Spare(usize),
}

/// How a spare was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was there.
    Over,
    /// It had to be made: its name is not on disk yet.
    Anew,
}

/// How the names were exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exchanged {
    /// Each file has the other's name.
    Both,
    /// The spare has replaced the checkpoint, and is not there any more.
    Replaced,
}

/// Where the files are.
pub trait Disk {
    /// Why something cannot be done.
    type Error;

    /// The content of a file; none if there is no file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self, which: CheckpointFile) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Writes over a spare, or makes it. Its text is on disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written. Anything may be in it then.
    fn write_spare(&mut self, spare: usize, text: &[u8]) -> Result<Written, Self::Error>;

    /// A spare and the checkpoint change places. Seen by everybody when this returns; on disk after [`Disk::sync_names`].
    ///
    /// # Errors
    /// When they cannot. They are as they were then.
    fn exchange(&mut self, spare: usize) -> Result<Exchanged, Self::Error>;

    /// The names are on disk when this returns.
    ///
    /// # Errors
    /// When it is not known whether they are.
    fn sync_names(&mut self) -> Result<(), Self::Error>;
}

/// Why the files cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilesError<E> {
    /// They cannot be read, or cannot change places.
    Disk(E),
    /// The checkpoint cannot be trusted.
    Checkpoint(CheckpointError),
}

/// The files, and the newest checkpoint that is in them; or why there is none.
pub type Opened<D> = Result<(Files<D>, Option<Vec<u8>>), FilesError<<D as Disk>::Error>>;

/// The files, for the one who writes them.
#[derive(Debug)]
pub struct Files<D> {
    disk: D,
    /// Of the last write that was begun.
    sequence: u64,
    /// Exchanges so far.
    exchanges: u64,
    spares: [SpareState; SPARES],
    /// The checkpoint has a number: a newer text would be found in a spare.
    is_numbered: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct SpareState {
    is_there: bool,
    /// The exchange since which it may be what kubelet would find after a power loss; none: it is not.
    unsynced: Option<u64>,
}

impl<D: Disk> Files<D> {
    /// Finds the newest checkpoint, and gives it kubelet's name if it does not have it.
    ///
    /// # Errors
    /// When files cannot be read, or the checkpoint cannot be trusted. The content of a spare does not replace a damaged one:
    /// it may be older.
    pub fn open(mut disk: D) -> Opened<D> {
        let mut newest = disk.read(CheckpointFile::Checkpoint).map_err(FilesError::Disk)?;
        let mut number = match &newest {
            Some(text) => checkpoint::sequence(text).map_err(FilesError::Checkpoint)?,
            // There is none yet, or a person has removed it: then the spares are void as well.
            None => None,
        };
        let (is_numbered, mut sequence) = (number.is_some(), number.unwrap_or(0));
        let (mut spares, mut place) = ([SpareState::default(); SPARES], None);
        for (at, spare) in spares.iter_mut().enumerate() {
            let text = disk.read(CheckpointFile::Spare(at)).map_err(FilesError::Disk)?;
            spare.is_there = text.is_some();
            let in_spare = text.as_deref().and_then(|text| checkpoint::sequence(text).ok().flatten());
            sequence = sequence.max(in_spare.unwrap_or(0));
            if is_numbered && in_spare > number {
                (newest, number, place) = (text, in_spare, Some(at));
            }
        }
        if let Some(at) = place {
            disk.exchange(at).map_err(FilesError::Disk)?;
        }
        let mut files = Self { disk, sequence, exchanges: 0, spares, is_numbered };
        files.spares.iter_mut().for_each(|spare| spare.unsynced = Some(0));
        // Where it fails, the first write tries it again.
        let _ = files.settle();
        Ok((files, newest))
    }

    /// Writes a checkpoint. When this returns, [`Files::open`] finds it, also after a power loss.
    ///
    /// # Errors
    /// When that is not certain.
    pub fn write(&mut self, text: &[u8]) -> Result<(), D::Error> {
        let at = match self.free() {
            Some(at) => at,
            None => {
                self.settle()?;
                0
            }
        };
        let is_whole = self.is_numbered && self.spares.iter().all(|spare| spare.is_there);
        self.sequence = self.sequence.saturating_add(1);
        let written = self.disk.write_spare(at, &checkpoint::numbered(text, self.sequence))?;
        self.spares[at].is_there = true;
        let exchanged = self.disk.exchange(at)?;
        self.exchanges += 1;
        self.is_numbered = true;
        let is_there = exchanged == Exchanged::Both;
        self.spares[at] = SpareState { is_there, unsynced: Some(self.exchanges) };
        if is_whole && written == Written::Over { Ok(()) } else { self.settle() }
    }

    /// Sees to it that the names are on disk, now.
    ///
    /// # Errors
    /// When they may not be.
    pub fn settle(&mut self) -> Result<(), D::Error> {
        if self.spares.iter().any(|spare| spare.unsynced.is_some()) {
            self.disk.sync_names()?;
            self.synced(self.exchanges);
        }
        Ok(())
    }

    /// Exchanges so far, for the thread that is about to sync the names beside this.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        self.exchanges
    }

    /// The names were synced by a thread that began after this many exchanges.
    pub fn synced(&mut self, exchanges: u64) {
        for spare in &mut self.spares {
            spare.unsynced = spare.unsynced.filter(|since| *since > exchanges);
        }
    }

    /// A spare that may be written over. One that is missing comes first: without it, each report waits for the names.
    fn free(&self) -> Option<usize> {
        let free = || (0..SPARES).filter(|at| self.spares[*at].unsynced.is_none());
        free().find(|at| !self.spares[*at].is_there).or_else(|| free().next())
    }
}
