//! Namespaces that are being deleted: first the pods in them, then all else, then they themselves.

mod conditions;

use k8s_openapi::api::core::v1::Namespace;

use crate::{meta, names, prelude::*, writes};

/// The finalizer that keeps a namespace until it is empty.
const FINALIZER: &str = "kubernetes";
/// Objects deleted in one decision.
const BURST_MAX: usize = 500;
/// A namespace is finalized after it has looked empty for this long: an object made just before its end may not be in the cache yet.
const EMPTY_MS_MIN: i64 = 1_000;
/// The conditions are written once what remains has been the same for this long: not with each object that goes.
const REMAINING_MS_MIN: i64 = 1_000;
/// Remaining objects are being deleted or are held by a finalizer: the namespace is checked again after this time.
const LOOK_SECS: i64 = 5;

/// Empties namespaces that are being deleted, of the kinds that the world holds: every kind must be pumped.
pub const RULES: Rules =
    Rules { name: "namespace", needs: &[&resource::NAMESPACES, &resource::PODS], concerns, decide };

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    let Some(object) = change.latest() else { return };
    if let Object::Namespace(namespace) = object {
        keys.push(Key::of(&namespace.metadata));
        return;
    }
    let key = Key::new("", object.key().namespace);
    if world.namespaces().get(&key).is_some_and(|namespace| meta::is_leaving(&namespace.metadata)) {
        keys.push(key);
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(namespace) = context.world.namespaces().get(context.key) else { return };
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if !meta::is_leaving(&namespace.metadata) || !finalizers.iter().any(|name| name == FINALIZER) {
        return;
    }
    let contents = || context.world.graph().within(&context.key.name);
    if contents().next().is_some() {
        // Pods end before the objects that they may depend on are deleted.
        let pods = contents().any(|node| *node.resource == resource::PODS);
        for node in contents()
            .filter(|node| !pods || *node.resource == resource::PODS)
            .filter(|node| !meta::is_leaving(node.meta()))
            .take(BURST_MAX)
        {
            plan.write(writes::delete(node.resource, node.meta()));
        }
        plan.look_again(context.now.plus_secs(LOOK_SECS));
        if plan.is_empty() {
            report_remaining(
                context,
                plan,
                namespace,
                &conditions::Remaining::of(contents(), context.failure),
            );
        }
        return;
    }
    // The mark says no more than that it was empty.
    plan.remember(0);
    let at = context.since(0).plus_millis(EMPTY_MS_MIN);
    if at > context.now {
        plan.look_again(at);
        return;
    }
    let nothing = conditions::Remaining::default();
    if conditions::is_any_true(namespace)
        && let Some(status) = nothing.status(namespace, context.now)
    {
        plan.write(writes::status(&resource::NAMESPACES, &namespace.metadata, status));
        return;
    }
    let mut body = json!(**namespace);
    let left: Vec<&String> = finalizers.iter().filter(|name| *name != FINALIZER).collect();
    body["spec"]["finalizers"] = json!(left);
    plan.write(Write::Finalize { key: context.key.clone(), body: body.into() });
}

/// Writes into the status what remains, once it has been the same for a while.
fn report_remaining(
    context: &Context<'_>,
    plan: &mut Plan,
    namespace: &Namespace,
    remaining: &conditions::Remaining,
) {
    let Some(status) = remaining.status(namespace, context.now) else { return };
    // 0 is the mark of a namespace that is empty.
    let mark = names::number_of(&format!("{remaining:?}")) | 1;
    plan.remember(mark);
    let at = context.since(mark).plus_millis(REMAINING_MS_MIN);
    if at > context.now {
        plan.look_again(at);
    } else {
        plan.write(writes::status(&resource::NAMESPACES, &namespace.metadata, status));
    }
}
