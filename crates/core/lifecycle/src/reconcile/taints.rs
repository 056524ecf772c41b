//! Which devices may have a taint of an incident: what was sent counts before it is seen, and what is to go until it is gone.

use alloc::{collections::BTreeMap, vec::Vec};

use lazaret_machine::Outcome;
use lazaret_model::{DeviceId, Text, Timestamp};

use super::{Child, Reconciler, Target, WriteKind};

/// A taint that was written and is not seen for this long is not there: a watch is not that late.
const UNSEEN_MS_MAX: i64 = 60_000;

/// Devices by incident, and from when on nobody waits to see the taint; never while it is in flight.
pub(super) type Tainting = BTreeMap<Text, (DeviceId, Timestamp)>;

/// The device that an object keeps new claims from.
pub(super) fn tainted(child: &Child) -> Option<&DeviceId> {
    match &child.target {
        Target::Rule { device, effect, .. } => Some(device).filter(|_| **effect != *"None"),
        Target::Drain { .. } | Target::Job { .. } | Target::Claim => None,
    }
}

impl Reconciler {
    pub(super) fn taint_sent(&mut self, kind: &WriteKind) {
        let WriteKind::Taint { owner, device, effect, .. } = kind else { return };
        if *effect != "None" {
            self.taint_settled(&owner.name);
            self.lifecycle.limits.note_taint(device, true);
            self.tainting.insert(owner.name.clone(), (device.clone(), Timestamp::NEVER));
        }
    }

    /// The outcome of a taint that was sent.
    pub(super) fn taint_answered(&mut self, now: Timestamp, kind: &WriteKind, outcome: Outcome) {
        let WriteKind::Taint { owner, .. } = kind else { return };
        match outcome {
            Outcome::Done | Outcome::Unknown => {
                if let Some((_, until)) = self.tainting.get_mut(&owner.name) {
                    *until = now.plus_millis(UNSEEN_MS_MAX);
                }
            }
            Outcome::Gone | Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater => {
                self.taint_settled(&owner.name);
            }
        }
    }

    /// A taint was seen, or was not written after all.
    pub(super) fn taint_settled(&mut self, incident: &Text) {
        if let Some((device, _)) = self.tainting.remove(incident) {
            self.lifecycle.limits.note_taint(&device, false);
        }
    }

    /// Taints that were never seen.
    pub(super) fn forget_unseen(&mut self, now: Timestamp) {
        let is_over = |(_, (_, until)): &(&Text, &(DeviceId, Timestamp))| *until <= now;
        let over: Vec<Text> = self.tainting.iter().filter(is_over).map(|(name, _)| name.clone()).collect();
        for name in over {
            self.taint_settled(&name);
        }
    }
}
