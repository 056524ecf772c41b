//! Definitions of kinds that others bring.

use lazaret_model::{validate_dns_label, validate_dns_subdomain};
use serde_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    check::{each_named, immutable, name, one_of},
    path::Path,
    value::{field_mut, fill, is_filled, is_true, list, put, text},
};

/// Definitions of kinds.
#[derive(Debug)]
pub(crate) struct CustomResourceDefinition;

impl Rules for CustomResourceDefinition {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        let names = field_mut(spec, "names");
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            fill(names, "singular", kind.to_lowercase());
            fill(names, "listKind", format!("{kind}List"));
        }
        fill(field_mut(spec, "conversion"), "strategy", "None");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        let stored: Vec<Value> = list(&object["spec"], "versions")
            .iter()
            .filter(|version| is_true(version, "storage"))
            .map(|version| text(version, "name").into())
            .collect();
        put(object, "status", json!({"storedVersions": stored}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        let (group, names) = (text(spec, "group"), &spec["names"]);
        if group.is_empty() {
            errors.required(path.field("group"), "");
        } else if !group.contains('.') {
            errors.invalid(path.field("group"), group, "should be a domain with at least one dot");
        } else {
            name(errors, &path.field("group"), group, validate_dns_subdomain);
        }
        let wanted = format!("{}.{group}", text(names, "plural"));
        if text(&object["metadata"], "name") != wanted {
            errors.invalid(
                "metadata.name",
                text(&object["metadata"], "name"),
                "must be spec.names.plural+\".\"+spec.group",
            );
        }
        let names_path = path.field("names");
        name(errors, &names_path.field("plural"), text(names, "plural"), validate_dns_label);
        if text(names, "kind").is_empty() {
            errors.required(names_path.field("kind"), "");
        }
        one_of(errors, &path.field("scope"), text(spec, "scope"), &["Cluster", "Namespaced"]);
        let versions = list(spec, "versions");
        each_named(errors, &path.field("versions"), versions, usize::MAX, "name", |errors, path, version| {
            name(errors, &path.field("name"), text(version, "name"), validate_dns_label);
            if !is_filled(&version["schema"], "openAPIV3Schema") {
                errors.required(path.field("schema.openAPIV3Schema"), "schemas are required");
            }
        });
        if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
            let shown = Value::Array(versions.iter().map(|version| version["name"].clone()).collect());
            errors.invalid(
                path.field("versions"),
                shown,
                "must have exactly one version marked as storage version",
            );
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
        let path = Path::root("spec");
        for field in ["group", "scope"] {
            immutable(errors, &path.field(field), &new["spec"], &old["spec"], field);
        }
        for field in ["plural", "kind"] {
            let names = path.field("names");
            immutable(errors, &names.field(field), &new["spec"]["names"], &old["spec"]["names"], field);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Created At")];
        COLUMNS
    }

    fn cells(&self, object: &Value, _context: &Context<'_>) -> Vec<Value> {
        vec![text(&object["metadata"], "creationTimestamp").into()]
    }
}
