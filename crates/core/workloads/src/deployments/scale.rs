//! A deployment that is resized in the middle of a rollout grows or shrinks in proportion: resizing must not hasten it.

use core::cmp::Reverse;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::{
    Wanted,
    sets::{DESIRED, MAX, Sets, age, available, replicas, resize},
};
use crate::{meta, prelude::*, writes::sum};

/// Whether the deployment has been resized since its replica sets were last.
pub(super) fn is_due(wanted: &Wanted<'_>, sets: &Sets) -> bool {
    sets.active().any(|set| number(set, DESIRED).is_some_and(|desired| desired != wanted.replicas))
}

/// Resizes the replica sets.
pub(super) fn scale(wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) {
    let active: Vec<&Arc<ReplicaSet>> = sets.active().collect();
    match active.as_slice() {
        [] => {
            if let Some(latest) = sets.new.as_ref().or(sets.old.last()) {
                resize(wanted, latest, wanted.replicas, plan);
            }
        }
        [only] => {
            resize(wanted, only, wanted.replicas, plan);
        }
        [_, ..] if is_saturated(wanted, sets) => {
            for set in sets.old.iter().filter(|set| replicas(set) > 0) {
                resize(wanted, set, 0, plan);
            }
        }
        [_, ..] if wanted.rolling => in_proportion(wanted, active, plan),
        [_, ..] => {}
    }
}

/// Whether the new replica set has all the pods that there should be.
fn is_saturated(wanted: &Wanted<'_>, sets: &Sets) -> bool {
    sets.new.as_ref().is_some_and(|new| {
        replicas(new) == wanted.replicas
            && number(new, DESIRED) == Some(wanted.replicas)
            && available(new) == wanted.replicas
    })
}

fn in_proportion(wanted: &Wanted<'_>, mut active: Vec<&Arc<ReplicaSet>>, plan: &mut Plan) {
    let allowed = if wanted.replicas > 0 { wanted.total_max() } else { 0 };
    let change = allowed - sum(active.iter().map(|set| replicas(set)));
    // The largest first; of equals the newer grows first and the older shrinks first.
    if change > 0 {
        active.sort_by_key(|set| (Reverse(replicas(set)), Reverse(age(set))));
    } else {
        active.sort_by_key(|set| (Reverse(replicas(set)), age(set)));
    }
    let mut done = 0;
    let mut sizes = Vec::new();
    for set in &active {
        let share = share(wanted, set);
        let left = change - done;
        let part = match change {
            0 => 0,
            1.. => share.min(left),
            ..=-1 => share.max(left),
        };
        done += part;
        sizes.push(replicas(set).saturating_add(part));
    }
    if let Some(largest) = sizes.first_mut() {
        *largest = largest.saturating_add(change - done).max(0);
    }
    for (set, size) in active.into_iter().zip(sizes) {
        resize(wanted, set, size, plan);
    }
}

/// How much a replica set would grow or shrink if all did so in proportion.
fn share(wanted: &Wanted<'_>, set: &ReplicaSet) -> i32 {
    let size = replicas(set);
    if wanted.replicas == 0 {
        return -size;
    }
    let status = wanted.deployment.status.as_ref();
    let before = number(set, MAX).filter(|before| *before > 0);
    let before = before.or(status.and_then(|status| status.replicas)).unwrap_or(0);
    if before == 0 {
        return 0;
    }
    // Rounded half away from zero; all three are positive.
    let exact = i64::from(size) * i64::from(wanted.total_max());
    let rounded = (2 * exact + i64::from(before)) / (2 * i64::from(before));
    i32::try_from(rounded).unwrap_or(i32::MAX) - size
}

fn number(set: &ReplicaSet, annotation: &str) -> Option<i32> {
    meta::annotation(&set.metadata, annotation)?.parse().ok()
}
