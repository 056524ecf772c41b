//! Readings of an object. An error of reading is never the absence of the object.

use lazaret_api::FieldError;

/// An object as far as it can be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading<T> {
    /// All that it says.
    Known(T),
    /// It is there and cannot be decoded.
    Unreadable {
        /// Whoever reads it keeps what its last good version said: that knows more than what could be read now.
        last_good: bool,
        /// The findings of the smallest reader, with the parts that cannot be read taken as what does the least harm.
        what_is_known: Option<T>,
        /// The field that is wrong.
        why: FieldError,
    },
}

impl<T> Reading<T> {
    /// The object to pass on to a core; `None`: nothing, and the core keeps the version that it holds.
    #[must_use]
    pub fn told(self) -> Option<T> {
        match self {
            Self::Known(said) => Some(said),
            Self::Unreadable { last_good: true, .. } => None,
            Self::Unreadable { last_good: false, what_is_known, .. } => what_is_known,
        }
    }
}

/// An object that cannot be decoded.
pub(crate) struct Unreadable<T> {
    pub(crate) what_is_known: Option<T>,
    /// The part that is known says all that the object holds: it is newer than the last good version, and as good.
    pub(crate) says_what_is_held: bool,
    pub(crate) why: FieldError,
}

impl<T> Unreadable<T> {
    pub(crate) fn reading(&self, last_good: bool) -> Reading<&T> {
        Reading::Unreadable {
            last_good: last_good && !self.says_what_is_held,
            what_is_known: self.what_is_known.as_ref(),
            why: self.why.clone(),
        }
    }
}
