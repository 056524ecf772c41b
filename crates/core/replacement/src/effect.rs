//! The effects that the machine emits, and the answers to them.

use alloc::sync::Arc;

pub use lazaret_machine::{EffectId, Outcome, Reply};
use lazaret_model::{ObjectKey, Text, Uid};

use crate::{record::Record, status::Status};

/// Something to be done by the shell.
pub type Effect = lazaret_machine::Effect<EffectKind>;

/// An effect. All but events are to be acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub enum EffectKind {
    /// Write a policy's status, if the policy is still of this version.
    SetStatus {
        /// Which policy.
        policy: ObjectKey,
        /// Which incarnation.
        uid: Uid,
        /// Which version: a precondition.
        version: Text,
        /// The whole status.
        status: Arc<Status>,
    },
    /// Take a pod from its owner: without the owner reference and the label, with the record as a mark; if it is still of
    /// this version.
    Release {
        /// Which version: a precondition.
        version: Text,
        /// The owner's UID.
        owner: Uid,
        /// The label that goes.
        label: Text,
        /// The mark; it names the pod.
        record: Arc<Record>,
    },
    /// Make a copy of the record's pod under the name of its plan, marked with the record. One that is there with the same
    /// mark is as good.
    Copy {
        /// The copy's name.
        name: Text,
        /// It may not be scheduled yet.
        gated: bool,
        /// The mark; it names the pod.
        record: Arc<Record>,
    },
    /// Let a copy be scheduled.
    Ungate {
        /// Which pod.
        pod: ObjectKey,
        /// Which incarnation.
        uid: Uid,
    },
    /// Evict a pod as disruption budgets permit.
    Evict {
        /// Which pod.
        pod: ObjectKey,
        /// Which incarnation.
        uid: Uid,
    },
    /// Delete a pod whose place is taken.
    Delete {
        /// Which pod.
        pod: ObjectKey,
        /// Which incarnation.
        uid: Uid,
    },
    /// Tell people. Best effort.
    Event(Note),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of its object.
    pub about: Subject,
    /// Which object.
    pub key: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// How bad it is.
    pub severity: Severity,
    /// For machines.
    pub reason: &'static str,
    /// For people.
    pub message: Text,
}

/// The kind of an event's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A pod.
    Pod,
    /// A policy.
    Policy,
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// As wished.
    Normal,
    /// A person should look.
    Warning,
}
