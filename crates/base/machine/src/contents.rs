//! Contents of objects, which are not logged.

use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// The contents of an object that an effect writes. Logs show effects by `Debug`, which leaves these out: the variables of a pod may hold a password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents<T>(pub T);

impl<T> fmt::Debug for Contents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<T> From<T> for Contents<T> {
    fn from(contents: T) -> Self {
        Self(contents)
    }
}

impl<T> Deref for Contents<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Contents<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
