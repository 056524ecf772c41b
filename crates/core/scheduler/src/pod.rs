//! Pods, as far as placing them is concerned.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{ObjectKey, Owner, PodClaim, PodPhase, Text, Timestamp, Uid};

use crate::{Amounts, Labels, PodSpec};

/// A pod as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Its controller.
    pub owner: Option<Owner>,
    /// The node it is bound to.
    pub node: Option<Text>,
    /// How far it is.
    pub phase: PodPhase,
    /// Deletion was asked for.
    pub deleting: bool,
    /// When it was created.
    pub created: Timestamp,
    /// When it began to run.
    pub started: Option<Timestamp>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Text>,
    /// Its `PodScheduled` condition, if that is `False`.
    pub unscheduled: Option<Unscheduled>,
    /// Its claims, by entry.
    pub claims: Vec<PodClaim>,
    /// Its classic claims.
    pub classic: Vec<lazaret_classic::PodClaim>,
    /// The claim that was made for its extended resources.
    pub extended_claim: Option<Text>,
    /// The group it belongs to, where groups matter.
    pub group: Option<Text>,
    /// The amounts that its claims take of its node beside its requests, from its status.
    pub extra: Option<Arc<Amounts>>,
    /// The fields that do not change.
    pub spec: Arc<PodSpec>,
}

/// A `PodScheduled` condition that is `False`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unscheduled {
    /// For machines.
    pub reason: Text,
    /// For people.
    pub message: Text,
}

impl Pod {
    /// Whether it takes up room on its node.
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.node.is_some() && !self.phase.is_finished()
    }
}
