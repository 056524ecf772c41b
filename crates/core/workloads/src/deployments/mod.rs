//! Deployments: one replica set for each version of the template, and an orderly way from one to the next.

mod history;
mod recreate;
mod rolling;
mod scale;
mod sets;
mod status;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};

use crate::{
    claim::{claim, concerned},
    meta,
    portion::portion,
    prelude::*,
    selector,
};
use sets::Sets;

const COMPONENT: &str = "deployment-controller";

/// Rolls Deployments out: creates, scales and deletes their ReplicaSets.
pub const RULES: Rules = Rules {
    name: "deployment",
    needs: &[&resource::DEPLOYMENTS, &resource::REPLICA_SETS, &resource::PODS],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::Deployment(deployment)) => keys.push(Key::of(&deployment.metadata)),
        Some(Object::ReplicaSet(_)) => {
            concerned(
                world.deployments(),
                &resource::DEPLOYMENTS,
                change,
                |owner| Some(&owner.spec.selector),
                keys,
            );
        }
        // A deployment that recreates waits until the last pod of the old kind has gone.
        Some(Object::Pod(pod)) if change.new.is_none() => keys.extend(deployment_of(world, &pod.metadata)),
        Some(_) | None => {}
    }
}

/// The deployment that a pod belongs to, by way of its replica set.
fn deployment_of(world: &World, pod: &ObjectMeta) -> Option<Key> {
    let namespace = pod.namespace.clone().unwrap_or_default();
    let owner = meta::controller_of(pod)
        .filter(|owner| resource::REPLICA_SETS.is(&owner.api_version, &owner.kind))?;
    let set = world.replica_sets().get(&Key::new(namespace.as_str(), owner.name.as_str()))?;
    Some(Key::new(namespace, meta::controller_of(&set.metadata)?.name.as_str()))
}

/// A deployment with the numbers that its strategy comes down to.
struct Wanted<'a> {
    deployment: &'a Deployment,
    replicas: i32,
    /// Pods allowed beyond `replicas`.
    surge: i32,
    /// Pods allowed to be missing from `replicas`.
    unavailable: i32,
    rolling: bool,
}

impl<'a> Wanted<'a> {
    fn of(deployment: &'a Deployment) -> Self {
        let spec = &deployment.spec;
        let replicas = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate");
        let limits = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let (mut surge, mut unavailable) = (0, 0);
        if rolling {
            let part = |value: Option<&_>, up| value.map_or(0, |value| portion(value, replicas, up));
            surge = part(limits.and_then(|limits| limits.max_surge.as_ref()), true);
            unavailable = part(limits.and_then(|limits| limits.max_unavailable.as_ref()), false);
            if surge == 0 && unavailable == 0 {
                unavailable = 1;
            }
            unavailable = if replicas == 0 { 0 } else { unavailable.min(replicas) };
        }
        Self { deployment, replicas, surge, unavailable, rolling }
    }

    /// With less than this many available pods, none that is available goes.
    fn available_min(&self) -> i32 {
        self.replicas.saturating_sub(self.unavailable)
    }

    /// There are never more pods than this.
    fn total_max(&self) -> i32 {
        self.replicas.saturating_add(self.surge)
    }

    fn note(&self, kind: EventType, reason: &'static str, message: String) -> Note {
        Note {
            resource: &resource::DEPLOYMENTS,
            key: Key::of(&self.deployment.metadata),
            uid: meta::uid(&self.deployment.metadata).to_owned(),
            kind,
            reason,
            message,
            component: COMPONENT,
        }
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(deployment) = context.world.deployments().get(context.key) else { return };
    if selector::is_empty(&deployment.spec.selector) {
        return;
    }
    let wanted = Wanted::of(deployment);
    let kinds = (&resource::DEPLOYMENTS, &resource::REPLICA_SETS);
    let all = |_: &ReplicaSet| true;
    let claimed =
        claim(context.world.replica_sets(), kinds, &deployment.metadata, &deployment.spec.selector, all);
    claimed.writes.into_iter().for_each(|write| plan.write(write));
    let sets = Sets::sorted(deployment, claimed.mine);
    if meta::is_leaving(&deployment.metadata) {
        status::report(context, &wanted, &sets, false, plan);
        return;
    }
    history::keep_revision(&wanted, &sets, plan);
    if !plan.is_empty() {
        // These change the objects that the next step changes too.
        return;
    }
    let paused = deployment.spec.paused == Some(true);
    if paused || scale::is_due(&wanted, &sets) {
        scale::scale(&wanted, &sets, plan);
        if paused {
            history::clean(&wanted, &sets, plan);
        }
        status::report(context, &wanted, &sets, false, plan);
        return;
    }
    let moved = if wanted.rolling {
        rolling::roll(context.world, &wanted, &sets, plan)
    } else {
        recreate::roll(context, &wanted, &sets, plan)
    };
    if !moved && status::is_complete(&wanted, &sets) {
        history::clean(&wanted, &sets, plan);
    }
    status::report(context, &wanted, &sets, true, plan);
}
