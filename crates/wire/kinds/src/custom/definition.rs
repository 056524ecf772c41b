//! From a definition to the kinds that it brings, one for each version that it serves.
//!
//! Versions differ in nothing but their name and schema, for the only conversion is none at all: so each is a kind of its own whose one
//! version is both the served and the stored form.

use std::sync::Arc;

use lazaret_crd::{DefinedSchema, is_ending, is_established};
use lazaret_json::Value;

use super::rules::CustomRules;
use crate::{
    Heading, JsonPath, Kind, Name, RuleSet, ScalePaths, Scope, Served, Shape, Verbs, find,
    own::check_of,
    registry::{SCALE, STATUS},
    value::{is_true, list, text, texts},
};

/// The kinds that a stored definition brings; none while its names are not accepted or a built-in kind has them.
#[must_use]
pub fn custom_kinds(definition: &Value) -> Vec<Kind> {
    let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
    let (group, plural) = (text(spec, "group"), text(names, "plural"));
    if !is_established(definition) || plural.is_empty() || find(group, plural).is_some() {
        return Vec::new();
    }
    let served = list(spec, "versions").iter().filter(|version| is_true(version, "served"));
    served.map(|version| kind(definition, version)).collect()
}

/// The kind in its stored version, served or not: what its objects are found under.
#[must_use]
pub fn stored_kind(definition: &Value) -> Option<Kind> {
    let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
    if !is_established(definition) || find(text(spec, "group"), text(names, "plural")).is_some() {
        return None;
    }
    let stored = list(spec, "versions").iter().find(|version| is_true(version, "storage"))?;
    Some(kind(definition, stored))
}

fn kind(definition: &Value, version: &Value) -> Kind {
    let (spec, names) = (&definition["spec"], &definition["status"]["acceptedNames"]);
    let owned = |text: &str| Name::Owned(text.to_owned());
    let several = |field: &str| texts(names, field).map(owned).collect();
    let schema = DefinedSchema::read(version["schema"]["openAPIV3Schema"].clone());
    let (table, ty) = schema.shape();
    let has_status = version["subresources"].get("status").is_some_and(|status| !status.is_null());
    let scale = scale_paths(&version["subresources"]["scale"]);
    let subresources = [has_status.then_some(STATUS), scale.is_some().then_some(SCALE)];
    let rules = CustomRules {
        schema,
        has_status,
        scale,
        columns: columns(version),
        selectable: selectable(version),
        deprecation: deprecation(definition, version),
        own_check: check_of(text(spec, "group"), text(names, "plural")),
    };
    Kind {
        group: owned(text(spec, "group")),
        kind: owned(text(names, "kind")),
        list_kind: owned(text(names, "listKind")),
        plural: owned(text(names, "plural")),
        singular: owned(text(names, "singular")),
        short: several("shortNames"),
        categories: several("categories"),
        scope: if text(spec, "scope") == "Cluster" { Scope::Cluster } else { Scope::Namespaced },
        versions: vec![Served {
            version: owned(text(version, "name")),
            shape: Shape::Own(table, ty),
            by_default: true,
            since: None,
            feature: None,
        }],
        subresources: subresources.into_iter().flatten().collect(),
        verbs: if is_ending(definition) { Verbs::Ending } else { Verbs::All },
        generation: true,
        unconditional_update: false,
        create_on_update: false,
        delete_returns_object: false,
        unheeded: None,
        rules: RuleSet::Made(Arc::new(rules)),
    }
}

fn scale_paths(scale: &Value) -> Option<ScalePaths> {
    let path = |field: &str| JsonPath::parse(scale[field].as_str()?).ok();
    Some(ScalePaths {
        spec: path("specReplicasPath")?,
        status: path("statusReplicasPath")?,
        selector: path("labelSelectorPath"),
    })
}

/// The columns of the definition, or the age where it has none. One whose path cannot be read is left out.
fn columns(version: &Value) -> Vec<(Heading, JsonPath)> {
    let said = list(version, "additionalPrinterColumns");
    if said.is_empty() {
        let heading = Heading {
            name: "Age".into(),
            kind: "date".into(),
            format: "".into(),
            description: "When the object was made.".into(),
            priority: 0,
        };
        return JsonPath::parse(".metadata.creationTimestamp")
            .map(|path| (heading, path))
            .into_iter()
            .collect();
    }
    let column = |column: &Value| {
        let owned = |field: &str| Name::Owned(text(column, field).to_owned());
        let description = match text(column, "description") {
            "" => format!(
                "Custom resource definition column (in JSONPath format): {}",
                text(column, "jsonPath")
            ),
            said => said.to_owned(),
        };
        let heading = Heading {
            name: owned("name"),
            kind: owned("type"),
            format: owned("format"),
            description: description.into(),
            priority: column["priority"].as_i64().unwrap_or_default(),
        };
        Some((heading, JsonPath::parse(text(column, "jsonPath")).ok()?))
    };
    said.iter().filter_map(column).collect()
}

fn selectable(version: &Value) -> Vec<(String, JsonPath)> {
    list(version, "selectableFields")
        .iter()
        .filter_map(|field| {
            let path = text(field, "jsonPath");
            Some((path.trim_start_matches('.').to_owned(), JsonPath::parse(path).ok()?))
        })
        .collect()
}

fn deprecation(definition: &Value, version: &Value) -> Option<String> {
    if !is_true(version, "deprecated") {
        return None;
    }
    let (spec, name) = (&definition["spec"], text(version, "name"));
    Some(match text(version, "deprecationWarning") {
        "" => format!("{}/{name} {} is deprecated", text(spec, "group"), text(&spec["names"], "kind")),
        said => said.to_owned(),
    })
}
