//! Which labels a selector means.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::{meta, prelude::*};

/// Whether the selector matches an object with these labels. An unknown operator matches nothing.
pub(crate) fn matches(selector: &LabelSelector, metadata: &ObjectMeta) -> bool {
    let empty = BTreeMap::new();
    let labels = metadata.labels.as_ref().unwrap_or(&empty);
    selector.match_labels.iter().flatten().all(|(label, value)| labels.get(label) == Some(value))
        && selector.match_expressions.iter().flatten().all(|requirement| meets(requirement, labels))
}

/// Whether an object has all of these labels.
pub(crate) fn has_all(wanted: &BTreeMap<String, String>, metadata: &ObjectMeta) -> bool {
    wanted.iter().all(|(label, value)| meta::label(metadata, label) == Some(value))
}

/// Whether every object is meant.
pub(crate) fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// The pods of a namespace that a selector means, by name. Looks at those with the rarest of its labels alone.
pub(crate) fn select<'a>(
    world: &'a World,
    namespace: &'a str,
    selector: &'a LabelSelector,
) -> Vec<&'a Arc<Pod>> {
    let index = world.pod_index();
    let sets: Vec<_> = selector
        .match_labels
        .iter()
        .flatten()
        .map(|(label, value)| index.labelled(namespace, label, value))
        .collect();
    if sets.iter().any(Option::is_none) {
        return Vec::new();
    }
    match sets.into_iter().flatten().min_by_key(|set| set.len()) {
        Some(keys) => keys
            .iter()
            .filter_map(|key| world.pods().get(key))
            .filter(|pod| matches(selector, &pod.metadata))
            .collect(),
        None => {
            let all = world.pods().within(namespace).map(|(_, pod)| pod);
            all.filter(|pod| matches(selector, &pod.metadata)).collect()
        }
    }
}

fn meets(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let listed = |value: &String| requirement.values.iter().flatten().any(|known| known == value);
    match requirement.operator.as_str() {
        "In" => value.is_some_and(listed),
        "NotIn" => !value.is_some_and(listed),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_mean_what_they_say() {
        let rows = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}), true),
            (json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]}), false),
        ];
        let metadata: ObjectMeta = serde_json::from_value(json!({"labels": {"app": "web"}})).unwrap();
        for (text, expected) in rows {
            let selector: LabelSelector = serde_json::from_value(text.clone()).unwrap();
            assert_eq!(matches(&selector, &metadata), expected, "{text}");
        }
    }
}
