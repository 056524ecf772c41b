//! Classes of ingresses.

use lazaret_json::Value;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::{domain_prefixed_path, immutable, name, not_supported},
    kind::age,
    names::path_segment,
    path::Path,
    value::{fill, has, some, text},
};

/// Classes of ingresses.
#[derive(Debug)]
pub(crate) struct IngressClass;

const CONTROLLER_BYTES_MAX: usize = 250;
const SCOPES: &[&str] = &["Cluster", "Namespace"];

impl Rules for IngressClass {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        if let Some(parameters) = object.pointer_mut("/spec/parameters").filter(|found| found.is_object()) {
            fill(parameters, "scope", "Cluster");
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let (spec, path) = (&object["spec"], Path::root("spec"));
        controller(errors, &path.field("controller"), text(spec, "controller"));
        if let Some(parameters) = some(spec, "parameters") {
            self::parameters(errors, &path.field("parameters"), parameters);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("spec");
        immutable(errors, &path.field("controller"), &new["spec"], &old["spec"], "controller");
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Controller"), Column::text("Parameters"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let spec = &object["spec"];
        let parameters = some(spec, "parameters").map_or_else(
            || "<none>".to_owned(),
            |found| {
                let group = some(found, "apiGroup").and_then(Value::as_str);
                let group = group.map(|group| format!(".{group}")).unwrap_or_default();
                format!("{}{group}/{}", text(found, "kind"), text(found, "name"))
            },
        );
        vec![text(spec, "controller").into(), parameters.into(), age(object, context)]
    }
}

/// `example.com/ingress`: a domain and a path.
fn controller(errors: &mut Errors, path: &Path<'_>, said: &str) {
    if said.is_empty() {
        errors.required(path, "");
        return;
    }
    if said.len() > CONTROLLER_BYTES_MAX {
        errors.push(path, FieldProblem::TooLong(CONTROLLER_BYTES_MAX));
    }
    domain_prefixed_path(errors, path, said);
}

/// Checks a reference to another object: a kind of a group, and a name.
pub(super) fn object_reference(errors: &mut Errors, path: &Path<'_>, reference: &Value) {
    if has(reference, "apiGroup") {
        name(errors, &path.field("apiGroup"), text(reference, "apiGroup"), validate_dns_subdomain);
    }
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.required(path.field(field), ""),
            said => {
                if let Err(why) = path_segment(said) {
                    errors.invalid(path.field(field), said, why);
                }
            }
        }
    }
}

fn parameters(errors: &mut Errors, path: &Path<'_>, parameters: &Value) {
    object_reference(errors, path, parameters);
    let namespace = path.field("namespace");
    match text(parameters, "scope") {
        "" => errors.required(path.field("scope"), ""),
        "Namespace" if !has(parameters, "namespace") => {
            errors.required(namespace, "`parameters.scope` is set to 'Namespace'");
        }
        "Namespace" => name(errors, &namespace, text(parameters, "namespace"), validate_dns_label),
        "Cluster" if has(parameters, "namespace") => {
            errors.forbidden(namespace, "`parameters.scope` is set to 'Cluster'");
        }
        "Cluster" => {}
        other => errors.push(path.field("scope"), not_supported(other, SCOPES)),
    }
}
