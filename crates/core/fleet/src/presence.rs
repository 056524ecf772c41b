//! From where a device is known.

/// From where a device is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Presence {
    /// A slice has it.
    Published,
    /// No slice speaks for it any more, but one did while a claim held it, or one of a generation that is over still
    /// has it, or its claim says what it was like: its attributes are remembered.
    Remembered,
    /// A claim holds it and no slice was seen with it since: only its name is known.
    Unknown,
}
