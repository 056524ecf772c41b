//! Metadata, conditions, selectors of nodes.

use lazaret_model::{
    Condition, ConditionStatus, NodeSelector, NodeSelectorTerm, ObjectKey, Operator, Owner, Requirement, Text,
};

use super::{Result, required, texts};
use crate::{field::Path, wire};

/// The name of an object that no namespace holds.
pub(super) fn name(meta: &mut wire::ObjectMeta) -> Result<Text> {
    required(std::mem::take(&mut meta.name.0), &Path::ROOT.field("metadata").field("name"))
}

/// Namespace and name. An absent namespace is `default`, as in `kubectl apply`.
pub(super) fn key(meta: &mut wire::ObjectMeta) -> Result<ObjectKey> {
    Ok(ObjectKey { namespace: namespace(meta), name: name(meta)? })
}

pub(super) fn namespace(meta: &wire::ObjectMeta) -> Text {
    if meta.namespace.0.is_empty() { "default".into() } else { meta.namespace.0.as_str().into() }
}

/// The owner that controls the object.
pub(super) fn controller(owners: Vec<wire::OwnerReference>) -> Option<Owner> {
    let owner = owners.into_iter().find(|owner| owner.controller.0)?;
    let group = owner.api_version.0.split_once('/').map_or("", |(group, _)| group);
    Some(Owner {
        group: group.into(),
        kind: owner.kind.0.into(),
        name: owner.name.0.into(),
        uid: owner.uid.0.into(),
    })
}

pub(super) fn condition(condition: wire::Condition) -> Condition {
    Condition {
        kind: condition.r#type.0.into(),
        status: match condition.status.0.as_str() {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        },
        reason: condition.reason.0.into(),
        message: condition.message.0.into(),
        observed_generation: condition.observed_generation.0,
        last_transition: condition.last_transition_time.map(|time| time.0),
    }
}

pub(crate) fn node_selector(selector: wire::NodeSelector) -> NodeSelector {
    NodeSelector { terms: selector.node_selector_terms.0.into_iter().map(node_term).collect() }
}

pub(super) fn node_term(term: wire::NodeSelectorTerm) -> NodeSelectorTerm {
    let requirements = |list: Vec<wire::Requirement>| list.into_iter().map(requirement).collect();
    NodeSelectorTerm {
        match_expressions: requirements(term.match_expressions.0),
        match_fields: requirements(term.match_fields.0),
    }
}

pub(super) fn requirement(requirement: wire::Requirement) -> Requirement {
    Requirement {
        key: requirement.key.0.into(),
        operator: Operator::from_name(&requirement.operator.0),
        values: texts(requirement.values.0),
    }
}
