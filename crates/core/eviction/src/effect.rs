//! The effects of the eviction machine, and their acknowledgements.

use alloc::{sync::Arc, vec::Vec};

pub use lazaret_machine::{EffectId, Outcome};
use lazaret_model::{
    BreakerStatus, Condition, DeviceId, EvictionCount, EvictionMark, GuardPreview, LastPublished, ObjectKey,
    TaintHold, Text, Timestamp, Uid, WindowStatus,
};

use crate::{
    marks::mark_of,
    reason::{PaceKey, Reason, due_of, pod_condition},
};

/// The reason of every event about a pod.
pub const EVENT_REASON: &str = "DeviceTaintManagerEviction";

/// The reason of the event about a pod whose eviction is held: it is back where a pod of its owner had to leave.
pub const HELD_REASON: &str = "DeviceTaintEvictionHeld";

/// Something to be done by whoever runs the machine.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// The action of an effect.
#[derive(Clone, Debug, PartialEq)]
#[allow(
    clippy::large_enum_variant,
    reason = "statuses are few, and evictions, which are many, are not boxed for their sake"
)]
pub enum EffectKind {
    /// Make a pod leave. To be acknowledged.
    Evict(Evict),
    /// Write a rule's condition. To be acknowledged.
    SetRuleStatus(SetRuleStatus),
    /// Write on a claim what its devices were like. To be acknowledged.
    SetLastPublished(SetLastPublished),
    /// Write where a guard's breaker stands. To be acknowledged.
    SetGuardStatus(SetGuardStatus),
    /// Find out whether there is room for the replacements of pods. To be acknowledged: [`Outcome::Done`] if there is,
    /// [`Input::Held`](crate::Input::Held) with the reason if there is none, anything else if nobody can say.
    AskCapacity(CapacityQuestion),
    /// Tell people. Best effort, needs no acknowledgement.
    Event(PodEvent),
    /// Tell people about a rule. Best effort, needs no acknowledgement.
    RuleEvent(RuleEvent),
    /// An event about a guard that holds a taint. Best effort, needs no acknowledgement.
    GuardEvent(GuardEvent),
}

/// Add [`Evict::condition`] to the pod's status and [`Evict::mark`] to the pod, then delete or evict it as [`Evict::manner`] says, all on the
/// precondition that its UID is `uid` and that it is not terminating yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Evict {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Where it runs.
    pub node: Text,
    /// Why. The earliest deadline first; those that are not due yet are here as well.
    pub reasons: Arc<[Reason]>,
    /// The earliest deadline: lateness is measured from here.
    pub due: Timestamp,
    /// When the decision was made.
    pub decided: Timestamp,
    /// Whose pace let it go now; `None`: a cause without a pace.
    pub granted_by: Option<PaceKey>,
    /// By which request it leaves.
    pub manner: Manner,
}

/// By which request a pod is made to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Deleted.
    Delete,
    /// Evicted: refused if a disruption budget does not permit it, to be told as [`Input::Held`](crate::Input::Held).
    Evict,
    /// Deleted, for the time is over in which it was to be evicted.
    DeleteOverdue,
}

impl Evict {
    /// The reasons that were due when the decision was made: the only ones it is counted for.
    #[must_use]
    pub fn due_reasons(&self) -> &[Reason] {
        due_of(&self.reasons, self.decided)
    }

    /// The mark for the pod, which the next leader reads: the due rules.
    #[must_use]
    pub fn mark(&self) -> EvictionMark {
        mark_of(self.due_reasons(), self.decided)
    }

    /// `DisruptionTarget`, naming each due rule or slice, its taint and the device.
    /// DEVIATION(eviction-words).
    #[must_use]
    pub fn condition(&self) -> Condition {
        pod_condition(self.due_reasons(), self.decided)
    }
}

/// Put these into the status of a rule, on the precondition that its UID is `uid`. Conditions of other types stay as they are.
#[derive(Clone, Debug, PartialEq)]
pub struct SetRuleStatus {
    /// Which rule.
    pub rule: Text,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// The new status.
    pub status: RuleStatus,
}

/// Write the last published state of devices that no slice has any more to the claim that holds them, on the precondition that its UID is `uid`.
#[derive(Clone, Debug, PartialEq)]
pub struct SetLastPublished {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// The devices; empty: the annotation is removed.
    pub devices: Vec<LastPublished>,
}

/// Put this into the status of a guard, on the precondition that its UID is `uid`, and that its breaker
/// [may have this status now](BreakerStatus::may_follow).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetGuardStatus {
    /// Which guard.
    pub guard: Text,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Of which generation this is said.
    pub generation: i64,
    /// Where its breaker stands, if it has one.
    pub breaker: Option<BreakerStatus>,
    /// Where it stood, as far as was known when this was decided.
    pub known: BreakerStatus,
    /// Whether one of its windows is open, if it has any.
    pub window: Option<WindowStatus>,
    /// Whether it is understood, and how much it selects.
    pub preview: GuardPreview,
    /// Taints that no rule sets and that exceed its limits, if it has any.
    pub held: Option<Vec<TaintHold>>,
}

/// Whether the claims of the replacements of these pods, all of them, could be allocated elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapacityQuestion {
    /// The pods that are to leave.
    pub pods: Vec<LeavingPod>,
}

/// A pod that is to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingPod {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// The devices that it has to leave.
    pub devices: Vec<DeviceId>,
}

/// The status of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleStatus {
    /// `EvictionInProgress`.
    pub condition: Condition,
    /// `Drained`.
    pub drained: Condition,
    /// `EvictionBlocked`, of a rule whose pods are or were kept.
    pub blocked: Option<Condition>,
    /// `Expired`, of a rule that has or had.
    pub expired: Option<Condition>,
    /// `Held`, of a rule that is or was, or that guards may hold.
    pub held: Option<Condition>,
    /// Since when the rule is in force, if something held it or it had expired.
    pub effective_since: Option<Timestamp>,
    /// How many pods were evicted because of it.
    pub evictions: EvictionCount,
    /// Pods whose eviction may have begun and that are not counted.
    pub evicting: Vec<Uid>,
}

/// An event about a pod: of type Normal and reason [`EVENT_REASON`], or of type Warning and reason [`HELD_REASON`] or
/// [`EVICTION_BLOCKED`](crate::EVICTION_BLOCKED).
#[derive(Clone, Debug, PartialEq)]
pub struct PodEvent {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// For machines.
    pub reason: &'static str,
    /// For people.
    pub message: Text,
}

/// An event about a rule, of type Warning and reason [`EVICTION_BLOCKED`](crate::EVICTION_BLOCKED).
#[derive(Clone, Debug, PartialEq)]
pub struct RuleEvent {
    /// Which rule.
    pub rule: Text,
    /// Which incarnation of it.
    pub uid: Uid,
    /// For people.
    pub message: Text,
}

/// An event about a guard that holds a taint, of type Warning and reason [`EVICTION_BLOCKED`](crate::EVICTION_BLOCKED).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardEvent {
    /// Which guard.
    pub guard: Text,
    /// Which incarnation of it.
    pub uid: Uid,
    /// For people.
    pub message: Text,
}

/// When the machine wants to be called again, if nothing happens before.
pub type Wake = lazaret_machine::Wake<WakeReason>;

/// The reason of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WakeReason {
    /// A pod's toleration ends.
    Deadline,
    /// The pace of a taint lets the next pod go.
    Pace,
    /// The ceiling over all taints lets the next pod go.
    Ceiling,
    /// A failed eviction is tried again.
    Retry,
    /// An eviction that something keeps from beginning is tried again.
    Blocked,
    /// A pod that is back on a tainted device has been held long enough.
    Brake,
    /// The state of a guard may change at that time.
    Guard,
    /// There may be room for the replacement of a pod.
    Capacity,
    /// A rule's status may be written again.
    Status,
    /// The last published devices of a claim are written again after a failure.
    Memory,
}

impl From<WakeReason> for &'static str {
    fn from(why: WakeReason) -> Self {
        match why {
            WakeReason::Deadline => "a pod's toleration ends",
            WakeReason::Pace => "the pace of a taint lets the next pod go",
            WakeReason::Ceiling => "the ceiling over all evictions lets the next pod go",
            WakeReason::Brake => "a pod that is back on a tainted device was held long enough",
            WakeReason::Retry => "a failed eviction is tried again",
            WakeReason::Blocked => "an eviction that was blocked is tried again",
            WakeReason::Guard => "what a guard says may have changed",
            WakeReason::Capacity => "there may be room for the replacement of a pod",
            WakeReason::Memory => "what devices were like is written onto their claim again",
            WakeReason::Status => "the status of a rule may be written again",
        }
    }
}
