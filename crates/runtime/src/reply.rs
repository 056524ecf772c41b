//! What became of an effect.

use bytes::Bytes;

use crate::CallError;

/// What became of an effect, and what is worth knowing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether it was done.
    pub outcome: Outcome,
    /// The object as it was written, where there is one.
    pub object: Option<Bytes>,
    /// Why not, in the words of whoever refused.
    pub why: Option<String>,
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, object: None, why: None }
    }
}

impl From<Result<Bytes, CallError>> for Reply {
    fn from(result: Result<Bytes, CallError>) -> Self {
        match result {
            Ok(object) => Self { outcome: Outcome::Done, object: Some(object), why: None },
            Err(error) => Self::from(&error),
        }
    }
}

impl From<&CallError> for Reply {
    fn from(error: &CallError) -> Self {
        Self { outcome: error.into(), object: None, why: Some(error.to_string()) }
    }
}

/// Whether an effect was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Done, by this effect.
    Done,
    /// Nothing left to do: no such object, or another incarnation.
    Gone,
    /// The object is not as it was thought to be. Nothing was done.
    Conflict,
    /// Refused for good. Nothing was done.
    Refused,
    /// Refused for now by a disruption budget. Nothing was done.
    Held,
    /// It failed, certainly. Nothing was done.
    RetryLater,
    /// It may or may not have been done.
    Unknown,
}

impl Outcome {
    /// As a label.
    #[must_use]
    pub fn name(self) -> &'static str {
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

/// For a core that tries again whatever was refused, in case somebody mends it.
impl From<Outcome> for lazaret_model::Outcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Done => Self::Done,
            Outcome::Gone => Self::Gone,
            Outcome::Conflict => Self::Conflict,
            Outcome::Refused | Outcome::Held | Outcome::RetryLater => Self::RetryLater,
            Outcome::Unknown => Self::Unknown,
        }
    }
}

impl From<&CallError> for Outcome {
    fn from(error: &CallError) -> Self {
        match error {
            CallError::NotFound(_) => Self::Gone,
            CallError::AlreadyExists(_) | CallError::Conflict(_) => Self::Conflict,
            CallError::Invalid(_) => Self::Refused,
            CallError::Budget(_) => Self::Held,
            CallError::Forbidden(_)
            | CallError::TooMany(_)
            | CallError::Expired(_)
            | CallError::Unavailable(_) => Self::RetryLater,
            CallError::Unknown(_) => Self::Unknown,
        }
    }
}
