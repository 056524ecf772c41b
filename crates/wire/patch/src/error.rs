//! Why a change could not be made.

use std::fmt;

/// Why a change could not be made, by what a server answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// The patch itself is not well formed: 400.
    Malformed(String),
    /// It is well formed but does not fit this object: 422.
    DoesNotApply(String),
    /// It asks for more than is allowed: 413.
    TooLarge(String),
}

impl fmt::Display for PatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(text) | Self::DoesNotApply(text) | Self::TooLarge(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for PatchError {}
