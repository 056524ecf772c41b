//! Branches of the search that cannot succeed, recognised by counting.
//!
//! Kubernetes tries every combination. So may we skip whole branches only where it would find nothing in them, and
//! would not meet an error either: an error ends its search. Hence the analysis is made only when no device could
//! give one; otherwise the search goes on as Kubernetes would, within its budget.

use alloc::{
    boxed::Box,
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use lazaret_invariant::invariant;

use crate::{
    bits::Bits,
    constraint::Rule,
    meter::{Meter, units},
    plan::RequestPlan,
    search::SearchPosition,
    state::State,
    values::Values,
};

/// Bound on the remembered states that lead nowhere.
const FAILED_MAX: usize = 1 << 14;

/// Whether branches are skipped.
pub(crate) enum Pruning {
    /// Not before the first dead end.
    NotYet,
    /// Errors are possible, or it was asked for.
    Never,
    On(Box<Analysis>),
}

impl Pruning {
    pub(crate) fn of(state: &mut State<'_, '_>) -> Self {
        match Analysis::new(state) {
            Some(analysis) => Self::On(Box::new(analysis)),
            None => Self::Never,
        }
    }
}

/// A state from which nothing was found.
pub(crate) struct StateKey(Box<[u64]>);

/// The state is one of those from which nothing was found.
pub(crate) struct KnownToFail;

/// Properties of asks and devices that hold for every assignment.
pub(crate) struct Analysis {
    /// By ask: the devices that it could be given, if it were alone.
    viable: Vec<Bits>,
    /// Devices of the same kind can stand in for each other in every way.
    kinds: Vec<u32>,
    /// By column: the devices with a value.
    holders: Vec<BTreeMap<u32, Bits>>,
    /// By column: whether some device has a value that compares with none.
    odd: Vec<bool>,
    /// Devices that can be given out more than once.
    shareable: Bits,
    failed: HashSet<Box<[u64]>, FxBuildHasher>,
}

impl Analysis {
    /// `None` when an error could be met.
    pub(crate) fn new(state: &mut State<'_, '_>) -> Option<Self> {
        let (asks, slots) = (state.plan.asks.len(), state.view.slots.len());
        let mut viable = Vec::with_capacity(asks);
        for ask in 0..asks {
            viable.push(viable_devices(state, ask)?);
        }
        let columns = state.plan.columns.len();
        state.meter().spend(units((asks + columns).saturating_mul(slots)));
        let mut holders: Vec<BTreeMap<u32, Bits>> = (0..columns).map(|_| BTreeMap::new()).collect();
        let mut odd: Vec<bool> = (0..columns).map(|_| false).collect();
        for column in 0..columns {
            for slot in 0..slots {
                match state.known_values(column, slot) {
                    None | Some(Values::Missing) => {}
                    Some(Values::Odd) => odd[column] = true,
                    Some(values @ (Values::One(_) | Values::Many(_))) => {
                        for id in values.ids() {
                            holders[column].entry(*id).or_insert_with(|| Bits::empty(slots)).insert(slot);
                        }
                    }
                }
            }
        }
        let mut shareable = Bits::empty(slots);
        (0..slots).filter(|slot| state.is_shareable(*slot)).for_each(|slot| shareable.insert(slot));
        let kinds = kinds(state, &viable, &shareable);
        Some(Self { viable, kinds, holders, odd, shareable, failed: HashSet::default() })
    }

    /// The devices that an ask could be given, if it were alone.
    pub(crate) fn viable(&self, ask: usize) -> &Bits {
        &self.viable[ask]
    }

    /// The devices with each value of a column.
    pub(crate) fn holders(&self, column: usize) -> &BTreeMap<u32, Bits> {
        &self.holders[column]
    }

    pub(crate) fn is_viable(&self, ask: usize, slot: usize) -> bool {
        self.viable[ask].has(slot)
    }

    pub(crate) fn kind_of(&self, slot: usize) -> u32 {
        self.kinds[slot]
    }

    /// The state at the start of a request, to be remembered should it fail.
    pub(crate) fn recall(
        &self,
        state: &State<'_, '_>,
        claim: usize,
        request: usize,
    ) -> Result<StateKey, KnownToFail> {
        let key = self.key(state, claim, request);
        if self.failed.contains(&key) { Err(KnownToFail) } else { Ok(StateKey(key)) }
    }

    pub(crate) fn remember(&mut self, memo: StateKey) {
        if self.failed.len() < FAILED_MAX {
            self.failed.insert(memo.0);
        }
    }

    /// Everything that matters to the requests that are left: which of their devices are taken, what was taken of
    /// counters and capacities, what constraints have seen, how many devices the claim has.
    fn key(&self, state: &State<'_, '_>, claim: usize, request: usize) -> Box<[u64]> {
        let mut key = Vec::with_capacity(8 + state.busy.words().len());
        state.meter().spend(units(state.plan.asks.len().saturating_mul(1 + state.busy.words().len())));
        key.extend([claim as u64, request as u64, state.picked[claim].unsigned_abs()]);
        let mut matters = Bits::empty(state.view.slots.len());
        let left = rest(state, claim, request);
        left.flat_map(|(_, plan)| plan.asks.clone()).for_each(|ask| matters.add(&self.viable[ask]));
        key.extend(state.busy.words().iter().zip(matters.words()).map(|(busy, matters)| busy & matters));
        let mut charged: Vec<u64> = Vec::new();
        for pick in &state.picks {
            let device = state.view.slots[pick.slot].device;
            if pick.share.is_some() {
                charged.push(1 << 63 | (pick.slot as u64) << 24 | pick.ask as u64);
            } else if !device.consumes_counters().is_empty() {
                charged.push(u64::from(self.kinds[pick.slot]));
            }
            // An admin of this claim may not take a device of this claim again.
            if state.plan.asks[pick.ask].claim == claim && state.plan.asks.iter().any(|ask| ask.admin) {
                charged.push(1 << 62 | pick.slot as u64);
            }
        }
        charged.sort_unstable();
        key.push(charged.len() as u64);
        key.extend(charged);
        for (taken, constraint) in state.taken[claim].iter().zip(&state.plan.claims[claim].constraints) {
            let seen = match constraint.rule {
                Rule::Match => taken.common().map_or(&[][..], core::slice::from_ref),
                Rule::Distinct => taken.each(),
            };
            for values in seen {
                key.push(u64::MAX);
                key.extend(values.ids().iter().map(|id| u64::from(*id)));
            }
            key.push(u64::MAX - 1);
        }
        key.into()
    }

    /// Whether what is left to be given out from here cannot all be, by counting alone.
    pub(crate) fn is_hopeless(&self, state: &State<'_, '_>, spot: SearchPosition, start: usize) -> bool {
        let mut needs = Needs { analysis: self, state, needs: Vec::new() };
        let mut here = self.domain(state, spot.ask);
        here.clear_below(start);
        let missing = state.wanted[spot.ask].count - spot.nth;
        needs.needs.push(Need {
            claim: spot.claim,
            choices: Vec::from([Choice { ask: spot.ask, domain: here, count: missing }]),
        });
        for (claim, request) in rest(state, spot.claim, spot.request + 1) {
            let choices = request.asks.clone().filter_map(|ask| self.choice(state, ask)).collect();
            needs.needs.push(Need { claim, choices });
        }
        needs.short() || needs.unmatched() || needs.lacks_distinct_values() || needs.lacks_devices()
    }

    fn choice(&self, state: &State<'_, '_>, ask: usize) -> Option<Choice> {
        let wanted = &state.wanted[ask];
        if wanted.all.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        Some(Choice { ask, domain: self.domain(state, ask), count: wanted.count })
    }

    /// The devices that an ask could be given as things stand.
    fn domain(&self, state: &State<'_, '_>, ask: usize) -> Bits {
        let mut domain = self.viable[ask].clone();
        state.meter().spend(4 + units(domain.words().len()));
        let plan = &state.plan.asks[ask];
        if !plan.admin {
            domain.subtract(&state.busy);
        }
        for &(constraint, column) in &plan.constraints {
            let taken = &state.taken[plan.claim][constraint];
            match state.plan.claims[plan.claim].constraints[constraint].rule {
                Rule::Match => {
                    // No device has been taken for the constraint yet.
                    let Some(common) = taken.common() else { continue };
                    let mut allowed = Bits::empty(state.view.slots.len());
                    common
                        .ids()
                        .iter()
                        .filter_map(|id| self.holders[column].get(id))
                        .for_each(|bits| allowed.add(bits));
                    domain.retain(&allowed);
                }
                Rule::Distinct => {
                    let used = taken.each().iter().flat_map(Values::ids);
                    used.filter_map(|id| self.holders[column].get(id)).for_each(|bits| domain.subtract(bits));
                }
            }
        }
        domain
    }
}

/// The requests from one on, to the end of the last claim.
fn rest<'p>(
    state: &State<'_, 'p>,
    claim: usize,
    request: usize,
) -> impl Iterator<Item = (usize, &'p RequestPlan)> + use<'p> {
    let claims = state.plan.claims.iter().enumerate().skip(claim);
    claims.flat_map(move |(at, plan)| {
        let skip = if at == claim { request } else { 0 };
        plan.requests.iter().skip(skip).map(move |request| (at, request))
    })
}

/// The requests that are not yet served.
struct Needs<'n, 'a, 's> {
    analysis: &'n Analysis,
    state: &'n State<'a, 's>,
    needs: Vec<Need>,
}

/// One request: any of these choices serves it.
struct Need {
    claim: usize,
    choices: Vec<Choice>,
}

/// A number of devices out of a set.
struct Choice {
    ask: usize,
    domain: Bits,
    count: i64,
}

impl Need {
    /// The only choice, for a request that is no list.
    fn only(&self) -> Option<&Choice> {
        match &*self.choices {
            [only] => Some(only),
            [] | [_, _, ..] => None,
        }
    }
}

fn enough(devices: usize, count: i64) -> bool {
    i64::try_from(devices).unwrap_or(i64::MAX) >= count
}

impl Needs<'_, '_, '_> {
    /// Some request has too few devices whatever happens to the others.
    fn short(&self) -> bool {
        self.needs
            .iter()
            .any(|need| !need.choices.iter().any(|choice| enough(choice.domain.count(), choice.count)))
    }

    /// Some constraint has no value that all its requests could still agree on.
    fn unmatched(&self) -> bool {
        self.each_constraint(Rule::Match).any(|(claim, constraint)| !self.some_value_fits(claim, constraint))
    }

    fn each_constraint(&self, rule: Rule) -> impl Iterator<Item = (usize, usize)> + '_ {
        let claims = self.state.plan.claims.iter().enumerate();
        claims.filter(|(claim, _)| self.needs.iter().any(|need| need.claim == *claim)).flat_map(
            move |(claim, plan)| {
                let constraints = plan.constraints.iter().enumerate();
                constraints.filter(move |(_, c)| c.rule == rule).map(move |(at, _)| (claim, at))
            },
        )
    }

    fn column(&self, choice: &Choice, constraint: usize) -> Option<usize> {
        let constraints = &self.state.plan.asks[choice.ask].constraints;
        constraints.iter().find(|(at, _)| *at == constraint).map(|(_, column)| *column)
    }

    fn some_value_fits(&self, claim: usize, constraint: usize) -> bool {
        let needs: Vec<&Need> = self.needs.iter().filter(|need| need.claim == claim).collect();
        let covered =
            || needs.iter().flat_map(|need| &need.choices).filter_map(|c| self.column(c, constraint));
        if covered().any(|column| self.analysis.odd[column]) || covered().next().is_none() {
            return true;
        }
        // A request that may go uncovered, or need nothing, asks nothing of the value.
        let binding: Vec<&&Need> = needs
            .iter()
            .filter(|need| need.choices.iter().all(|c| c.count > 0 && self.column(c, constraint).is_some()))
            .collect();
        // No request needs a value.
        let Some(first) = binding.first().and_then(|need| need.choices.first()) else { return true };
        let Some(column) = invariant!(
            self.column(first, constraint),
            "a request that needs a value is named by the constraint"
        ) else {
            return true;
        };
        let taken = &self.state.taken[claim][constraint];
        let differ = first.alternatives_differ(&binding, constraint, self);
        // Most values of lists are on few devices, which is soon seen where all look in one place.
        let wanted = binding.iter().filter_map(|need| need.only()).filter(|choice| !self.is_admin(choice));
        let wanted = wanted.fold(0_i64, |sum, choice| sum.saturating_add(choice.count.max(0)));
        let many = |value: &u32| {
            self.analysis.holders[column].get(value).is_some_and(|holders| {
                enough(holders.count(), wanted) || holders.meets(&self.analysis.shareable)
            })
        };
        let fits = |value: &u32| (differ || many(value)) && self.value_fits(constraint, *value, &binding);
        // With lists off a single value remains; otherwise any of those that all have in common may be the one.
        match taken.common() {
            Some(common) => common.ids().iter().any(fits),
            None if differ => {
                let columns =
                    binding.iter().flat_map(|n| &n.choices).filter_map(|c| self.column(c, constraint));
                columns.flat_map(|column| self.analysis.holders[column].keys()).any(fits)
            }
            None => self.analysis.holders[column].keys().any(fits),
        }
    }

    fn is_admin(&self, choice: &Choice) -> bool {
        self.state.plan.asks[choice.ask].admin
    }

    fn value_fits(&self, constraint: usize, value: u32, binding: &[&&Need]) -> bool {
        let (mut wanted, mut crowd) = (0_i64, Bits::empty(self.state.view.slots.len()));
        self.state.meter().spend(units(binding.len().saturating_mul(4 + crowd.words().len())));
        for need in binding {
            let holders =
                |choice: &Choice| self.analysis.holders[self.column(choice, constraint)?].get(&value);
            let fits = |choice: &Choice| {
                holders(choice)
                    .is_some_and(|holders| enough(choice.domain.count_common(holders), choice.count))
            };
            if !need.choices.iter().any(fits) {
                return false;
            }
            if let Some(choice) = need.only()
                && !self.is_admin(choice)
                && let Some(holders) = holders(choice)
            {
                wanted = wanted.saturating_add(choice.count.max(0));
                crowd.add_common(&choice.domain, holders);
            }
        }
        crowd.meets(&self.analysis.shareable) || enough(crowd.count(), wanted)
    }

    /// Some constraint needs more different values than there are left.
    fn lacks_distinct_values(&self) -> bool {
        self.each_constraint(Rule::Distinct).any(|(claim, constraint)| {
            let mut wanted = 0_i64;
            let mut values: BTreeSet<u32> = BTreeSet::new();
            for choice in self.needs.iter().filter(|need| need.claim == claim).filter_map(Need::only) {
                // The constraint does not name this request.
                let Some(column) = self.column(choice, constraint) else { continue };
                if self.analysis.odd[column] {
                    return false;
                }
                wanted = wanted.saturating_add(choice.count.max(0));
                self.state.meter().spend(4 * units(choice.domain.count()));
                for slot in choice.domain.iter() {
                    let ids = self.state.known_values(column, slot).map_or(&[][..], Values::ids);
                    values.extend(ids);
                }
            }
            !enough(values.len(), wanted)
        })
    }

    /// Together the requests want more devices than there are for them, or no assignment gives each its own.
    fn lacks_devices(&self) -> bool {
        let asks = self.needs.iter().filter_map(Need::only).filter(|choice| !self.is_admin(choice));
        let exclusive: Vec<&Choice> = asks
            .filter(|choice| choice.count > 0 && !choice.domain.meets(&self.analysis.shareable))
            .collect();
        let mut union = Bits::empty(self.state.view.slots.len());
        let mut wanted = 0_i64;
        for choice in &exclusive {
            union.add(&choice.domain);
            wanted = wanted.saturating_add(choice.count);
        }
        if !enough(union.count(), wanted) {
            return true;
        }
        let same = exclusive.windows(2).all(|pair| pair[0].domain == pair[1].domain);
        !same && !assignable(&exclusive, self.state.view.slots.len(), self.state.meter())
    }
}

impl Choice {
    /// Whether the asks under a constraint take its values from different places.
    fn alternatives_differ(&self, binding: &[&&Need], constraint: usize, needs: &Needs<'_, '_, '_>) -> bool {
        let own = needs.column(self, constraint);
        binding.iter().flat_map(|need| &need.choices).any(|choice| needs.column(choice, constraint) != own)
    }
}

/// Whether every choice can get its devices with no device given twice: bipartite matching by augmenting paths.
fn assignable(choices: &[&Choice], slots: usize, meter: &Meter) -> bool {
    let mut owner: Vec<Option<usize>> = (0..slots).map(|_| None).collect();
    for (at, choice) in choices.iter().enumerate() {
        for _ in 0..choice.count {
            // Choices that could not be ruled out are searched; no units are left for the search either.
            if meter.is_empty() {
                return true;
            }
            meter.spend(units(slots / 16));
            if !augment(at, choices, &mut owner, &mut Bits::empty(slots), meter) {
                return false;
            }
        }
    }
    true
}

/// Finds one more device for a choice, moving others to devices of theirs that are free.
fn augment(
    choice: usize,
    choices: &[&Choice],
    owner: &mut [Option<usize>],
    seen: &mut Bits,
    meter: &Meter,
) -> bool {
    // Breadth first, remembering by which device a choice was reached; depth is bounded by the number of choices.
    let mut queue = Vec::from([(choice, None)]);
    let mut came: Vec<(usize, Option<usize>)> = Vec::new();
    let mut next = 0;
    while let Some(&(at, via)) = queue.get(next) {
        next += 1;
        meter.spend(units(choices[at].domain.count()));
        for slot in choices[at].domain.iter() {
            if seen.has(slot) || owner[slot] == Some(at) {
                continue;
            }
            seen.insert(slot);
            came.push((slot, via));
            let step = came.len() - 1;
            match owner[slot] {
                Some(other) => queue.push((other, Some(step))),
                None => {
                    shift(choice, step, &came, owner);
                    return true;
                }
            }
        }
    }
    false
}

/// Walks the path back: each device goes to the choice that was looking for one.
fn shift(choice: usize, last: usize, came: &[(usize, Option<usize>)], owner: &mut [Option<usize>]) {
    let mut step = last;
    loop {
        let (slot, via) = came[step];
        match via {
            Some(before) => {
                owner[slot] = owner[came[before].0];
                step = before;
            }
            None => {
                owner[slot] = Some(choice);
                return;
            }
        }
    }
}

/// The devices that an ask could be given if it were alone. `None` when an error could be met.
fn viable_devices(state: &mut State<'_, '_>, ask: usize) -> Option<Bits> {
    let (plan, slots) = (state.plan, state.view.slots.len());
    let details = &plan.asks[ask];
    let mut viable = Bits::empty(slots);
    if let Some(all) = &state.wanted[ask].all {
        // A constraint that refuses one of all devices is an error.
        if !details.constraints.is_empty() {
            return None;
        }
        all.iter().for_each(|slot| viable.insert(*slot));
        return Some(viable);
    }
    for slot in 0..slots {
        if !details.admin && state.view.in_use.has(slot) {
            continue;
        }
        if !state.is_selectable(ask, slot).ok()? || !state.has_capacity_alone(ask, slot).ok()? {
            continue;
        }
        if state.standing_obstacle(details, slot).is_some() {
            continue;
        }
        let mut complete = true;
        for &(_, column) in &details.constraints {
            complete &= *state.values(column, slot).ok()? != Values::Missing;
        }
        if complete {
            viable.insert(slot);
        }
    }
    Some(viable)
}

/// Numbers devices so that two with the same number can stand in for each other.
fn kinds(state: &State<'_, '_>, viable: &[Bits], shareable: &Bits) -> Vec<u32> {
    let mut known: HashMap<Vec<u64>, u32, FxBuildHasher> = HashMap::default();
    let mut consumptions = Vec::new();
    let mut kinds = Vec::with_capacity(state.view.slots.len());
    for (at, slot) in state.view.slots.iter().enumerate() {
        let mut key: Vec<u64> = Vec::with_capacity(4 + viable.len().div_ceil(64));
        for chunk in viable.chunks(64) {
            key.push(
                chunk.iter().enumerate().fold(0, |word, (bit, set)| word | u64::from(set.has(at)) << bit),
            );
        }
        // Shares differ by what is left of the device; never mind.
        key.push(if shareable.has(at) { at as u64 + 1 } else { 0 });
        let consumed = slot.device.consumes_counters();
        if !consumed.is_empty() {
            let found =
                consumptions.iter().position(|(pool, known)| *pool == slot.pool && *known == consumed);
            key.push(1 + found.unwrap_or(consumptions.len()) as u64);
            if found.is_none() {
                consumptions.push((slot.pool, consumed));
            }
        }
        for column in 0..state.plan.columns.len() {
            key.push(u64::MAX);
            match state.known_values(column, at) {
                None | Some(Values::Missing) => {}
                Some(Values::Odd) => key.push(u64::MAX - 1),
                Some(values @ (Values::One(_) | Values::Many(_))) => {
                    key.extend(values.ids().iter().map(|id| u64::from(*id)));
                }
            }
        }
        let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
        kinds.push(*known.entry(key).or_insert(next));
    }
    kinds
}
