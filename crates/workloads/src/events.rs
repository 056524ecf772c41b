//! Events are forgotten an hour after they were last written.
//!
//! DEVIATION(event-expiry): Kubernetes lets its store forget them; here they are deleted like anything else.

use crate::{meta, prelude::*};

/// So long an event is of interest.
const KEPT_SECS: i64 = 3_600;

/// What the controller is.
pub const RULES: Rules = Rules { name: "event-expiry", needs: &[&resource::EVENTS], concerns, decide };

fn concerns(_: &World, heard: &Heard, keys: &mut Vec<Key>) {
    if let Some(Object::Other(kind, metadata)) = &heard.new
        && **kind == resource::EVENTS
    {
        keys.push(Key::of(metadata));
    }
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(node) = context.world.graph().find(&resource::EVENTS, context.key) else { return };
    let at = meta::written(node.meta()).plus_secs(KEPT_SECS);
    if at > context.now {
        plan.look_again(at);
        return;
    }
    plan.write(Write::Delete {
        resource: &resource::EVENTS,
        key: context.key.clone(),
        uid: meta::uid(node.meta()).to_owned(),
        resource_version: node.meta().resource_version.clone(),
        propagation: Propagation::Background,
        grace: None,
    });
}
