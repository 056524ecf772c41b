//! Reasons that keep a due eviction from beginning, and the pods that they keep.

use alloc::{boxed::Box, collections::BTreeSet, format, string::String, vec::Vec};
use core::fmt::Write as _;

use lazaret_fleet::PodIx;
use lazaret_invariant::invariant;
use lazaret_model::{ObjectKey, Pod, Text, Timestamp};

use crate::{
    Eviction,
    distinct::for_each_distinct,
    effect::{EffectKind, PodEvent},
    holds::Holds,
    pods::{Permit, Settled},
    status::EVICTION_BLOCKED,
};

/// A pod that is terminating and has no time left is said to be kept by a finalizer after this.
const FINALIZER_MS: i64 = 10_000;
/// Pods that a status names for each reason.
pub(crate) const NAMED_MAX: usize = 5;

/// A reason that keeps a due eviction from beginning. Of several, the first is the reason of a rule's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// The rule reaches more than a guard permits without approval.
    Held,
    /// A guard is paused.
    Paused,
    /// A guard's breaker is tripped: too many devices are out of service.
    Breaker,
    /// No window of the rule is open, or none of a guard.
    Window,
    /// There is no room for its replacement.
    Capacity,
    /// Other pods of its group cannot leave yet.
    Group,
    /// A disruption budget refuses.
    Budget,
    /// The server refuses: a policy, a webhook, or rights that are missing.
    Refused,
    /// A finalizer keeps a pod that was evicted.
    Finalizer,
}

impl Block {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Held,
        Self::Paused,
        Self::Breaker,
        Self::Window,
        Self::Capacity,
        Self::Group,
        Self::Budget,
        Self::Refused,
        Self::Finalizer,
    ];

    /// Whether deadlines do not count while it keeps a pod: a pod that may not be evicted is not late.
    fn stops_deadlines(self) -> bool {
        match self {
            Self::Held | Self::Paused | Self::Breaker | Self::Window => true,
            Self::Capacity | Self::Group | Self::Budget | Self::Refused | Self::Finalizer => false,
        }
    }

    /// The reason in conditions and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Held => "Held",
            Self::Paused => "Paused",
            Self::Breaker => "Breaker",
            Self::Window => "Window",
            Self::Capacity => "Capacity",
            Self::Group => "Group",
            Self::Budget => "Budget",
            Self::Refused => "Refused",
            Self::Finalizer => "Finalizer",
        }
    }
}

/// The message about a pod that should be gone by `now` and that a finalizer keeps; `None` if none keeps it, or it has time.
#[must_use]
pub fn kept_by_finalizer(pod: &Pod, now: Timestamp) -> Option<Text> {
    let finalizer = pod.rare.as_ref()?.kept_by.as_ref()?;
    let due = pod.deleting_since?.plus_millis(FINALIZER_MS);
    (due <= now).then(|| finalizer_message(finalizer))
}

fn finalizer_message(finalizer: &str) -> Text {
    format!("its finalizer {finalizer} is not removed by the program that set it").into()
}

/// How many pods are kept, by what keeps them, in the order of [`Block::ALL`].
pub type BlockCounts = [u64; Block::ALL.len()];

/// The reason that keeps one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    pub(crate) why: Block,
    /// For people: the message of the guard, budget or scheduler that refuses.
    pub(crate) message: Text,
}

/// All pods whose eviction is due and does not begin.
#[derive(Debug, Default)]
pub(crate) struct BlockedPods {
    pods: BTreeSet<u32>,
    counts: BlockCounts,
}

impl Eviction {
    /// How many pods are kept from being evicted, by what keeps them.
    #[must_use]
    pub fn blocked(&self) -> BlockCounts {
        let mut counts = self.blocked.counts;
        // Most pods of a rule that is held have no reason to leave: its taint is gone.
        counts[Block::Held as usize] = self.holds.pods();
        counts
    }

    /// The pods that are kept from being evicted, what keeps each, and why in words for people.
    pub fn kept(&self) -> impl Iterator<Item = (&ObjectKey, Block, &Text)> {
        self.blocked.pods.iter().filter_map(|at| {
            let slot = self.pods.get(PodIx(*at))?;
            let blocked = slot.blocked.as_deref()?;
            Some((&slot.pod.key, blocked.why, &blocked.message))
        })
    }

    /// The message of a rule's condition about pods whose eviction is blocked; `None` if none is.
    #[must_use]
    pub fn what_blocks(&self, rule: &str) -> Option<String> {
        let at = self.rules.by_name(rule)?;
        self.rules.get(at)?.blocked_by()?;
        Some(self.describe_blocked(at))
    }

    /// The eviction of this pod is tried again at `until`, or when what keeps it changes.
    pub(crate) fn block(&mut self, now: Timestamp, at: PodIx, blocked: Blocked, until: Timestamp) {
        self.unschedule(at, now);
        let blocked_by = blocked.why;
        let known = self.pods.get(at).and_then(|slot| slot.blocked.as_ref());
        if known.is_none_or(|known| **known != blocked) {
            if matches!(blocked_by, Block::Budget | Block::Refused) {
                say_kept(self, at, "Not evicted", &blocked.message);
            }
            self.unblock(at);
            self.set_blocked(at, Some(Box::new(blocked)));
        }
        let is_kept = blocked_by.stops_deadlines();
        if let Some(slot) = self.pods.get_mut(at) {
            slot.not_before = Some(until);
            if is_kept {
                slot.keep(now);
            }
        }
        self.schedule(at, now);
    }

    /// Guards and windows let this pod leave.
    pub(crate) fn note_permitted(&mut self, now: Timestamp, at: PodIx) {
        if let Some(slot) = self.pods.get_mut(at)
            && let Permit::Kept(before) = slot.permit
        {
            slot.permit = Permit::Since(now, before);
        }
    }

    /// Nothing keeps this pod any more. Returns what did.
    pub(crate) fn unblock(&mut self, at: PodIx) -> Option<Box<Blocked>> {
        if !self.blocked.pods.remove(&at.0) {
            return None;
        }
        let blocked = self.pods.get_mut(at)?.blocked.take()?;
        self.blocked.counts[blocked.why as usize] -= 1;
        self.count_blocked(at, blocked.why, false);
        Some(blocked)
    }

    pub(crate) fn set_blocked(&mut self, at: PodIx, blocked: Option<Box<Blocked>>) {
        let (Some(slot), Some(blocked)) = (self.pods.get_mut(at), blocked) else { return };
        let why = blocked.why;
        slot.blocked = Some(blocked);
        self.blocked.pods.insert(at.0);
        self.blocked.counts[why as usize] += 1;
        self.count_blocked(at, why, true);
    }

    /// Keeps the counts of the pod's rules.
    fn count_blocked(&mut self, at: PodIx, why: Block, more: bool) {
        let Some(slot) = invariant!(self.pods.get(at), "a pod that is blocked has a slot") else { return };
        let (causes, rules) = (&self.causes, &mut self.rules);
        if why == Block::Finalizer {
            // It has left, and has no reasons any more.
            let evicted_by = slot.settled.iter().flat_map(Settled::rules);
            // A rule may be gone before its pods are.
            for rule in evicted_by {
                if rules.get(rule).is_some() {
                    rules.count_blocked(rule, why, more);
                }
            }
            return;
        }
        for_each_distinct(slot.reasons.iter().map(|reason| reason.cause_ix), |cause| {
            if let Some(rule) = causes.get(cause).and_then(|state| state.rule) {
                rules.count_blocked(rule, why, more);
            }
        });
    }

    /// A pod that was evicted is kept by a finalizer, or not any more. Most are kept for a moment: by a Job, which counts them.
    pub(crate) fn mind_finalizer(&mut self, now: Timestamp, at: PodIx) {
        let Some(slot) = self.pods.get(at).filter(|slot| slot.settled.is_some()) else { return };
        let finalizer = slot.pod.rare.as_ref().and_then(|rare| rare.kept_by.clone());
        let Some(finalizer) = finalizer.filter(|_| self.leader_since.is_some()) else {
            self.unblock(at);
            return self.pods.set_timer(at, None);
        };
        let due = slot.pod.deleting_since.map(|since| since.plus_millis(FINALIZER_MS));
        if let Some(due) = due.filter(|due| *due > now) {
            return self.pods.set_timer(at, Some(due));
        }
        if slot.blocked.is_none() {
            let message = finalizer_message(&finalizer);
            say_kept(self, at, "Not gone", &message);
            self.set_blocked(at, Some(Box::new(Blocked { why: Block::Finalizer, message })));
        }
    }

    /// Pods that guards keep are looked at again.
    pub(crate) fn release_guarded(&mut self, now: Timestamp) {
        let by_guard = |at: &&u32| {
            let blocked = self.pods.get(PodIx(**at)).and_then(|slot| slot.blocked.as_ref());
            blocked.is_some_and(|blocked| {
                !matches!(blocked.why, Block::Budget | Block::Refused | Block::Finalizer | Block::Capacity)
            })
        };
        for at in self.blocked.pods.iter().filter(by_guard).map(|at| PodIx(*at)).collect::<Vec<PodIx>>() {
            self.unblock(at);
            if let Some(slot) = self.pods.get_mut(at) {
                slot.not_before = None;
            }
            self.schedule(at, now);
        }
    }

    /// Pods that are kept for one reason.
    pub(crate) fn kept_by(&self, why: Block) -> Vec<PodIx> {
        if self.blocked.counts[why as usize] == 0 {
            return Vec::new();
        }
        let is_it = |at: &&u32| {
            let blocked = self.pods.get(PodIx(**at)).and_then(|slot| slot.blocked.as_ref());
            blocked.is_some_and(|blocked| blocked.why == why)
        };
        self.blocked.pods.iter().filter(is_it).map(|at| PodIx(*at)).collect()
    }

    /// A follower blocks no pod.
    pub(crate) fn forget_blocked(&mut self) {
        for at in core::mem::take(&mut self.blocked.pods) {
            if let Some(slot) = self.pods.get_mut(PodIx(at)) {
                slot.blocked = None;
            }
        }
        self.blocked.counts = BlockCounts::default();
        self.rules.forget_blocked();
        self.holds = Holds::default();
    }

    /// The message about a rule's blocked pods: for each reason the number of pods, the first of them by name, and why.
    pub(crate) fn describe_blocked(&self, rule: u32) -> String {
        if let Some(held) = self.rules.get(rule).and_then(|state| state.held.as_deref()) {
            return held.describe();
        }
        let mut kept: [Kept<'_>; Block::ALL.len()] = core::array::from_fn(|_| Kept::default());
        for at in &self.blocked.pods {
            let Some(slot) = invariant!(self.pods.get(PodIx(*at)), "a pod that is blocked has a slot") else {
                continue;
            };
            let Some(blocked) = invariant!(&slot.blocked, "a pod among the blocked ones has a reason") else {
                continue;
            };
            let of_rule = |cause: u32| self.causes.get(cause).is_some_and(|state| state.rule == Some(rule));
            let evicted_by = |settled: &Settled| settled.rules().any(|evicted_by| evicted_by == rule);
            let is_evicted = blocked.why == Block::Finalizer && slot.settled.as_ref().is_some_and(evicted_by);
            if is_evicted || slot.reasons.iter().any(|reason| of_rule(reason.cause_ix)) {
                kept[blocked.why as usize].add(&slot.pod.key, &blocked.message);
            }
        }
        let mut text = String::new();
        for (why, kept) in Block::ALL.into_iter().zip(kept) {
            kept.describe(why, &mut text);
        }
        text
    }
}

/// Says with the pod what keeps it, unless a rule makes it leave: then the rule says so.
fn say_kept(eviction: &mut Eviction, at: PodIx, what: &str, why: &str) {
    let Some(slot) = eviction.pods.get(at) else { return };
    let rule_of = |cause: u32| eviction.causes.get(cause).and_then(|state| state.rule);
    let evicted_by = slot.settled.iter().flat_map(Settled::rules);
    let rules = slot.reasons.iter().filter_map(|reason| rule_of(reason.cause_ix)).chain(evicted_by);
    if rules.count() > 0 {
        return;
    }
    let message = format!("{what}: {}.", why.trim_end_matches('.')).into();
    let (pod, uid) = (slot.pod.key.clone(), slot.pod.uid.clone());
    let event = PodEvent { pod, uid, reason: EVICTION_BLOCKED, message };
    let queued_max = eviction.options.events_queued_max;
    eviction.flights.announce(EffectKind::Event(event), queued_max);
}

/// Pods that are kept for one reason.
#[derive(Default)]
struct Kept<'a> {
    count: u64,
    /// The first ones by name.
    named: Vec<(&'a ObjectKey, &'a Text)>,
}

impl<'a> Kept<'a> {
    fn add(&mut self, pod: &'a ObjectKey, message: &'a Text) {
        self.count += 1;
        let place = self.named.partition_point(|(known, _)| *known < pod);
        if place < NAMED_MAX {
            self.named.truncate(NAMED_MAX - 1);
            self.named.insert(place, (pod, message));
        }
    }

    fn describe(&self, why: Block, text: &mut String) {
        let Some((_, message)) = self.named.first() else { return };
        let space = if text.is_empty() { "" } else { " " };
        let pods = if self.count == 1 { "pod" } else { "pods" };
        let not = if why == Block::Finalizer { "not gone" } else { "not evicted" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{space}{}: {} {pods} {not} (", why.name(), self.count);
        for (i, (pod, _)) in self.named.iter().enumerate() {
            let _ = write!(text, "{}{pod}", if i == 0 { "" } else { ", " });
        }
        if self.count > self.named.len() as u64 {
            let _ = write!(text, " and {} more", self.count - self.named.len() as u64);
        }
        let _ = write!(text, "): {}.", message.trim_end_matches('.'));
    }
}
