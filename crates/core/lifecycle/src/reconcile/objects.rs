//! The objects of a cluster, as far as incidents are concerned.

use lazaret_model::{DeviceId, Text, Timestamp, Uid};

use crate::{
    effect::JobResult,
    incident::{Incident, TaskObject},
    policy::TaintKeyValue,
    signal::Signal,
};

/// How long incidents are kept after their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// After this they are deleted.
    pub keep_ms: i64,
    /// Of more than these the oldest are deleted.
    pub incidents_max: usize,
}

impl Default for History {
    /// Thirty days; 10,000 of them take about 20 MB in an API server.
    fn default() -> Self {
        Self { keep_ms: 30 * 24 * 60 * 60 * 1_000, incidents_max: 10_000 }
    }
}

/// The incident that an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
}

/// An incident as it is stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its incarnation.
    pub uid: Uid,
    /// Its version.
    pub version: Text,
    /// The incident, from its spec and status.
    pub incident: Incident,
    /// The actions of people in it.
    pub acts: Acts,
}

/// Actions of people in an incident.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acts {
    /// A person has acknowledged it.
    pub acknowledged: Option<PersonAct>,
    /// A person has repaired the device.
    pub repaired: Option<PersonAct>,
    /// A person gives it up.
    pub abandoned: Option<PersonAct>,
}

/// An action of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonAct {
    /// The time.
    pub at: Timestamp,
    /// The person.
    pub who: Text,
    /// The reason; may be empty.
    pub why: Text,
}

/// An object that was made for an incident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Where it is; empty where there are no namespaces.
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// The incident that it was made for.
    pub owner: Owner,
    /// The device or task that it is for.
    pub target: Target,
}

impl Child {
    /// The object, as an incident names it.
    #[must_use]
    pub fn object(&self) -> TaskObject {
        let Self { namespace, name, uid, .. } = self.clone();
        TaskObject { namespace, name, uid }
    }
}

/// The purpose of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It taints a device.
    Rule {
        /// The device.
        device: DeviceId,
        /// With this effect.
        effect: Text,
        /// And this key and value.
        taint: TaintKeyValue,
        /// Why it has no effect yet, in words for people: a guard holds it. Empty where that is not decided yet; `None` where it has its effect.
        held: Option<Text>,
    },
    /// It makes the pods of a device leave.
    Drain {
        /// The device.
        device: DeviceId,
        /// The key and value of its taint.
        taint: TaintKeyValue,
        /// How many pods have left because of it.
        evicted: u64,
        /// Why pods stay, in words for people: a guard holds it, or something blocks evictions. Empty where nothing does.
        held: Text,
    },
    /// It repairs or validates.
    Job {
        /// How it ended.
        result: Option<JobResult>,
    },
    /// It holds the device for a validation of the same name.
    Claim,
}

/// Which kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChildKind {
    /// A rule that taints.
    Rule,
    /// A policy that drains.
    Drain,
    /// A Job.
    Job,
    /// A claim of a validation.
    Claim,
}

impl Target {
    /// Which kind of object does that.
    #[must_use]
    pub fn kind(&self) -> ChildKind {
        match self {
            Self::Rule { .. } => ChildKind::Rule,
            Self::Drain { .. } => ChildKind::Drain,
            Self::Job { .. } => ChildKind::Job,
            Self::Claim => ChildKind::Claim,
        }
    }
}

/// A signal that somebody wrote down.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the object.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Until when it lasts at most.
    pub until: Option<Timestamp>,
    /// The signal, from its spec.
    pub signal: Signal,
}
