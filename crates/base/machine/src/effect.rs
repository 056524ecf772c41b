//! Effects, and what became of them.

use lazaret_model::{Text, Uid};

/// Names an effect until it is acknowledged. Never used twice by one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// Something to be done by the shell that runs the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect<K> {
    /// To acknowledge it by.
    pub id: EffectId,
    /// The effect.
    pub kind: K,
}

/// The outcome of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was done, by this effect.
    Done,
    /// Nothing was done and nothing is left to do: there is no such object, or it has another UID, or it is being deleted already.
    Gone,
    /// The object is not as the effect expects it. Nothing was done.
    Conflict,
    /// Refused for good: the same effect will be refused again. Nothing was done.
    Refused,
    /// Refused for now by a disruption budget. Nothing was done.
    Held,
    /// It failed, certainly. Nothing was done.
    RetryLater,
    /// It may or may not have been done.
    Unknown,
}

impl Outcome {
    /// As a label of metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
            Self::Refused => "refused",
            Self::Held => "held",
            Self::RetryLater => "retry",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer to an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether it was done.
    pub outcome: Outcome,
    /// Why not, in the words of the API server or of the shell: of [`Outcome::Held`] and [`Outcome::Refused`] always.
    pub why: Option<Text>,
    /// The object as it was written, where the machine has a use for it.
    pub written: Option<Written>,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, why: None, written: None }
    }
}

/// An object that was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its name.
    pub name: Text,
    /// Its UID.
    pub uid: Uid,
    /// Its resource version.
    pub version: Text,
}
