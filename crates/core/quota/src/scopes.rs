//! Which objects a quota is about.

use alloc::{string::String, vec::Vec};

use serde::Deserialize;

/// A condition of a scope on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Requirement {
    pub(crate) scope_name: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

/// The properties of an object that scopes match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Traits {
    Pod {
        terminating: bool,
        best_effort: bool,
        priority_class: String,
        crosses_namespaces: bool,
    },
    /// The volume attributes classes that a claim refers to.
    VolumeClaim(Vec<String>),
    /// No scope is about such an object.
    Other,
}

impl Traits {
    pub(crate) fn meet(&self, requirement: &Requirement) -> bool {
        match self {
            Self::Pod { terminating, best_effort, priority_class, crosses_namespaces } => {
                match requirement.scope_name.as_str() {
                    "Terminating" => *terminating,
                    "NotTerminating" => !terminating,
                    "BestEffort" => *best_effort,
                    "NotBestEffort" => !best_effort,
                    "CrossNamespacePodAffinity" => *crosses_namespaces,
                    "PriorityClass" => {
                        let class = Some(priority_class).filter(|class| !class.is_empty());
                        requirement.holds_for(class.map(String::as_str))
                    }
                    _ => false,
                }
            }
            Self::VolumeClaim(classes) if requirement.scope_name == "VolumeAttributesClass" => {
                match classes.as_slice() {
                    [] => requirement.holds_for(None),
                    classes => classes.iter().any(|class| requirement.holds_for(Some(class))),
                }
            }
            Self::VolumeClaim(_) | Self::Other => false,
        }
    }
}

impl Requirement {
    fn holds_for(&self, value: Option<&str>) -> bool {
        let listed = value.is_some_and(|value| self.values.iter().any(|known| known == value));
        match self.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
