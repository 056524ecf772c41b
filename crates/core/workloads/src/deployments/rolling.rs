//! From one template to the next a few pods at a time.

use k8s_openapi::api::apps::v1::ReplicaSet;

use lazaret_invariant::invariant;

use super::{
    Wanted, history,
    sets::{self, Sets, available, replicas, resize},
};
use crate::{
    meta, pods,
    prelude::*,
    writes::{count, sum},
};

/// Takes the next step. Returns whether there was one.
pub(super) fn roll(world: &World, wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) -> bool {
    grow(world, wanted, sets, plan) || shrink(wanted, sets, plan)
}

/// Gives the new replica set as many pods as there is room for.
///
/// DEVIATION(strict-surge): pods that a replica set has not deleted yet take up room, even though it should.
fn grow(world: &World, wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) -> bool {
    let live = |set: &ReplicaSet| {
        count(world.pods().managed_by(meta::uid(&set.metadata)).filter(|pod| pods::is_active(pod)))
    };
    let taken = sum(sets.all().map(|set| replicas(set).max(live(set))));
    let room = (wanted.total_max() - taken).max(0);
    match &sets.new {
        None => {
            let size = room.min(wanted.replicas);
            sets::create(world, wanted, history::next_revision(sets), size, plan);
            true
        }
        Some(new) => {
            let size = replicas(new);
            let target = if size > wanted.replicas {
                wanted.replicas
            } else {
                size + room.min(wanted.replicas - size)
            };
            size != target && resize(wanted, new, target, plan)
        }
    }
}

/// Takes pods from the old replica sets, first those that are of no use, then as many as others stand in for.
fn shrink(wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) -> bool {
    let Some(new) = invariant!(&sets.new, "old replica sets shrink after the new one is made") else {
        return false;
    };
    let unready = replicas(new) - available(new);
    let spare = sets.total() - wanted.available_min() - unready;
    if spare <= 0 {
        return false;
    }
    let mut sizes: Vec<i32> = sets.old.iter().map(|set| replicas(set)).collect();
    let mut taken = 0;
    for (set, size) in sets.old.iter().zip(&mut sizes) {
        let useless = (*size - available(set)).clamp(0, spare - taken);
        *size -= useless;
        taken += useless;
    }
    // A replica set's status may still count pods that were scaled away, so both limits hold.
    let counted = sum(sets.all().map(|set| available(set).min(replicas(set))));
    let mut surplus = (counted - wanted.available_min()).min(spare - taken);
    for size in &mut sizes {
        let dispensable = (*size).min(surplus).max(0);
        *size -= dispensable;
        surplus -= dispensable;
    }
    let mut moved = false;
    for (set, size) in sets.old.iter().zip(sizes) {
        moved |= size != replicas(set) && resize(wanted, set, size, plan);
    }
    moved
}
