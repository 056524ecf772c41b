//! The kind that a request is about.

use std::{ops::Deref, sync::Arc};

use lazaret_kinds::Kind;

/// A built-in kind, or one that a definition brought. Cheap to clone; a built-in one costs nothing at all.
#[derive(Clone, Debug)]
pub(crate) enum KindRef {
    Builtin(&'static Kind),
    Custom(Arc<Kind>),
}

impl KindRef {
    /// Whether every server knows it.
    pub(crate) fn is_builtin(&self) -> bool {
        matches!(self, Self::Builtin(_))
    }
}

impl Deref for KindRef {
    type Target = Kind;

    fn deref(&self) -> &Kind {
        match self {
            Self::Builtin(kind) => kind,
            Self::Custom(kind) => kind,
        }
    }
}
