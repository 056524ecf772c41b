//! For people: colours.

/// How a cell is to stand out on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tint {
    /// As it should be.
    Good,
    /// Worth a look.
    Careful,
    /// Not as it should be.
    Bad,
}

/// Ends a colour.
pub(crate) const PLAIN: &str = "\x1b[0m";

impl Tint {
    /// All that is written around a text in a colour.
    pub(crate) const CODES: [&'static str; 4] =
        [Self::Good.code(), Self::Careful.code(), Self::Bad.code(), PLAIN];

    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Careful => "\x1b[33m",
            Self::Bad => "\x1b[31m",
        }
    }
}
