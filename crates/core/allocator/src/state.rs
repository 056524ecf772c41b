//! The devices allocated so far in a search, and whether one more device can be.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use hashbrown::HashMap;
use lazaret_fleet::EffectiveTaint;
use lazaret_invariant::invariant;
use lazaret_model::{NodeScope, QualifiedName, Quantity, Text};
use rustc_hash::FxBuildHasher;

use crate::{
    Features,
    balances::Balances,
    bits::Bits,
    capacity::{self, Amounts, CapacityError, Demand},
    constraint::Taken,
    counters::{GroupsBefore, PoolCounters, Refusal},
    error::{AllocateError, ErrorKind, Written},
    expressions::{Expressions, SelectorFailure, Verdict},
    meter::{Meter, units},
    plan::{ClaimPlan, Column, Plan, PlannedRequest},
    search::SearchPosition,
    timed::TimedTolerations,
    values::{ValueTable, Values},
    view::{PoolState, View, device_reaches},
};

/// The feature that a node must declare for slices that skip node operations.
pub const OPTIONAL_NODE_OPERATIONS: &str = "DRAOptionalNodeOperations";

/// A device given to an ask.
pub(crate) struct Pick {
    pub(crate) ask: usize,
    pub(crate) slot: usize,
    /// `Some` when it is a share: how much of it.
    pub(crate) share: Option<Amounts>,
    groups: GroupsBefore,
    charged: bool,
}

/// Shares of one device that are being given out.
#[derive(Default)]
struct Shares {
    count: usize,
    consumed: Amounts,
}

/// How many devices an ask wants on this node.
pub(crate) struct DeviceCount {
    pub(crate) count: i64,
    /// The devices themselves when it wants all.
    pub(crate) all: Option<Vec<usize>>,
}

/// Why a device cannot be taken.
pub(crate) enum Obstacle<'a> {
    InUse,
    FeatureOff(&'static str),
    NodeLacks(&'static str),
    Counters(Refusal),
    Taint(EffectiveTaint<'a>),
    /// The claim's constraint of this number.
    Constraint(usize),
    Capacity(Text),
}

/// The devices that a search has allocated.
pub(crate) struct State<'a, 's> {
    pub(crate) plan: &'s Plan<'a>,
    pub(crate) view: &'s View<'a>,
    pub(crate) features: &'s Features,
    pub(crate) timed: TimedTolerations,
    expressions: &'s mut Expressions,
    balances: &'s mut Balances,
    pub(crate) wanted: Vec<DeviceCount>,
    pub(crate) picks: Vec<Pick>,
    /// How many devices each claim has.
    pub(crate) picked: Vec<i64>,
    /// In use, or being given out as a whole.
    pub(crate) busy: Bits,
    /// How many claims are getting a device as a whole.
    getting: Vec<u32>,
    shares: BTreeMap<usize, Shares>,
    counters: Vec<Option<PoolCounters>>,
    /// By claim and constraint.
    pub(crate) taken: Vec<Vec<Taken>>,
    /// Whether a device can be selected for an ask: 0 unknown, 1 no, 2 yes.
    selectable: Vec<u8>,
    demands: HashMap<(usize, usize), Demand, FxBuildHasher>,
    columns: Vec<Vec<Option<Values>>>,
    table: ValueTable,
}

impl<'a, 's> State<'a, 's> {
    /// Nothing given out yet. For asks of all devices that means to find out which these are.
    pub(crate) fn new(
        plan: &'s Plan<'a>,
        view: &'s View<'a>,
        features: &'s Features,
        timed: TimedTolerations,
        expressions: &'s mut Expressions,
        balances: &'s mut Balances,
    ) -> Result<Self, AllocateError> {
        let slots = view.slots.len();
        let taken = |claim: &ClaimPlan<'_>| claim.constraints.iter().map(|c| Taken::new(c.rule)).collect();
        let mut state = Self {
            plan,
            view,
            features,
            timed,
            expressions,
            balances,
            wanted: Vec::with_capacity(plan.asks.len()),
            picks: Vec::new(),
            picked: vec![0; plan.claims.len()],
            busy: view.in_use.clone(),
            getting: vec![0; slots],
            shares: BTreeMap::new(),
            counters: view.pools.iter().map(|_| None).collect(),
            taken: plan.claims.iter().map(taken).collect(),
            selectable: vec![0; slots * plan.asks.len()],
            demands: HashMap::default(),
            columns: plan.columns.iter().map(|_| Vec::new()).collect(),
            table: ValueTable::default(),
        };
        for ask in 0..plan.asks.len() {
            let wanted = match plan.asks[ask].count {
                Some(count) => DeviceCount { count, all: None },
                None => state.all_devices(ask)?,
            };
            state.wanted.push(wanted);
        }
        Ok(state)
    }

    /// All devices that match, in use or not, except those that could never give the amount asked for.
    fn all_devices(&mut self, ask: usize) -> Result<DeviceCount, AllocateError> {
        let mut all = Vec::new();
        for pool in &self.view.pools {
            let (at, pool_id) = (|| self.plan.asks[ask].located(self.plan), || pool.id.clone());
            match pool.state {
                PoolState::Usable => {}
                PoolState::Incomplete => {
                    return Err(AllocateError::fatal(ErrorKind::PoolUpdating { at: at(), pool: pool_id() }));
                }
                PoolState::Invalid(_) => {
                    return Err(AllocateError::fatal(ErrorKind::PoolInvalid { at: at(), pool: pool_id() }));
                }
            }
        }
        self.meter().spend(units(self.view.slots.len()));
        for slot in 0..self.view.slots.len() {
            if self.is_selectable(ask, slot)?
                && (!self.features.consumable_capacity || self.demand(ask, slot)?.fits(&[]).is_ok())
            {
                all.push(slot);
            }
        }
        Ok(DeviceCount { count: i64::try_from(all.len()).unwrap_or(i64::MAX), all: Some(all) })
    }

    /// The first device from `start` on that is not in use, as far as the ask cares.
    pub(crate) fn next_free(&self, spot: SearchPosition, start: usize) -> Option<usize> {
        let size = self.view.slots.len();
        if self.plan.asks[spot.ask].admin {
            (start..size).find(|slot| !self.has(spot.claim, *slot))
        } else {
            self.busy.next_absent(start, size)
        }
    }

    /// Whether the claim is getting the device as a whole.
    fn has(&self, claim: usize, slot: usize) -> bool {
        self.getting[slot] > 0
            && self.picks.iter().any(|pick| {
                pick.slot == slot && pick.share.is_none() && self.plan.asks[pick.ask].claim == claim
            })
    }

    /// Whether class and request select the device, and it is on the node.
    pub(crate) fn is_selectable(&mut self, ask: usize, slot: usize) -> Result<bool, AllocateError> {
        let device = self.view.slots[slot].device;
        if !self.features.binds()
            && device.binding_conditions().is_some_and(|conditions| !conditions.is_empty())
        {
            return Ok(false);
        }
        let cell = ask * self.view.slots.len() + slot;
        if self.selectable[cell] != 0 {
            return Ok(self.selectable[cell] == 2);
        }
        let selected = match self.expressions.verdict(self.plan.asks[ask].chain, device) {
            Verdict::Match => true,
            Verdict::NoMatch(_) => false,
            Verdict::Error(at) => return Err(self.selector_error(ask, slot, at)),
            Verdict::NotAsked(_) => return Err(AllocateError::out_of_work()),
        };
        let per_device = matches!(device.slice().nodes(), NodeScope::PerDevice);
        let selected = selected && (!per_device || device_reaches(device, self.view.node)?);
        self.selectable[cell] = if selected { 2 } else { 1 };
        Ok(selected)
    }

    /// The units that are left for this turn.
    pub(crate) fn meter(&self) -> &Meter {
        &self.expressions.meter
    }

    /// The result of the selectors alone.
    pub(crate) fn verdict(&mut self, ask: usize, slot: usize) -> Verdict {
        self.expressions.verdict(self.plan.asks[ask].chain, self.view.slots[slot].device)
    }

    pub(crate) fn selector_error(&self, ask: usize, slot: usize, at: u16) -> AllocateError {
        let (ask, device) = (&self.plan.asks[ask], self.view.slots[slot].device);
        let class = &ask.class.class;
        let place = usize::from(at);
        let (written, index) = match place.checked_sub(class.selectors.len()) {
            None => (Written::Class(class.name.clone()), place),
            Some(index) => (Written::Claim(self.plan.claims[ask.claim].claim.key.clone()), index),
        };
        AllocateError::fatal(match self.expressions.trouble(ask.chain, at, device) {
            SelectorFailure::Unsupported => ErrorKind::UnsupportedSelector { at: written, index },
            SelectorFailure::Compile(message) => ErrorKind::Compile { at: written, index, message },
            SelectorFailure::Evaluate(message) => {
                ErrorKind::Evaluate { at: written, index, device: device.id(), message }
            }
        })
    }

    fn demand(&mut self, ask: usize, slot: usize) -> Result<&Demand, AllocateError> {
        let key = (ask, slot);
        if !self.demands.contains_key(&key) {
            let device = self.view.slots[slot].device;
            let capacities: Vec<_> = device.capacity().map(|(key, _, value)| (key, value)).collect();
            let fractional = self.features.fractional_capacity_range;
            let demand = Demand::of(self.plan.asks[ask].amounts, &capacities, fractional)
                .map_err(|error| self.capacity_error(ask, slot, error))?;
            self.demands.insert(key, demand);
        }
        Ok(&self.demands[&key])
    }

    fn capacity_error(&self, ask: usize, slot: usize, error: CapacityError) -> AllocateError {
        let (at, device) = (self.plan.asks[ask].located(self.plan), self.view.slots[slot].device.id());
        AllocateError::fatal(ErrorKind::Capacity { at, device, error })
    }

    /// Whether the device has room for what the ask takes of it.
    pub(crate) fn has_capacity(&mut self, ask: usize, slot: usize) -> Result<bool, AllocateError> {
        Ok(!self.features.consumable_capacity || self.short_capacity(ask, slot)?.is_none())
    }

    /// The same, as if nothing were being given out.
    pub(crate) fn has_capacity_alone(&mut self, ask: usize, slot: usize) -> Result<bool, AllocateError> {
        if !self.features.consumable_capacity {
            return Ok(true);
        }
        let giving = self.shares.remove(&slot);
        let short = self.short_capacity(ask, slot);
        if let Some(giving) = giving {
            self.shares.insert(slot, giving);
        }
        Ok(short?.is_none())
    }

    /// The capacity of which the device has too little, if any.
    pub(crate) fn short_capacity(&mut self, ask: usize, slot: usize) -> Result<Option<Text>, AllocateError> {
        let entry = self.view.slots[slot];
        let device = entry.device;
        if self.plan.asks[ask].amounts.is_empty() && device.capacity().next().is_none() {
            return Ok(None);
        }
        let none: &[(Text, Quantity)] = &[];
        let in_flight =
            self.view.pools[entry.pool].in_flight(device.name()).map_or(none, |held| &held.consumed);
        self.demand(ask, slot)?;
        let giving = self.shares.get(&slot).map_or(none, |shares| &shares.consumed);
        let taken = [device.consumed_capacity(), in_flight, giving];
        Ok(self.demands.get(&(ask, slot)).and_then(|demand| demand.fits(&taken).err()).cloned())
    }

    /// The amounts that the ask would take of the device, for explanations.
    pub(crate) fn demand_of(&mut self, ask: usize, slot: usize) -> Result<Demand, AllocateError> {
        self.demand(ask, slot).cloned()
    }

    /// Whether the device is being shared already, so that its counters are paid for.
    fn is_shared(&self, slot: usize) -> bool {
        let entry = self.view.slots[slot];
        entry.device.shares() > 0
            || self.shares.contains_key(&slot)
            || self.view.pools[entry.pool].in_flight(entry.device.name()).is_some_and(|held| held.shares > 0)
    }

    pub(crate) fn is_shareable(&self, slot: usize) -> bool {
        self.features.consumable_capacity && self.view.slots[slot].device.allow_multiple()
    }

    /// The obstacle between the ask and any device of this kind on this node, whatever is allocated to others.
    pub(crate) fn standing_obstacle(&self, ask: &PlannedRequest<'a>, slot: usize) -> Option<Obstacle<'a>> {
        let device = self.view.slots[slot].device;
        if !device.slice().skip_node_operations().is_empty() {
            if !self.features.optional_node_operations {
                return Some(Obstacle::FeatureOff(OPTIONAL_NODE_OPERATIONS));
            }
            if !self.view.node.declared_features.iter().any(|feature| **feature == *OPTIONAL_NODE_OPERATIONS)
            {
                return Some(Obstacle::NodeLacks(OPTIONAL_NODE_OPERATIONS));
            }
        }
        if !self.features.partitionable_devices && !device.consumes_counters().is_empty() {
            return Some(Obstacle::FeatureOff("DRAPartitionableDevices"));
        }
        self.taint(ask, slot).map(Obstacle::Taint)
    }

    fn taint(&self, ask: &PlannedRequest<'a>, slot: usize) -> Option<EffectiveTaint<'a>> {
        if !self.features.device_taints {
            return None;
        }
        let blocks = |taint: &EffectiveTaint<'_>| {
            // A claim may have any number of tolerations.
            self.meter().spend(units(ask.spec.tolerations.len() / 4));
            taint.taint.effect.blocks_allocation() && !self.timed.permit(taint.taint, &ask.spec.tolerations)
        };
        self.view.slots[slot].device.taints().find(blocks)
    }

    pub(crate) fn counters(&mut self, slot: usize) -> &mut PoolCounters {
        let (pool, view) = (self.view.slots[slot].pool, self.view);
        self.counters[pool].get_or_insert_with(|| self.balances.of(&view.pools[pool], view.names))
    }

    /// Whether the pool's counters alone keep the device away.
    pub(crate) fn counter_obstacle(&mut self, slot: usize) -> Option<Refusal> {
        let device = self.view.slots[slot].device;
        let shared = self.is_shareable(slot) && self.is_shared(slot);
        if shared || device.consumes_counters().is_empty() || !self.features.partitionable_devices {
            return None;
        }
        let groups = self.features.compatibility_groups;
        match self.counters(slot).take(device, groups) {
            Ok(before) => {
                self.counters(slot).give_back(device, before);
                None
            }
            Err(refusal) => Some(refusal),
        }
    }

    /// The values of a column for a device.
    pub(crate) fn values(&mut self, column: usize, slot: usize) -> Result<&Values, AllocateError> {
        let cells = &mut self.columns[column];
        if cells.is_empty() {
            cells.resize(self.view.slots.len(), None);
        }
        if cells[slot].is_none() {
            let device = self.view.slots[slot].device;
            let lists = self.features.list_type_attributes;
            let values = match self.plan.columns[column] {
                Column::Attribute(id) => self.table.values(device.attribute(id), lists),
                Column::Unqualified(key) => {
                    let name =
                        QualifiedName { domain: device.slice().pool().driver.clone(), id: key.clone() };
                    self.table.values(device.attribute(self.view.names.get(&name)), lists)
                }
                Column::Derived(attribute, expression) => match self.expressions.derive(expression, device) {
                    Some(Ok(value)) => self.table.values(Some(&value), lists),
                    Some(Err(message)) => {
                        let (attribute, device) = (attribute.clone(), device.id());
                        return Err(AllocateError::fatal(ErrorKind::Derive { attribute, device, message }));
                    }
                    None => return Err(AllocateError::out_of_work()),
                },
            };
            self.columns[column][slot] = Some(values);
        }
        Ok(self.columns[column][slot].as_ref().unwrap_or(&Values::Missing))
    }

    /// The values of a column for a device, if they were asked for before.
    pub(crate) fn known_values(&self, column: usize, slot: usize) -> Option<&Values> {
        self.columns[column].get(slot)?.as_ref()
    }

    /// Gives a device that is selectable to a spot, if that can be. `must`: it is this one or none.
    pub(crate) fn take(
        &mut self,
        spot: SearchPosition,
        slot: usize,
        must: bool,
    ) -> Result<Result<(), Obstacle<'a>>, AllocateError> {
        let plan = self.plan;
        let ask = &plan.asks[spot.ask];
        let shareable = self.is_shareable(slot);
        let in_use = if ask.admin { !shareable && self.has(spot.claim, slot) } else { self.busy.has(slot) };
        if in_use {
            return Ok(Err(Obstacle::InUse));
        }
        let device = self.view.slots[slot].device;
        // Counters come before taints in Kubernetes, but neither gives errors nor depends on the other.
        if let Some(obstacle) = self.standing_obstacle(ask, slot) {
            return Ok(Err(obstacle));
        }
        let is_paid_for = shareable && self.is_shared(slot);
        let charged = !is_paid_for && !device.consumes_counters().is_empty();
        let mut groups = Vec::new();
        if charged {
            let with_groups = self.features.compatibility_groups;
            match self.counters(slot).take(device, with_groups) {
                Ok(before) => groups = before,
                Err(refusal) => return Ok(Err(Obstacle::Counters(refusal))),
            }
        }
        let mut pick = Pick { ask: spot.ask, slot, share: None, groups, charged };
        if let Some(refusing) = self.constrain(ask, slot)? {
            self.release(pick);
            if must {
                let (at, device) = (ask.located(plan), device.id());
                return Err(AllocateError::fatal(ErrorKind::ConstraintForbidsAll { at, device }));
            }
            return Ok(Err(Obstacle::Constraint(refusing)));
        }
        // Of any other device it is known already.
        if must
            && self.features.consumable_capacity
            && let Some(short) = self.short_capacity(spot.ask, slot)?
        {
            self.unconstrain(ask, ask.constraints.len());
            self.release(pick);
            return Ok(Err(Obstacle::Capacity(short)));
        }
        if shareable {
            let amounts = self.demand(spot.ask, slot)?.amounts();
            let shares = self.shares.entry(slot).or_default();
            shares.count += 1;
            capacity::add(&mut shares.consumed, &amounts);
            pick.share = Some(amounts);
        } else {
            self.getting[slot] += 1;
            self.busy.insert(slot);
        }
        self.picked[spot.claim] += 1;
        self.picks.push(pick);
        Ok(Ok(()))
    }

    /// Adds the device to the constraints over the ask; or says which of them refuses it, and adds it to none.
    fn constrain(&mut self, ask: &PlannedRequest<'a>, slot: usize) -> Result<Option<usize>, AllocateError> {
        for (done, &(constraint, column)) in ask.constraints.iter().enumerate() {
            if let Err(error) = self.values(column, slot) {
                self.unconstrain(ask, done);
                return Err(error);
            }
            let values = self.columns[column][slot].as_ref().unwrap_or(&Values::Missing);
            if !self.taken[ask.claim][constraint].add(values) {
                self.unconstrain(ask, done);
                return Ok(Some(constraint));
            }
        }
        Ok(None)
    }

    fn unconstrain(&mut self, ask: &PlannedRequest<'a>, done: usize) {
        for &(constraint, _) in &ask.constraints[..done] {
            self.taken[ask.claim][constraint].remove();
        }
    }

    /// Gives counters back.
    fn release(&mut self, pick: Pick) {
        if pick.charged {
            let device = self.view.slots[pick.slot].device;
            self.counters(pick.slot).give_back(device, pick.groups);
        }
    }

    /// Takes everything back.
    pub(crate) fn give_all_back(&mut self) {
        while !self.picks.is_empty() {
            self.give_back();
        }
    }

    /// Takes the last device back.
    pub(crate) fn give_back(&mut self) {
        let Some(pick) = invariant!(self.picks.pop(), "a device that is taken back was taken") else {
            return;
        };
        let plan = self.plan;
        let ask = &plan.asks[pick.ask];
        self.picked[ask.claim] -= 1;
        if let Some(amounts) = &pick.share {
            if let Some(shares) = self.shares.get_mut(&pick.slot) {
                shares.count -= 1;
                capacity::subtract(&mut shares.consumed, amounts);
                if shares.count == 0 {
                    self.shares.remove(&pick.slot);
                }
            }
        } else {
            self.getting[pick.slot] -= 1;
            if self.getting[pick.slot] == 0 && !self.view.in_use.has(pick.slot) {
                self.busy.remove(pick.slot);
            }
        }
        self.unconstrain(ask, ask.constraints.len());
        self.release(pick);
    }
}
