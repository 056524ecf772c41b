//! The queries of a fleet.

use alloc::{sync::Arc, vec, vec::Vec};

use lazaret_model::{
    AttrNames, DeviceId, DeviceResult, DeviceTaintRule, ObjectKey, Pod, ResourceClaim, ResourceSlicePatch,
};

use crate::{
    ClaimIx, DeviceRef, EffectiveTaint, Fleet, PodIx, Presence, Problem, SliceState, Taints,
    claim_entry::results,
    patch::PatchState,
    rule::RuleState,
    selector::{Compiled, Verdict},
    source::{Source, same_slot},
};

/// One device that a claim holds.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// Position among the claim's allocation results.
    pub result: usize,
    /// The result.
    pub result_ref: &'a DeviceResult,
    /// The device.
    pub device: &'a DeviceId,
    /// From where it is known.
    pub presence: Presence,
    slice: &'a SliceState,
    index: usize,
}

impl<'a> Held<'a> {
    /// The device's effective taints, in the order of [`DeviceRef::taints`].
    #[must_use]
    pub fn taints(&self) -> Taints<'a> {
        Taints::of(self.slice, self.index)
    }
}

/// A rule, and what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct RuleView<'a> {
    /// The rule.
    pub rule: &'a Arc<DeviceTaintRule>,
    fleet: &'a Fleet,
    state: &'a RuleState,
}

impl RuleView<'_> {
    /// Why it does not, or not fully, do what it says.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.fleet.problem_of(&self.state.compiled, &self.state.hits)
    }
}

/// A patch, and what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct PatchView<'a> {
    /// The patch.
    pub patch: &'a Arc<ResourceSlicePatch>,
    fleet: &'a Fleet,
    state: &'a PatchState,
}

impl PatchView<'_> {
    /// Why it does not, or not fully, do what it says.
    #[must_use]
    pub fn problem(&self) -> Option<Problem> {
        self.fleet.problem_of(&self.state.compiled, &self.state.hits)
    }
}

/// See [`Fleet::effective_taints`].
#[derive(Clone, Debug)]
pub struct EffectiveTaints<'a>(Taken<'a>);

#[derive(Clone, Debug)]
enum Taken<'a> {
    Known(Taints<'a>),
    ByName(vec::IntoIter<EffectiveTaint<'a>>),
}

impl<'a> Iterator for EffectiveTaints<'a> {
    type Item = EffectiveTaint<'a>;

    fn next(&mut self) -> Option<EffectiveTaint<'a>> {
        match &mut self.0 {
            Taken::Known(taints) => taints.next(),
            Taken::ByName(taints) => taints.next(),
        }
    }
}

impl Fleet {
    /// The revision: raised by each input that changed something.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The names of attributes and capacities that occur.
    #[must_use]
    pub fn names(&self) -> &AttrNames {
        self.vocabulary.names()
    }

    /// The number of a claim.
    #[must_use]
    pub fn claim_ix(&self, key: &ObjectKey) -> Option<ClaimIx> {
        self.claim_names.claim(key).map(ClaimIx)
    }

    /// The number of a pod.
    #[must_use]
    pub fn pod_ix(&self, key: &ObjectKey) -> Option<PodIx> {
        self.pod_ix_of(key).map(PodIx)
    }

    /// The claim behind a number, unless it is gone.
    #[must_use]
    pub fn claim(&self, claim: ClaimIx) -> Option<&Arc<ResourceClaim>> {
        self.claims.get(claim.0).map(|entry| &entry.claim)
    }

    /// The pod behind a number, unless it is gone.
    #[must_use]
    pub fn pod(&self, pod: PodIx) -> Option<&Arc<Pod>> {
        self.pods.get(pod.0).map(|entry| &entry.pod)
    }

    /// All claims, by number.
    pub fn claims(&self) -> impl Iterator<Item = (ClaimIx, &Arc<ResourceClaim>)> {
        self.claims.iter().map(|(ix, entry)| (ClaimIx(ix), &entry.claim))
    }

    /// All pods, by number.
    pub fn pods(&self) -> impl Iterator<Item = (PodIx, &Arc<Pod>)> {
        self.pods.iter().map(|(ix, entry)| (PodIx(ix), &entry.pod))
    }

    /// The devices that a claim holds, in the order of its allocation results.
    #[inline]
    pub fn held(&self, claim: ClaimIx) -> impl Iterator<Item = Held<'_>> {
        let entry = self.claims.get(claim.0);
        let (results, holders) =
            entry.map_or((&[][..], &[][..]), |entry| (results(&entry.claim), &*entry.holders));
        results.iter().zip(holders).enumerate().filter_map(|(result, (result_ref, holder))| {
            let (slice, index) = self.state_at(self.holders.get(*holder)?.place)?;
            let device = &result_ref.device;
            Some(Held { result, result_ref, device, presence: slice.head.presence, slice, index })
        })
    }

    /// The pods that use a claim: they name it, may have it, and it is allocated and reserved for them. Whether they
    /// are scheduled, finished or terminating is not looked at.
    #[inline]
    pub fn pods_of_claim(&self, claim: ClaimIx) -> impl Iterator<Item = PodIx> {
        self.claims.get(claim.0).map_or(&[][..], |entry| &entry.pods).iter().copied().map(PodIx)
    }

    /// The claims that a pod uses: [`Fleet::pods_of_claim`] the other way round.
    #[inline]
    pub fn claims_of_pod(&self, pod: PodIx) -> impl Iterator<Item = ClaimIx> {
        self.pods.get(pod.0).map_or(&[][..], |entry| &entry.claims).iter().copied().map(ClaimIx)
    }

    /// Whether a device of the [claims of a pod](Self::claims_of_pod) may have taints. Mostly none has, and to know that
    /// costs less than to walk over them.
    #[must_use]
    pub fn uses_tainted(&self, pod: PodIx) -> bool {
        let may_be = |holder: &u32| {
            let place = self.holders.get(*holder).map(|holder| holder.place);
            place.and_then(|place| self.state_at(place)).is_some_and(|(slice, device)| {
                !slice.own.is_empty() || slice.marks.iter().any(|mark| mark.bits.has(device))
            })
        };
        let claims = self.pods.get(pod.0).map_or(&[][..], |entry| &entry.claims);
        claims
            .iter()
            .any(|claim| self.claims.get(*claim).is_some_and(|entry| entry.holders.iter().any(may_be)))
    }

    /// The claims that hold a device, for monitoring too.
    pub fn holders(&self, device: &DeviceId) -> impl Iterator<Item = ClaimIx> {
        let pool = self.pool_ix(&device.driver, &device.pool);
        let holder = pool.and_then(|pool| self.holders.get(self.holder_ix(pool, &device.device)?));
        let results = holder.map_or(&[][..], |holder| &*holder.results);
        let mut last = None;
        results
            .iter()
            .filter_map(move |(claim, _)| (last.replace(*claim) != Some(*claim)).then_some(ClaimIx(*claim)))
    }

    /// A device as a slice has it now.
    #[must_use]
    pub fn device(&self, id: &DeviceId) -> Option<DeviceRef<'_>> {
        let found = self.published(id)?;
        Some(found.entry.state.device(self.vocabulary.names(), found.at))
    }

    /// A rule.
    #[must_use]
    pub fn rule(&self, name: &str) -> Option<RuleView<'_>> {
        let state = self.rules.get(*self.rule_names.get(name)?)?;
        Some(RuleView { rule: &state.rule, fleet: self, state })
    }

    /// All rules by name.
    pub fn rules(&self) -> impl Iterator<Item = RuleView<'_>> {
        let states = self.rule_names.values().filter_map(|ix| self.rules.get(*ix));
        states.map(|state| RuleView { rule: &state.rule, fleet: self, state })
    }

    /// A patch.
    #[must_use]
    pub fn patch(&self, name: &str) -> Option<PatchView<'_>> {
        let state = self.patches.get(*self.patch_names.get(name)?)?;
        Some(PatchView { patch: &state.patch, fleet: self, state })
    }

    /// All patches by name.
    pub fn patches(&self) -> impl Iterator<Item = PatchView<'_>> {
        let states = self.patch_names.values().filter_map(|ix| self.patches.get(*ix));
        states.map(|state| PatchView { patch: &state.patch, fleet: self, state })
    }

    /// The taints that count for a device. One that no slice has and no claim holds has those of the patches and
    /// rules that mean it by name.
    #[must_use]
    pub fn effective_taints(&self, id: &DeviceId) -> EffectiveTaints<'_> {
        EffectiveTaints(match self.locate(id) {
            Some((slice, index)) => Taken::Known(Taints::of(slice, index)),
            None => Taken::ByName(self.taints_by_name(id).into_iter()),
        })
    }

    fn taints_by_name(&self, id: &DeviceId) -> Vec<EffectiveTaint<'_>> {
        let pool = id.pool_id();
        let means = |compiled: &Compiled| matches!(compiled.matches(&pool, &id.device, None), Verdict::Yes);
        let patches = self.patch_index.candidates_by_name(&pool, &id.device);
        let patches = patches.into_iter().filter_map(|patch| self.patches.get(patch));
        let patches =
            patches.filter(|state| means(&state.compiled)).filter_map(|state| state.source.as_deref());
        let rules = self.rule_index.candidates_by_name(&pool, &id.device);
        let rules = rules.into_iter().filter_map(|rule| self.rules.get(rule));
        let rules = rules.filter(|state| means(&state.compiled)).map(|state| &*state.source);
        let mut sources: Vec<&Source> = patches.chain(rules).collect();
        sources.sort_by(|a, b| a.order(b));
        let mut taints: Vec<EffectiveTaint<'_>> = Vec::new();
        for source in sources {
            for (index, taint) in (0..).zip(source.taints()) {
                let taken = matches!(source, Source::Patch { .. })
                    && taints.iter().any(|t| same_slot(t.taint, taint));
                if !taken {
                    taints.push(EffectiveTaint { taint, origin: source.origin(index, false) });
                }
            }
        }
        taints
    }
}
