//! Incidents: one device's trouble from the first signal to the end.

use alloc::{boxed::Box, collections::BTreeSet, format, vec::Vec};

use lazaret_model::{DeviceId, Text, Timestamp, Uid, named};

use crate::policy::TaintKeyValue;

/// Entries of a timeline. Older ones are folded into a count; the first stays.
pub const TIMELINE_MAX: usize = 32;
/// Namespaces that an incident names among those that it cost something. More are not named.
pub const NAMESPACES_MAX: usize = 32;
/// Policies that demand the repair of one device and are noted. More do not select one device.
pub const DEMANDS_MAX: usize = 16;
/// The part of an incident's name that comes from its device. With a digest and two numbers it stays within the 63 bytes of a label.
const NAME_BYTES_MAX: usize = 36;

/// An incident ends when its device has been gone, with its node, for this long. One that a person has to decide about does not.
pub const GONE_MS: i64 = 24 * 60 * 60 * 1_000;

/// The text of `waits_for` in an incident whose policy was deleted.
pub(crate) const POLICY_GONE: &str =
    "its policy is gone: a person decides, with kubectl device repaired or kubectl device abandon";

named! {
    /// How far an incident is.
    pub enum Stage {
        /// The device is looked at more closely.
        Suspect,
        /// It is not given to new claims.
        Quarantined,
        /// Its pods leave.
        Draining,
        /// It is being repaired, or waits for it.
        Repairing,
        /// It has to prove that it is well.
        Probation,
        /// It is well. The end.
        Cleared,
        /// Repairs have ended without success; a person decides.
        Abandoned,
    }
}

impl Stage {
    /// Whether the device is not given to new claims.
    #[must_use]
    pub fn is_out_of_service(self) -> bool {
        !matches!(self, Self::Suspect | Self::Cleared)
    }
}

/// One device's trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// By which one machine knows it: counted from one in the order in which the machine opened or found them.
    pub number: u64,
    /// Counts the incidents of its device, from one.
    pub serial: u32,
    /// Its name in the cluster, which follows from the device that it was opened for and its serial number.
    pub name: Text,
    /// The device, under the name that it has now.
    pub device: DeviceId,
    /// The identity of the hardware, which stays the same when the device is renamed.
    pub hardware: Option<Text>,
    /// The policy that governs it: that of the rule that took it furthest. It says what repairs the device and what proves it well.
    pub policy: Text,
    /// The rule that took it furthest.
    pub rule: Text,
    /// How far it is.
    pub stage: Stage,
    /// Since when.
    pub since: Timestamp,
    /// The condition that it waits for, in words; empty when it waits for none.
    pub waits_for: Text,
    /// The repair step that runs, or is next.
    pub step: usize,
    /// How often all steps were tried in vain.
    pub attempts: u32,
    /// How many repairs and validations were begun: each has a number, and none is begun twice.
    pub tries: u32,
    /// Its taint. A change of the policy does not change the taint of an open incident.
    pub taint: TaintKeyValue,
    /// Whether its policy enforced when it was last heard of: then the device has taints.
    pub is_enforced: bool,
    /// When it came back in vain, the newest last.
    pub flaps: Vec<Timestamp>,
    /// Since when no rule has held. `None`: one holds, or held a short time ago, or it is not known.
    pub calm_since: Option<Timestamp>,
    /// Since when its device is gone, with its node.
    pub gone_since: Option<Timestamp>,
    /// Another published device with the same identity.
    pub twin: Option<Box<DeviceId>>,
    /// Whether its validation has passed, in this probation.
    pub is_validated: bool,
    /// Whether a person has seen it.
    pub acknowledged_by: Option<Text>,
    /// The entries of its history, the newest last.
    pub timeline: Vec<Entry>,
    /// Entries that were folded away, after the first.
    pub folded: u32,
    /// When each stage was first reached.
    pub times: Times,
    /// The pods and the time that it cost.
    pub cost: Cost,
    /// The actions of people that were carried out.
    pub handled: Handled,
    /// The step that a guard does not permit yet.
    pub held: Option<Box<Held>>,
    /// Policies whose verdict was Drained beside that of the policy that governs, in order; at most [`DEMANDS_MAX`].
    pub demands: Box<[Demand]>,
    /// The object that was made for the task that was begun last. Only its result counts.
    pub task: Option<Box<TaskObject>>,
}

/// An object that was made to repair or validate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskObject {
    /// Its namespace; empty where there is none.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
}

/// The verdict Drained of a policy that did not govern the incident then. Its repair and its proof follow before the incident is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The policy.
    pub policy: Text,
    /// The rule that held.
    pub rule: Text,
    /// Whether the repair and the proof of this policy are done.
    pub is_met: bool,
}

/// A step of a policy that a guard does not permit yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The stage that the incident is to pass to; its own where the policy only came to act on it.
    pub stage: Stage,
    /// The policy that wants it.
    pub policy: Text,
    /// The rule that wants it.
    pub rule: Text,
    /// The taint for it.
    pub taint: TaintKeyValue,
    /// The guard.
    pub guard: Text,
    /// Why it does not permit it.
    pub reason: HeldReason,
    /// The same in words.
    pub message: Text,
}

named! {
    /// Why a guard does not permit that a device is taken out of service. Its name is the reason of the condition `EvictionBlocked`.
    pub enum HeldReason {
        /// As much is out of service as it permits.
        Breaker,
        /// A person has paused everything.
        Paused,
        /// None of its windows is open.
        Window,
    }
}

/// The cost of an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Pods that were evicted.
    pub pods_evicted: u64,
    /// The namespaces whose pods used the device while it was drained, in order; at most [`NAMESPACES_MAX`].
    pub namespaces: Vec<Text>,
    /// How long the device was out of service, without the time since `out_since`.
    pub out_of_service_ms: i64,
    /// Since when it is out of service.
    pub out_since: Option<Timestamp>,
}

impl Cost {
    /// Whether one of these namespaces is to be noted.
    pub(crate) fn lacks(&self, users: &[Text]) -> bool {
        let is_new = |user: &Text| self.namespaces.binary_search(user).is_err();
        self.namespaces.len() < NAMESPACES_MAX && users.iter().any(is_new)
    }

    /// Notes whose pods use the device.
    pub(crate) fn note(&mut self, users: &[Text]) {
        for user in users {
            if let Err(at) = self.namespaces.binary_search(user)
                && self.namespaces.len() < NAMESPACES_MAX
            {
                self.namespaces.reserve_exact(1);
                self.namespaces.insert(at, user.clone());
            }
        }
    }
}

/// When people did what was acted on: each act is heard of again and again, and done once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handled {
    /// The newest `acknowledged`.
    pub acknowledged: Option<Timestamp>,
    /// The newest `repaired`.
    pub repaired: Option<Timestamp>,
    /// The newest `abandoned`.
    pub abandoned: Option<Timestamp>,
}

/// One line of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// The stage afterwards.
    pub stage: Stage,
    /// Why.
    pub cause: Text,
    /// The actor: a policy, or a person.
    pub actor: Text,
}

/// When each stage was first reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// The first signal.
    pub detected: Option<Timestamp>,
    /// The first rule that held.
    pub decided: Option<Timestamp>,
    /// No pod used it any more.
    pub drained: Option<Timestamp>,
    /// A repair had been done.
    pub repaired: Option<Timestamp>,
    /// It was well.
    pub cleared: Option<Timestamp>,
}

impl Cost {
    /// How long the device has been out of service.
    #[must_use]
    pub fn out_of_service_ms_until(&self, now: Timestamp) -> i64 {
        let open = self.out_since.map_or(0, |since| now.millis_since(since).max(0));
        self.out_of_service_ms.saturating_add(open)
    }
}

/// The name of an incident: the device's name, a digest of its identity, and the serial number.
#[must_use]
pub fn incident_name(device: &DeviceId, serial: u32) -> Text {
    let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let digest = format!("{device}").bytes().fold(0x811c_9dc5, mix);
    // Names of devices are ASCII.
    let stem = device.device.get(..NAME_BYTES_MAX).unwrap_or(&device.device).trim_end_matches('-');
    format!("{stem}-{digest:08x}-{serial}").into()
}

impl Incident {
    /// The name of the repair or validation that was begun last.
    #[must_use]
    pub fn task_name(&self) -> Text {
        format!("{}-{}", self.name, self.tries).into()
    }

    /// The next repair or validation begins, under a number of its own.
    pub(crate) fn begin_task(&mut self) {
        self.tries = self.tries.saturating_add(1);
        self.task = None;
    }

    /// A repair that was withdrawn is begun again: it has its whole time.
    pub(crate) fn restart_repair(&mut self, now: Timestamp) {
        if self.stage == Stage::Repairing {
            self.since = now;
        }
    }

    /// Instants that were written by a clock that was ahead count as now.
    pub(crate) fn set_back(&mut self, now: Timestamp) {
        let back = |at: &mut Timestamp| *at = (*at).min(now);
        back(&mut self.since);
        self.flaps.iter_mut().for_each(back);
        let times = &mut self.times;
        let times = [&mut times.detected, &mut times.decided, &mut times.drained, &mut times.repaired];
        let others = [&mut self.calm_since, &mut self.gone_since, &mut self.cost.out_since];
        times.into_iter().chain(others).flatten().for_each(back);
    }

    /// A repair or a validation was kept from beginning: it has its whole time.
    pub(crate) fn restart_task(&mut self, now: Timestamp) {
        if self.task.is_none() && matches!(self.stage, Stage::Repairing | Stage::Probation) {
            self.since = now;
        }
    }

    /// Its policy was deleted: the device stays as it is.
    pub(crate) fn lose_policy(&mut self) {
        self.waits_for = POLICY_GONE.into();
        self.held = None;
    }

    /// When it last began to prove that it is well: counts of its device from before then say nothing any more.
    pub(crate) fn void_until(&self) -> Option<Timestamp> {
        let is_proof = |entry: &Entry| entry.stage == Stage::Probation;
        let last = self.timeline.iter().rposition(is_proof)?;
        let began = self.timeline[..last].iter().rposition(|entry| !is_proof(entry)).map_or(0, |at| at + 1);
        self.timeline.get(began).map(|entry| entry.at)
    }

    /// Policies that are known to select its device: those that govern it, demand something or have acted on it.
    #[must_use]
    pub fn policies_known(&self) -> BTreeSet<Text> {
        let acted =
            self.timeline.iter().filter_map(|entry| entry.actor.strip_prefix("policy ").map(Text::from));
        let demand = self.demands.iter().map(|demand| demand.policy.clone());
        let held = self.held.iter().map(|held| held.policy.clone());
        acted.chain(demand).chain(held).chain([self.policy.clone()]).collect()
    }

    /// Whether it is still going on.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.stage != Stage::Cleared
    }

    pub(crate) fn note(&mut self, at: Timestamp, cause: impl Into<Text>, actor: &Text) {
        if self.timeline.len() >= TIMELINE_MAX {
            self.timeline.remove(1);
            self.folded = self.folded.saturating_add(1);
        }
        let entry = Entry { at, stage: self.stage, cause: cause.into(), actor: actor.clone() };
        // Most have two or three: room for four would be left empty ten thousand times.
        self.timeline.reserve_exact(1);
        self.timeline.push(entry);
    }
}
