//! Garbage: dependents whose owners are deleted are deleted after them, before them, or orphaned, as the deletion asked for.
//!
//! A key here is a UID. Before something goes for want of an owner, the owner is looked for afresh: a watch that lags
//! must not cost anyone a pod.

use crate::{
    claim::{set_owners, without_owners},
    graph::{FOREGROUND, Node, ORPHAN, waits_for_dependents},
    meta,
    prelude::*,
    resource, writes,
};

/// The claim controller deletes the claim of a deleted pod, after it has removed the reservation. A claim that is left after this time is
/// collected as garbage; before, a second deletion would cost the server a call and change nothing.
const CLAIM_SECS: i64 = 2;
/// Dependents orphaned in one decision.
const ORPHANS_MAX: usize = 500;

/// Deletes objects whose owners are gone. It collects the kinds that the world holds; no kind must be listed before,
/// since every absence is confirmed.
pub const RULES: Rules = Rules { name: "garbage-collector", needs: &[], concerns, decide };

fn key(uid: &str) -> Key {
    Key::new("", uid)
}

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    let old = change.old.as_ref().map(Object::metadata);
    let new = change.new.as_ref().map(Object::metadata);
    let dependents = |of: &ObjectMeta, keys: &mut Vec<Key>| {
        keys.extend(world.graph().dependents(meta::uid(of)).map(|node| key(meta::uid(node.meta()))));
    };
    // Another object under the same name is no change of this one: this one has gone.
    let gone = old.filter(|old| new.is_none_or(|new| meta::uid(new) != meta::uid(old)));
    if let Some(gone) = gone {
        dependents(gone, keys);
    }
    match new {
        None => {}
        Some(new) => {
            let old = old.filter(|_| gone.is_none());
            let owned = new.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
            let changed = old.is_none_or(|old| {
                old.owner_references != new.owner_references
                    || old.finalizers != new.finalizers
                    || old.deletion_timestamp != new.deletion_timestamp
            });
            if changed && (owned || meta::is_leaving(new)) {
                keys.push(key(meta::uid(new)));
            }
            if changed && waits_for_dependents(new) {
                dependents(new, keys);
            }
        }
    }
    // Owners that wait for this one to go, or to let them go.
    for owner in old.iter().flat_map(|old| old.owner_references.iter().flatten()) {
        if world.graph().get(&owner.uid).is_some_and(|node| waits_for_dependents(node.meta())) {
            keys.push(key(&owner.uid));
        }
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(node) = context.world.graph().get(&context.key.name) else { return };
    let metadata = node.meta();
    if meta::is_leaving(metadata) {
        if meta::has_finalizer(metadata, ORPHAN) {
            orphan(context.world, node, plan);
        } else if meta::has_finalizer(metadata, FOREGROUND) {
            wait(context.world, node, plan);
        }
        return;
    }
    let owners = Owners::of(context.world, node);
    if owners.solid == 0 && is_claim_of_pod(node) {
        // The mark says no more than that its pod is not there.
        plan.remember(0);
        let at = context.since(0).plus_secs(CLAIM_SECS);
        if at > context.now {
            plan.look_again(at);
            return;
        }
    }
    if !owners.unknown.is_empty() {
        owners.unknown.into_iter().for_each(|write| plan.write(write));
        return;
    }
    let unwanted: Vec<&str> = owners.dangling.iter().chain(&owners.waiting).copied().collect();
    if owners.solid > 0 {
        if !unwanted.is_empty() {
            plan.write(without_owners(node.resource, metadata, &unwanted));
        }
        return;
    }
    if unwanted.is_empty() {
        return;
    }
    let own: Vec<&Node> = context.world.graph().dependents(meta::uid(metadata)).collect();
    if !owners.waiting.is_empty() && !own.is_empty() {
        let circle = own.iter().any(|dependent| waits_for_dependents(dependent.meta()));
        let blocks = node.owners().iter().any(|owner| owner.block_owner_deletion == Some(true));
        if circle && blocks {
            let mut free = node.owners().to_vec();
            free.iter_mut().for_each(|owner| owner.block_owner_deletion = Some(false));
            plan.write(set_owners(node.resource, metadata, &free));
            return;
        }
        plan.write(delete(node, Propagation::Foreground));
        return;
    }
    let propagation = if meta::has_finalizer(metadata, ORPHAN) {
        Propagation::Orphan
    } else if meta::has_finalizer(metadata, FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    plan.write(delete(node, propagation));
}

fn is_claim_of_pod(node: &Node) -> bool {
    *node.resource == resource::CLAIMS
        && node
            .owners()
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.kind == resource::PODS.kind)
}

/// An object's owners, by their state.
#[derive(Default)]
struct Owners<'a> {
    /// Owners that exist and stay.
    solid: usize,
    /// Owners that do not exist.
    dangling: Vec<&'a str>,
    /// Owners whose deletion waits for this object.
    waiting: Vec<&'a str>,
    /// A fresh read of each owner that the cache does not know.
    unknown: Vec<Write>,
}

impl<'a> Owners<'a> {
    fn of(world: &World, node: &'a Node) -> Self {
        let mut owners = Self::default();
        for owner in node.owners() {
            let Some(resource) = world.graph().kind_of(owner) else {
                // An owner of an unknown kind may exist; one that was deleted with its kind does not.
                if world.has_gone(&owner.uid) {
                    owners.dangling.push(&owner.uid);
                } else {
                    owners.solid += 1;
                }
                continue;
            };
            let namespace = if resource.namespaced { node.key.namespace.as_str() } else { "" };
            let key = Key::new(namespace, owner.name.as_str());
            let found =
                world.graph().get(&owner.uid).filter(|found| found.resource == resource && found.key == key);
            match found {
                Some(found) if waits_for_dependents(found.meta()) => owners.waiting.push(&owner.uid),
                Some(_) => owners.solid += 1,
                None if world.graph().is_absent(&owner.uid, resource, &key) => {
                    owners.dangling.push(&owner.uid)
                }
                None => owners.unknown.push(Write::Confirm { resource, key, uid: owner.uid.clone() }),
            }
        }
        owners
    }
}

/// Lets dependents be, then lets the owner go.
fn orphan(world: &World, node: &Node, plan: &mut Plan) {
    let uid = meta::uid(node.meta());
    for dependent in world.graph().dependents(uid).take(ORPHANS_MAX) {
        plan.write(without_owners(dependent.resource, dependent.meta(), &[uid]));
    }
    if plan.is_empty() {
        plan.write(without_finalizer(node, ORPHAN));
    }
}

/// Lets the owner go once nothing that blocks it is left. Its dependents are decided by their own keys.
fn wait(world: &World, node: &Node, plan: &mut Plan) {
    let uid = meta::uid(node.meta());
    let blocks = |dependent: &&Node| {
        dependent.owners().iter().any(|owner| owner.uid == uid && owner.block_owner_deletion == Some(true))
    };
    if !world.graph().dependents(uid).any(|dependent| blocks(&dependent)) {
        plan.write(without_finalizer(node, FOREGROUND));
    }
}

fn without_finalizer(node: &Node, name: &str) -> Write {
    let left: Vec<&String> =
        node.meta().finalizers.iter().flatten().filter(|finalizer| *finalizer != name).collect();
    let left = if left.is_empty() { Value::Null } else { json!(left) };
    writes::patch(node.resource, node.meta(), json!({"metadata": {"finalizers": left}}))
}

fn delete(node: &Node, propagation: Propagation) -> Write {
    Write::Delete {
        resource: node.resource,
        key: node.key.clone(),
        uid: meta::uid(node.meta()).to_owned(),
        resource_version: node.meta().resource_version.clone(),
        propagation,
        grace: None,
    }
}
