//! The pods and groups that may still use a claim, and the steps when none does.

use alloc::{collections::BTreeSet, vec::Vec};

use lazaret_invariant::invariant;
use lazaret_model::{ClaimSource, Consumer, ObjectKey, Pod, PodClaim, PodGroup, Text, Timestamp, Uid};

use crate::{
    Claims,
    asking::names_to_text,
    effect::{ChangeClaim, ClaimStep, EffectKind, FINALIZER, WakeReason},
    flights::Flight,
    holder::{Holder, HolderKind},
    input::SeenClaim,
    queue::Item,
    standing::{Inquiry, Standing, wants_claims},
};

/// The API's limit on `reservedFor`.
pub(crate) const RESERVED_MAX: usize = 256;

/// The findings about a claim besides its steps.
#[derive(Default)]
struct Findings {
    /// Users of which nothing is known.
    unknown: Vec<Holder>,
    /// When a confirmation runs out.
    recheck: Option<Timestamp>,
    /// Nodes where the claim was used by pods that vanished before they ended.
    lost: BTreeSet<Text>,
    /// Of these, those that have to unprepare it first.
    awaited: BTreeSet<Text>,
    /// Nodes of which nothing is heard, and the user that was lost there.
    silent: Vec<(Text, Uid)>,
}

impl Claims {
    pub(crate) fn look_at_claim(&mut self, now: Timestamp, key: &ObjectKey) {
        let Some(slot) = self.tables.claims.get(key) else { return };
        if slot.in_flight {
            return;
        }
        if let Some(at) = slot.setback.hold(now) {
            self.later(at, WakeReason::Retry, Item::Claim(key.clone()));
            return;
        }
        let seen = slot.seen.clone();
        let mut findings = Findings::default();
        let steps = self.steps(now, &seen, &mut findings);
        if findings.unknown.is_empty() {
            self.await_nodes(now, &seen, &findings.lost, &findings.awaited);
        }
        if let Some(at) = findings.recheck {
            self.later(at, WakeReason::Recheck, Item::Claim(key.clone()));
        }
        for holder in findings.unknown {
            self.confirm(now, key, holder);
        }
        for (node, user) in findings.silent {
            self.confirm_node(now, Item::Claim(key.clone()), node, user);
        }
        let Some(slot) = invariant!(self.tables.claims.get_mut(key), "a claim that is looked at is known")
        else {
            return;
        };
        if steps.is_empty() {
            slot.plan = None;
            return;
        }
        if let Some((plan, until)) = &slot.plan
            && *until > now
            && plan.ends_with(&steps)
        {
            let at = *until;
            self.later(at, WakeReason::Recheck, Item::Claim(key.clone()));
            return;
        }
        slot.in_flight = true;
        slot.plan = Some((steps.clone(), now.plus_millis(self.options.recheck_ms)));
        self.change(&seen, steps);
    }

    /// The steps for a claim in the state that was seen. None while it is reserved for a user of which nothing is known.
    fn steps(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> Vec<ClaimStep> {
        let claim = &seen.claim;
        let mut users = self.remaining(now, seen, findings);
        if !findings.unknown.is_empty() {
            return Vec::new();
        }
        let awaiting = match findings.silent.is_empty() {
            true => names_to_text(&findings.awaited),
            // Whether it is waited for is not known yet.
            false => seen.awaiting.clone(),
        };
        let dropped = users.len() < claim.reserved_for.len();
        let kept = users.len();
        self.add_bound_pods(seen, &mut users);
        let unused = users.is_empty();
        let mut steps = Vec::new();
        let delete = unused && !claim.deleting && self.is_owner_done(now, seen, findings);
        // A claim that was allocated and is not reserved yet stays allocated: only who stops using it frees it, or
        // who deletes it.
        let release = unused && seen.is_protected() && (dropped || claim.deleting || delete);
        let deallocate = release && claim.allocation.is_some();
        let others: Vec<Text> = seen.finalizers.iter().filter(|name| **name != FINALIZER).cloned().collect();
        // DEVIATION(claims-leave-whole): what goes with its last finalizer need not be told first that it is free.
        let vanishes = release && others.is_empty() && (claim.deleting || delete);
        if !vanishes && (dropped || users.len() > kept || deallocate) {
            steps.push(ClaimStep::SetStatus { reserved_for: users, deallocate });
        }
        if !vanishes && awaiting != seen.awaiting {
            steps.push(ClaimStep::SetAwaiting(awaiting));
        }
        // Deleting comes before the finalizer goes: whoever has to go on from between the two sees what is meant.
        if delete {
            steps.push(ClaimStep::Delete);
        }
        if release {
            steps.push(ClaimStep::SetFinalizers(others));
        }
        steps
    }

    /// The users in `reservedFor` that may still need the claim. A user that is neither a pod nor a group is kept, and so are groups where they are
    /// not watched.
    fn remaining(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> Vec<Consumer> {
        let mut keep = |consumer: &&Consumer| {
            let kind = HolderKind::of(consumer).filter(|kind| self.hears_of(*kind));
            kind.is_none_or(|kind| {
                let holder = Holder { kind, key: seen.beside(&consumer.name), uid: consumer.uid.clone() };
                let uid = holder.uid.clone();
                self.is_needed(now, holder, findings) || self.is_prepared_for(seen, &uid, findings)
            })
        };
        seen.claim.reserved_for.iter().filter(|consumer| keep(consumer)).cloned().collect()
    }

    /// Whether a claim may be prepared on some node for a user that needs it no more.
    fn is_prepared_for(&self, seen: &SeenClaim, user: &Uid, findings: &mut Findings) -> bool {
        // DEVIATION(lost-pods): what ended while it was there was unprepared before; what vanished may not have been.
        let gone = self.confirmations.gone.contains(user);
        let nodes = if gone { self.lost_on(seen, user) } else { BTreeSet::new() };
        let mut is_prepared = false;
        for node in nodes {
            let awaited = self.asking.may_have_prepared(&node, &seen.claim.uid, user);
            let is_heard = self.asking.word_of(&node).is_some();
            if awaited && !is_heard {
                findings.silent.push((node.clone(), user.clone()));
            }
            if awaited && is_heard {
                findings.awaited.insert(node.clone());
            }
            if awaited || self.asking.report(&node).is_some() {
                findings.lost.insert(node);
            }
            is_prepared |= awaited;
        }
        is_prepared
    }

    /// Whether a claim is reserved for a user of which nothing is known.
    pub(crate) fn is_undecided(&self, now: Timestamp, seen: &SeenClaim) -> bool {
        seen.claim.reserved_for.iter().any(|consumer| {
            let kind = HolderKind::of(consumer).filter(|kind| self.hears_of(*kind));
            kind.is_some_and(|kind| {
                let holder = Holder { kind, key: seen.beside(&consumer.name), uid: consumer.uid.clone() };
                matches!(self.standing(&holder, now), Standing::Unknown)
            })
        })
    }

    fn is_needed(&self, now: Timestamp, holder: Holder, findings: &mut Findings) -> bool {
        match self.standing(&holder, now) {
            Standing::Needed => true,
            Standing::NeededUntil(at) => {
                findings.recheck = Some(findings.recheck.map_or(at, |earlier| earlier.min(at)));
                true
            }
            Standing::Done | Standing::Gone => false,
            Standing::Unknown => {
                findings.unknown.push(holder);
                true
            }
        }
    }

    /// Whether the claim was made for a pod or group that needs it no more.
    fn is_owner_done(&self, now: Timestamp, seen: &SeenClaim, findings: &mut Findings) -> bool {
        let owner = seen.holder().filter(|owner| self.hears_of(owner.kind));
        owner.is_some_and(|owner| !self.is_needed(now, owner, findings))
    }

    fn hears_of(&self, kind: HolderKind) -> bool {
        match kind {
            HolderKind::Pod => true,
            HolderKind::Group => self.options.groups,
        }
    }

    /// The group of a pod, where groups matter and this one is known.
    pub(crate) fn group_of(&self, pod: &Pod) -> Option<&PodGroup> {
        let name = pod.group.as_ref().filter(|_| self.options.groups)?;
        let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
        self.tables.groups.get(&key).map(|slot| &*slot.group)
    }

    /// Pods that got a node without asking the scheduler have nobody else to reserve the claim for them.
    fn add_bound_pods(&self, seen: &SeenClaim, users: &mut Vec<Consumer>) {
        if seen.claim.allocation.is_none() || seen.claim.deleting {
            return;
        }
        for key in self.tables.pods_of_claim.of(&seen.claim.key) {
            if users.len() >= RESERVED_MAX {
                return;
            }
            let Some(pod) = invariant!(
                self.tables.pods.get(&key).map(|slot| &slot.pod),
                "a pod that is filed under a claim is known"
            ) else {
                continue;
            };
            if pod.node.is_none() || !wants_claims(pod) {
                continue;
            }
            if let Some(user) = self.user(pod, seen)
                && users.iter().all(|known| known.uid != user.uid)
            {
                users.push(user);
            }
        }
    }

    fn change(&mut self, seen: &SeenClaim, steps: Vec<ClaimStep>) {
        let (mut reserves, mut deallocates, mut deletes) = (false, false, false);
        for step in &steps {
            match step {
                ClaimStep::SetStatus { reserved_for, deallocate } => {
                    reserves = *reserved_for != seen.claim.reserved_for;
                    deallocates = *deallocate;
                }
                // With the finalizer go the last users and the allocation, whether that was written or not.
                ClaimStep::SetFinalizers(_) => {
                    reserves |= !seen.claim.reserved_for.is_empty();
                    deallocates |= seen.claim.allocation.is_some();
                }
                ClaimStep::Delete => deletes = true,
                ClaimStep::SetAwaiting(_) => {}
            }
        }
        let (claim, uid) = (seen.claim.key.clone(), seen.claim.uid.clone());
        let version = seen.version.clone();
        let flight = Flight::Claim {
            claim: claim.clone(),
            uid: uid.clone(),
            version: version.clone(),
            deallocates,
            reserves,
            deletes,
        };
        let change = ChangeClaim { claim, uid, version, steps };
        self.flights.launch(flight, EffectKind::ChangeClaim(change));
    }

    /// As whom a pod uses this claim, if an entry of it stands for it. A claim made from a template has to be the pod's
    /// own, or that of its group.
    fn user(&self, pod: &Pod, seen: &SeenClaim) -> Option<Consumer> {
        let group = self.group_of(pod);
        if pod.group.is_some() && group.is_none() {
            return None;
        }
        let mut entries = pod.claims.iter().filter(|entry| entry.claim() == Some(&seen.claim.key.name));
        entries.find_map(|entry| {
            let sharing = group.filter(|group| group.shared(entry).is_some());
            let holder = sharing.map_or_else(|| Holder::from(pod), Holder::from);
            if is_made(entry) && !seen.is_held_by(&holder) {
                return None;
            }
            Some(sharing.map_or_else(|| pod_consumer(pod), PodGroup::consumer))
        })
    }

    /// Asks whether somebody lives. The answer makes its claims be looked at again.
    fn confirm(&mut self, now: Timestamp, claim: &ObjectKey, holder: Holder) {
        if self.flights.len() >= self.options.in_flight_max {
            // One claim after the other, or more answers could be wanted at once than are kept.
            self.queue.push_front(Item::Claim(claim.clone()));
            return;
        }
        match self.confirmations.inquire(&holder.uid, now) {
            Inquiry::Ask => {
                self.counters.confirmed += 1;
                self.flights.launch(Flight::Confirm(holder.clone()), EffectKind::Confirm(holder));
            }
            Inquiry::Wait => {}
            Inquiry::AskAt(at) => self.later(at, WakeReason::Retry, Item::Claim(claim.clone())),
        }
    }
}

/// Whether the claim of an entry is made from a template.
fn is_made(entry: &PodClaim) -> bool {
    match entry.source {
        ClaimSource::Template { .. } => true,
        ClaimSource::Claim(_) | ClaimSource::Unknown => false,
    }
}

fn pod_consumer(pod: &Pod) -> Consumer {
    Consumer {
        resource: "pods".into(),
        name: pod.key.name.clone(),
        uid: pod.uid.clone(),
        ..Consumer::default()
    }
}
