//! Effects on their way out, and what they are for until they are acknowledged.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_model::ObjectKey;

use crate::effect::{Effect, EffectId, EffectKind};

/// What an effect is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A write of this claim.
    Claim(ObjectKey),
    /// A step of binding this pod.
    Pod(u32),
    /// This pod is made to leave.
    Evict(u32),
    /// The old claim of this pod, which waits for that, is deleted.
    Delete(u32),
    /// What is said in the status of this pod.
    Say(u32),
    /// Nobody waits for it.
    Aside,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    last: u64,
    ready: VecDeque<Effect>,
    pending: BTreeMap<EffectId, Purpose>,
}

impl Outbox {
    pub(crate) fn push(&mut self, kind: EffectKind, purpose: Purpose) -> EffectId {
        self.last += 1;
        let id = EffectId(self.last);
        if !matches!(kind, EffectKind::Event(_)) {
            self.pending.insert(id, purpose);
        }
        self.ready.push_back(Effect { id, kind });
        id
    }

    pub(crate) fn take(&mut self) -> Option<Effect> {
        self.ready.pop_front()
    }

    pub(crate) fn acknowledge(&mut self, id: EffectId) -> Option<Purpose> {
        self.pending.remove(&id)
    }

    /// Takes back what was not given out yet; what was will be acknowledged all the same.
    pub(crate) fn withdraw(&mut self) -> BTreeSet<EffectId> {
        let withdrawn: BTreeSet<EffectId> = self.ready.drain(..).map(|effect| effect.id).collect();
        self.pending.retain(|id, _| !withdrawn.contains(id));
        withdrawn
    }

    /// How many effects wait to be acknowledged.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }
}
