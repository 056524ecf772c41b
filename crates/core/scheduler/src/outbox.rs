//! Effects on their way out, and what they are for until they are acknowledged.

use lazaret_machine::EffectId;
use lazaret_model::ObjectKey;

use crate::effect::EffectKind;

/// The purpose of an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A write of this claim.
    Claim(ObjectKey),
    /// A step of binding this pod.
    Pod(u32),
    /// The eviction of this pod.
    Evict(u32),
    /// The old claim of this pod, which waits for that, is deleted.
    Delete(u32),
    /// A condition in the status of this pod.
    Say(u32),
    /// A write to a classic claim, by its id in the negotiation.
    Classic(EffectId),
    /// Nothing waits for it.
    Aside,
}

/// Effects in flight, each with what it is for.
pub(crate) type Outbox = lazaret_machine::Flights<EffectKind, Purpose>;
