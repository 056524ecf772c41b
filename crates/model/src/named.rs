//! Choices that have a name on the wire.

/// One of several values, each of which is written by its name. An absent name stands for the default.
pub trait Named: Copy + Default + 'static {
    /// All of them.
    const ALL: &'static [Self];

    /// The name on the wire.
    #[must_use]
    fn name(self) -> &'static str;

    /// The one of this name.
    #[must_use]
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}

/// Declares an enum whose variants are written by their names.
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $scope:vis enum $type:ident {
            $($(#[$variant_attribute:meta])* $variant:ident,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        $scope enum $type {
            $($(#[$variant_attribute])* $variant,)*
        }

        impl $crate::Named for $type {
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }
        }
    };
}

pub(crate) use named;
