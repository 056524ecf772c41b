//! Nodes on which a search must end the same way.
//!
//! A search sees of a device the results of the selectors, whether it is in use, the taints that block it, and the
//! devices that share its values. Nodes whose devices are equal in all of that, in order, are alike, whatever the names
//! of their devices. Devices with counters, shares or amounts are always searched.

use alloc::vec::Vec;

use hashbrown::HashMap;
use lazaret_model::{CapacityValue, NodeScope};
use rustc_hash::FxBuildHasher;

use crate::{
    expressions::Verdict,
    plan::Column,
    state::State,
    values::{ValueTable, Values},
    view::{PoolState, is_allocated},
    why::WhyNot,
};

/// Bound on the kinds of node remembered in one search over nodes.
const FAILED_NODES_MAX: usize = 256;

/// Nodes on which nothing was found, for one set of claims.
#[derive(Default)]
pub(crate) struct FailedNodes(HashMap<Vec<u64>, WhyNot, FxBuildHasher>);

impl FailedNodes {
    /// Why nothing was found on a node like this one.
    pub(crate) fn recall(&self, state: &mut State<'_, '_>) -> Option<WhyNot> {
        if self.0.is_empty() { None } else { self.0.get(&likeness(state)?).cloned() }
    }

    /// Nothing was found on this node.
    pub(crate) fn remember(&mut self, state: &mut State<'_, '_>, why: &WhyNot) {
        if self.0.len() < FAILED_NODES_MAX
            && let Some(seen) = likeness(state)
        {
            self.0.insert(seen, why.clone());
        }
    }
}

/// The properties of a node that decide the search; `None` where others decide as well.
fn likeness(state: &mut State<'_, '_>) -> Option<Vec<u64>> {
    if state.timed.depend_on_time() {
        return None;
    }
    if state.plan.columns.iter().any(|column| matches!(column, Column::Derived(..) | Column::Unqualified(_)))
    {
        return None;
    }
    let mut seen =
        Vec::with_capacity(state.view.slots.len() * (1 + state.plan.asks.len() + state.plan.columns.len()));
    let mut table = ValueTable::default();
    for pool in &state.view.pools {
        seen.push(match pool.state {
            PoolState::Usable => 0,
            PoolState::Incomplete => 1,
            PoolState::Invalid(_) => 2,
        });
    }
    for slot in 0..state.view.slots.len() {
        let entry = state.view.slots[slot];
        let (device, slice) = (entry.device, entry.device.slice());
        let in_use = state.view.in_use.has(slot);
        let plain = device.consumes_counters().is_empty()
            && device.binding_conditions().is_none()
            && slice.skip_node_operations().is_empty()
            && !matches!(slice.nodes(), NodeScope::PerDevice)
            && (in_use || !is_allocated(device, &state.view.pools[entry.pool]));
        if !plain || (state.features.consumable_capacity && !is_whole(state, slot)) {
            return None;
        }
        seen.push(u64::MAX - u64::from(in_use));
        for ask in 0..state.plan.asks.len() {
            seen.push(match state.verdict(ask, slot) {
                Verdict::Match => 0,
                Verdict::NoMatch(_) => 1,
                Verdict::Error(_) | Verdict::NotAsked(_) => return None,
            });
        }
        let taints = device.taint_set().0;
        seen.extend([low(taints), low(taints >> 64)]);
        for column in &state.plan.columns {
            // A value that is computed, or of the own driver, is not compared.
            let Column::Attribute(id) = column else { return None };
            match table.values(device.attribute(*id), state.features.list_type_attributes) {
                Values::Missing => seen.push(u64::MAX),
                Values::Odd => seen.push(u64::MAX - 1),
                values @ (Values::One(_) | Values::Many(_)) => {
                    seen.push(values.ids().len() as u64);
                    seen.extend(values.ids().iter().map(|id| u64::from(*id)));
                }
            }
        }
    }
    Some(seen)
}

/// Whether amounts do not matter: nothing is asked for by amount, and the device is given whole.
fn is_whole(state: &State<'_, '_>, slot: usize) -> bool {
    let plain = |capacity: &CapacityValue| capacity.policy.is_none() && !capacity.value.is_negative();
    let device = state.view.slots[slot].device;
    !device.allow_multiple()
        && device.capacity().all(|(_, _, capacity)| plain(capacity))
        && state.plan.asks.iter().all(|ask| ask.amounts.is_empty())
}

fn low(bits: u128) -> u64 {
    u64::try_from(bits & u128::from(u64::MAX)).unwrap_or_default()
}
