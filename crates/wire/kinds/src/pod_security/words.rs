//! How violations are put into words, and what of a pod is looked at.

use std::collections::BTreeSet;

use lazaret_json::Value;

use super::PodFields;
use crate::value::{list, text};

impl<'a> PodFields<'a> {
    /// Every container, those that run first before the others.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |field| list(spec, field))
    }

    /// The names of containers of which something is true.
    pub(super) fn named(&self, bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| bad(container))
            .map(|container| text(container, "name"))
            .collect()
    }

    pub(super) fn security(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    pub(super) fn is_windows(&self) -> bool {
        text(&self.spec["os"], "name") == "windows"
    }

    /// Whether the pod has its own user namespace.
    pub(super) fn has_own_users(&self) -> bool {
        self.spec["hostUsers"].as_bool() == Some(false)
    }
}

/// `"a", "b"`.
pub(super) fn quoted<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    items.into_iter().map(|item| format!("\"{item}\"")).collect::<Vec<_>>().join(", ")
}

pub(super) fn plural<'a>(one: &'a str, several: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { several }
}

/// `container "a"`, `containers "a", "b"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names.iter().copied()))
}

/// `pod and container "a"`: who sets something, the pod if it does and the containers that do.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".into()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

/// Texts in order, each once.
pub(super) fn unique<'a>(items: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    items.into_iter().collect()
}
