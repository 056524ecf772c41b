//! Pods that leave together: those of one `lazaret.dev/group`, one PodGroup or one Job, where a rule says `groups: Together`.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    vec::Vec,
};

use lazaret_fleet::{Fleet, PodIx};
use lazaret_invariant::invariant;
use lazaret_model::{Pod, Text, Timestamp, Uid};

use crate::{
    Eviction,
    block::{Block, Blocked},
    dispatch::{Candidate, NO_WINDOW},
    pods::{Phase, Slot},
    reason::Reason,
};

/// The key that pods which leave together share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum GroupKey {
    /// The label `lazaret.dev/group`, in a namespace.
    Label(Text, Text),
    /// A PodGroup, in a namespace.
    PodGroup(Text, Text),
    /// A Job.
    Job(Uid),
}

impl GroupKey {
    fn of(pod: &Pod) -> Option<Self> {
        let namespace = || pod.key.namespace.clone();
        if let Some(label) = &pod.eviction_group {
            return Some(Self::Label(namespace(), label.clone()));
        }
        if let Some(group) = &pod.group {
            return Some(Self::PodGroup(namespace(), group.clone()));
        }
        let job = pod.owner.as_ref().filter(|owner| owner.kind == "Job" && owner.group == "batch")?;
        Some(Self::Job(job.uid.clone()))
    }
}

/// The pods of a group.
#[derive(Debug, Default)]
struct Members {
    pods: BTreeSet<u32>,
    /// Some of them wait for others. Otherwise nobody has to be looked at again when one leaves the group: a group of thousands that leaves in
    /// one go would be looked at as often as it has pods.
    wait: bool,
}

/// All groups, by the cause that their pods have to leave for.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    members: BTreeMap<(u32, GroupKey), Members>,
    /// The groups of each pod.
    of: BTreeMap<u32, Vec<(u32, GroupKey)>>,
}

impl Groups {
    /// The pods that leave with this one for a cause, itself included; none: it leaves alone.
    fn members(&self, cause: u32, at: PodIx) -> Option<&BTreeSet<u32>> {
        let entry = self.of.get(&at.0)?.iter().find(|(of, _)| *of == cause)?;
        self.members.get(entry).map(|members| &members.pods)
    }

    /// Pods of a group wait for others, or do not any more.
    pub(crate) fn set_waiting(&mut self, cause: u32, at: PodIx, wait: bool) {
        let entry = self.of.get(&at.0).and_then(|groups| groups.iter().find(|(of, _)| *of == cause));
        if let Some(members) = entry.and_then(|entry| self.members.get_mut(entry)) {
            members.wait = wait;
        }
    }

    /// Whether a pod is in a group.
    pub(crate) fn have(&self, at: PodIx) -> bool {
        self.of.contains_key(&at.0)
    }
}

/// Pods that leave with a pod.
pub(crate) enum Party {
    /// None: it leaves alone.
    None,
    /// These, and all of them can.
    Others(Vec<PodIx>),
    /// Not all of them can leave yet.
    Waits(Text),
}

fn reason_of(slot: &Slot, cause: u32) -> Option<&Reason> {
    slot.reasons.iter().find(|reason| reason.cause_ix == cause)
}

impl Eviction {
    /// Keeps the groups of a pod: those of its reasons, as it is now. Pods that waited for it in a group that it leaves are looked at again.
    pub(crate) fn regroup(&mut self, now: Timestamp, at: PodIx) {
        let slot = self.pods.get(at);
        let mut groups: Vec<(u32, GroupKey)> = Vec::new();
        for reason in slot.map_or(&[][..], |slot| &slot.reasons) {
            if reason.cause.is_together()
                && let Some(key) = slot.and_then(|slot| GroupKey::of(&slot.pod))
                && !groups.iter().any(|(cause, _)| *cause == reason.cause_ix)
            {
                groups.push((reason.cause_ix, key));
            }
        }
        if groups.is_empty() && !self.groups.of.contains_key(&at.0) {
            return;
        }
        let old = self.groups.of.remove(&at.0).unwrap_or_default();
        for entry in old.into_iter().filter(|entry| !groups.contains(entry)) {
            let Some(members) =
                invariant!(self.groups.members.get_mut(&entry), "a group that a pod belongs to has members")
            else {
                continue;
            };
            members.pods.remove(&at.0);
            let waits = core::mem::take(&mut members.wait);
            let rest = members.pods.iter().filter(|_| waits).map(|at| PodIx(*at)).collect::<Vec<_>>();
            if members.pods.is_empty() {
                self.groups.members.remove(&entry);
            }
            rest.into_iter().for_each(|at| self.release_from_group(now, at));
        }
        for entry in &groups {
            self.groups.members.entry(entry.clone()).or_default().pods.insert(at.0);
        }
        if !groups.is_empty() {
            self.groups.of.insert(at.0, groups);
        }
    }

    /// The pods that leave together with this one, or the reason why they wait.
    pub(crate) fn party(&mut self, now: Timestamp, fleet: &Fleet, candidate: Candidate) -> Party {
        let Some(cause) = candidate.line else { return Party::None };
        let Some(members) = self.groups.members(cause, candidate.pod) else { return Party::None };
        let others: Vec<PodIx> =
            members.iter().map(|at| PodIx(*at)).filter(|at| *at != candidate.pod).collect();
        // Whose time is over waits for nobody.
        let is_overdue = self.pods.get(candidate.pod).is_some_and(|slot| {
            let mut ends = slot.reasons.iter().filter_map(|reason| slot.must_be_gone_by(reason));
            ends.any(|end| end <= now)
        });
        let mut leaving = Vec::new();
        for at in others {
            match self.waits_for(now, fleet, cause, at) {
                Ok(true) => leaving.push(at),
                Ok(false) => {}
                // The group stays: those of it whose time is over leave one by one.
                Err(_) if is_overdue => return Party::None,
                Err(message) => return Party::Waits(message),
            }
        }
        match self.most_at_once(cause) {
            // A group that can never leave whole leaves one by one once its time is over.
            Some(most) if leaving.len() >= most && is_overdue => Party::None,
            Some(most) if leaving.len() >= most => {
                let size = leaving.len() + 1;
                Party::Waits(format!("the group has {size} pods, and maxConcurrent is {most}").into())
            }
            Some(_) | None => Party::Others(leaving),
        }
    }

    /// How many pods may be terminating at a time because of a cause.
    fn most_at_once(&self, cause: u32) -> Option<usize> {
        Some(self.causes.get(cause)?.cause.taint.eviction.as_ref()?.max_concurrent? as usize)
    }

    /// For how many pods there must be room and permits for this one to be looked at: for all that leave with it. A group that can never leave
    /// whole is looked at when there is room for one, to say so.
    pub(crate) fn party_size(&self, cause: u32, at: u32) -> usize {
        let Some(members) = self.groups.members(cause, PodIx(at)) else { return 1 };
        let waits = |at: &&u32| self.pods.get(PodIx(**at)).is_some_and(|slot| slot.phase == Phase::Waiting);
        let size = members.iter().filter(waits).count().max(1);
        if self.most_at_once(cause).is_some_and(|most| size > most) { 1 } else { size }
    }

    /// Whether another pod of a group leaves with those that can; false: it is on its way already.
    fn waits_for(&mut self, now: Timestamp, fleet: &Fleet, cause: u32, at: PodIx) -> Result<bool, Text> {
        let Some(slot) = self.pods.get(at).filter(|slot| slot.phase == Phase::Waiting) else {
            return Ok(false);
        };
        let Some(reason) = invariant!(reason_of(slot, cause), "a member of a group leaves for its cause")
        else {
            return Ok(false);
        };
        let key = &slot.pod.key;
        // The reason that kept it before its reasons changed may not apply any more.
        let is_kept = slot.not_before.is_some_and(|until| until > now);
        let by = slot.blocked.as_ref().filter(|_| is_kept).map(|blocked| blocked.why);
        let by = by.filter(|why| *why != Block::Group);
        let fails = slot.blocked.is_none() && is_kept;
        if let Some(why) = by {
            return Err(format!("pod {key} of the group is not evicted: {}", why.name()).into());
        }
        if reason.deadline > now || fails || slot.held_until.is_some_and(|until| until > now) {
            return Err(format!("pod {key} of the group need not leave yet").into());
        }
        let (message, member) = (format!("pod {key} of the group is not evicted: "), at);
        if !self.is_named(now, member) {
            return Err(format!("{message}the rule's status does not name it yet").into());
        }
        // The candidate may have a reason that needs no window.
        if let Some(until) = self.closed_until(now, member) {
            let blocked = Blocked { why: Block::Window, message: NO_WINDOW.into() };
            self.block(now, member, blocked, until);
            return Err(format!("{message}{}", Block::Window.name()).into());
        }
        let candidate = Candidate { pod: member, pace: None, line: Some(cause) };
        if !self.guards.is_empty()
            && let Some((blocked, until)) = self.guarded(now, fleet, candidate)
        {
            let message = format!("{message}{}", blocked.why.name());
            self.block(now, member, blocked, until);
            return Err(message.into());
        }
        self.note_permitted(now, member);
        Ok(true)
    }

    /// All pods of a group that are due wait for the same. One that is due for other reasons, too, may leave for those.
    pub(crate) fn block_party(&mut self, now: Timestamp, candidate: Candidate, message: &Text) {
        let Some(cause) = invariant!(candidate.line, "a candidate of a group waits in a line") else {
            return;
        };
        let members = self.groups.members(cause, candidate.pod);
        let members: Vec<PodIx> = members.into_iter().flatten().map(|at| PodIx(*at)).collect();
        self.groups.set_waiting(cause, candidate.pod, true);
        for at in members {
            let Some(slot) = self.pods.get(at).filter(|slot| slot.phase == Phase::Waiting) else { continue };
            let is_due = reason_of(slot, cause).is_some_and(|reason| reason.deadline <= now);
            // Those that wait in line; others have a reason of their own, or have none yet.
            if slot.active == 0 || !is_due {
                continue;
            }
            let active = &slot.reasons[..slot.active as usize];
            if active.iter().any(|reason| reason.cause_ix != cause && !reason.cause.is_together()) {
                self.lines.leave(cause, at);
                continue;
            }
            let ends = slot.reasons.iter().filter_map(|reason| slot.must_be_gone_by(reason));
            let later = ends.chain(slot.reasons.iter().map(|reason| reason.deadline));
            let until = later.filter(|end| *end > now).min().unwrap_or(Timestamp::NEVER);
            self.block(now, at, Blocked { why: Block::Group, message: message.clone() }, until);
        }
    }

    /// A pod that waits for its group waits in line again.
    pub(crate) fn release_from_group(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = self.pods.get(at).filter(|slot| slot.phase == Phase::Waiting) else { return };
        match slot.blocked.as_ref().map(|blocked| blocked.why) {
            Some(Block::Group) => {
                self.unblock(at);
                if let Some(slot) = self.pods.get_mut(at) {
                    slot.not_before = None;
                }
            }
            Some(_) => return,
            None => self.unschedule(at, now),
        }
        self.schedule(at, now);
    }
}
