//! The outcome of an effect, as the agent receives it.

use bytes::Bytes;
use lazaret_machine::Outcome;
use lazaret_model::Text;

use crate::CallError;

/// The outcome of an effect, with the object and the message that the server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Whether it was done.
    pub outcome: Outcome,
    /// The object as it was written, where there is one.
    pub object: Option<Bytes>,
    /// Why not: the message of the server or performer that refused.
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
        // A budget's own words: they are shown as the reason why a pod stays.
        let why = if let CallError::Budget(why) = error { why.clone() } else { error.to_string() };
        Self { outcome: error.into(), object: None, why: Some(why) }
    }
}

/// For a machine that has no use for what was written.
impl From<Reply> for lazaret_machine::Reply {
    fn from(reply: Reply) -> Self {
        Self { outcome: reply.outcome, why: reply.why.map(Text::from), written: None }
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
