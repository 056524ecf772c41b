//! All kinds that the server knows, in the order in which discovery shows their groups.

mod access;
mod apps;
mod classic;
mod control;
mod core;
mod extension;
mod network;
mod resource;
mod storage;

use std::sync::LazyLock;

use crate::{
    Release,
    kind::{Kind, RuleSet, Scope, Served, Shape, Subresource, Verbs},
    rules::{Rules, SPEC_AND_METADATA},
};

/// Groups in the order of preference that Kubernetes gives them.
const GROUPS: &[&[Row]] = &[
    core::CORE,
    apps::APPS,
    control::EVENTS,
    access::AUTHENTICATION,
    access::AUTHORIZATION,
    network::AUTOSCALING,
    apps::BATCH,
    access::CERTIFICATES,
    network::NETWORKING,
    control::POLICY,
    access::ROLES,
    storage::STORAGE,
    extension::ADMISSION,
    extension::DEFINITIONS,
    control::SCHEDULING,
    control::COORDINATION,
    control::DISCOVERY,
    network::NODE,
    resource::RESOURCE,
    classic::CLASSIC,
];

/// Every built-in kind.
#[must_use]
pub fn all() -> &'static [Kind] {
    static KINDS: LazyLock<Vec<Kind>> =
        LazyLock::new(|| GROUPS.iter().copied().flatten().map(Row::kind).collect());
    &KINDS
}

/// The built-in kind with this plural name in a group.
#[must_use]
pub fn find(group: &str, plural: &str) -> Option<&'static Kind> {
    all().iter().find(|kind| kind.group == group && kind.plural == plural)
}

/// The built-in kind of this name in a group.
#[must_use]
pub fn find_kind(group: &str, name: &str) -> Option<&'static Kind> {
    all().iter().find(|kind| kind.group == group && kind.kind == name)
}

/// A kind as it stands in the tables of its group; the fields are those of [`Kind`].
struct Row {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static [&'static str],
    categories: &'static [&'static str],
    scope: Scope,
    versions: &'static [Version],
    subresources: &'static [Subresource],
    verbs: Verbs,
    generation: bool,
    unconditional_update: bool,
    create_on_update: bool,
    delete_returns_object: bool,
    unheeded: Option<&'static str>,
    rules: &'static dyn Rules,
}

#[derive(Clone, Copy)]
struct Version {
    version: &'static str,
    shape: &'static str,
    by_default: bool,
    since: Option<Release>,
    feature: Option<&'static str>,
}

impl Row {
    fn kind(&self) -> Kind {
        let names = |list: &[&'static str]| list.iter().map(|name| (*name).into()).collect();
        let served = |version: &Version| Served {
            version: version.version.into(),
            shape: Shape::Builtin(version.shape),
            by_default: version.by_default,
            since: version.since,
            feature: version.feature,
        };
        Kind {
            group: self.group.into(),
            kind: self.kind.into(),
            list_kind: format!("{}List", self.kind).into(),
            plural: self.plural.into(),
            singular: self.singular.into(),
            short: names(self.short),
            categories: names(self.categories),
            scope: self.scope,
            versions: self.versions.iter().map(served).collect(),
            subresources: self.subresources.to_vec(),
            verbs: self.verbs,
            generation: self.generation,
            unconditional_update: self.unconditional_update,
            create_on_update: self.create_on_update,
            delete_returns_object: self.delete_returns_object,
            unheeded: self.unheeded,
            rules: RuleSet::Fixed(self.rules),
        }
    }
}

// DEVIATION(plain-collections)
/// Stored and served, nothing more.
#[derive(Debug)]
struct Plain;

impl Rules for Plain {}

/// The same, and a write to the status leaves the metadata alone.
#[derive(Debug)]
struct PlainWithStatus;

impl Rules for PlainWithStatus {
    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }
}

pub(crate) const STATUS: Subresource =
    Subresource { name: "status", takes: None, verbs: &["get", "patch", "update"] };
pub(crate) const SCALE: Subresource = Subresource {
    name: "scale",
    takes: Some(("autoscaling", "v1", "Scale")),
    verbs: &["get", "patch", "update"],
};

/// A kind that is namespaced, stored, and like most others; the tables change what differs.
const BASE: Row = Row {
    group: "",
    kind: "",
    plural: "",
    singular: "",
    short: &[],
    categories: &[],
    scope: Scope::Namespaced,
    versions: &[],
    subresources: &[],
    verbs: Verbs::All,
    generation: false,
    unconditional_update: true,
    create_on_update: false,
    delete_returns_object: false,
    unheeded: None,
    rules: &Plain,
};

const CLUSTER: Row = Row { scope: Scope::Cluster, ..BASE };

const fn v1(shape: &'static str) -> [Version; 1] {
    [Version { version: "v1", shape, by_default: true, since: None, feature: None }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_shape_in_every_version_and_a_name_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for kind in all() {
            assert!(seen.insert((&kind.group, &kind.plural)), "{kind:?} stands twice");
            assert!(!kind.versions.is_empty(), "{kind:?} has no version");
            for served in &kind.versions {
                assert!(served.shape.find().is_some(), "{kind:?}: no shape {:?}", served.shape);
            }
        }
    }
}
