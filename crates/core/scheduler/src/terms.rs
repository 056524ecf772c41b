//! The cost of evaluating the terms of a pod about nodes and about other pods: each term is compared with each node or pod before any device
//! is looked at.

use alloc::{format, string::String};

use lazaret_model::{NodeSelector, NodeSelectorTerm};

use crate::{Pod, nodes::Nodes};

// DEVIATION(terms-limit): Kubernetes evaluates them all, however long it takes.
/// Bound on the pairs of a term and a pod, for one attempt. A node counts for an eighth of a pod: its terms are compared with what is at hand.
const PAIRS_MAX: u64 = 8_000_000;
/// The units of work of a pair.
const PAIR_UNITS: u64 = 1;

/// The units of work that one evaluation of a pod's terms takes, or why they are not evaluated at all.
pub(crate) fn units(pod: &Pod, nodes: &Nodes) -> Result<u64, String> {
    let spec = &pod.spec;
    let about_pods =
        spec.affinity.len() + spec.anti_affinity.len() + spec.preferred_pods.len() + spec.spread.len();
    let of_selector = |selector: &NodeSelector| selector.terms.iter().map(requirements).sum::<usize>();
    let about_nodes = spec.node_affinity.as_ref().map_or(0, of_selector)
        + spec.preferred_nodes.iter().map(|(_, term)| requirements(term)).sum::<usize>()
        + spec.tolerations.len();
    let (pods, all) = (nodes.pod_count() as u64, nodes.order().len() as u64);
    let pairs =
        (about_pods as u64).saturating_mul(pods).saturating_add((about_nodes as u64).saturating_mul(all) / 8);
    if pairs > PAIRS_MAX {
        return Err(format!(
            "the pod has too many terms for a cluster of this size: {about_pods} about {pods} pods on nodes, {about_nodes} about {all} nodes"
        ));
    }
    Ok(pairs * PAIR_UNITS)
}

fn requirements(term: &NodeSelectorTerm) -> usize {
    let of = |values: usize| 1 + values / 8;
    let expressions = term.match_expressions.iter().chain(&term.match_fields);
    expressions.map(|requirement| of(requirement.values.len())).sum()
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec};

    use lazaret_model::{LabelSelector, PodTerm, Toleration};

    use super::*;
    use crate::PodSpec;

    #[test]
    fn terms_are_bounded_by_what_they_are_held_against() {
        let term = PodTerm {
            topology: "zone".into(),
            namespaces: [].into(),
            namespace_selector: None,
            selector: Some(LabelSelector::default()),
        };
        let spec = |terms, tolerations| PodSpec {
            affinity: vec![term.clone(); terms],
            tolerations: vec![Toleration::default(); tolerations],
            ..PodSpec::default()
        };
        let pod = |spec| Arc::new(Pod { spec: Arc::new(spec), ..Pod::default() });
        let mut nodes = Nodes::default();
        (0..1_000).for_each(|ix| {
            nodes.place(&"a".into(), ix, &pod(PodSpec::default()));
        });
        assert_eq!(units(&pod(spec(0, 10_000)), &nodes), Ok(0), "there is no node");
        assert_eq!(units(&pod(spec(5, 5)), &nodes), Ok(5_000 * PAIR_UNITS));
        let why = units(&pod(spec(10_000, 3)), &nodes).unwrap_err();
        assert!(why.contains("10000 about 1000 pods on nodes, 3 about 0 nodes"), "{why}");
    }
}
