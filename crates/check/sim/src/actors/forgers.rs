//! Forged identities: a node with a stolen key publishes slices in the pools of other nodes, and people and controllers write that another person approved
//! what they want.
//!
//! Every API server refuses a node that writes a slice of another node. Our server refuses a node's slice in a pool that has another node's, too; another server
//! stores it, and no controller minds it. Our server names the author and the approver itself, whatever a client writes.

use lazaret_model::{
    Approval, DeviceTaintRule, DisruptionGuard, NodeScope, PoolSpec, ResourceSlice, SliceTaint, Taint,
    TaintApproval, Text,
};
use std::sync::Arc;

use crate::{coverage::Mark, mutant::Mutant, palette, scenario::Op, world::World};

/// The name that forgers give the approver: no user has it.
pub(crate) const FORGED_APPROVER: &str = "bob, as somebody else wrote";
/// The number of a taint that evicts at once.
const EVICTING_TAINT: u32 = 170;
/// The generations by which a forged slice is ahead.
const AHEAD: i64 = 7;
/// The devices that it taints: the first ones.
const TAINTED: u32 = 8;

/// Carries out one of the operations of forgers, on a pool or on this rule.
pub(crate) fn forge(world: &mut World, op: Op, (number, how): (u32, u32), rule: &Text) {
    if op == Op::ForgeSlice {
        forge_slice(world, number, how);
    } else {
        forge_approval(world, rule, how);
    }
}

/// A node taints the devices of a pool of another node, as `how` says, or takes such a slice away.
fn forge_slice(world: &mut World, number: u32, how: u32) {
    let pools = &world.drivers.pools;
    let Some(pool) = pools.get(number as usize % pools.len().max(1)) else { return };
    let own = |node: &Text| *node != pool.name && pool.is_of_node();
    let thieves = (0..world.config.nodes).map(palette::node).filter(own).collect::<Vec<Text>>();
    let Some(thief) = thieves.get(how as usize % thieves.len().max(1)) else { return };
    world.coverage.hit(Mark::ForgedSlice);
    let name: Text = format!("forged-{thief}-{}-{}", pool.driver, pool.name).into();
    let is_there = world.api.slices.get(&name).is_some();
    if is_there && how.is_multiple_of(3) {
        world.api.slices.remove(&mut world.api.versions, &name);
        return;
    }
    // Our server refuses a node's slice in a pool that has a slice of another node.
    let is_pool = |slice: &ResourceSlice| slice.driver == pool.driver && slice.pool.name == pool.name;
    let has_other = |slice: &ResourceSlice| is_pool(slice) && slice.nodes.own_node() != Some(thief);
    if world.config.once != 0 && world.api.slices.iter().any(|stored| has_other(stored.object)) {
        return;
    }
    let taint =
        Taint { evictions_per_second: None, ..palette::taint(EVICTING_TAINT, crate::api::wall(world.now)) };
    let taints =
        (0..TAINTED).map(|device| SliceTaint { device: palette::device(device), taint: taint.clone() });
    let slice = ResourceSlice {
        uid: name.clone(),
        driver: pool.driver.clone(),
        pool: PoolSpec { name: pool.name.clone(), generation: pool.generation() + AHEAD, slice_count: 1 },
        nodes: NodeScope::Node(thief.clone()),
        taints: taints.collect(),
        name,
        ..ResourceSlice::default()
    };
    world.api.slices.put(&mut world.api.versions, slice);
    world.coverage.hit(Mark::ForgedSliceStored);
}

/// Somebody approves a rule, or all that the guards hold, and writes that another person did.
fn forge_approval(world: &mut World, rule: &Text, how: u32) {
    let (is_permitted, real) = match how % 4 {
        0 => (true, "alice"),
        1 => (true, "system:lazaret:device-health"),
        2 => (true, "system:node:n"),
        // Without the right to do so.
        _ => (false, ""),
    };
    if !is_permitted {
        return;
    }
    world.coverage.hit(Mark::ForgedApproval);
    let by = Text::from(if world.mutant == Some(Mutant::UnsignedApprovals) { FORGED_APPROVER } else { real });
    if (how / 4).is_multiple_of(2) {
        forge_taint_approvals(world, &by);
    }
    let Some(stored) = world.api.rules.get(rule) else { return };
    let mut rule = DeviceTaintRule::clone(stored.object);
    let seen = world.impact(0, &rule, None);
    let (uid, generation) = (rule.uid.clone(), rule.generation);
    let approval = Approval { uid, generation, seen, by: Some(by), ..Approval::default() };
    rule.review.get_or_insert_default().approval = Some(approval);
    world.api.rules.put(&mut world.api.versions, rule);
}

fn forge_taint_approvals(world: &mut World, by: &Text) {
    for guard in world.guards.values_mut() {
        let approvals = guard.held.iter().map(|hold| TaintApproval {
            taint: hold.taint.clone(),
            since: hold.since,
            seen: hold.impact,
            by: Some(by.clone()),
        });
        let approvals: Vec<TaintApproval> = approvals.collect();
        if !approvals.is_empty() {
            *guard = Arc::new(DisruptionGuard { approvals, ..DisruptionGuard::clone(guard) });
        }
    }
    world.tell_guards();
}
