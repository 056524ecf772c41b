//! Claims whose pods vanished before they ended: what their nodes say, and what became of the pods and claims.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use lazaret_machine::Recent;
use lazaret_model::{
    AWAITED_BYTES_PER_NODE_MAX, AWAITED_PER_NODE_MAX, Awaited, Consumer, NodeReport, ObjectKey,
    ResourceClaim, Text, Uid,
};

use crate::{
    Claims, SeenClaim,
    claim_work::RESERVED_MAX,
    holder::{Holder, HolderKind},
    queue::Item,
    standing::{Confirmations, is_done},
    tables::Setback,
};

/// Pods that vanished whose nodes are remembered. The node of a forgotten one is found by what its claim was given, where that is local.
const LOST_MAX: usize = 16_384;
/// Nodes that one claim may say it waits for; of further ones nothing is known after a restart.
const NAMED_NODES_MAX: usize = 64;
/// Claims removed by hand that are waited for. No one removes more by hand within the time that nodes take to answer.
pub(crate) const REMOVED_MAX: usize = 4_096;

/// The nodes that are asked about claims, and the claims.
#[derive(Debug)]
pub(crate) struct Asking {
    /// Pods that are gone and of which nothing is prepared: they had ended, or were on no node. Nodes are asked about pods that were dropped from it.
    pub(crate) ended: Recent<Uid>,
    /// By a node and the UID of a pod or claim that is gone: whether the node is in service and reports, where that was not heard.
    pub(crate) silent: Confirmations<(Text, Uid)>,
    /// By the same, while that is being found out: what is looked at then.
    pub(crate) looked_for: BTreeMap<(Text, Uid), BTreeSet<Item>>,
    /// Nodes that say what is prepared on them.
    pub(crate) nodes: BTreeMap<Text, NodeSlot>,
    /// By the UID of the claim.
    pub(crate) waits: BTreeMap<Uid, Wait>,
    /// Where pods were that vanished before they ended.
    pub(crate) lost_on: BTreeMap<Uid, Text>,
    lost: VecDeque<Uid>,
    pub(crate) removed: usize,
}

/// A node.
#[derive(Debug)]
pub(crate) struct NodeSlot {
    pub(crate) report: Arc<NodeReport>,
    /// The version that a write in flight is meant for.
    pub(crate) in_flight: Option<Text>,
    /// The version that the last write was meant for: a report of it is older than what the node is asked now, and so are its answers.
    pub(crate) outdated: Option<Text>,
    pub(crate) setback: Setback,
}

/// A claim that may be prepared on nodes although its users are gone.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) awaited: Awaited,
    /// Where it was used by pods that vanished.
    pub(crate) nodes: BTreeSet<Text>,
    pub(crate) claim: Waiting,
    pub(crate) announced: bool,
}

/// The state of the claim.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// It is there, and keeps what it was given.
    Kept,
    /// It is gone, or another writer removed its allocation; as it was last seen.
    Removed(Arc<ResourceClaim>),
    /// It was gone, or had lost its allocation, before anything was heard of it.
    Unseen,
}

impl Asking {
    pub(crate) fn new(gone_max: usize) -> Self {
        Self {
            ended: Recent::new(gone_max),
            // All nodes of all pods that one claim names have to be remembered at once.
            silent: Confirmations::new(gone_max.max(RESERVED_MAX * (NAMED_NODES_MAX + 1))),
            looked_for: BTreeMap::new(),
            nodes: BTreeMap::new(),
            waits: BTreeMap::new(),
            lost_on: BTreeMap::new(),
            lost: VecDeque::new(),
            removed: 0,
        }
    }

    /// Nothing is in flight any more.
    pub(crate) fn forget_work(&mut self) {
        self.silent.forget_questions();
        self.looked_for.clear();
        for slot in self.nodes.values_mut() {
            (slot.in_flight, slot.outdated, slot.setback) = Default::default();
        }
    }

    fn note_lost(&mut self, uid: Uid, node: Text) {
        if self.lost_on.insert(uid.clone(), node).is_some() {
            return;
        }
        self.lost.push_back(uid);
        if self.lost.len() > LOST_MAX
            && let Some(oldest) = self.lost.pop_front()
        {
            self.lost_on.remove(&oldest);
        }
    }

    pub(crate) fn report(&self, node: &Text) -> Option<&NodeReport> {
        self.nodes.get(node).map(|slot| &*slot.report)
    }

    /// The report of a node, if it is known to be in service and reports.
    pub(crate) fn word_of(&self, node: &Text) -> Option<&NodeReport> {
        self.report(node).filter(|report| !report.out_of_service)
    }

    /// Whether a node may have prepared a claim, because of a pod or claim that is gone. That it is not in service or says
    /// nothing is believed once it was looked for since then: news of nodes may be behind those of pods and claims.
    pub(crate) fn may_have_prepared(&self, node: &Text, claim: &Uid, gone: &Uid) -> bool {
        match self.word_of(node) {
            Some(report) => report.may_have_prepared(claim) || self.is_outdated(node),
            None => !self.silent.gone.contains(&(node.clone(), gone.clone())),
        }
    }

    /// Whether the node was asked something else than its report shows.
    pub(crate) fn is_outdated(&self, node: &Text) -> bool {
        self.nodes.get(node).is_some_and(|slot| slot.outdated.as_ref() == Some(&slot.report.version))
    }

    pub(crate) fn released_by<'a>(
        &'a self,
        nodes: &'a BTreeSet<Text>,
        claim: &Uid,
    ) -> Option<(&'a Text, &'a Text)> {
        nodes.iter().find_map(|node| {
            let entry = self.report(node)?.awaiting.iter().find(|one| one.uid == *claim)?;
            entry.released.as_ref().map(|reason| (node, reason))
        })
    }

    /// The nodes that a claim with its devices waits for. It may not have been written that it does.
    fn kept_for(&self, claim: &Uid) -> impl Iterator<Item = Text> {
        let wait = self.waits.get(claim).filter(|wait| matches!(wait.claim, Waiting::Kept));
        wait.into_iter().flat_map(|wait| wait.nodes.iter().cloned())
    }

    pub(crate) fn drop_wait(&mut self, claim: &Uid) -> BTreeSet<Text> {
        let Some(wait) = self.waits.remove(claim) else { return BTreeSet::new() };
        if !matches!(wait.claim, Waiting::Kept) {
            self.removed = self.removed.saturating_sub(1);
        }
        wait.nodes
    }

    /// The claims to ask a node about: those that it is asked about already come first, so that answers are not lost. A claim that got other devices since
    /// is asked about anew.
    pub(crate) fn wanted(&self, node: &Text) -> Vec<Awaited> {
        let asked = self.report(node).map_or(&[][..], |report| &report.awaiting);
        let waits = |uid: &Uid| self.waits.get(uid).filter(|wait| wait.nodes.contains(node));
        let old = asked.iter().filter_map(|one| {
            let awaited = &waits(&one.uid)?.awaited;
            Some(if awaited.devices == one.devices { one } else { awaited })
        });
        let new = self
            .waits
            .values()
            .filter(|wait| wait.nodes.contains(node) && asked.iter().all(|one| one.uid != wait.awaited.uid));
        let mut bytes = 0;
        let mut wanted = Vec::new();
        for one in old.chain(new.map(|wait| &wait.awaited)).take(AWAITED_PER_NODE_MAX) {
            bytes += one.bytes();
            if bytes > AWAITED_BYTES_PER_NODE_MAX && !wanted.is_empty() {
                break;
            }
            wanted.push(one.clone());
        }
        wanted
    }
}

/// The value of the annotation of a claim that waits for these nodes.
pub(crate) fn names_to_text(nodes: &BTreeSet<Text>) -> Option<Text> {
    let names: Vec<&str> = nodes.iter().map(|name| &**name).collect();
    (!names.is_empty()).then(|| names.join(",").into())
}

/// The nodes that a claim says it waits for.
fn named_nodes(seen: &SeenClaim) -> impl Iterator<Item = Text> {
    let names = seen.awaiting.iter().flat_map(|names| names.split(','));
    names.filter(|name| !name.is_empty()).take(NAMED_NODES_MAX).map(Text::from)
}

impl Claims {
    /// The nodes that have not said how a user of a claim ended: the one where it was last seen, or else those that the claim says it waits for and those that
    /// the controller before has asked, and the one that has the devices. The claim may have been allocated anew under the user, and nothing but the claim tells a controller that starts later where the user was.
    /// Whether they have to be waited for is another question.
    pub(crate) fn lost_on(&self, seen: &SeenClaim, user: &Uid) -> BTreeSet<Text> {
        let allocation = seen.claim.allocation.as_ref();
        let Some(allocation) = allocation.filter(|given| given.held_devices().next().is_some()) else {
            return BTreeSet::new();
        };
        if self.asking.ended.contains(user) {
            return BTreeSet::new();
        }
        let mut nodes = match self.asking.lost_on.get(user) {
            Some(node) => BTreeSet::from([node.clone()]),
            None => named_nodes(seen).chain(self.asking.kept_for(&seen.claim.uid)).collect(),
        };
        nodes.extend(allocation.only_node().cloned());
        nodes
    }

    pub(crate) fn see_node(&mut self, report: Arc<NodeReport>) {
        if !report.reports {
            return self.miss_node(&report.name);
        }
        let name = report.name.clone();
        match self.asking.nodes.get_mut(&name) {
            Some(slot) if slot.report.uid == report.uid => {
                if slot.report.version != report.version {
                    slot.setback.hear_news();
                }
                slot.report = report;
            }
            // Another of its name was asked nothing, and does not answer for the one before.
            Some(_) | None => {
                let (in_flight, outdated, setback) = Default::default();
                self.asking.nodes.insert(name.clone(), NodeSlot { report, in_flight, outdated, setback });
            }
        }
        self.touch_waiting_for(&name);
    }

    pub(crate) fn miss_node(&mut self, name: &Text) {
        if self.asking.nodes.remove(name).is_some() {
            self.touch_waiting_for(name);
        }
    }

    fn touch_waiting_for(&mut self, node: &Text) {
        let of_node = self.asking.waits.values().filter(|wait| wait.nodes.contains(node));
        let claims: Vec<Item> = of_node.map(|wait| Item::Claim(wait.awaited.claim.clone())).collect();
        claims.into_iter().for_each(|claim| self.touch(claim));
        self.touch(Item::Node(node.clone()));
    }

    /// A pod is gone: whether it had ended decides whether its node is asked. One that was on no node when last seen may have
    /// been bound since, unless its last state was told.
    pub(crate) fn note_how_it_ended(&mut self, key: &ObjectKey, last_told: bool) {
        // It was never seen.
        let Some(pod) = self.tables.pods.get(key).map(|slot| slot.pod.clone()) else { return };
        match &pod.node {
            _ if is_done(&pod) => drop(self.asking.ended.insert(pod.uid.clone())),
            Some(node) => self.asking.note_lost(pod.uid.clone(), node.clone()),
            None if last_told => drop(self.asking.ended.insert(pod.uid.clone())),
            None => {}
        }
    }

    /// A claim is gone, or has lost what it was given: `after` is the claim of that name now. If its devices may be prepared, that was not the work of this
    /// controller.
    pub(crate) fn claim_let_go(&mut self, seen: &SeenClaim, after: Option<&SeenClaim>) {
        let claim = &seen.claim;
        let waiting = self.asking.waits.get(&claim.uid).map(|wait| &wait.claim);
        if claim.allocation.is_none() && waiting.is_some_and(|of| !matches!(of, Waiting::Kept)) {
            // It had lost its devices before, and they are waited for.
            return;
        }
        let is_there = after.is_some_and(|after| after.claim.uid == claim.uid);
        let nodes = self.nodes_in_use(seen, is_there);
        let before = self.asking.drop_wait(&claim.uid);
        if !nodes.is_empty() && self.asking.removed < REMOVED_MAX {
            self.asking.removed += 1;
            let awaited = Self::awaited(claim, None);
            let claim = Waiting::Removed(claim.clone());
            let wait = Wait { awaited, nodes: nodes.clone(), claim, announced: true };
            self.asking.waits.insert(seen.claim.uid.clone(), wait);
        }
        before.union(&nodes).for_each(|node| self.touch(Item::Node(node.clone())));
    }

    /// The nodes where somebody may still use what a claim was given. The scheduler takes an allocation back from a pod that it did not bind, and leaves the claim
    /// there: nothing was prepared for it.
    fn nodes_in_use(&self, seen: &SeenClaim, is_there: bool) -> BTreeSet<Text> {
        let claim = &seen.claim.uid;
        let allocation = seen.claim.allocation.as_ref().filter(|_| !is_there);
        let only = allocation.and_then(|given| given.only_node());
        let nodes_of = |consumer: &Consumer| {
            let kind = HolderKind::of(consumer)?;
            let holder = Holder { kind, key: seen.beside(&consumer.name), uid: consumer.uid.clone() };
            let pod = self.tables.pods.get(&holder.key).map(|slot| &slot.pod);
            Some(match pod.filter(|pod| pod.uid == holder.uid) {
                Some(pod) if is_done(pod) => BTreeSet::new(),
                // One that was on no node when last seen may have been bound since.
                Some(pod) => pod.node.iter().chain(only).take(1).cloned().collect(),
                None => {
                    let mut nodes = self.lost_on(seen, &holder.uid);
                    nodes.retain(|node| self.asking.may_have_prepared(node, claim, &holder.uid));
                    nodes
                }
            })
        };
        let nodes = seen.claim.reserved_for.iter().filter_map(nodes_of).flatten();
        nodes.filter(|node| self.asking.may_have_prepared(node, claim, claim)).collect()
    }
}
