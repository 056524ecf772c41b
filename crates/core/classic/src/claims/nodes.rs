//! Nodes that may have prepared a claim for a pod that vanished. Its reservation stays until they say that nothing is prepared any more, so that no device is
//! deallocated before.
//!
//! A node answers for the claims that an annotation lists, and takes its answer back when a claim is not listed any more. An answer counts only together with its question:
//! a claim is not listed while the node's answer to an earlier question is still there.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{AWAITED_PER_NODE_MAX, Awaited, NodeReport, ObjectKey, Text, Timestamp, Uid};

use crate::{
    model::{Pod, Reference, ResourceClaim},
    write::Writer,
};

/// The last sight of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LastSeen {
    On(Text),
    /// Its node lets a pod end only after it has unprepared its claims.
    Ended,
}

/// The answer of a node to the question about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    NotYet,
    Unprepared,
}

/// The claims that a node is to be asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskNode {
    /// Its name.
    pub node: Text,
    /// Which incarnation of it.
    pub uid: Uid,
    /// The version that is changed.
    pub version: Text,
    /// All claims that it is asked about; none: the annotation is removed.
    pub awaiting: Vec<Awaited>,
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    reports: BTreeMap<Text, Arc<NodeReport>>,
    last_seen: BTreeMap<Uid, LastSeen>,
    /// Nodes that are waited for, and for which claim.
    waits: BTreeMap<(Text, ObjectKey), Uid>,
    writers: BTreeMap<Text, Writer>,
}

impl Nodes {
    /// A leader begins: it looks at every claim anew.
    pub(super) fn start_over(&mut self) -> Vec<Text> {
        self.waits.clear();
        self.writers.clear();
        self.reports.keys().cloned().collect()
    }

    pub(super) fn seen(&mut self, report: Arc<NodeReport>) {
        self.reports.insert(report.name.clone(), report);
    }

    pub(super) fn gone(&mut self, node: &Text) {
        self.reports.remove(node);
        self.writers.remove(node);
    }

    /// The claims that wait for a node.
    pub(super) fn waiting_for(&self, node: &Text) -> Vec<ObjectKey> {
        self.waits_of(node).map(|(claim, _)| claim.clone()).collect()
    }

    pub(super) fn pod_seen(&mut self, pod: &Pod) {
        let last_seen = match &pod.node {
            _ if pod.ended => LastSeen::Ended,
            Some(node) => LastSeen::On(node.clone()),
            // It is on no node yet.
            None => return,
        };
        self.last_seen.insert(pod.uid.clone(), last_seen);
    }

    pub(super) fn forget(&mut self, pod: &Uid) {
        self.last_seen.remove(pod);
    }

    /// Nodes that have to say first that a claim is not prepared for a user that is gone, and whether each has. Without a sight of the pod on a node, all nodes that
    /// may have run it. A node that has answered is asked until the user is removed: without its question it takes its answer back. `is_gone`: of another user.
    pub(super) fn to_await(
        &self,
        claim: &ResourceClaim,
        user: &Reference,
        is_gone: impl Fn(&Uid) -> bool,
    ) -> Vec<(Text, Answered)> {
        let only = claim.status.driver.available_on_nodes.as_ref().and_then(|nodes| nodes.only_node());
        let nodes: Vec<&Text> = match (self.last_seen.get(&user.uid), only) {
            (Some(LastSeen::Ended), _) => Vec::new(),
            (Some(LastSeen::On(node)), _) | (None, Some(node)) => Vec::from([node]),
            (None, None) => self.reports.keys().collect(),
        };
        // A claim that another pod uses there stays prepared, and reserved.
        let is_used = |node: &Text| {
            claim.status.reserved_for.iter().any(|other| {
                other.uid != user.uid
                    && matches!(self.last_seen.get(&other.uid), Some(LastSeen::On(at)) if at == node)
                    && !is_gone(&other.uid)
            })
        };
        let nodes = nodes.into_iter().filter(|node| !is_used(node));
        nodes.filter_map(|node| Some((node.clone(), self.answer(node, &claim.uid)?))).collect()
    }

    /// Waits for these nodes, and for no others, before users of the claim are removed. Gives the nodes for which that is new.
    pub(super) fn wait(&mut self, claim: &ObjectKey, uid: &Uid, nodes: &BTreeSet<Text>) -> Vec<Text> {
        let mut changed = Vec::new();
        self.waits.retain(|(node, of), awaited| {
            let stays = of != claim || (nodes.contains(node) && awaited == uid);
            if !stays {
                changed.push(node.clone());
            }
            stays
        });
        for node in nodes {
            if self.waits.insert((node.clone(), claim.clone()), uid.clone()).is_none() {
                changed.push(node.clone());
            }
        }
        changed
    }

    /// The question for a node, unless it has been put already.
    pub(super) fn question(&mut self, now: Timestamp, node: &Text) -> Option<(AskNode, &mut Writer)> {
        let report = self.reports.get(node)?.clone();
        let asked = |uid: &Uid| report.awaiting.iter().find(|one| one.uid == *uid);
        let is_stale = |uid: &Uid| asked(uid).is_none() && report.unprepared.contains(uid);
        let wanted = self.waits_of(node).filter(|(_, uid)| !is_stale(uid));
        let wanted = wanted.map(|(claim, uid)| {
            let new =
                || Awaited { claim: claim.clone(), uid: uid.clone(), since: Some(now), ..Awaited::default() };
            asked(uid).cloned().unwrap_or_else(new)
        });
        let awaiting: Vec<Awaited> = wanted.take(AWAITED_PER_NODE_MAX).collect();
        if awaiting == report.awaiting {
            return None;
        }
        let (uid, version) = (report.uid.clone(), report.version.clone());
        let writer = self.writers.entry(node.clone()).or_default();
        Some((AskNode { node: node.clone(), uid, version, awaiting }, writer))
    }

    pub(super) fn writer(&mut self, node: &Text) -> Option<&mut Writer> {
        self.writers.get_mut(node)
    }

    fn waits_of(&self, node: &Text) -> impl Iterator<Item = (&ObjectKey, &Uid)> {
        let of_node = self.waits.iter().filter(move |((at, _), _)| at == node);
        of_node.map(|((_, claim), uid)| (claim, uid))
    }

    /// Nothing of a node that is gone, is off, or does not answer at all.
    fn answer(&self, node: &Text, claim: &Uid) -> Option<Answered> {
        let report = self.reports.get(node).filter(|report| report.reports && !report.out_of_service)?;
        let is_asked = report.awaiting.iter().any(|one| one.uid == *claim);
        match is_asked && report.unprepared.contains(claim) {
            true => Some(Answered::Unprepared),
            false => Some(Answered::NotYet),
        }
    }
}
