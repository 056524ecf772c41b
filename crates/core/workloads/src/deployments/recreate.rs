//! From one template to the next with nothing in between.

use super::{
    Wanted, history,
    sets::{self, Sets, replicas, resize},
};
use crate::{meta, pods, prelude::*};

/// Takes the next step. Returns whether there was one.
pub(super) fn roll(context: &Context<'_>, wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) -> bool {
    let mut moved = false;
    for set in &sets.old {
        moved |= replicas(set) > 0 && resize(wanted, set, 0, plan);
    }
    if moved || has_old_pods(context.world, sets) {
        return moved;
    }
    match &sets.new {
        None => {
            sets::create(context.world, wanted, history::next_revision(sets), wanted.replicas, plan);
            true
        }
        Some(new) => replicas(new) != wanted.replicas && resize(wanted, new, wanted.replicas, plan),
    }
}

/// Whether some pod of an old template may still run.
fn has_old_pods(world: &World, sets: &Sets) -> bool {
    sets.old.iter().any(|set| {
        let counted = set.status.as_ref().is_some_and(|status| status.replicas > 0);
        counted || world.pods().managed_by(meta::uid(&set.metadata)).any(|pod| !pods::is_finished(pod))
    })
}
