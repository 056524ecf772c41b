//! The devices of a driver's pools, and how many are available.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_fleet::Fleet;
use lazaret_invariant::invariant;
use lazaret_model::{DeviceId, Effect, NodeScope, Quantity, ResourceSlice, Text, Timestamp};

use crate::{
    Request,
    slice::{Slice, Usage},
    views::{self, CapacityStatus, PartitionStatus, ShareableStatus},
};

/// Bytes of a pool's error that the API takes.
const ERROR_BYTES_MAX: usize = 256;

/// Bytes that the pools of a status take at most as JSON, by [`PoolStatus::bytes`]: an object of more than 1.5 MiB is not stored.
const POOLS_BYTES_MAX: usize = 1 << 20;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Pools that match, listed or not.
    pub pool_count: usize,
    /// By name, the first as many as the request wants and an object can hold.
    pub pools: Vec<PoolStatus>,
    /// When it was computed.
    pub at: Timestamp,
    /// The message of the condition `Complete`.
    pub message: String,
}

/// The status of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PoolStatus {
    /// Its driver.
    pub driver: Text,
    /// Its name.
    pub pool: Text,
    /// The generation that was counted.
    pub generation: i64,
    /// The node of all its slices.
    pub node: Option<Text>,
    /// Devices by what can be done with them.
    pub counts: Counts,
    /// Partitions by type.
    pub partitions: Vec<PartitionStatus>,
    /// Devices that several claims may share.
    pub shareable: Option<ShareableStatus>,
    /// The reason why it could not be counted.
    pub error: Option<String>,
}

impl PoolStatus {
    /// Its approximate bytes as JSON, at most: names of fields and numbers, then texts.
    fn bytes(&self) -> usize {
        let texts = self.driver.len() + self.pool.len() + self.node.as_ref().map_or(0, |node| node.len());
        let partitions: usize =
            self.partitions.iter().map(|each| 80 + each.attribute.len() + each.kind.len()).sum();
        let capacities = self.shareable.iter().flat_map(|shareable| &shareable.capacity);
        let amounts = |each: &CapacityStatus| {
            [&each.total, &each.consumed, &each.available]
                .map(|amount| amount.to_string().len())
                .iter()
                .sum::<usize>()
        };
        let capacities: usize = capacities.map(|each| 80 + each.name.len() + amounts(each)).sum();
        500 + texts + self.error.as_ref().map_or(0, String::len) + partitions + capacities
    }
}

/// Devices of a pool by what can be done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// Slices of the pool.
    pub slices: usize,
    /// All devices.
    pub total: usize,
    /// In use by a claim.
    pub allocated: usize,
    /// Neither in use nor tainted.
    pub available: usize,
    /// With a taint NoSchedule or NoExecute.
    pub unavailable: usize,
}

/// The answer to a request, unless a pool is incomplete.
pub(crate) fn answer<'a>(
    request: &Request,
    slices: impl Iterator<Item = &'a Slice>,
    fleet: &'a Fleet,
    now: Timestamp,
) -> Option<Status> {
    let pools = newest_generations(request, slices);
    let incomplete = |slices: &Vec<&Slice>| {
        slices.first().is_some_and(|first| to_i64(slices.len()) < first.slice.pool.slice_count)
    };
    if pools.values().any(incomplete) {
        return None;
    }
    let usage = usage_of(request, fleet);
    let unused = Usage::default();
    let pool_count = pools.len();
    let mut bytes = 0;
    let pools: Vec<PoolStatus> = pools
        .iter()
        .take(request.pools_max)
        .map(|(pool, slices)| pool_status(request, slices, usage.get(pool).unwrap_or(&unused), fleet))
        .take_while(|pool| {
            bytes += pool.bytes();
            bytes <= POOLS_BYTES_MAX
        })
        .collect();
    let wrong = pools.iter().filter(|pool| pool.error.is_some()).count();
    let message = match wrong {
        0 => format!("Calculated status for {} pools", pools.len()),
        wrong => format!("Calculated status for {} pools ({wrong} incomplete)", pools.len()),
    };
    Some(Status { pool_count, pools, at: now, message })
}

/// The slices of each pool that is asked for, those of its newest generation alone.
fn newest_generations<'a>(
    request: &Request,
    slices: impl Iterator<Item = &'a Slice>,
) -> BTreeMap<&'a str, Vec<&'a Slice>> {
    let mut pools: BTreeMap<&str, Vec<&Slice>> = BTreeMap::new();
    for slice in slices {
        let ResourceSlice { driver, pool, .. } = &*slice.slice;
        if *driver != request.driver || request.pool.as_ref().is_some_and(|name| *name != pool.name) {
            continue;
        }
        let known = pools.entry(&pool.name).or_default();
        match known.first().map_or(pool.generation, |first| first.slice.pool.generation) {
            newest if newest > pool.generation => {}
            newest if newest < pool.generation => *known = alloc::vec![slice],
            _ => known.push(slice),
        }
    }
    pools
}

fn usage_of<'a>(request: &Request, fleet: &'a Fleet) -> BTreeMap<&'a str, Usage<'a>> {
    let mut pools: BTreeMap<&str, Usage<'_>> = BTreeMap::new();
    let results = fleet.claims().filter_map(|(_, claim)| claim.allocation.as_ref()).flat_map(|a| &a.results);
    for result in results.filter(|result| !result.admin_access && result.device.driver == request.driver) {
        let usage = pools.entry(&result.device.pool).or_default();
        usage.devices.insert(&result.device.device);
        for (key, amount) in &result.consumed_capacity {
            let sum = usage.consumed.entry(key).or_insert_with(|| Quantity::from_i64(0));
            *sum = sum.add(amount);
        }
    }
    pools
}

fn pool_status(request: &Request, slices: &[&Slice], usage: &Usage<'_>, fleet: &Fleet) -> PoolStatus {
    let Some(first) = invariant!(slices.first(), "a pool that is found has a slice") else {
        return PoolStatus::default();
    };
    let node = |slice: &Slice| match &slice.slice.nodes {
        NodeScope::Node(name) => Some(name.clone()),
        NodeScope::Selector(_) | NodeScope::All | NodeScope::PerDevice | NodeScope::Unknown => None,
    };
    let devices = || slices.iter().flat_map(|slice| &slice.slice.devices);
    let (driver, pool) = (&first.slice.driver, &first.slice.pool.name);
    let tainted = |device: &Text| {
        let id = DeviceId { driver: driver.clone(), pool: pool.clone(), device: device.clone() };
        fleet.effective_taints(&id).any(|taint| keeps_away(&taint.taint.effect))
    };
    let (total, allocated) = (devices().count(), usage.devices.len());
    let unavailable = devices().filter(|device| tainted(&device.name)).count();
    let available = total.saturating_sub(allocated + unavailable);
    let views = views::of(request.partition_attribute.as_ref(), slices, usage);
    PoolStatus {
        driver: driver.clone(),
        pool: pool.clone(),
        generation: first.slice.pool.generation,
        node: node(first).filter(|name| slices.iter().all(|slice| node(slice).as_ref() == Some(name))),
        counts: Counts { slices: slices.len(), total, allocated, available, unavailable },
        partitions: views.partitions,
        shareable: views.shareable,
        error: views.error.map(|text| shortened(text, ERROR_BYTES_MAX)),
    }
}

fn keeps_away(effect: &Effect) -> bool {
    match effect {
        Effect::NoSchedule | Effect::NoExecute => true,
        Effect::None | Effect::Unknown(_) => false,
    }
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The text, cut after at most `bytes_max` bytes.
fn shortened(mut text: String, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    text
}
