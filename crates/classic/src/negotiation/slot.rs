//! What the negotiator knows beyond the objects. All of it may be lost without harm.

use alloc::{collections::BTreeMap, sync::Arc};

use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::effect::Waiting;
use crate::{retry::Setback, write::Writer};

/// One incarnation of a pod that waits for a node.
#[derive(Debug, Default)]
pub(super) struct PodSlot {
    pub(super) uid: Uid,
    pub(super) candidates: Option<Arc<[Text]>>,
    /// Without it nothing is known of candidates yet.
    pub(super) candidates_told: bool,
    pub(super) waiting: Waiting,
    /// The node that was selected for each claim that is not allocated yet.
    pub(super) asked: BTreeMap<ObjectKey, Text>,
    /// How often each node was refused. As many as nodes.
    pub(super) refusals: BTreeMap<Text, u32>,
    pub(super) setback: Setback,
    pub(super) placing: Placing,
    /// Since when it holds claims and waits.
    pub(super) holding_since: Option<Timestamp>,
    /// How often it gave up claims.
    pub(super) given_up: u32,
    pub(super) turns: u32,
    pub(super) turn_after: Option<Timestamp>,
}

/// How far the binding of a pod is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum Placing {
    #[default]
    No,
    InFlight(Text),
    /// Nobody knows what became of it: it is tried again, for the same node.
    Uncertain(Text),
    /// It failed: reservations have to go.
    Failed,
}

/// One incarnation of a claim.
#[derive(Debug)]
pub(super) struct ClaimSlot {
    pub(super) uid: Uid,
    pub(super) writer: Writer,
    /// The pod for which a node was selected last.
    pub(super) negotiator: Option<(ObjectKey, Uid)>,
}

/// One pod tries alone.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) pod: ObjectKey,
    pub(super) uid: Uid,
    pub(super) until: Timestamp,
}
