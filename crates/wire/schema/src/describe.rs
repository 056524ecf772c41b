//! Descriptions of types and fields, as `kubectl explain` shows them.
//!
//! The text stands in the tables, each below the line that it is about, and is looked up there: a client that fetches an OpenAPI document asks for
//! it, and nothing else does. A type means the same in every version of its group, so a version that says nothing of a field leaves it to the others.

use std::{collections::BTreeMap, sync::OnceLock};

use crate::table::TABLES;

/// Descriptions of fields of any type that says nothing itself.
const COMMON: &[(&str, &str)] = &[
    ("apiVersion", "Group and version of the API that this object is written in, as in resource.k8s.io/v1."),
    ("kind", "The kind of object."),
    ("metadata", "Name, labels and the like."),
    ("spec", "Desired state."),
    ("status", "Observed state. Written by the system."),
    ("conditions", "Conditions of the object, one entry per type."),
    ("observedGeneration", "The metadata.generation that the status is about."),
    ("replicas", "How many pods."),
    ("selector", "Which pods, by their labels."),
    ("template", "Template of new pods."),
];

/// A type lends its fields to one that lends them to another, and no further.
const INLINE_DEPTH_MAX: usize = 4;

/// The descriptions of one type.
#[derive(Clone, Copy, Debug)]
pub struct Description<'a> {
    package: &'a str,
    name: &'a str,
}

impl<'a> Description<'a> {
    /// Of a type by its name, `resource/v1.Device`.
    #[must_use]
    pub fn of(shape: &'a str) -> Self {
        let (package, name) = shape.split_once('.').unwrap_or_default();
        Self { package, name }
    }

    /// The description of the type itself.
    #[must_use]
    pub fn itself(self) -> Option<&'static str> {
        self.sections().find_map(|(_, section)| section.lines().nth(1).and_then(described))
    }

    /// The description of a field.
    #[must_use]
    pub fn field(self, name: &str) -> Option<&'static str> {
        self.own_field(name, 0).or_else(|| {
            let common = COMMON.iter().find(|(known, _)| *known == name);
            common.map(|(_, text)| *text)
        })
    }

    fn own_field(self, name: &str, depth: usize) -> Option<&'static str> {
        let said = |(_, section): (&'static str, &'static str)| {
            let mut lines = section.lines();
            lines.find(|line| line.strip_prefix("  ").is_some_and(|field| first_word(field) == name))?;
            lines.next().and_then(described)
        };
        self.sections().find_map(said).or_else(|| {
            self.lenders()
                .filter(|_| depth < INLINE_DEPTH_MAX)
                .find_map(|lender| lender.own_field(name, depth + 1))
        })
    }

    /// Types whose fields stand flat in this one.
    fn lenders(self) -> impl Iterator<Item = Description<'static>> {
        self.sections().flat_map(|(own, section)| {
            let inline = section.lines().filter_map(|line| line.strip_prefix("  inline "));
            inline.filter_map(|rest| rest.split(' ').nth(1)).map(move |lender| {
                let (package, name) = lender.split_once('.').unwrap_or((own, lender));
                Description { package, name }
            })
        })
    }

    /// The lines about the type: in its own version, then in the others of its group.
    fn sections(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let group = self.package.split('/').next();
        let packages = || TABLES.iter().map(|(package, _)| *package);
        let own = packages().filter(move |package| *package == self.package);
        let others =
            packages().filter(move |package| *package != self.package && package.split('/').next() == group);
        own.chain(others).filter_map(move |package| Some((package, *sections().get(&(package, self.name))?)))
    }
}

/// The lines about each type, by package and name.
fn sections() -> &'static BTreeMap<(&'static str, &'static str), &'static str> {
    static SECTIONS: OnceLock<BTreeMap<(&'static str, &'static str), &'static str>> = OnceLock::new();
    SECTIONS.get_or_init(|| TABLES.iter().flat_map(|(package, text)| of_table(package, text)).collect())
}

fn of_table(package: &'static str, text: &'static str) -> Vec<((&'static str, &'static str), &'static str)> {
    let mut types = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.starts_with(char::is_alphabetic) {
            types.push((at, first_word(line.trim_end())));
        }
        at += line.len();
    }
    let ends = types.iter().skip(1).map(|(begin, _)| *begin).chain([text.len()]);
    types.iter().zip(ends).map(|((begin, name), end)| ((package, *name), &text[*begin..end])).collect()
}

fn first_word(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

/// The text of a line that describes the one above it.
fn described(line: &'static str) -> Option<&'static str> {
    line.strip_prefix("    ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StructType, builtin};

    fn types<'a>(package: &'a str) -> impl Iterator<Item = &'static StructType> + 'a {
        let all = builtin().names().filter_map(|(name, id)| Some((name, builtin().get_struct(id)?)));
        all.filter(move |(name, _)| name.starts_with(package)).map(|(_, found)| found)
    }

    #[test]
    fn every_field_of_a_kind_for_devices_is_described() {
        let mut missing = Vec::new();
        for found in types("resource/").chain(types("lazaret/")) {
            let description = Description::of(&found.name);
            // Of our own kinds, the field in which an object stands describes it.
            if description.itself().is_none() && found.name.starts_with("resource/") {
                missing.push(found.name.clone());
            }
            let fields = found.fields.keys().filter(|field| description.own_field(field, 0).is_none());
            missing.extend(fields.map(|field| format!("{}.{field}", found.name)));
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn every_description_is_a_sentence_below_a_type_or_a_field() {
        for (package, text) in TABLES {
            let mut before = "";
            for line in text.lines() {
                if let Some(said) = described(line) {
                    assert!(said.ends_with('.') && !said.contains("  "), "{package}: {line:?}");
                    assert!(!said.starts_with(' ') && described(before).is_none(), "{package}: {line:?}");
                    assert!(!before.is_empty() && !before.starts_with('#'), "{package}: {line:?}");
                }
                before = line;
            }
        }
    }

    #[test]
    fn a_type_that_says_nothing_of_a_field_leaves_it_to_what_holds_for_all() {
        let deployment = Description::of("apps/v1.Deployment");
        assert_eq!(deployment.itself(), None);
        assert_eq!(deployment.field("spec"), Some("Desired state."));
        assert_eq!(deployment.field("frob"), None);
        assert!(Description::of("core/v1.Pod").field("spec").is_some_and(|text| text.contains("containers")));
        let lent = Description::of("resource/v1beta2.DeviceClaimConfiguration").field("opaque");
        assert_eq!(lent, Some("Parameters that only the driver understands."));
    }
}
