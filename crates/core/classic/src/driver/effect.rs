//! Inputs and effects of a driver controller.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_machine::{EffectId, Turn};
use lazaret_model::{NodeSelector, ObjectKey, Text, Uid};

use crate::{change::ChangeClaim, model::ClaimSpec, news::News};

/// Inputs of the controller.
#[derive(Clone, Debug)]
pub enum DriverInput {
    /// News of objects: classes and claims matter.
    News(News),
    /// From the shell. A write and [`Deallocate`] are answered by [`Turn::Acknowledged`]; a deallocation of which nothing is left to do is
    /// [`Outcome::Done`](lazaret_machine::Outcome::Done).
    Turn(Turn),
    /// The answer to [`Allocate`].
    Allocated {
        /// Which effect.
        effect: EffectId,
        /// The devices that are held for the claim now, or the reason why none are.
        result: Result<Allocation, Refusal>,
    },
    /// The answer to [`ExamineNodes`]; `None`: it failed.
    Examined {
        /// Which effect.
        effect: EffectId,
        /// The findings.
        result: Option<Suitability>,
    },
}

impl From<Turn> for DriverInput {
    fn from(turn: Turn) -> Self {
        Self::Turn(turn)
    }
}

/// Effects of the controller. All are to be acknowledged. There is at most one for a claim at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverEffectKind {
    /// Write to a claim.
    Change(ChangeClaim),
    /// Call the vendor's code: allocate.
    Allocate(Allocate),
    /// Call the vendor's code: deallocate.
    Deallocate(Deallocate),
    /// Call the vendor's code: for which of these nodes can it not be allocated?
    Examine(ExamineNodes),
}

/// Hold devices for a claim. Called again with the same UID and node if the outcome is unknown: then what is held already is the
/// answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it: devices are held for this.
    pub uid: Uid,
    /// The claim's spec.
    pub spec: Arc<ClaimSpec>,
    /// The parameters of the class.
    pub class_parameters: Text,
    /// For which node; `None`: the claim is allocated immediately, for whatever nodes the driver chooses.
    pub node: Option<Text>,
}

/// Devices that are held for a claim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Allocation {
    /// Enough to deallocate it.
    pub attributes: BTreeMap<Text, Text>,
    /// Where it can be used; `None`: everywhere.
    pub available_on_nodes: Option<Arc<NodeSelector>>,
    /// How many users it may have at a time, -1 for any number; 0 stands for the default, which is 1.
    pub user_limit: i64,
}

/// Why there is no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It failed, certainly: nothing is held.
    Failed,
    /// Something may be held.
    Unknown,
}

/// Free whatever is held for a UID, also by an allocation whose outcome is unknown. If nothing is held, nothing is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deallocate {
    /// Which claim. It may be gone.
    pub claim: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// As [`Allocation`] said, if that was ever heard.
    pub attributes: BTreeMap<Text, Text>,
}

/// Say for which nodes a claim cannot be allocated now. Changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExamineNodes {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// The claim's spec.
    pub spec: Arc<ClaimSpec>,
    /// The parameters of the class.
    pub class_parameters: Text,
    /// Which nodes.
    pub nodes: Arc<[Text]>,
}

/// Where a claim can and cannot be allocated.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Suitability {
    /// Not for these. Names that were not asked about are ignored.
    pub unsuitable_nodes: Vec<Text>,
    /// For these at best, if the driver knows already.
    pub available_on_nodes: Option<Arc<NodeSelector>>,
}

/// Counters since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DriverCounters {
    /// Claims allocated.
    pub allocated: u64,
    /// Attempts that certainly failed.
    pub refused: u64,
    /// Claims deallocated, and attempts given up.
    pub deallocated: u64,
    /// Times that nodes were examined.
    pub examined: u64,
    /// Writes that were done.
    pub written: u64,
}
