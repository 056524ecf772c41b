//! The state of the negotiation about classic claims.

use alloc::collections::BTreeMap;

use lazaret_classic::{NegotiationOptions, Negotiator};
use lazaret_machine::EffectId;

/// The negotiation, and the pods that it placed.
#[derive(Debug)]
pub(crate) struct Negotiation {
    pub(crate) negotiator: Negotiator,
    /// Pods that are being bound, each with the effect of the negotiator that waits for it.
    pub(crate) placing: BTreeMap<u32, EffectId>,
}

impl Default for Negotiation {
    fn default() -> Self {
        Self { negotiator: Negotiator::new(NegotiationOptions::default()), placing: BTreeMap::new() }
    }
}
