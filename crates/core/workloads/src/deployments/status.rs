//! The status of a deployment, with the times of its conditions.

use k8s_openapi::api::apps::v1::{DeploymentCondition, DeploymentStatus, ReplicaSet};

use super::{
    Wanted,
    sets::{Sets, name_and_hash, replicas},
};
use crate::{
    meta,
    prelude::*,
    writes::{self, unless_zero},
};

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";
/// A deadline that means none.
const NO_DEADLINE: i32 = i32::MAX;

/// Whether the deployment's status says that the rollout is over, and the replica sets agree.
pub(super) fn is_complete(wanted: &Wanted<'_>, sets: &Sets) -> bool {
    complete(wanted, &counts(wanted, sets))
}

/// Writes the status, if it says something else; looks again when the deadline for progress comes.
pub(super) fn report(
    context: &Context<'_>,
    wanted: &Wanted<'_>,
    sets: &Sets,
    rollout: bool,
    plan: &mut Plan,
) {
    let old = wanted.deployment.status.clone().unwrap_or_default();
    let mut new = counts(wanted, sets);
    let mut conditions = Conditions { now: context.now, list: old.conditions.clone().unwrap_or_default() };
    let available = new.available_replicas.unwrap_or(0) >= wanted.available_min();
    let (status, reason, message) = if available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions.set(AVAILABLE, status, reason, message.to_owned());
    let deadline = wanted.deployment.spec.progress_deadline_seconds.filter(|secs| *secs != NO_DEADLINE);
    match deadline {
        None => conditions.drop(PROGRESSING),
        Some(secs) => {
            pause(wanted, &mut conditions);
            if rollout {
                progress(context, wanted, sets, &new, secs, &mut conditions);
            }
            if let Some(at) = conditions.deadline(secs).filter(|_| !complete(wanted, &new)) {
                plan.look_again(at);
            }
        }
    }
    match failure_of(sets) {
        Some((reason, message)) => conditions.set(FAILURE, "True", &reason, message),
        None => conditions.drop(FAILURE),
    }
    new.conditions = Some(conditions.list);
    if normal(&new) != normal(&old) {
        plan.write(writes::status(&resource::DEPLOYMENTS, &wanted.deployment.metadata, body(&new)));
    }
}

/// The numbers of a status.
fn counts(wanted: &Wanted<'_>, sets: &Sets) -> DeploymentStatus {
    let sum = |number: fn(&ReplicaSet) -> i32| Some(writes::sum(sets.all().map(|set| number(set))));
    let total = writes::sum(sets.all().map(|set| replicas(set)));
    let of = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let available = sum(|set| set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0));
    DeploymentStatus {
        observed_generation: wanted.deployment.metadata.generation,
        replicas: sum(|set| set.status.as_ref().map_or(0, |status| status.replicas)),
        updated_replicas: Some(sets.new.as_ref().map_or(0, |set| of(set))),
        ready_replicas: sum(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)),
        available_replicas: available,
        unavailable_replicas: Some((total - available.unwrap_or(0)).max(0)),
        terminating_replicas: sum(|set| {
            set.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0)
        }),
        collision_count: wanted.deployment.status.as_ref().and_then(|status| status.collision_count),
        conditions: None,
    }
}

fn complete(wanted: &Wanted<'_>, status: &DeploymentStatus) -> bool {
    let all = Some(wanted.replicas);
    status.updated_replicas == all && status.replicas == all && status.available_replicas == all
}

/// A deployment that is paused makes no progress, and none is expected until some time after it resumes.
fn pause(wanted: &Wanted<'_>, conditions: &mut Conditions) {
    let reason = conditions.get(PROGRESSING).and_then(|condition| condition.reason.clone());
    let reason = reason.as_deref();
    let paused = wanted.deployment.spec.paused == Some(true);
    if reason == Some(TIMED_OUT) {
        return;
    }
    if paused && reason != Some(PAUSED) {
        conditions.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned());
    } else if !paused && reason == Some(PAUSED) {
        conditions.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned());
    }
}

/// Whether the rollout has ended, moved, or stood still for too long.
fn progress(
    context: &Context<'_>,
    wanted: &Wanted<'_>,
    sets: &Sets,
    new: &DeploymentStatus,
    secs: i32,
    conditions: &mut Conditions,
) {
    let deployment = wanted.deployment;
    let old = deployment.status.clone().unwrap_or_default();
    let current = conditions.get(PROGRESSING).cloned();
    let reason = current.as_ref().and_then(|condition| condition.reason.as_deref());
    if new.replicas == new.updated_replicas && reason == Some(COMPLETE) {
        return;
    }
    let subject = match &sets.new {
        Some(set) => format!("ReplicaSet \"{}\"", meta::name(&set.metadata)),
        None => format!("Deployment \"{}\"", meta::name(&deployment.metadata)),
    };
    let number = |value: Option<i32>| value.unwrap_or(0);
    let old_pods = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    let moved = number(new.updated_replicas) > number(old.updated_replicas)
        || old_pods(new) < old_pods(&old)
        || number(new.ready_replicas) > number(old.ready_replicas)
        || number(new.available_replicas) > number(old.available_replicas);
    let overdue =
        reason != Some(COMPLETE) && conditions.deadline(secs).is_some_and(|at| at <= conditions.now);
    if complete(wanted, new) {
        conditions.set(PROGRESSING, "True", COMPLETE, format!("{subject} has successfully progressed."));
    } else if moved {
        conditions.renew(PROGRESSING, "True", "ReplicaSetUpdated", format!("{subject} is progressing."));
    } else if let (None, Some(why)) = (&sets.new, context.failure) {
        let message = format!("Failed to create new replica set \"{}\": {why}", name_and_hash(deployment).0);
        conditions.set(PROGRESSING, "False", "ReplicaSetCreateError", message);
    } else if sets.new.is_none() && !matches!(reason, Some("NewReplicaSetCreated" | "ReplicaSetCreateError"))
    {
        let message = format!("Created new replica set \"{}\"", name_and_hash(deployment).0);
        conditions.renew(PROGRESSING, "True", "NewReplicaSetCreated", message);
    } else if current.is_none() {
        conditions.renew(PROGRESSING, "True", "FoundNewReplicaSet", format!("Found new {subject}"));
    } else if overdue {
        conditions.set(PROGRESSING, "False", TIMED_OUT, format!("{subject} has timed out progressing."));
    }
}

/// Why some replica set cannot make its pods; the new one's reason first.
fn failure_of(sets: &Sets) -> Option<(String, String)> {
    sets.new.iter().chain(&sets.old).find_map(|set| {
        let conditions = set.status.as_ref()?.conditions.iter().flatten();
        let failure = conditions.into_iter().find(|condition| condition.type_.as_deref() == Some(FAILURE))?;
        Some((failure.reason.clone().unwrap_or_default(), failure.message.clone().unwrap_or_default()))
    })
}

/// Conditions, each there once.
struct Conditions {
    now: Timestamp,
    list: Vec<DeploymentCondition>,
}

impl Conditions {
    fn get(&self, kind: &str) -> Option<&DeploymentCondition> {
        self.list.iter().find(|condition| condition.type_.as_deref() == Some(kind))
    }

    fn drop(&mut self, kind: &str) {
        self.list.retain(|condition| condition.type_.as_deref() != Some(kind));
    }

    /// Says something, unless it was said already.
    fn set(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let same = self.get(kind).is_some_and(|known| {
            known.status.as_deref() == Some(status) && known.reason.as_deref() == Some(reason)
        });
        if !same {
            self.renew(kind, status, reason, message);
        }
    }

    /// Says something, even if only the time is new.
    fn renew(&mut self, kind: &str, status: &str, reason: &str, message: String) {
        let now = meta::wire_time(self.now);
        let since = self.get(kind).filter(|known| known.status.as_deref() == Some(status));
        let since = since.and_then(|known| known.last_transition_time.clone()).unwrap_or_else(|| now.clone());
        self.drop(kind);
        self.list.push(DeploymentCondition {
            type_: Some(kind.to_owned()),
            status: Some(status.to_owned()),
            reason: Some(reason.to_owned()),
            message: Some(message),
            last_transition_time: Some(since),
            last_update_time: Some(now),
        });
    }

    /// When progress is overdue; nothing once that was said, or the rollout has ended.
    fn deadline(&self, secs: i32) -> Option<Timestamp> {
        let progressing = self.get(PROGRESSING)?;
        if matches!(progressing.reason.as_deref(), Some(TIMED_OUT | COMPLETE | PAUSED)) {
            return None;
        }
        // A second more: times on the wire are cut to seconds.
        let since = progressing.last_update_time.as_ref().map(meta::timestamp)?;
        Some(since.plus_secs(i64::from(secs) + 1))
    }
}

/// A status where zero and nothing are the same.
fn normal(status: &DeploymentStatus) -> DeploymentStatus {
    let plain = |number: Option<i32>| number.filter(|number| *number != 0);
    let mut conditions = status.conditions.clone().unwrap_or_default();
    conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
    DeploymentStatus {
        replicas: plain(status.replicas),
        updated_replicas: plain(status.updated_replicas),
        ready_replicas: plain(status.ready_replicas),
        available_replicas: plain(status.available_replicas),
        unavailable_replicas: plain(status.unavailable_replicas),
        terminating_replicas: Some(status.terminating_replicas.unwrap_or(-1)),
        conditions: Some(conditions),
        ..status.clone()
    }
}

fn body(status: &DeploymentStatus) -> Value {
    let plain = |number: Option<i32>| unless_zero(number.unwrap_or(0));
    json!({
        "observedGeneration": status.observed_generation,
        "replicas": plain(status.replicas),
        "updatedReplicas": plain(status.updated_replicas),
        "readyReplicas": plain(status.ready_replicas),
        "availableReplicas": plain(status.available_replicas),
        "unavailableReplicas": plain(status.unavailable_replicas),
        "terminatingReplicas": status.terminating_replicas,
        "conditions": status.conditions,
    })
}
