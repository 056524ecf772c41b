//! Effects in flight.

use lazaret_model::{ObjectKey, Text, Uid};

use crate::{effect::EffectKind, holder::Holder};

/// The data of an effect that its acknowledgement needs.
#[derive(Debug)]
pub(crate) enum Flight {
    /// A claim is being made.
    Create { holder: Holder, entry: Text, claim: Text, admin_access: bool },
    /// The names of claims are being written into a status.
    Names(Holder),
    /// A claim is being changed.
    Claim { claim: ObjectKey, uid: Uid, version: Text, deallocates: bool, reserves: bool, deletes: bool },
    /// The existence of a pod or group is being confirmed.
    Confirm(Holder),
    /// A node is being looked for because of a pod or claim that is gone.
    Silence { node: Text, gone: Uid },
    /// A node is being asked.
    Node { node: Text, uid: Uid },
}

/// Bounded by the limits in the options.
pub(crate) type Flights = lazaret_machine::Flights<EffectKind, Flight>;
