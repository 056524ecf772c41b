//! The interface of every core.

use lazaret_model::Timestamp;

use crate::{Effect, EffectId, Reply, Wake};

/// A core: takes note of inputs, decides, and never does anything itself.
pub trait Machine {
    /// State that it reads and does not own, always the same one: a fleet; `()` where there is none.
    type View;
    /// Its inputs.
    type Input<'a>: From<Turn>;
    /// Its effects.
    type Kind;
    /// Its reasons to be called again.
    type Why: Into<&'static str>;

    /// Takes note of `input` and decides what is to be done at `now`. Total: any input in any state.
    fn handle(&mut self, now: Timestamp, view: &Self::View, input: Self::Input<'_>);

    /// The next effect to be done. None is given twice.
    fn poll_effect(&mut self) -> Option<Effect<Self::Kind>>;

    /// When to call again if nothing happens before. `None`: there is nothing to wait for.
    fn next_wake(&self) -> Option<Wake<Self::Why>>;
}

/// The inputs of every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Time has passed. May come early, late, or for nothing.
    Tick,
    /// Effects are wanted from now on. Every object was an input before.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// The answer to an effect. Unknown or repeated ids are ignored.
    Acknowledged(EffectId, Reply),
}

impl Turn {
    /// Whether effects are wanted from now on.
    #[must_use]
    pub const fn leads(leads: bool) -> Self {
        if leads { Self::BecameLeader } else { Self::LostLeadership }
    }
}

/// Implements `From<Turn>` for an input that has the turns as variants of the same names. An acknowledgement differs from machine to machine.
#[macro_export]
macro_rules! turns {
    ($input:ty, |$effect:ident, $reply:ident| $acknowledged:expr) => {
        impl From<$crate::Turn> for $input {
            fn from(turn: $crate::Turn) -> Self {
                match turn {
                    $crate::Turn::Tick => Self::Tick,
                    $crate::Turn::BecameLeader => Self::BecameLeader,
                    $crate::Turn::LostLeadership => Self::LostLeadership,
                    $crate::Turn::Acknowledged($effect, $reply) => $acknowledged,
                }
            }
        }
    };
}
