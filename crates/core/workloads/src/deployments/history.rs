//! Revisions: which template came when, and how many are kept.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::{
    Wanted,
    sets::{self, REVISION, REVISION_HISTORY, Sets},
};
use crate::{meta, prelude::*, writes};

/// Characters of the annotation that lists a replica set's earlier revisions.
const HISTORY_CHARS_MAX: usize = 2_000;
/// Kubernetes' default of `revisionHistoryLimit`: old replica sets that are kept.
const KEPT: i32 = 10;

/// The revision of the next template.
pub(super) fn next_revision(sets: &Sets) -> i64 {
    sets.old.iter().map(|set| sets::revision(set)).max().unwrap_or(0) + 1
}

/// Keeps annotations in line: the current replica set has the highest revision, and the deployment says which.
pub(super) fn keep_revision(wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) {
    // It is not made yet.
    let Some(new) = &sets.new else { return };
    let next = next_revision(sets);
    let known = sets::revision(new);
    let mut changes = serde_json::Map::new();
    for (name, value) in sets::inherited_annotations(wanted.deployment) {
        if meta::annotation(&new.metadata, &name) != Some(&value) {
            changes.insert(name, json!(value));
        }
    }
    if known < next {
        changes.insert(REVISION.to_owned(), json!(next.to_string()));
        if known > 0 {
            changes.insert(REVISION_HISTORY.to_owned(), json!(with_revision(new, known)));
        }
    }
    let min_ready = wanted.deployment.spec.min_ready_seconds.unwrap_or(0);
    let mut body = json!({});
    if !changes.is_empty() {
        body["metadata"] = json!({"annotations": changes});
    }
    if new.spec.min_ready_seconds.unwrap_or(0) != min_ready {
        body["spec"] = json!({"minReadySeconds": min_ready});
    }
    if body != json!({}) {
        plan.write(writes::patch(&resource::REPLICA_SETS, &new.metadata, body));
        return;
    }
    let revision = known.max(next).to_string();
    if meta::annotation(&wanted.deployment.metadata, REVISION) != Some(&revision) {
        let body = json!({"metadata": {"annotations": {REVISION: revision}}});
        plan.write(writes::patch(&resource::DEPLOYMENTS, &wanted.deployment.metadata, body));
    }
}

/// The revisions that a replica set stood for before, with one more; the oldest make room.
fn with_revision(set: &ReplicaSet, revision: i64) -> String {
    let known = meta::annotation(&set.metadata, REVISION_HISTORY).unwrap_or_default();
    let mut revisions: Vec<&str> = known.split(',').filter(|entry| !entry.is_empty()).collect();
    let revision = revision.to_string();
    revisions.push(&revision);
    let mut from = 0;
    while from + 1 < revisions.len() && revisions[from..].join(",").len() > HISTORY_CHARS_MAX {
        from += 1;
    }
    revisions[from..].join(",")
}

/// Deletes old replica sets beyond the limit, the earliest revisions first.
pub(super) fn clean(wanted: &Wanted<'_>, sets: &Sets, plan: &mut Plan) {
    let limit = writes::size(wanted.deployment.spec.revision_history_limit.unwrap_or(KEPT));
    let mut old: Vec<_> = sets.old.iter().filter(|set| !meta::is_leaving(&set.metadata)).collect();
    old.sort_by_key(|set| (sets::revision(set), sets::age(set)));
    let surplus = old.len().saturating_sub(limit);
    for set in old.into_iter().take(surplus).filter(|set| is_empty(set)) {
        plan.write(writes::delete(&resource::REPLICA_SETS, &set.metadata));
    }
}

/// Whether it neither has nor should have pods, and knows it.
fn is_empty(set: &ReplicaSet) -> bool {
    let status = set.status.as_ref();
    let observed = status.and_then(|status| status.observed_generation).unwrap_or(0);
    sets::replicas(set) == 0
        && status.map_or(0, |status| status.replicas) == 0
        && set.metadata.generation.unwrap_or(0) <= observed
}
