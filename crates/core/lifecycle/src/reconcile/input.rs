//! The inputs and effects of the reconciler.

use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};

use lazaret_machine::{EffectId, Outcome};
use lazaret_model::{DeviceId, Text, Uid};

use super::{Child, ChildKind, Owner, Report, Stored};
use crate::{
    effect::{Input as CoreInput, JobResult},
    incident::{Incident, TaskObject},
    policy::TaintKeyValue,
    tallies::Tally,
    wanted::Task,
};

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// Something about policies, devices and signals.
    Core(CoreInput),
    /// An incident is so.
    Stored(Box<Stored>),
    /// There is no incident of this name and incarnation.
    StoredGone(Text, Uid),
    /// An object is so.
    Child(Child),
    /// There is no such object, or it belongs to no incident.
    ChildGone(ChildKind, Text, Text),
    /// A signal was reported.
    Report(Report),
    /// There is no such signal.
    ReportGone(Text),
    /// The result of a repair request, by the object that was asked: `None` while it goes on.
    Asked(TaskObject, Option<JobResult>),
    /// This object was made for a repair or a validation.
    Made(TaskObject),
    /// The object for this repair or validation cannot be made now, or cannot do its work, and why. Empty: nothing is in its way any more.
    Obstructed(Text, Text),
    /// All that the server had when this [view](super::ViewRequest) was asked for has been seen, and the machine knows which devices are used.
    ViewReached(u64),
    /// The outcome of an effect.
    Acknowledged {
        /// Which.
        id: EffectId,
        /// Whether it was done.
        outcome: Outcome,
        /// The version of what was written.
        version: Option<Text>,
        /// The incarnation of what was written.
        uid: Option<Uid>,
        /// Why it was refused for good.
        refused: Option<String>,
    },
    /// Effects are wanted from now on.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// Time has passed.
    Tick,
}

/// Something to be done.
pub type Effect = lazaret_machine::Effect<WriteKind>;

/// A write to the cluster. Each can be carried out twice.
#[derive(Clone, Debug)]
pub enum WriteKind {
    /// Write a new incident.
    Create(Arc<Incident>),
    /// Write the status of an incident of this incarnation and version.
    Record(Uid, Text, Arc<Incident>),
    /// Delete an incident that is over, of this incarnation.
    Remove(Text, Uid),
    /// Make a rule of the owner's name that taints a device.
    Taint {
        /// For which incident.
        owner: Owner,
        /// Which device.
        device: DeviceId,
        /// With which effect.
        effect: &'static str,
        /// And which key and value.
        taint: TaintKeyValue,
        /// The incarnation of the rule that is changed; `None`: it is made.
        uid: Option<Uid>,
    },
    /// Make a policy of the owner's name that makes pods leave.
    Drain {
        /// For which incident.
        owner: Owner,
        /// Which device.
        device: DeviceId,
        /// The key and value of its taint.
        taint: TaintKeyValue,
        /// The health policy, which says how fast.
        policy: Text,
    },
    /// Run a Job, or make or look at a request.
    Run {
        /// For which incident.
        owner: Owner,
        /// The name of the Job.
        name: Text,
        /// The task.
        task: Task,
        /// The incident as it is.
        incident: Arc<Incident>,
    },
    /// Delete an object of this incarnation.
    Delete(ChildKind, Text, Text, Uid),
    /// Delete a signal that was taken in, of this incarnation.
    DropReport(Text, Uid),
    /// Write what was counted for a policy, instead of what was written before.
    Tally(Text, Vec<Tally>),
    /// Say that an expression of a policy could not be evaluated.
    Broken(Text, usize, String),
}
