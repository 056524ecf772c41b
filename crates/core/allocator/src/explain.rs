//! Finds the words for a search that found nothing.

use alloc::{string::ToString, vec::Vec};

use lazaret_fleet::{EffectiveTaint, Origin};
use lazaret_model::NodeScope;

use crate::{
    bits::Bits,
    capacity::Demand,
    constraint::Rule,
    counters::Refusal,
    expressions::Verdict,
    meter::units,
    prune::Analysis,
    state::{Obstacle, State},
    view::{PoolState, device_reaches},
    why::{Conflict, PoolWhy, Reason, RequestWhy, TaintSource, Tally, WhyNot, tainted},
};

/// Why nothing was found; the state must have nothing given out. In full only if that is wanted.
pub(crate) fn why_not(state: &mut State<'_, '_>, steps: u64, in_full: bool) -> WhyNot {
    let mut why = WhyNot { steps, ..WhyNot::at(&state.view.node.name) };
    if !in_full {
        return why;
    }
    for pool in &state.view.pools {
        let invalid = match &pool.state {
            PoolState::Usable => continue,
            PoolState::Incomplete => None,
            PoolState::Invalid(reason) => Some(reason.clone()),
        };
        why.pools.push(PoolWhy { pool: pool.id.clone(), invalid });
    }
    why.requests = (0..state.plan.asks.len()).map(|ask| request(state, ask)).collect();
    state.meter().spend(units(state.plan.asks.len().saturating_mul(state.view.slots.len())));
    let served = |range: core::ops::Range<usize>| why.requests[range].iter().any(RequestWhy::enough);
    let all_served =
        state.plan.claims.iter().flat_map(|claim| &claim.requests).all(|r| served(r.asks.clone()));
    if all_served {
        why.conflict = Some(conflict(state));
    }
    why
}

fn request(state: &mut State<'_, '_>, ask: usize) -> RequestWhy {
    let mut tally = Tally::default();
    let mut suitable = 0;
    for slot in 0..state.view.slots.len() {
        match reason(state, ask, slot) {
            Some(reason) => tally.add(reason),
            None => suitable += 1,
        }
    }
    let plan = &state.plan.asks[ask];
    RequestWhy {
        claim: state.plan.claims[plan.claim].claim.key.clone(),
        request: plan.path(),
        wanted: usize::try_from(state.wanted[ask].count).unwrap_or(0),
        considered: state.view.slots.len(),
        suitable,
        unsuitable: tally.groups(),
    }
}

/// Why a device could not be given to an ask that was alone.
fn reason(state: &mut State<'_, '_>, ask: usize, slot: usize) -> Option<Reason> {
    let (plan, entry) = (state.plan, state.view.slots[slot]);
    let details = &plan.asks[ask];
    let pool = &state.view.pools[entry.pool];
    let used = (!details.admin && state.view.in_use.has(slot)).then(|| {
        let in_flight = !entry.device.in_use() && pool.in_flight(entry.device.name()).is_some();
        if in_flight { Reason::InFlight } else { Reason::InUse }
    });
    if !state.features.binds() && entry.device.binding_conditions().is_some_and(|c| !c.is_empty()) {
        return Some(Reason::FeatureOff("DRADeviceBindingConditions"));
    }
    match state.verdict(ask, slot) {
        Verdict::Match => {}
        Verdict::NoMatch(at) => return Some(not_selected(state, ask, usize::from(at))),
        // To find out what is wrong with it, it is asked once more.
        Verdict::Error(_) if state.meter().is_empty() => return used.or(Some(Reason::NotAsked)),
        Verdict::Error(at) => {
            return used
                .or_else(|| Some(Reason::SelectorError(state.selector_error(ask, slot, at).to_string())));
        }
        Verdict::NotAsked(_) => return used.or(Some(Reason::NotAsked)),
    }
    if matches!(entry.device.slice().nodes(), NodeScope::PerDevice)
        && !device_reaches(entry.device, state.view.node).unwrap_or(false)
    {
        return Some(Reason::OtherNode);
    }
    if used.is_some() {
        return used;
    }
    if state.features.consumable_capacity
        && let Some(reason) = short_of(state, ask, slot)
    {
        return Some(reason);
    }
    if let Some(obstacle) = state.standing_obstacle(details, slot) {
        return Some(obstacle_reason(state, ask, obstacle));
    }
    if let Some(refusal) = state.counter_obstacle(slot) {
        return Some(obstacle_reason(state, ask, Obstacle::Counters(refusal)));
    }
    details.constraints.iter().find_map(|&(constraint, column)| {
        let missing =
            state.values(column, slot).is_ok_and(|values| *values == crate::values::Values::Missing);
        missing.then(|| {
            Reason::NoAttribute(plan.claims[details.claim].constraints[constraint].attribute.clone())
        })
    })
}

fn not_selected(state: &State<'_, '_>, ask: usize, place: usize) -> Reason {
    let class = &state.plan.asks[ask].class.class;
    match place.checked_sub(class.selectors.len()) {
        None => Reason::ClassSelector { class: class.name.clone(), index: place },
        Some(index) => Reason::RequestSelector { index },
    }
}

fn short_of(state: &mut State<'_, '_>, ask: usize, slot: usize) -> Option<Reason> {
    match state.demand_of(ask, slot) {
        Err(error) => Some(Reason::SelectorError(error.to_string())),
        Ok(Demand::Missing(key)) => Some(Reason::NoCapacity(key)),
        Ok(Demand::Refused(key)) => Some(Reason::Policy(key)),
        Ok(Demand::Wants(_)) => state.short_capacity(ask, slot).ok().flatten().map(Reason::Capacity),
    }
}

fn obstacle_reason(state: &State<'_, '_>, ask: usize, obstacle: Obstacle<'_>) -> Reason {
    match obstacle {
        Obstacle::InUse => Reason::InUse,
        Obstacle::FeatureOff(gate) => Reason::FeatureOff(gate),
        Obstacle::NodeLacks(feature) => Reason::NodeLacks(feature),
        Obstacle::Counters(Refusal::Counter { set, counter }) => Reason::Counter { set, counter },
        Obstacle::Counters(Refusal::Group { set }) => Reason::Group { set },
        Obstacle::Taint(taint) => taint_reason(taint),
        Obstacle::Capacity(key) => Reason::Capacity(key),
        Obstacle::Constraint(constraint) => {
            let claim = &state.plan.claims[state.plan.asks[ask].claim];
            Reason::NoAttribute(claim.constraints[constraint].attribute.clone())
        }
    }
}

fn taint_reason(taint: EffectiveTaint<'_>) -> Reason {
    tainted(
        taint.taint,
        match taint.origin {
            Origin::Device { slice, .. } => TaintSource::Device(slice.clone()),
            Origin::TaintSlice { slice, .. } => TaintSource::Slice(slice.clone()),
            Origin::Patch { name, .. } => TaintSource::Patch(name.clone()),
            Origin::Rule { name, .. } => TaintSource::Rule(name.clone()),
        },
    )
}

/// The conflict between asks that could each be served alone.
fn conflict(state: &mut State<'_, '_>) -> Conflict {
    // An error could be met.
    let Some(analysis) = Analysis::new(state) else { return Conflict::Combination };
    let shortage = shortage(state, &analysis);
    let constraint = state.plan.claims.iter().enumerate().find_map(|(claim, plan)| {
        (0..plan.constraints.len()).find_map(|constraint| unsatisfiable(state, &analysis, claim, constraint))
    });
    constraint.or(shortage).unwrap_or(Conflict::Combination)
}

/// The asks that there is no choice about, with how many devices each wants.
fn plain_asks<'s>(state: &'s State<'_, '_>) -> impl Iterator<Item = (usize, usize)> + 's {
    let requests =
        state.plan.claims.iter().flat_map(|claim| &claim.requests).filter(|request| !request.is_list);
    requests
        .map(|request| request.asks.start)
        .map(|ask| (ask, usize::try_from(state.wanted[ask].count).unwrap_or(0)))
}

fn shortage(state: &State<'_, '_>, analysis: &Analysis) -> Option<Conflict> {
    let mut union = Bits::empty(state.view.slots.len());
    let mut wanted = 0;
    for (ask, count) in plain_asks(state).filter(|(ask, _)| !state.plan.asks[*ask].admin) {
        union.add(analysis.viable(ask));
        wanted += count;
    }
    let shared = union.iter().any(|slot| state.is_shareable(slot));
    let available = union.count();
    (!shared && available < wanted).then_some(Conflict::Shortage { wanted, available })
}

fn unsatisfiable(
    state: &State<'_, '_>,
    analysis: &Analysis,
    claim: usize,
    constraint: usize,
) -> Option<Conflict> {
    let plan = &state.plan.claims[claim];
    let mut wanted = 0;
    let mut with_value: Vec<(u32, Bits)> = Vec::new();
    for (ask, count) in plain_asks(state).filter(|(ask, _)| state.plan.asks[*ask].claim == claim) {
        let columns = &state.plan.asks[ask].constraints;
        // The constraint does not name this request.
        let Some((_, column)) = columns.iter().find(|(at, _)| *at == constraint) else { continue };
        wanted += count;
        for (value, holders) in analysis.holders(*column) {
            let mut suitable = analysis.viable(ask).clone();
            suitable.retain(holders);
            match with_value.iter_mut().find(|(known, _)| known == value) {
                Some((_, all)) => all.add(&suitable),
                None => with_value.push((*value, suitable)),
            }
        }
    }
    let (claim, attribute) = (plan.claim.key.clone(), plan.constraints[constraint].attribute.clone());
    let shared = with_value.iter().any(|(_, slots)| slots.iter().any(|slot| state.is_shareable(slot)));
    match plan.constraints[constraint].rule {
        Rule::Match => {
            let available = with_value.iter().map(|(_, slots)| slots.count()).max().unwrap_or(0);
            (available < wanted && !shared).then_some(Conflict::Match { claim, attribute, wanted, available })
        }
        Rule::Distinct => {
            let available = with_value.iter().filter(|(_, slots)| slots.count() > 0).count();
            (available < wanted).then_some(Conflict::Distinct { claim, attribute, wanted, available })
        }
    }
}
