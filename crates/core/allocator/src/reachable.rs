//! From where an allocation can be used.

use alloc::{vec, vec::Vec};

use lazaret_model::{NodeScope, NodeSelector, NodeSelectorTerm, Operator, Requirement, Text};

/// The nodes that all of these devices can be reached from. Each is where the device is, and whether it ties the
/// claim to the node. `None`: everywhere.
///
/// # Errors
/// With the number of terms, when a selector has several: a claim's selector has room for one.
pub(crate) fn common<'a>(
    devices: impl Iterator<Item = (&'a NodeScope, bool)>,
    node: &Text,
) -> Result<Option<NodeSelector>, usize> {
    let mut term = NodeSelectorTerm::default();
    for (scope, binds) in devices {
        if binds || matches!(scope, NodeScope::Node(_)) {
            return Ok(Some(only(node)));
        }
        if let NodeScope::Selector(selector) = scope {
            match &*selector.terms {
                // A selector without terms.
                [] => {}
                [one] => {
                    merge(&one.match_fields, &mut term.match_fields);
                    merge(&one.match_expressions, &mut term.match_expressions);
                }
                several => return Err(several.len()),
            }
        }
    }
    let everywhere = term.match_fields.is_empty() && term.match_expressions.is_empty();
    Ok((!everywhere).then(|| NodeSelector { terms: vec![term] }))
}

fn only(node: &Text) -> NodeSelector {
    let name =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.clone()] };
    NodeSelector { terms: vec![NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![name] }] }
}

fn merge(from: &[Requirement], into: &mut Vec<Requirement>) {
    for requirement in from {
        if !into.iter().any(|known| same(known, requirement)) {
            into.push(requirement.clone());
        }
    }
}

/// Values are a set.
fn same(a: &Requirement, b: &Requirement) -> bool {
    a.key == b.key
        && a.operator == b.operator
        && a.values.iter().all(|value| b.values.contains(value))
        && b.values.iter().all(|value| a.values.contains(value))
}
