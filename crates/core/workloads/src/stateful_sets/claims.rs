//! Claims of storage: made before the pod that uses them, kept when it goes, unless the set says that they go with it.

use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::PersistentVolumeClaim};

use super::note;
use crate::{claim::set_owners, meta, prelude::*};

// DEVIATION(unbound-claims)
/// A claim that blocks a pod is checked again after this time.
const LOOK_SECS: i64 = 5;

fn templates(set: &StatefulSet) -> &[PersistentVolumeClaim] {
    set.spec.volume_claim_templates.as_deref().unwrap_or_default()
}

/// The claim of one pod that is made from a template.
fn name_of(set: &StatefulSet, template: &PersistentVolumeClaim, number: usize) -> String {
    format!("{}-{}-{number}", meta::name(&template.metadata), meta::name(&set.metadata))
}

fn key_of(set: &StatefulSet, template: &PersistentVolumeClaim, number: usize) -> Key {
    Key::new(set.metadata.namespace.as_deref().unwrap_or_default(), name_of(set, template, number))
}

/// The sets that a change of a claim concerns, by its name.
pub(super) fn concerned(world: &World, change: &Change, keys: &mut Vec<Key>) {
    let Some(claim) = change.latest().map(Object::metadata) else { return };
    let namespace = claim.namespace.as_deref().unwrap_or_default();
    // Not the name of a claim of a set.
    let Some((rest, number)) = meta::name(claim).rsplit_once('-') else { return };
    if number.parse::<usize>().is_err() {
        return;
    }
    let of = |set: &StatefulSet| {
        let own = |template: &PersistentVolumeClaim| {
            let parts =
                rest.strip_prefix(meta::name(&template.metadata)).and_then(|rest| rest.strip_prefix('-'));
            parts == Some(meta::name(&set.metadata))
        };
        templates(set).iter().any(own)
    };
    keys.extend(
        world.stateful_sets().within(namespace).filter(|(_, set)| of(set)).map(|(key, _)| key.clone()),
    );
}

/// Makes the claims that a new pod needs. Whether all are there.
pub(super) fn prepare(context: &Context<'_>, set: &StatefulSet, number: usize, plan: &mut Plan) -> bool {
    let mut ready = true;
    for template in templates(set) {
        let key = key_of(set, template, number);
        match context.world.get(&resource::VOLUME_CLAIMS, &key) {
            None => {
                ready = false;
                create(set, template, number, plan);
            }
            // One that goes with the pod before, or goes anyway, is waited for.
            Some(claim)
                if meta::is_leaving(claim.metadata()) || is_of_former_pod(set, claim.metadata(), number) =>
            {
                ready = false;
                plan.look_again(context.now.plus_secs(LOOK_SECS));
            }
            Some(_) => {}
        }
    }
    ready
}

/// Whether the claim goes with a pod of this number that has gone.
fn is_of_former_pod(set: &StatefulSet, claim: &ObjectMeta, number: usize) -> bool {
    let pod = format!("{}-{number}", meta::name(&set.metadata));
    let owner =
        |owner: &OwnerReference| resource::PODS.is(&owner.api_version, &owner.kind) && owner.name == pod;
    goes_when_scaled(set) && claim.owner_references.iter().flatten().any(owner)
}

fn create(set: &StatefulSet, template: &PersistentVolumeClaim, number: usize, plan: &mut Plan) {
    let (name, own) = (name_of(set, template, number), meta::name(&set.metadata));
    let mut labels = template.metadata.labels.clone().unwrap_or_default();
    labels.extend(set.spec.selector.match_labels.clone().unwrap_or_default());
    let (_, goes_with_set) = policy(set);
    let owner = goes_with_set.then(|| meta::controller_reference(&resource::STATEFUL_SETS, &set.metadata));
    let mut body = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels, "annotations": template.metadata.annotations},
        "spec": template.spec,
    });
    if let Some(owner) = owner {
        body["metadata"]["ownerReferences"] = json!([owner]);
    }
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let message = format!("create Claim {name} Pod {own}-{number} in StatefulSet {own} success");
    plan.write_and_tell(
        Write::Create { resource: &resource::VOLUME_CLAIMS, namespace, body: body.into() },
        note(set, "SuccessfulCreate", message),
    );
}

/// Has a pod use its claims, in place of volumes of the same name.
pub(super) fn mount(set: &StatefulSet, number: usize, spec: &mut Value) {
    if templates(set).is_empty() {
        return;
    }
    let volume = |template: &PersistentVolumeClaim| json!({"name": template.metadata.name, "persistentVolumeClaim": {"claimName": name_of(set, template, number)}});
    let mut volumes: Vec<Value> = templates(set).iter().map(volume).collect();
    let own = spec["volumes"].as_array().cloned().unwrap_or_default();
    let replaced = |volume: &Value| {
        templates(set).iter().any(|template| volume["name"].as_str() == template.metadata.name.as_deref())
    };
    volumes.extend(own.into_iter().filter(|volume| !replaced(volume)));
    spec["volumes"] = volumes.into();
}

/// Sets the owners of a pod's claims as the retention policy of the set says. Returns whether they are right already.
pub(super) fn settle(
    world: &World,
    set: &StatefulSet,
    pod: &Pod,
    number: usize,
    condemned: bool,
    plan: &mut Plan,
) -> bool {
    let mut settled = true;
    for template in templates(set) {
        // It was deleted, or is not made yet.
        let Some(claim) = world.get(&resource::VOLUME_CLAIMS, &key_of(set, template, number)) else {
            continue;
        };
        if let Some(owners) = wanted(set, pod, claim.metadata(), condemned) {
            settled = false;
            plan.write(set_owners(&resource::VOLUME_CLAIMS, claim.metadata(), &owners));
        }
    }
    settled
}

fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |said: Option<&String>| said.is_some_and(|said| said == "Delete");
    (
        deletes(policy.and_then(|policy| policy.when_scaled.as_ref())),
        deletes(policy.and_then(|policy| policy.when_deleted.as_ref())),
    )
}

fn goes_when_scaled(set: &StatefulSet) -> bool {
    policy(set).0
}

/// The owners that a claim should have, if it has others. A claim of a former set or pod, or with another controller, is left alone.
fn wanted(set: &StatefulSet, pod: &Pod, claim: &ObjectMeta, condemned: bool) -> Option<Vec<OwnerReference>> {
    let (when_scaled, when_deleted) = policy(set);
    let known = claim.owner_references.as_deref().unwrap_or_default();
    let parties = [(&resource::STATEFUL_SETS, &set.metadata), (&resource::PODS, &pod.metadata)];
    let party = |owner: &OwnerReference| {
        let is = |(resource, metadata): &(&'static Resource, &ObjectMeta)| {
            resource.is(&owner.api_version, &owner.kind) && owner.name == meta::name(metadata)
        };
        parties.iter().find(|one| is(one)).map(|(_, metadata)| meta::uid(metadata))
    };
    if known.iter().any(|owner| party(owner).is_some_and(|uid| uid != owner.uid)) {
        return None;
    }
    let mut owners: Vec<OwnerReference> =
        known.iter().filter(|owner| party(owner).is_none()).cloned().collect();
    if !owners.iter().any(|owner| owner.controller == Some(true)) {
        let with_pod = when_scaled && condemned;
        if when_deleted && !with_pod {
            owners.push(meta::controller_reference(&resource::STATEFUL_SETS, &set.metadata));
        }
        if with_pod {
            owners.push(meta::controller_reference(&resource::PODS, &pod.metadata));
        }
    }
    (owners != known).then_some(owners)
}
