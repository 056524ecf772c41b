//! The inputs and effects of the machine.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use lazaret_model::{DeviceId, Text, Timestamp};

use crate::{
    identity::Presence,
    incident::Incident,
    limits::Limit,
    policy::{Policy, TaintKeyValue},
    signal::{Signal, Source},
    tallies::Tally,
};

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum Input {
    /// A policy is there, or has changed.
    Policy(Box<Policy>),
    /// A policy is gone. Its open incidents are left to people, unless another policy demands as much.
    PolicyGone(Text),
    /// A device is there, under this name.
    Device {
        /// Its name.
        id: DeviceId,
        /// The identity of the hardware, which stays the same when the device is renamed.
        hardware: Option<Text>,
        /// The policies that select it, in order of their names.
        policies: Vec<Text>,
    },
    /// A device is not published any more, or no policy selects it. Its incident goes on.
    DeviceGone(DeviceId),
    /// No ResourceSlice lists the device any more. Its presence follows, after all devices that left with it.
    Left(DeviceId),
    /// Whether the device of an open incident exists.
    Presence {
        /// The device.
        device: DeviceId,
        /// Whether it does.
        presence: Presence,
    },
    /// Something was noticed.
    Raised(Signal),
    /// A signal that lasted is over.
    Lowered {
        /// The device.
        device: DeviceId,
        /// The key of the signal.
        key: Text,
        /// The source of the signal.
        source: Source,
    },
    /// Whether pods use the device.
    InUse {
        /// The device.
        device: DeviceId,
        /// Whether they do.
        is_used: bool,
        /// The namespaces of those that do.
        namespaces: Vec<Text>,
        /// Why it stays so, in words: pods that tolerate the taint of the incident. Empty where all of them leave.
        stays: Text,
    },
    /// The taint of an incident is in force, and nobody uses its device: both by a view that is past the write of the taint.
    Idle {
        /// The number of the incident.
        incident: u64,
    },
    /// As many pods as this were evicted for an incident.
    Evicted {
        /// The number of the incident.
        incident: u64,
        /// Since it began.
        pods: u64,
    },
    /// A repair has ended.
    Repaired {
        /// The number of the incident.
        incident: u64,
        /// Which repair.
        repair: Repair,
        /// How.
        result: JobResult,
    },
    /// A validation has ended.
    Validated {
        /// The number of the incident.
        incident: u64,
        /// How.
        result: JobResult,
    },
    /// A person did something.
    Person {
        /// The number of the incident.
        incident: u64,
        /// The action.
        act: Act,
        /// The person.
        who: Text,
        /// The reason; may be empty.
        why: Text,
        /// The time. Each action is carried out once, however often it comes.
        at: Timestamp,
    },
    /// An incident that another machine began. One without a number gets one.
    Found(Box<Incident>),
    /// A person deleted an incident: its device is as good as any other.
    Forgotten {
        /// The number of the incident.
        incident: u64,
    },
    /// The limits that guards set on the devices that policies take out of service. All of them.
    Limits(Vec<Limit>),
    /// The counts of an earlier machine for a policy that is new to this one.
    Counted {
        /// The policy.
        policy: Text,
        /// The counts.
        tallies: Vec<Tally>,
    },
    /// From now on effects are wanted. Incidents from before are dropped, for another machine has acted since.
    Begin,
    /// No effects are wanted; signals are counted on.
    Pause,
}

/// How a job ended: `Err` has the reason.
pub type JobResult = Result<(), String>;

/// Which repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repair {
    /// The number of the step.
    pub step: usize,
    /// The number of the attempt, from zero.
    pub attempt: u32,
}

/// An action of a person on an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Has seen it.
    Acknowledge,
    /// Has repaired the device.
    Repaired,
    /// Gives it up.
    Abandon,
}

/// An effect of the machine. Each can be carried out twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Give the device the taints of this stage, instead of those of any other stage.
    Taint {
        /// The device.
        device: DeviceId,
        /// `None`, `NoSchedule` or `NoExecute`; empty: no taint any more.
        effects: &'static [&'static str],
        /// Its key and value; empty where there is no taint any more.
        taint: TaintKeyValue,
    },
    /// Make the pods of the device leave, as its policy says.
    Drain {
        /// The number of the incident.
        incident: u64,
        /// The device.
        device: DeviceId,
    },
    /// Run a repair.
    Repair {
        /// The number of the incident.
        incident: u64,
        /// Which.
        repair: Repair,
        /// The name of the step.
        name: Text,
    },
    /// Stop a repair that took too long, or whose result does not matter any more.
    StopRepair {
        /// The number of the incident.
        incident: u64,
        /// Which.
        repair: Repair,
    },
    /// Run the validation on exactly this device.
    Validate {
        /// The number of the incident.
        incident: u64,
        /// The device.
        device: DeviceId,
    },
    /// Write the incident.
    Record(Arc<Incident>),
    /// An expression of a policy could not be evaluated.
    Broken {
        /// The policy.
        policy: Text,
        /// The number of the rule.
        rule: usize,
        /// Why.
        error: String,
    },
}
