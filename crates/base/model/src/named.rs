//! Choices that have a name on the wire.

/// One of several values, each of which is written by its name.
pub trait Named: Copy + 'static {
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
#[macro_export]
macro_rules! named {
    (
        $(#[$attribute:meta])*
        $scope:vis enum $type:ident {
            $($(#[$variant_attribute:meta])* $variant:ident,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $scope enum $type {
            $($(#[$variant_attribute])* $variant,)*
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The name on the wire.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($variant),)*
                }
            }

            /// The one of this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                <Self as $crate::Named>::from_name(name)
            }
        }

        impl $crate::Named for $type {
            const ALL: &'static [Self] = Self::ALL;

            fn name(self) -> &'static str {
                self.name()
            }
        }
    };
}
