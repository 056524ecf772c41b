//! How much one object may bring into being.

use crate::prelude::*;

/// Limits of what controllers create, whatever an object requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Pods that one replica set, stateful set or job makes. Pods that are there already stay.
    pub owner_pods_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { owner_pods_max: 30_000 }
    }
}

/// The mark of an object that requests more pods than it gets: the event is written once.
const EVENT_WRITTEN: u64 = 0x6c69_6d69_7473;

impl Limits {
    /// Why an owner gets fewer pods than it wants, if it does.
    pub(crate) fn refusal(self, wanted: usize) -> Option<String> {
        (wanted > self.owner_pods_max).then(|| {
            format!(
                "exceeded limit: {wanted} pods are wanted and one owner gets at most {} (--owner-pods-max)",
                self.owner_pods_max
            )
        })
    }

    /// Tells people of an object whose status has no place for it.
    pub(crate) fn write_event_once(context: &Context<'_>, note: Note, plan: &mut Plan) {
        plan.remember(EVENT_WRITTEN);
        if context.remembered.is_none_or(|(mark, _)| mark != EVENT_WRITTEN) {
            plan.write(Write::Event(note));
        }
    }
}
