//! Which nodes a pod accepts by their labels and taints.

use alloc::vec::Vec;

use lazaret_model::{Effect, NodeSelector, Operator, Taint, Text, Toleration, tolerates};

use crate::{Node, Pod};

/// Keeps pods away if there is anything else.
pub(crate) const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

/// Whether the pod's node selector and required node affinity admit the node.
pub(crate) fn matches_affinity(pod: &Pod, node: &Node) -> bool {
    let labels = &node.facts.labels;
    pod.spec.node_selector.iter().all(|(key, value)| labels.get(key) == Some(value))
        // A selector that cannot be asked admits nothing.
        && pod.spec.node_affinity.as_ref().is_none_or(|terms| terms.matches(&node.facts).unwrap_or(false))
}

/// The names of the only nodes that can match, if the selector says so by name.
pub(crate) fn named_nodes(selector: &NodeSelector) -> Option<Vec<&Text>> {
    let mut names = Vec::new();
    for term in &selector.terms {
        let named = term
            .match_fields
            .iter()
            .find(|requirement| requirement.key == "metadata.name" && requirement.operator == Operator::In);
        names.extend(&named?.values);
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// The first taint that keeps pods away and is not tolerated.
pub(crate) fn untolerated<'a>(taints: &'a [Taint], tolerations: &[Toleration]) -> Option<&'a Taint> {
    taints.iter().find(|taint| taint.effect.blocks_allocation() && !tolerates_any(tolerations, taint))
}

/// Taints that keep pods away only if there is anything else, and are not tolerated.
pub(crate) fn count_prefer_no_schedule(taints: &[Taint], tolerations: &[Toleration]) -> usize {
    let prefers = |taint: &&Taint| match &taint.effect {
        Effect::Unknown(name) => name == PREFER_NO_SCHEDULE,
        Effect::None | Effect::NoSchedule | Effect::NoExecute => false,
    };
    taints.iter().filter(prefers).filter(|taint| !tolerates_any(tolerations, taint)).count()
}

pub(crate) fn tolerates_any(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| tolerates(toleration, taint))
}
