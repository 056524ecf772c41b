//! Why claims do not fit, for people and for programs.

use lazaret_allocator::{Conflict, NodeGroup, Reason, RequestWhy, WhyNot};
use serde_json::{Value, json};

/// One node, for people: a line for each thing that stands in the way.
pub(super) fn text(why: &WhyNot) -> String {
    let mut lines = vec![format!("does not fit on node {}:", why.node)];
    for request in why.short() {
        lines.push(format!(
            "  claim {} request {}: wants {}, {} of {} devices suitable",
            request.claim, request.request, request.wanted, request.suitable, request.considered
        ));
        lines
            .extend(request.unsuitable.iter().map(|group| format!("    {} {}", group.devices, group.reason)));
    }
    lines.extend(why.conflict.iter().map(|conflict| format!("  {conflict}")));
    for pool in &why.pools {
        lines.push(match &pool.invalid {
            None => format!("  pool {} is incomplete: not all of its slices are there", pool.pool),
            Some(reason) => format!("  pool {} is invalid: {reason}", pool.pool),
        });
    }
    lines.join("\n")
}

/// Many nodes, for people.
pub(super) fn nodes_text(groups: &[NodeGroup]) -> String {
    let mut lines = vec!["does not fit on any node:".to_owned()];
    for group in groups {
        let nodes = if group.nodes == 1 {
            format!("node {}", group.example)
        } else {
            format!("{} nodes such as {}", group.nodes, group.example)
        };
        let ended = if group.exhausted { "the search was ended by its budget; " } else { "" };
        lines.push(format!("  {nodes}: {ended}{}", group.reason));
    }
    lines.join("\n")
}

/// One node, complete.
pub(super) fn node(why: &WhyNot, exhausted: bool) -> Value {
    let pools: Vec<Value> = why.pools.iter().map(|pool| json!({"pool": pool.pool.to_string(), "incomplete": pool.invalid.is_none(), "invalid": pool.invalid})).collect();
    json!({
        "fits": false, "node": &*why.node, "reason": why.to_string(), "budgetExhausted": exhausted, "steps": why.steps,
        "requests": why.requests.iter().map(request).collect::<Vec<_>>(), "pools": pools, "conflict": why.conflict.as_ref().map(conflict),
    })
}

/// Many nodes, complete.
pub(super) fn nodes(groups: &[NodeGroup]) -> Value {
    let groups: Vec<Value> = groups
        .iter()
        .map(|group| json!({"nodes": group.nodes, "example": &*group.example, "reason": group.reason, "budgetExhausted": group.exhausted}))
        .collect();
    json!({"fits": false, "nodes": groups})
}

fn request(why: &RequestWhy) -> Value {
    let unsuitable: Vec<Value> =
        why.unsuitable.iter().map(|group| json!({"devices": group.devices, "cause": cause(&group.reason), "reason": group.reason.to_string()})).collect();
    json!({
        "claim": why.claim.to_string(), "request": &*why.request, "wanted": why.wanted, "considered": why.considered, "suitable": why.suitable,
        "unsuitable": unsuitable,
    })
}

/// The reason in one word, for programs.
fn cause(reason: &Reason) -> &'static str {
    match reason {
        Reason::ClassSelector { .. } => "ClassSelector",
        Reason::RequestSelector { .. } => "RequestSelector",
        Reason::SelectorError(_) => "SelectorError",
        Reason::InUse => "InUse",
        Reason::InFlight => "InFlight",
        Reason::NotAsked => "NotAsked",
        Reason::Tainted { .. } => "Tainted",
        Reason::OtherNode => "OtherNode",
        Reason::FeatureOff(_) => "FeatureOff",
        Reason::NodeLacks(_) => "NodeLacks",
        Reason::Counter { .. } => "Counter",
        Reason::Group { .. } => "CompatibilityGroup",
        Reason::Capacity(_) => "Capacity",
        Reason::NoCapacity(_) => "NoCapacity",
        Reason::Policy(_) => "RequestPolicy",
        Reason::NoAttribute(_) => "NoAttribute",
    }
}

fn conflict(conflict: &Conflict) -> Value {
    let kind = match conflict {
        Conflict::Shortage { .. } => "Shortage",
        Conflict::Match { .. } => "MatchAttribute",
        Conflict::Distinct { .. } => "DistinctAttribute",
        Conflict::Combination => "Combination",
    };
    json!({"cause": kind, "reason": conflict.to_string()})
}
