//! How a machine and whoever runs it speak of what is to be done.

/// Names an effect until it is acknowledged. Never used twice by one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It was done, by this effect.
    Done,
    /// Nothing was done, for nothing was left to do: there is no such object, or it has another UID, or is on its way
    /// out already.
    Gone,
    /// Refused, for the object is not as it was thought to be. Nothing was done.
    Conflict,
    /// It failed, certainly. Nothing was done.
    RetryLater,
    /// It may or may not have been done.
    Unknown,
}
