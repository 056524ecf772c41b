//! The remaining shared counters of a pool, and which groups of devices draw from each set.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use lazaret_fleet::DeviceRef;
use lazaret_invariant::invariant;
use lazaret_model::{AttrNames, CounterConsumption, Quantity, Text};

use crate::view::PoolView;

/// The counters of one pool while devices are being tried. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct PoolCounters {
    layout: Arc<Layout>,
    /// Of each counter of each set: the amount that remains. May be negative.
    left: Vec<Quantity>,
    /// Of each set.
    members: Vec<Members>,
    /// How many are less than nothing: while there are any, nothing more can be taken from the pool.
    short: usize,
}

/// The names of the counters.
#[derive(Debug, Default)]
struct Layout {
    sets: Vec<Set>,
    names: Vec<Text>,
}

#[derive(Debug)]
struct Set {
    name: Text,
    counters: Range<usize>,
}

/// The compatibility groups of the devices that draw from a set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    Nobody,
    /// Devices of no group: only more of these can join.
    Ungrouped,
    /// Devices that have these groups in common.
    Grouped(Vec<Text>),
}

/// Why a device cannot draw from its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Counter { set: Text, counter: Text },
    Group { set: Text },
}

/// The members before a change, by set, for undoing it.
pub(crate) type GroupsBefore = Vec<(usize, MembersBefore)>;
pub(crate) struct MembersBefore(Members);

impl PoolCounters {
    /// The counters of a pool, less what the devices take that `counts`, on this node or elsewhere.
    pub(crate) fn new(
        pool: &PoolView<'_>,
        names: &AttrNames,
        counts: impl Fn(DeviceRef<'_>) -> bool,
    ) -> Self {
        let (mut layout, mut left) = (Layout::default(), Vec::new());
        for set in pool.counters.iter().flat_map(|slice| slice.shared_counters()) {
            let start = left.len();
            left.extend(set.counters.iter().map(|(_, value)| value.clone()));
            layout.names.extend(set.counters.iter().map(|(name, _)| name.clone()));
            layout.sets.push(Set { name: set.name.clone(), counters: start..left.len() });
        }
        let members = layout.sets.iter().map(|_| Members::Nobody).collect();
        let mut counters = Self { layout: Arc::new(layout), left, members, short: 0 };
        counters.seed(pool, names, counts);
        counters
    }

    /// Takes what devices that have been given out take, the groups being what they are.
    pub(crate) fn seed(
        &mut self,
        pool: &PoolView<'_>,
        names: &AttrNames,
        counts: impl Fn(DeviceRef<'_>) -> bool,
    ) {
        let mut last = 0;
        for slice in pool.slices.iter().chain(&pool.elsewhere) {
            for device in slice.devices(names).filter(|device| counts(*device)) {
                last = self.seed_one(device.consumes_counters(), last);
            }
        }
        self.short = self.left.iter().filter(|left| left.is_negative()).count();
    }

    /// Neighbours mostly draw from the same set: `last` is where to look first.
    fn seed_one(&mut self, consumed: &[CounterConsumption], mut last: usize) -> usize {
        for consumption in consumed {
            if self.layout.sets.get(last).is_none_or(|set| set.name != consumption.counter_set) {
                // Without partitionable devices a pool has no counters.
                let Some(set) = self.set(&consumption.counter_set) else { continue };
                last = set;
            }
            for (name, amount) in &consumption.counters {
                if let Some(at) = self.counter(last, name) {
                    self.left[at] = self.left[at].sub(amount);
                }
            }
            let members = &mut self.members[last];
            *members = members.with(&consumption.compatibility_groups);
        }
        last
    }

    /// How many counters there are.
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    fn set(&self, name: &Text) -> Option<usize> {
        self.layout.sets.iter().position(|set| set.name == *name)
    }

    fn counter(&self, set: usize, name: &Text) -> Option<usize> {
        self.layout.sets[set].counters.clone().find(|&at| self.layout.names[at] == *name)
    }

    /// Takes what a device needs, if it is there and the groups agree.
    pub(crate) fn take(&mut self, device: DeviceRef<'_>, groups: bool) -> Result<GroupsBefore, Refusal> {
        let consumed = device.consumes_counters();
        let before = if groups { self.join(consumed)? } else { Vec::new() };
        self.charge(consumed, false);
        if self.short == 0 {
            return Ok(before);
        }
        let refusal = self.shortage(consumed);
        self.give_back(device, before);
        Err(refusal)
    }

    /// Undoes the last [`Self::take`].
    pub(crate) fn give_back(&mut self, device: DeviceRef<'_>, before: GroupsBefore) {
        self.charge(device.consumes_counters(), true);
        self.leave(before);
    }

    fn leave(&mut self, before: GroupsBefore) {
        for (set, members) in before.into_iter().rev() {
            self.members[set] = members.0;
        }
    }

    fn join(&mut self, consumed: &[CounterConsumption]) -> Result<GroupsBefore, Refusal> {
        let mut before: GroupsBefore = Vec::with_capacity(consumed.len());
        for consumption in consumed {
            // Without partitionable devices a pool has no counters.
            let Some(set) = self.set(&consumption.counter_set) else { continue };
            let members = &mut self.members[set];
            if !members.admits(&consumption.compatibility_groups) {
                self.leave(before);
                return Err(Refusal::Group { set: consumption.counter_set.clone() });
            }
            let joined = members.with(&consumption.compatibility_groups);
            before.push((set, MembersBefore(core::mem::replace(members, joined))));
        }
        Ok(before)
    }

    fn charge(&mut self, consumed: &[CounterConsumption], back: bool) {
        for consumption in consumed {
            // Without partitionable devices a pool has no counters.
            let Some(set) = self.set(&consumption.counter_set) else { continue };
            for (name, amount) in &consumption.counters {
                let Some(at) = invariant!(
                    self.counter(set, name),
                    "a pool that lacks a counter of its devices is invalid"
                ) else {
                    continue;
                };
                let left = &mut self.left[at];
                self.short -= usize::from(left.is_negative());
                *left = if back { left.add(amount) } else { left.sub(amount) };
                self.short += usize::from(left.is_negative());
            }
        }
    }

    /// The counter that is short: one of the device's own if possible.
    fn shortage(&self, consumed: &[CounterConsumption]) -> Refusal {
        let is_own = |set: &Set| consumed.iter().any(|consumption| consumption.counter_set == set.name);
        let all = self.layout.sets.iter().flat_map(|set| set.counters.clone().map(move |at| (set, at)));
        let short = all.filter(|(_, at)| self.left[*at].is_negative());
        match short.max_by_key(|(set, at)| (is_own(set), core::cmp::Reverse(*at))) {
            Some((set, at)) => {
                Refusal::Counter { set: set.name.clone(), counter: self.layout.names[at].clone() }
            }
            None => Refusal::Counter { set: Text::default(), counter: Text::default() },
        }
    }
}

impl Members {
    fn admits(&self, groups: &[Text]) -> bool {
        match self {
            Self::Nobody => true,
            Self::Ungrouped => groups.is_empty(),
            Self::Grouped(common) => common.iter().any(|group| groups.contains(group)),
        }
    }

    /// With one more device. Devices that should not be together (a slice changed under them) change nothing.
    fn with(&self, groups: &[Text]) -> Self {
        match self {
            Self::Nobody if groups.is_empty() => Self::Ungrouped,
            Self::Nobody => Self::Grouped(groups.to_vec()),
            Self::Ungrouped => Self::Ungrouped,
            Self::Grouped(common) if groups.is_empty() => Self::Grouped(common.clone()),
            Self::Grouped(common) => {
                Self::Grouped(common.iter().filter(|group| groups.contains(group)).cloned().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<Text> {
        names.iter().map(|name| Text::from(*name)).collect()
    }

    #[test]
    fn groups_meet_or_refuse() {
        let (mig, both, none) = (texts(&["mig"]), texts(&["vgpu", "mig"]), texts(&[]));
        let vgpu = texts(&["vgpu"]);
        let nobody = Members::Nobody;
        assert!(nobody.admits(&none) && nobody.admits(&mig));
        let grouped = nobody.with(&both);
        assert!(grouped.admits(&mig) && grouped.admits(&vgpu) && !grouped.admits(&none));
        assert!(!grouped.with(&mig).admits(&vgpu));
        let ungrouped = nobody.with(&none);
        assert!(ungrouped.admits(&none) && !ungrouped.admits(&mig));
        assert_eq!(ungrouped.with(&mig), ungrouped);
    }
}
