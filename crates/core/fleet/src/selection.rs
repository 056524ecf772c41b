//! The devices that a selector selects, and the pods that use them.

use alloc::{borrow::Cow, collections::BTreeMap};

use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, DeviceSelector, Text};

use crate::{
    ClaimIx, DeviceRef, Fleet, Presence, Problem,
    bits::DeviceBits,
    claim_entry::{Holder, Place},
    selector::{Compiled, Hits},
    slice_entry::SliceEntry,
};

/// The devices that a rule, or any selector, selects right now.
#[derive(Clone, Debug)]
pub struct Selection<'a> {
    fleet: &'a Fleet,
    compiled: Cow<'a, Compiled>,
    hits: Cow<'a, BTreeMap<u32, Hits>>,
}

/// An allocation result whose device is selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedResult<'a> {
    /// The claim.
    pub claim: ClaimIx,
    /// Position among its allocation results.
    pub result: usize,
    /// The device's name in its pool.
    pub device: &'a Text,
    /// From where the device is known.
    pub presence: Presence,
    /// Selected by attributes that are remembered.
    pub from_memory: bool,
}

impl<'a> Selection<'a> {
    /// How many published devices there are. Costs the slices that have any, not the devices.
    #[must_use]
    pub fn published_count(&self) -> usize {
        self.published_bits().map(|(_, bits)| bits.len()).sum()
    }

    /// The published devices, each once, in no order that means anything.
    pub fn published(&self) -> impl Iterator<Item = DeviceRef<'a>> {
        let names = self.fleet.vocabulary.names();
        let devices = self.published_bits().flat_map(|(entry, bits)| bits.iter().map(move |at| (entry, at)));
        devices.map(move |(entry, at)| entry.state.device(names, at))
    }

    /// The results of claims that hold a selected device, published or not.
    pub fn held(&self) -> impl Iterator<Item = SelectedResult<'a>> {
        let by_attributes = self.compiled.by_attributes();
        self.held_devices().flat_map(move |(presence, holder)| {
            let from_memory = by_attributes && presence == Presence::Remembered;
            let device = &holder.device;
            holder.results.iter().map(move |(claim, result)| SelectedResult {
                claim: ClaimIx(*claim),
                result: *result as usize,
                device,
                presence,
                from_memory,
            })
        })
    }

    /// How many of those results are selected by attributes that are remembered. Costs the slices that have any device,
    /// not the devices.
    #[must_use]
    pub fn from_memory_count(&self) -> usize {
        if !self.compiled.by_attributes() {
            return 0;
        }
        let remembered = self.held_devices_in(|entry| entry.state.head.presence == Presence::Remembered);
        remembered.map(|(_, holder)| holder.results.len()).sum()
    }

    /// The held devices that are selected although no slice has them.
    pub fn unpublished(&self) -> impl Iterator<Item = (DeviceId, Presence)> {
        let fleet = self.fleet;
        self.held_devices().filter(|(presence, _)| *presence != Presence::Published).filter_map(
            move |(presence, holder)| {
                let pool = &fleet.pools.get(holder.pool)?.id;
                let id = DeviceId {
                    driver: pool.driver.clone(),
                    pool: pool.pool.clone(),
                    device: holder.device.clone(),
                };
                Some((id, presence))
            },
        )
    }

    /// The devices of which it is not known whether they are selected: an expression failed on them.
    pub fn failed(&self) -> impl Iterator<Item = DeviceId> {
        let failed = self.hits.iter().filter(|(_, hits)| !hits.failed.is_empty());
        failed.flat_map(move |(slice, hits)| {
            let entry = self.fleet.slices.get(*slice);
            let is_current = |entry: &&SliceEntry| {
                let pool = self.fleet.pools.get(entry.pool);
                entry.state.head.presence != Presence::Published
                    || pool.is_some_and(|pool| pool.views.shows(&entry.state.head))
            };
            let devices = entry.filter(is_current).into_iter();
            devices.flat_map(move |entry| hits.failed.iter().map(move |at| entry.state.device_id(at)))
        })
    }

    /// Why the selector does not, or not fully, do what it says.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.fleet.problem_of(&self.compiled, &self.hits)
    }

    fn entries(&self) -> impl Iterator<Item = (u32, &'a SliceEntry, DeviceBits)> {
        let fleet = self.fleet;
        self.hits
            .iter()
            .filter_map(move |(slice, hits)| Some((*slice, fleet.slices.get(*slice)?, hits.matched)))
    }

    /// For each published slice the selected devices for which it speaks.
    fn published_bits(&self) -> impl Iterator<Item = (&'a SliceEntry, DeviceBits)> {
        let fleet = self.fleet;
        self.entries().filter(|(_, entry, _)| entry.state.head.presence == Presence::Published).filter_map(
            move |(slice, entry, bits)| {
                let pool = fleet.pools.get(entry.pool)?;
                if !pool.views.shows(&entry.state.head) {
                    return None;
                }
                if pool.repeats == 0 && fleet.ghosts_of(entry.pool).next().is_none() {
                    return Some((entry, bits));
                }
                let speaks = |at: usize| bits.has(at) && fleet.speaks(slice, entry, at);
                Some((entry, (0..entry.state.len()).map(speaks).collect()))
            },
        )
    }

    fn held_devices(&self) -> impl Iterator<Item = (Presence, &'a Holder)> {
        self.held_devices_in(|_| true)
    }

    fn held_devices_in(
        &self,
        wanted: impl Fn(&SliceEntry) -> bool,
    ) -> impl Iterator<Item = (Presence, &'a Holder)> {
        let fleet = self.fleet;
        let entries = self.entries().filter(move |(_, entry, _)| wanted(entry));
        entries.flat_map(move |(slice, entry, bits)| {
            entry.held_among(bits).filter_map(move |(at, holder)| {
                let holder = fleet.holders.get(holder)?;
                let here = match holder.place {
                    Place::Published { slice: other, device } => other == slice && device == at,
                    Place::Ghost(ghost) => ghost == slice,
                };
                here.then_some((entry.state.head.presence, holder))
            })
        })
    }
}

impl Fleet {
    /// The devices that a rule selects, whatever its effect. Empty for a rule that does not exist. A lookup: nothing is evaluated.
    #[must_use]
    pub fn rule_selection(&self, name: &str) -> Selection<'_> {
        let state = self.rule_names.get(name).and_then(|ix| self.rules.get(*ix));
        match state {
            Some(state) => Selection {
                fleet: self,
                compiled: Cow::Borrowed(&state.compiled),
                hits: Cow::Borrowed(&state.hits),
            },
            None => Selection {
                fleet: self,
                compiled: Cow::Owned(self.compile(None)),
                hits: Cow::Owned(BTreeMap::new()),
            },
        }
    }

    /// The devices that a selector without a rule selects: for previews.
    #[must_use]
    pub fn selection_of(&self, selector: &DeviceSelector) -> Selection<'_> {
        let compiled = self.compile(Some(selector));
        let mut hits = BTreeMap::new();
        for slice in self.candidates(Some(selector)) {
            let Some(entry) = invariant!(self.slices.get(slice), "the number of a slice leads to it") else {
                continue;
            };
            let found = compiled.hits(&entry.state, self.vocabulary.names());
            if found != Hits::default() {
                hits.insert(slice, found);
            }
        }
        Selection { fleet: self, compiled: Cow::Owned(compiled), hits: Cow::Owned(hits) }
    }
}
