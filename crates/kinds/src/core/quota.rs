//! Quotas of a namespace: checked and kept.

use lazaret_json::{Value, json};

use crate::{
    Context, Errors, Rules,
    path::Path,
    value::{entries, put, quantity},
};

/// Quotas of a namespace.
#[derive(Debug)]
pub(crate) struct ResourceQuota;

/// What can only be counted in whole numbers.
const COUNTED: &[&str] = &[
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

impl Rules for ResourceQuota {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        amounts(errors, &Path::root("spec.hard"), &object["spec"], "hard");
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        for field in ["hard", "used"] {
            amounts(errors, &Path::root("status").field(field), &new["status"], field);
        }
    }
}

fn amounts(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str) {
    for (name, said) in entries(holder, field) {
        let Some(amount) = quantity(said) else { continue };
        if amount.is_negative() {
            errors.invalid(path.key(name), said.clone(), "must be greater than or equal to 0");
        }
        if (COUNTED.contains(&name.as_str()) || name.starts_with("count/")) && !amount.is_integer() {
            errors.invalid(path.key(name), said.clone(), "must be an integer");
        }
    }
}
