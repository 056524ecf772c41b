//! What is left of a pool's shared counters, and which groups of devices draw from each set.

use alloc::vec::Vec;
use core::ops::Range;

use lazaret_fleet::DeviceRef;
use lazaret_model::{AttrNames, CounterConsumption, Quantity, Text};

use crate::view::{PoolView, is_allocated};

/// The counters of one pool while devices are being tried.
pub(crate) struct PoolCounters<'a> {
    sets: Vec<Set<'a>>,
    /// Of each counter of each set: what nobody has taken yet. May be less than nothing.
    left: Vec<Quantity>,
    names: Vec<&'a Text>,
    /// How many are less than nothing: while there are any, nothing more can be taken from the pool.
    short: usize,
}

struct Set<'a> {
    name: &'a Text,
    counters: Range<usize>,
    members: Members<'a>,
}

/// The compatibility groups of the devices that draw from a set.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Members<'a> {
    Nobody,
    /// Devices of no group: only more of these can join.
    Ungrouped,
    /// Devices that have these groups in common.
    Grouped(Vec<&'a Text>),
}

/// Why a device cannot draw from its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Counter { set: Text, counter: Text },
    Group { set: Text },
}

/// What undoing needs to know about groups: the members before, by set.
pub(crate) type GroupsBefore<'a> = Vec<(usize, MembersBefore<'a>)>;
pub(crate) struct MembersBefore<'a>(Members<'a>);

impl<'a> PoolCounters<'a> {
    /// The counters of a pool, less what allocated devices take, on this node or elsewhere.
    pub(crate) fn new(pool: &PoolView<'a>, names: &'a AttrNames) -> Self {
        let mut counters = Self { sets: Vec::new(), left: Vec::new(), names: Vec::new(), short: 0 };
        for set in pool.counters.iter().flat_map(|slice| slice.shared_counters()) {
            let start = counters.left.len();
            counters.left.extend(set.counters.iter().map(|(_, value)| value.clone()));
            counters.names.extend(set.counters.iter().map(|(name, _)| name));
            let range = start..counters.left.len();
            counters.sets.push(Set { name: &set.name, counters: range, members: Members::Nobody });
        }
        let mut last = 0;
        for slice in pool.slices.iter().chain(&pool.elsewhere) {
            for device in slice.devices(names).filter(|device| is_allocated(*device, pool)) {
                last = counters.seed(device.consumes_counters(), last);
            }
        }
        counters.short = counters.left.iter().filter(|left| left.is_negative()).count();
        counters
    }

    /// Takes what an allocated device has. Neighbours mostly draw from the same set: `last` is where to look first.
    fn seed(&mut self, consumed: &'a [CounterConsumption], mut last: usize) -> usize {
        for consumption in consumed {
            if self.sets.get(last).is_none_or(|set| *set.name != consumption.counter_set) {
                let Some(set) = self.set(&consumption.counter_set) else { continue };
                last = set;
            }
            for (name, amount) in &consumption.counters {
                if let Some(at) = self.counter(last, name) {
                    self.left[at] = self.left[at].sub(amount);
                }
            }
            let members = &mut self.sets[last].members;
            *members = members.with(&consumption.compatibility_groups);
        }
        last
    }

    fn set(&self, name: &Text) -> Option<usize> {
        self.sets.iter().position(|set| set.name == name)
    }

    fn counter(&self, set: usize, name: &Text) -> Option<usize> {
        self.sets[set].counters.clone().find(|&at| self.names[at] == name)
    }

    /// Takes what a device needs, if it is there and the groups agree.
    pub(crate) fn take(&mut self, device: DeviceRef<'a>, groups: bool) -> Result<GroupsBefore<'a>, Refusal> {
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
    pub(crate) fn give_back(&mut self, device: DeviceRef<'a>, before: GroupsBefore<'a>) {
        self.charge(device.consumes_counters(), true);
        self.leave(before);
    }

    fn leave(&mut self, before: GroupsBefore<'a>) {
        for (set, members) in before.into_iter().rev() {
            self.sets[set].members = members.0;
        }
    }

    fn join(&mut self, consumed: &'a [CounterConsumption]) -> Result<GroupsBefore<'a>, Refusal> {
        let mut before: GroupsBefore<'a> = Vec::with_capacity(consumed.len());
        for consumption in consumed {
            let Some(set) = self.set(&consumption.counter_set) else { continue };
            let members = &mut self.sets[set].members;
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
            let Some(set) = self.set(&consumption.counter_set) else { continue };
            for (name, amount) in &consumption.counters {
                let Some(at) = self.counter(set, name) else { continue };
                let left = &mut self.left[at];
                self.short -= usize::from(left.is_negative());
                *left = if back { left.add(amount) } else { left.sub(amount) };
                self.short += usize::from(left.is_negative());
            }
        }
    }

    /// The counter that is short: one of the device's own if possible.
    fn shortage(&self, consumed: &[CounterConsumption]) -> Refusal {
        let is_own = |set: &Set<'_>| consumed.iter().any(|consumption| consumption.counter_set == *set.name);
        let all = self.sets.iter().flat_map(|set| set.counters.clone().map(move |at| (set, at)));
        let short = all.filter(|(_, at)| self.left[*at].is_negative());
        match short.max_by_key(|(set, at)| (is_own(set), core::cmp::Reverse(*at))) {
            Some((set, at)) => Refusal::Counter { set: set.name.clone(), counter: self.names[at].clone() },
            None => Refusal::Counter { set: Text::default(), counter: Text::default() },
        }
    }
}

impl<'a> Members<'a> {
    fn admits(&self, groups: &[Text]) -> bool {
        match self {
            Self::Nobody => true,
            Self::Ungrouped => groups.is_empty(),
            Self::Grouped(common) => common.iter().any(|group| groups.contains(group)),
        }
    }

    /// With one more device. Devices that should not be together (a slice changed under them) change nothing.
    fn with(&self, groups: &'a [Text]) -> Self {
        match self {
            Self::Nobody if groups.is_empty() => Self::Ungrouped,
            Self::Nobody => Self::Grouped(groups.iter().collect()),
            Self::Ungrouped => Self::Ungrouped,
            Self::Grouped(common) if groups.is_empty() => Self::Grouped(common.clone()),
            Self::Grouped(common) => {
                Self::Grouped(common.iter().copied().filter(|group| groups.contains(*group)).collect())
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
