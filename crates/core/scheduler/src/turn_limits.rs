//! Limits of attempts that take several turns.

/// A turn that gets no further is followed by one twice as long, so often at most.
pub(crate) const DOUBLINGS_MAX: u32 = 5;

/// Attempts that are remembered; beyond them, the oldest begins again.
pub(crate) const REMEMBERED_MAX: usize = 64;
