//! A quota as it is on the wire.

use alloc::{string::String, sync::Arc, vec::Vec};

use serde::Deserialize;

use crate::{
    Amounts, Classes, Counted,
    scopes::{Requirement, Traits},
};

/// A quota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Quota {
    pub(crate) metadata: Metadata,
    pub(crate) spec: Spec,
    pub(crate) status: Option<Status>,
    /// The whole object, where its status is to be written.
    #[serde(skip)]
    pub(crate) object: Arc<[u8]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Spec {
    pub(crate) hard: Amounts,
    scopes: Option<Vec<String>>,
    scope_selector: Option<Selector>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    match_expressions: Option<Vec<Requirement>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) hard: Option<Amounts>,
    pub(crate) used: Option<Amounts>,
}

impl Quota {
    /// Reads a quota.
    ///
    /// # Errors
    /// When it is none.
    pub fn read(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// The same with the whole object, for the write of its status.
    ///
    /// # Errors
    /// When it is none.
    pub fn read_whole(text: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self { object: text.into(), ..Self::read(text)? })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether it counts the same as another.
    pub(crate) fn selects_as(&self, other: &Self) -> bool {
        self.spec.scopes == other.spec.scopes
            && self.spec.scope_selector == other.spec.scope_selector
            && self.spec.hard.names().eq(other.spec.hard.names())
    }

    /// Whether all its scopes are about an object.
    pub(crate) fn is_about(&self, traits: &Traits) -> bool {
        let exists = |scope: &String| Requirement {
            scope_name: scope.clone(),
            operator: "Exists".into(),
            values: Vec::new(),
        };
        let selector =
            self.spec.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
        self.spec.scopes.iter().flatten().all(|scope| traits.meet(&exists(scope)))
            && selector.into_iter().flatten().all(|requirement| traits.meet(requirement))
    }

    /// The enforced resources: the limits that its usage was counted for.
    pub(crate) fn enforced(&self) -> impl Iterator<Item = &str> {
        self.enforced_amounts().into_iter().flat_map(Amounts::names)
    }

    pub(crate) fn enforced_amounts(&self) -> Option<&Amounts> {
        self.status.as_ref().and_then(|status| status.hard.as_ref())
    }

    pub(crate) fn used(&self) -> Option<&Amounts> {
        self.status.as_ref().and_then(|status| status.used.as_ref())
    }

    /// The enforced resources that objects of a kind count against, in order.
    pub(crate) fn enforced_for<'q>(
        &'q self,
        kind: &'q Counted,
        classes: &'q Classes,
    ) -> impl Iterator<Item = &'q str> {
        self.enforced().filter(move |name| kind.counts(name, classes))
    }
}
