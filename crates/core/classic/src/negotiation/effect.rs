//! Inputs and effects of the negotiator.

use alloc::{sync::Arc, vec::Vec};

use lazaret_machine::Turn;
use lazaret_model::{ObjectKey, Text, Uid};

use crate::{change::ChangeClaim, news::News, validate::NODES_MAX};

/// Options of [`Negotiator`](crate::Negotiator).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiationOptions {
    /// How many effects may be in flight at a time. The claims of one pod are written together, so there may be as many more as
    /// a pod has claims.
    pub in_flight_max: usize,
    /// How long a pod may hold claims that are allocated while it waits for others that no driver is working on.
    pub patience_ms: i64,
    /// How long it may hold them while a driver is working on others; doubled each time, up to 16 times.
    pub driver_patience_ms: i64,
    /// How many nodes a driver is asked about at most.
    pub potential_nodes_max: usize,
}

impl Default for NegotiationOptions {
    fn default() -> Self {
        Self {
            in_flight_max: 256,
            // Longer than a driver needs to notice that devices were freed.
            patience_ms: 5_000,
            driver_patience_ms: 60_000,
            potential_nodes_max: NODES_MAX,
        }
    }
}

/// Inputs of the negotiator.
#[derive(Clone, Debug)]
pub enum NegotiationInput {
    /// News of objects: pods, claims, classes and nodes matter.
    News(News),
    /// The nodes that everything else permits for a pod, the best first: resources, affinity, taints, and its structured
    /// claims. `None`: none, or the pod is not to be scheduled now.
    Candidates {
        /// Which pod.
        pod: ObjectKey,
        /// Which incarnation of it.
        uid: Uid,
        /// Which nodes.
        nodes: Option<Arc<[Text]>>,
    },
    /// From the shell.
    Turn(Turn),
}

impl From<Turn> for NegotiationInput {
    fn from(turn: Turn) -> Self {
        Self::Turn(turn)
    }
}

/// Effects of the negotiator. All are to be acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NegotiationEffectKind {
    /// Write to a claim.
    Change(ChangeClaim),
    /// All claims of a pod are allocated and reserved for it.
    Place(Place),
}

/// Allocate what structured claims the pod has on this node, and bind it, on the precondition that it has no node.
///
/// [`Outcome::Done`](lazaret_machine::Outcome::Done): it is bound to this node, by this effect or an earlier one. [`Outcome::Conflict`](lazaret_machine::Outcome::Conflict): the node is not permitted any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which pod.
    pub pod: ObjectKey,
    /// Which incarnation of it: a precondition.
    pub uid: Uid,
    /// Where.
    pub node: Text,
}

/// The reason why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Waiting {
    /// It was not looked at yet.
    #[default]
    New,
    /// A claim does not exist yet.
    Missing(ObjectKey),
    /// A claim of that name exists and does not belong to the pod.
    Foreign(ObjectKey),
    /// A claim is being deleted.
    Deleting(ObjectKey),
    /// A driver has to deallocate this claim.
    Deallocation(ObjectKey),
    /// A driver has to allocate this claim, for any pod.
    Immediate(ObjectKey),
    /// Nothing else permits a node.
    Candidates,
    /// No candidate suits all claims; these refused some.
    NoNode(Vec<ObjectKey>),
    /// Another pod negotiates about this claim.
    OtherPod(ObjectKey),
    /// The drivers of these claims have to answer.
    Drivers(Vec<ObjectKey>),
    /// An attempt failed; the next one comes later.
    Backoff,
    /// This claim has as many users as it may have.
    Full(ObjectKey),
    /// A write has to be answered, or seen.
    Write(ObjectKey),
    /// It is being bound.
    Binding,
}

/// Counters since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NegotiationCounters {
    /// Times that a node was selected for a pod: the rounds of negotiation.
    pub rounds: u64,
    /// Writes to claims that were done.
    pub written: u64,
    /// Times that a driver did not allocate for the selected node.
    pub refused: u64,
    /// Deallocations requested.
    pub deallocations: u64,
    /// Of these, because a pod held claims and waited for others.
    pub given_up: u64,
    /// Pods placed.
    pub placed: u64,
}
