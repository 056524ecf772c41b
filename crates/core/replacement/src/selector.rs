//! Which label takes a pod from its replica set.

use lazaret_machine::LabelSelector;
use lazaret_model::{Operator, Requirement, Text};

/// The label by which a deployment tells its replica sets apart.
pub(crate) const TEMPLATE_HASH: &str = "pod-template-hash";

/// The label whose absence alone makes a selector no longer match a pod. The template's hash if it is one, for nothing else
/// selects by it.
pub(crate) fn key_to_remove(selector: &LabelSelector) -> Option<&Text> {
    let wants_presence =
        |requirement: &&Requirement| matches!(requirement.operator, Operator::In | Operator::Exists);
    let mut keys = selector.requirements.iter().filter(wants_presence).map(|requirement| &requirement.key);
    let first = keys.clone().next();
    keys.find(|key| **key == TEMPLATE_HASH).or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn the_label_that_releases_a_pod() {
        let with = |key: &str, operator: Operator| Requirement { key: key.into(), operator, values: vec![] };
        let of = |requirements| LabelSelector { requirements };
        let mut hash = of(vec![with("app", Operator::Exists)]);
        hash.require(TEMPLATE_HASH, "5d");
        assert_eq!(key_to_remove(&hash).map(Text::as_str), Some(TEMPLATE_HASH));
        let app = of(vec![with("zone", Operator::NotIn), with("app", Operator::Exists)]);
        assert_eq!(key_to_remove(&app).map(Text::as_str), Some("app"));
        assert_eq!(key_to_remove(&of(vec![with("app", Operator::DoesNotExist)])), None);
    }
}
