//! How far the objects are that one owner wants.

use alloc::vec::Vec;

use lazaret_model::Text;

/// An object that an owner wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The watch shows it as it should be.
    Seen,
    /// An object of others has its name.
    Taken,
    /// A write of it failed, or does not show.
    Overdue,
    /// It is being written.
    Pending,
}

/// The progress of all objects together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// How many there are as they should be.
    pub(crate) seen: usize,
    /// Names that objects of others have.
    pub(crate) taken: Vec<Text>,
    /// How many could not be written so far.
    pub(crate) overdue: usize,
    /// Some are being written: a status that counts them now would have to be written again at once.
    pub(crate) is_pending: bool,
}

impl Progress {
    pub(crate) fn add(&mut self, name: &Text, stage: Stage) {
        match stage {
            Stage::Seen => self.seen += 1,
            Stage::Taken => self.taken.push(name.clone()),
            Stage::Overdue => self.overdue += 1,
            Stage::Pending => self.is_pending = true,
        }
    }
}
