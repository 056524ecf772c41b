//! State of the negotiator beyond the objects. All of it may be lost without harm.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_machine::Retry;
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::effect::Waiting;
use crate::write::Writer;

/// One incarnation of a pod that waits for a node.
#[derive(Debug, Default)]
pub(super) struct PodSlot {
    pub(super) uid: Uid,
    /// Its claims, which need not exist.
    pub(super) claims: Vec<ObjectKey>,
    /// Nothing is decided before they were told.
    pub(super) candidates_told: bool,
    pub(super) candidates: Option<Arc<[Text]>>,
    pub(super) waiting: Waiting,
    /// The node that was selected for each claim that is not allocated yet.
    pub(super) asked: BTreeMap<ObjectKey, Text>,
    /// How often each node was refused. As many as nodes.
    pub(super) refusals: BTreeMap<Text, u32>,
    /// After a refusal, or a binding that failed.
    pub(super) retry: Retry,
    pub(super) placing: BindingPhase,
    /// Since when it holds claims and waits.
    pub(super) holding_since: Option<Timestamp>,
    /// How often it gave up what it held.
    pub(super) given_up: u32,
    /// Until then it asks for nothing.
    pub(super) paused_until: Option<Timestamp>,
}

/// How far the binding of a pod is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum BindingPhase {
    #[default]
    No,
    InFlight(Text),
    /// The outcome is unknown, or it was not seen yet: it is tried again, for the same node.
    Uncertain(Text),
    /// It failed: reservations have to go.
    Failed,
    /// There is no such pod any more. It may have been bound and have run: the claim controller removes its reservations once its node has unprepared its claims.
    Gone,
}

/// One incarnation of a claim.
#[derive(Debug)]
pub(super) struct ClaimSlot {
    pub(super) uid: Uid,
    pub(super) writer: Writer,
    /// The pod for which a node was selected last.
    pub(super) negotiator: Option<(ObjectKey, Uid)>,
    /// The pod whose reservation was last to be removed, and from which version. While the claim has that version, the removal may still
    /// arrive.
    pub(super) unreserving: Option<(Uid, Text)>,
}

impl PodSlot {
    /// Until when it starts nothing new.
    pub(super) fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.retry.until().max(self.paused_until).filter(|until| now < *until)
    }
}
