//! When a machine wants to be called again.

use lazaret_model::Timestamp;

/// When a machine wants to be called again if nothing happens before, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake<W = &'static str> {
    /// Not before this instant.
    pub at: Timestamp,
    /// The reason.
    pub why: W,
}

impl<W> Wake<W> {
    /// For this, at this instant.
    pub const fn new(at: Timestamp, why: W) -> Self {
        Self { at, why }
    }

    /// At once: there is something to do already.
    pub const fn now(why: W) -> Self {
        Self { at: Timestamp::EPOCH, why }
    }
}

impl<W: Ord> Wake<W> {
    /// The first of these.
    pub fn first(all: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        all.into_iter().flatten().min()
    }
}

impl<W: Into<&'static str>> Wake<W> {
    /// The same with the reason in words, for logs.
    pub fn in_words(self) -> Wake {
        Wake { at: self.at, why: self.why.into() }
    }
}
