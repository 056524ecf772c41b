//! Answers in the words of the cases.

use std::fmt::Write;

use lazaret_allocator::{Answer, ErrorScope};
use lazaret_model::*;

/// An answer in the form of the `->` lines of a case.
pub(crate) fn answer(answer: &Answer, claims: &[std::sync::Arc<ResourceClaim>]) -> Vec<String> {
    match answer {
        Answer::Allocated(allocations) => {
            claims.iter().zip(allocations).map(|(claim, given)| allocation(&claim.key.name, given)).collect()
        }
        Answer::DoesNotFit(_) => vec!["none".into()],
        Answer::BudgetExhausted(_) => vec!["exhausted".into()],
        Answer::Failed(error) => match error.reach {
            ErrorScope::Fatal => vec!["fatal".into()],
            ErrorScope::Node => vec!["node".into()],
        },
    }
}

/// `c0: r0 a/p1/d1 admin; @n1; config …`
pub(crate) fn allocation(claim: &str, allocation: &Allocation) -> String {
    let mut parts: Vec<String> = allocation.results.iter().map(result).collect();
    parts.push(match &allocation.node_selector {
        None => "@*".into(),
        Some(selector) => format!("@{}", selector.terms.iter().map(term).collect::<Vec<_>>().join("|")),
    });
    parts.extend(allocation.config.iter().map(config));
    format!("{claim}: {}", parts.join("; "))
}

fn result(result: &DeviceResult) -> String {
    let mut text = format!("{} {}", result.request, result.device);
    if result.admin_access {
        text.push_str(" admin");
    }
    for toleration in &result.tolerations {
        text.push_str(" tol:");
        text.push_str(&toleration.key);
        if toleration.operator == TolerationOperator::Equal {
            write!(text, "={}", toleration.value).unwrap();
        }
        if let Some(effect) = &toleration.effect {
            write!(text, ":{effect}").unwrap();
        }
    }
    if result.share_id.is_some() {
        text.push_str(" share");
    }
    for (key, amount) in &result.consumed_capacity {
        write!(text, " {key}={amount}").unwrap();
    }
    let names = |names: &[Text]| names.iter().map(Text::as_str).collect::<Vec<_>>().join("+");
    if !result.binding_conditions.is_empty() {
        write!(text, " when={}", names(&result.binding_conditions)).unwrap();
    }
    if !result.binding_failure_conditions.is_empty() {
        write!(text, " fails={}", names(&result.binding_failure_conditions)).unwrap();
    }
    if !result.skip_node_operations.is_empty() {
        write!(text, " skip={}", names(&result.skip_node_operations)).unwrap();
    }
    text
}

fn term(term: &NodeSelectorTerm) -> String {
    if let ([], [name]) = (&*term.match_expressions, &*term.match_fields)
        && let [node] = &*name.values
    {
        return node.to_string();
    }
    let requirement = |requirement: &Requirement| {
        let key = if *requirement.key == *"metadata.name" { "name" } else { &requirement.key };
        format!("{key}={}", requirement.values.iter().map(Text::as_str).collect::<Vec<_>>().join(","))
    };
    term.match_fields.iter().chain(&term.match_expressions).map(requirement).collect::<Vec<_>>().join("&")
}

fn config(config: &ResultConfig) -> String {
    let parameters = config.opaque.as_ref().map_or("", |opaque| opaque.parameters.as_str());
    let name = parameters.trim_start_matches("{\"name\":\"").trim_end_matches("\"}");
    let source = match config.source {
        ConfigSource::Class => "class",
        ConfigSource::Claim => "claim",
    };
    let requests = config.requests.iter().map(Text::as_str).collect::<Vec<_>>().join(" ");
    format!("{source} config {name}{}{requests}", if requests.is_empty() { "" } else { " on " })
}
