//! The kinds that definitions brought: learned when their definition is established, forgotten when it goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use lazaret_model::ObjectKey;
use lazaret_runtime::Object;
use lazaret_workloads::Resource as Kind;
use serde::Deserialize;
use tracing::warn;

// DEVIATION(custom-kinds-collected)
/// Kinds that one process learns in its life, each under its own group, version and names. Their names are kept until the process ends, so
/// a user with permission to define kinds could otherwise fill the memory. Objects of kinds beyond these are not collected as garbage.
const KINDS_MAX: usize = 4_096;

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Deserialize)]
struct Version {
    name: String,
    #[serde(default)]
    served: bool,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The kinds of all definitions that are established.
#[derive(Debug, Default)]
pub(crate) struct CustomKinds {
    by_definition: BTreeMap<ObjectKey, &'static Kind>,
}

impl CustomKinds {
    /// A definition is there or has changed: the kind that is served for it now, and the one that was before if that is another.
    pub(crate) fn set(&mut self, definition: &Object) -> (Option<&'static Kind>, Option<&'static Kind>) {
        let new = served(definition);
        let old = match new {
            Some(kind) => self.by_definition.insert(definition.key.clone(), kind),
            None => self.by_definition.remove(&definition.key),
        };
        (new.filter(|new| old != Some(new)), old.filter(|old| new != Some(old)))
    }

    /// A definition has gone: the kind that was served for it.
    pub(crate) fn remove(&mut self, definition: &ObjectKey) -> Option<&'static Kind> {
        self.by_definition.remove(definition)
    }

    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&'static Kind> {
        self.all().find(|kind| kind.plural == plural && kind.group == group)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Kind> {
        self.by_definition.values().copied()
    }
}

/// The kind that is served for a definition, in its first served version.
fn served(definition: &Object) -> Option<&'static Kind> {
    let Definition { spec, status } = serde_json::from_slice(definition.json())
        .inspect_err(|error| warn!(definition = %definition.key, %error, "a definition cannot be read"))
        .ok()?;
    let established = |condition: &Condition| condition.kind == "Established" && condition.status == "True";
    if !status.conditions.iter().any(established) {
        return None;
    }
    let version = spec.versions.into_iter().find(|version| version.served)?;
    interned(spec.group, version.name, spec.names, spec.scope == "Namespaced")
}

/// The one copy of these names.
fn interned(group: String, version: String, names: Names, namespaced: bool) -> Option<&'static Kind> {
    static KNOWN: Mutex<BTreeSet<&'static Kind>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |kind: &&&'static Kind| {
        (kind.group, kind.version, kind.namespaced) == (&*group, &*version, namespaced)
            && (kind.plural, kind.kind) == (&*names.plural, &*names.kind)
    };
    if let Some(kind) = known.iter().find(same) {
        return Some(kind);
    }
    if known.len() >= KINDS_MAX {
        warn!(group, kind = names.kind, "too many kinds were defined; this one is not collected as garbage");
        return None;
    }
    let kind: &'static Kind = Box::leak(Box::new(Kind {
        group: group.leak(),
        version: version.leak(),
        plural: names.plural.leak(),
        kind: names.kind.leak(),
        namespaced,
    }));
    known.insert(kind);
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITIONS: lazaret_runtime::Resource = lazaret_runtime::Resource {
        group: "apiextensions.k8s.io",
        version: "v1",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        namespaced: false,
    };

    fn definition(versions: &str, established: &str) -> Object {
        let text = format!(
            r#"{{"metadata":{{"name":"notes.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
            "names":{{"plural":"notes","kind":"Note"}},"versions":{versions}}},
            "status":{{"conditions":[{{"type":"Established","status":"{established}"}}]}}}}"#
        );
        Object::new(&DEFINITIONS, text).unwrap()
    }

    #[test]
    fn a_kind_is_learned_when_it_is_served_and_forgotten_with_its_version_or_definition() {
        let mut kinds = CustomKinds::default();
        let one = r#"[{"name":"v0","served":false},{"name":"v1","served":true}]"#;
        let version = |kind: Option<&'static Kind>| kind.map(|kind| kind.version);
        let (new, old) = kinds.set(&definition(one, "False"));
        assert_eq!((version(new), version(old)), (None, None));
        let (new, old) = kinds.set(&definition(one, "True"));
        assert_eq!((version(new), version(old)), (Some("v1"), None));
        let (again, old) = kinds.set(&definition(one, "True"));
        assert_eq!((version(again), version(old)), (None, None), "nothing has changed");
        let (new, old) = kinds.set(&definition(r#"[{"name":"v2","served":true}]"#, "True"));
        assert_eq!((version(new), version(old)), (Some("v2"), Some("v1")));
        assert_eq!(kinds.find("example.com", "notes").map(|kind| kind.kind), Some("Note"));
        let gone = kinds.remove(&ObjectKey::new("", "notes.example.com"));
        assert_eq!((version(gone), kinds.all().count()), (Some("v2"), 0));
    }
}
