//! Sentences of the enhancement, one by one: each machine alone, its effects answered by hand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::wildcard_enum_match_arm, reason = "any other effect is a failure")]

mod claims;
mod driver;
mod negotiation;
mod validation;

use std::sync::Arc;

use lazaret_classic::{
    AllocationMode, ClaimSpec, ClaimStatus, Phase, Pod, PodClaim, PodClaimSource, Reference, ResourceClaim,
    ResourceClass, Template,
};
use lazaret_machine::{EffectId, Outcome, Turn};
use lazaret_model::{
    Node, NodeSelector, NodeSelectorTerm, ObjectKey, Operator, Requirement, Text, Timestamp,
};

pub(crate) fn acknowledged<I: From<Turn>>(effect: EffectId, outcome: Outcome) -> I {
    Turn::Acknowledged(effect, outcome.into()).into()
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

pub(crate) fn spec(class: &str, mode: AllocationMode) -> Arc<ClaimSpec> {
    Arc::new(ClaimSpec { class_name: class.into(), parameters: "{}".into(), mode })
}

pub(crate) fn class(name: &str, driver: &str) -> Arc<ResourceClass> {
    Arc::new(ResourceClass { name: name.into(), driver_name: driver.into(), parameters: "{}".into() })
}

/// A pod with a template for each entry.
pub(crate) fn pod(name: &str, entries: &[&str]) -> Pod {
    let template = || {
        PodClaimSource::Template(Arc::new(Template {
            spec: spec("acme-gpu", AllocationMode::Delayed),
            ..Template::default()
        }))
    };
    let claims = entries.iter().map(|entry| PodClaim { name: (*entry).into(), source: Some(template()) });
    Pod { key: key(name), uid: format!("uid-{name}").into(), claims: claims.collect(), ..Pod::default() }
}

pub(crate) fn user(name: &str) -> Reference {
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    }
}

/// A claim of a pod, in version 1.
pub(crate) fn claim(name: &str, owner: Option<&str>) -> ResourceClaim {
    ResourceClaim {
        key: key(name),
        uid: format!("uid-{name}").into(),
        version: "1".into(),
        owners: owner.map(user).into_iter().collect(),
        spec: spec("acme-gpu", AllocationMode::Delayed),
        ..ResourceClaim::default()
    }
}

pub(crate) fn allocated(mut claim: ResourceClaim, node: Option<&str>) -> ResourceClaim {
    claim.finalizers = vec!["gpu.acme.com/deletion-protection".into()];
    claim.status = ClaimStatus {
        phase: Phase::Allocated,
        driver_name: "gpu.acme.com".into(),
        attributes: [("card".into(), "7".into())].into(),
        ..ClaimStatus::default()
    };
    claim.status.driver.available_on_nodes = node.map(|node| Arc::new(only(node)));
    claim
}

pub(crate) fn version(mut claim: ResourceClaim, version: u64) -> Arc<ResourceClaim> {
    claim.version = version.to_string().into();
    Arc::new(claim)
}

pub(crate) fn node(name: &str) -> Arc<Node> {
    Arc::new(Node { name: name.into(), ..Node::default() })
}

pub(crate) fn nodes(names: &[&str]) -> Arc<[Text]> {
    names.iter().map(|name| Text::from(*name)).collect()
}

pub(crate) fn only(node: &str) -> NodeSelector {
    let requirement =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.into()] };
    NodeSelector {
        terms: vec![NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement] }],
    }
}
