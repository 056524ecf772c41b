//! Disruption budgets: how many pods of a group may be disturbed now.

use k8s_openapi::{
    api::policy::v1::PodDisruptionBudget,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};

use lazaret_invariant::invariant;

use crate::{
    meta, pods,
    portion::{is_percentage, portion},
    prelude::*,
    scales::Scale,
    selector, writes,
    writes::count,
};

/// A pod whose eviction was permitted counts as disrupted for this time; after that it is assumed not to be deleted.
const DELETION_SECS_MAX: i64 = 120;
const ALLOWED: &str = "DisruptionAllowed";

/// Computes the status of PodDisruptionBudgets.
pub const RULES: Rules = Rules {
    name: "disruption",
    needs: &[
        &resource::BUDGETS,
        &resource::PODS,
        &resource::REPLICA_SETS,
        &resource::DEPLOYMENTS,
        &resource::STATEFUL_SETS,
        &resource::REPLICATION_CONTROLLERS,
    ],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::PodDisruptionBudget(budget)) => keys.push(Key::of(&budget.metadata)),
        Some(Object::Pod(_)) => {
            for object in change.old.iter().chain(&change.new) {
                keys.extend(budgets_for(world, object.metadata()));
            }
        }
        Some(Object::ReplicaSet(_) | Object::StatefulSet(_) | Object::ReplicationController(_)) => {
            let uid = change.latest().map(Object::uid).unwrap_or_default();
            for pod in world.pods().managed_by(uid).take(1) {
                keys.extend(budgets_for(world, &pod.metadata));
            }
        }
        Some(Object::Deployment(deployment)) => {
            for set in world.replica_sets().managed_by(meta::uid(&deployment.metadata)) {
                for pod in world.pods().managed_by(meta::uid(&set.metadata)).take(1) {
                    keys.extend(budgets_for(world, &pod.metadata));
                }
            }
        }
        // It may be of a kind that says by its scale how many pods it wants.
        Some(Object::Other(_, metadata)) => {
            for pod in world.pods().managed_by(meta::uid(metadata)).take(1) {
                keys.extend(budgets_for(world, &pod.metadata));
            }
        }
        Some(_) | None => {}
    }
}

fn budgets_for<'a>(world: &'a World, pod: &'a ObjectMeta) -> impl Iterator<Item = Key> + 'a {
    let namespace = pod.namespace.as_deref().unwrap_or_default();
    world.budgets().within(namespace).filter_map(move |(key, budget)| {
        let labels = budget.spec.as_ref()?.selector.as_ref()?;
        selector::matches(labels, pod).then(|| key.clone())
    })
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(budget) = context.world.budgets().get(context.key) else { return };
    // Without a selector it covers no pod.
    let Some(labels) = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else { return };
    let covered = selector::select(context.world, &context.key.namespace, labels);
    let (expected, wanted) = match expectation(context.world, budget, &covered) {
        Ok(numbers) => numbers,
        Err(UnknownCount::Problem(why)) => return fail(context, budget, &why, plan),
        Err(UnknownCount::Unasked(reads)) => {
            if let Some(why) = context.failure {
                fail(context, budget, why, plan);
            }
            return reads.into_iter().for_each(|read| plan.write(read));
        }
    };
    let disrupted = disrupted(context, budget, &covered, plan);
    let healthy = count(covered.iter().filter(|pod| {
        !meta::is_leaving(&pod.metadata)
            && !disrupted.contains_key(meta::name(&pod.metadata))
            && pods::is_ready(pod)
    }));
    let allowed = if expected <= 0 { 0 } else { (healthy - wanted).max(0) };
    let old = budget.status.clone().unwrap_or_default();
    let number = |value: Option<i32>| value.unwrap_or(0);
    let conditions = conditions(context, budget, allowed > 0, None);
    let same = old.observed_generation == budget.metadata.generation
        && number(old.expected_pods) == expected
        && number(old.desired_healthy) == wanted
        && number(old.current_healthy) == healthy
        && number(old.disruptions_allowed) == allowed
        && old.disrupted_pods.clone().unwrap_or_default() == disrupted
        && old.conditions.as_ref() == Some(&conditions);
    if same {
        return;
    }
    let gone =
        old.disrupted_pods.unwrap_or_default().into_keys().filter(|name| !disrupted.contains_key(name));
    let mut map = json!(disrupted);
    gone.for_each(|name| map[name] = Value::Null);
    let status = json!({
        "observedGeneration": budget.metadata.generation,
        "expectedPods": expected,
        "desiredHealthy": wanted,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "disruptedPods": if disrupted.is_empty() { Value::Null } else { map },
        "conditions": conditions,
    });
    plan.write(writes::status(&resource::BUDGETS, &budget.metadata, status));
}

/// Why it is not known how many pods there should be.
enum UnknownCount {
    /// It cannot be.
    Problem(String),
    /// Owners have to be asked first.
    Unasked(Vec<Write>),
}

/// How many pods there should be, and how many of them healthy.
fn expectation(
    world: &World,
    budget: &PodDisruptionBudget,
    covered: &[&Arc<Pod>],
) -> Result<(i32, i32), UnknownCount> {
    let Some(spec) = invariant!(&budget.spec, "a budget with a selector has a spec") else {
        return Ok((0, 0));
    };
    if let Some(limit) = &spec.max_unavailable {
        let expected = scale(world, covered)?;
        return Ok((expected, (expected - portion(limit, expected, true)).max(0)));
    }
    match &spec.min_available {
        None => Ok((0, 0)),
        Some(least) if is_percentage(least) => {
            let expected = scale(world, covered)?;
            Ok((expected, portion(least, expected, true)))
        }
        Some(least) => Ok((count(covered), portion(least, 0, true))),
    }
}

/// How many pods the owners of these pods want in all. Pods without an owner do not count.
fn scale(world: &World, covered: &[&Arc<Pod>]) -> Result<i32, UnknownCount> {
    let mut owners: BTreeMap<String, i32> = BTreeMap::new();
    let mut unasked = Vec::new();
    for pod in covered {
        let Some(owner) = meta::controller_of(&pod.metadata) else { continue };
        if owners.contains_key(&owner.uid) {
            continue;
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let known = owner_scale(world, namespace, owner)
            .map_or_else(|| other_scale(world, owner), |(uid, replicas)| Ok(Some((uid, replicas))));
        owners.insert(owner.uid.clone(), 0);
        match known {
            Ok(Some((uid, replicas))) => drop(owners.insert(uid, replicas)),
            Ok(None) => {
                let why = format!("found no controllers for pod \"{}\"", meta::name(&pod.metadata));
                return Err(UnknownCount::Problem(why));
            }
            Err(UnknownCount::Unasked(reads)) => unasked.extend(reads),
            Err(problem @ UnknownCount::Problem(_)) => return Err(problem),
        }
    }
    if unasked.is_empty() { Ok(owners.values().sum()) } else { Err(UnknownCount::Unasked(unasked)) }
}

/// The number that an owner of any other kind says by its subresource `scale`; nothing if there is no such owner.
fn other_scale(world: &World, owner: &OwnerReference) -> Result<Option<(String, i32)>, UnknownCount> {
    let Some(node) = world.graph().get(&owner.uid) else { return Ok(None) };
    match world.scale(&owner.uid) {
        Some(Scale::Replicas(replicas)) => Ok(Some((owner.uid.clone(), replicas))),
        Some(Scale::Absent) => {
            let Resource { group, plural, .. } = *node.resource;
            let dot = if group.is_empty() { "" } else { "." };
            Err(UnknownCount::Problem(format!(
                "{plural}{dot}{group} does not implement the scale subresource"
            )))
        }
        None => {
            let (resource, key, uid) = (node.resource, node.key.clone(), owner.uid.clone());
            Err(UnknownCount::Unasked([Write::ReadScale { resource, key, uid }].into()))
        }
    }
}

/// The owner that decides on the number, and the number: a deployment for its replica sets.
fn owner_scale(world: &World, namespace: &str, owner: &OwnerReference) -> Option<(String, i32)> {
    let key = Key::new(namespace, owner.name.as_str());
    let is = |resource: &Resource| resource.is(&owner.api_version, &owner.kind);
    if is(&resource::REPLICA_SETS) {
        let set = world.replica_sets().get(&key).filter(|set| meta::uid(&set.metadata) == owner.uid)?;
        let above = meta::controller_of(&set.metadata)
            .filter(|above| resource::DEPLOYMENTS.is(&above.api_version, &above.kind))
            .and_then(|above| world.deployments().get(&Key::new(namespace, above.name.as_str())));
        return Some(match above {
            Some(deployment) => {
                (meta::uid(&deployment.metadata).to_owned(), deployment.spec.replicas.unwrap_or(1))
            }
            None => (owner.uid.clone(), set.spec.replicas.unwrap_or(1)),
        });
    }
    if is(&resource::STATEFUL_SETS) {
        let set = world.stateful_sets().get(&key)?;
        return Some((owner.uid.clone(), set.spec.replicas.unwrap_or(1)));
    }
    if is(&resource::REPLICATION_CONTROLLERS) {
        let controller = world.replication_controllers().get(&key)?;
        return Some((
            owner.uid.clone(),
            controller.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
        ));
    }
    None
}

/// Pods whose eviction was permitted and which are still there, each with the time; looks again when one is overdue.
fn disrupted(
    context: &Context<'_>,
    budget: &PodDisruptionBudget,
    covered: &[&Arc<Pod>],
    plan: &mut Plan,
) -> BTreeMap<String, Time> {
    let known = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut kept = BTreeMap::new();
    for pod in covered.iter().filter(|pod| !meta::is_leaving(&pod.metadata)) {
        let name = meta::name(&pod.metadata);
        // It was not evicted within this budget.
        let Some(at) = known.get(name) else { continue };
        let until = meta::timestamp(at).plus_secs(DELETION_SECS_MAX);
        if until > context.now {
            plan.look_again(until);
            kept.insert(name.to_owned(), at.clone());
        }
    }
    kept
}

/// A budget that cannot be computed permits no disruptions.
fn fail(context: &Context<'_>, budget: &PodDisruptionBudget, why: &str, plan: &mut Plan) {
    let conditions = conditions(context, budget, false, Some(why));
    let old = budget.status.clone().unwrap_or_default();
    if old.conditions.as_ref() != Some(&conditions) || old.disruptions_allowed != Some(0) {
        let status = json!({"disruptionsAllowed": 0, "conditions": conditions});
        plan.write(writes::status(&resource::BUDGETS, &budget.metadata, status));
    }
}

fn conditions(
    context: &Context<'_>,
    budget: &PodDisruptionBudget,
    allowed: bool,
    failure: Option<&str>,
) -> Vec<Condition> {
    let mut conditions =
        budget.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let status = if allowed { "True" } else { "False" };
    let old = conditions.iter().find(|known| known.type_ == ALLOWED && known.status == status);
    let since = old.map_or_else(|| meta::wire_time(context.now), |known| known.last_transition_time.clone());
    let condition = Condition {
        type_: ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: match (failure, allowed) {
            (Some(_), _) => "SyncFailed",
            (None, true) => "SufficientPods",
            (None, false) => "InsufficientPods",
        }
        .to_owned(),
        message: failure.unwrap_or_default().to_owned(),
        observed_generation: budget.metadata.generation,
        last_transition_time: since,
    };
    match conditions.iter_mut().find(|known| known.type_ == ALLOWED) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    conditions
}
