//! Terms that compare pods with the pod itself: `matchLabelKeys` become requirements with the values it has when it is made.

use lazaret_json::{Value, json};

use crate::value::{append, has, list_mut, text, texts};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Writes out what the keys of a new pod's terms stand for.
pub(super) fn write_out(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.get_mut("affinity").and_then(|affinity| affinity.get_mut(kind)) else {
            continue;
        };
        list_mut(affinity, REQUIRED).iter_mut().for_each(|term| write_out_term(term, &labels));
        for preferred in list_mut(affinity, PREFERRED) {
            if let Some(term) = preferred.get_mut("podAffinityTerm") {
                write_out_term(term, &labels);
            }
        }
    }
    list_mut(spec, "topologySpreadConstraints").iter_mut().for_each(|term| write_out_term(term, &labels));
}

fn write_out_term(term: &mut Value, labels: &Value) {
    if !has(term, "labelSelector") {
        return;
    }
    let mut added = Vec::new();
    for (field, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in texts(term, field).filter(|key| has(labels, key)) {
            added.push(json!({"key": key, "operator": operator, "values": [text(labels, key)]}));
        }
    }
    for requirement in added {
        append(&mut term["labelSelector"], "matchExpressions", requirement);
    }
}
