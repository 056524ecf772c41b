//! Claims.

use lazaret_json::{Value, json};

use super::{allocation, authorization, claim_spec};
use crate::{
    Column, Context, Errors, Rules,
    check::immutable,
    gate::drop_disabled,
    kind::age,
    path::Path,
    rules::{SPEC_AND_METADATA, keep_all_but_status, keep_status},
    value::{canonical_quantities, field_mut, has, list, put},
};

/// Claims.
#[derive(Debug)]
pub(crate) struct Claim;

impl Rules for Claim {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        claim_spec::default(field_mut(object, "spec"));
        if let Some(status) = object.get_mut("status") {
            allocation::default(status);
        }
        canonical_quantities(object, "resource/v1.ResourceClaim");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        put(object, "status", json!({}));
        drop_disabled(claim_spec::GATES, field_mut(object, "spec"), None, context.features);
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        claim_spec::check_admin_access(errors, &object["spec"], context);
        claim_spec::validate(errors, &Path::root("spec"), &object["spec"], context);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        drop_disabled(claim_spec::GATES, field_mut(new, "spec"), Some(&old["spec"]), context.features);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        immutable(errors, &Path::root("spec"), new, old, "spec");
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_all_but_status(new, old, self.status_resets());
        drop_disabled(allocation::GATES, new, Some(old), context.features);
        allocation::drop_deallocated(new, old);
    }

    fn validate_status(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        authorization::check(errors, new, old, context);
        allocation::validate(errors, new, old);
    }

    fn to_version(&self, object: &mut Value, version: &str) {
        if version == "v1beta1" {
            claim_spec::to_flat(field_mut(object, "spec"));
        }
    }

    fn from_version(&self, object: &mut Value, version: &str, _old: Option<&Value>) {
        if version == "v1beta1" {
            claim_spec::from_flat(field_mut(object, "spec"));
        }
    }

    fn differs_in(&self, _object: &Value, version: &str) -> bool {
        version == "v1beta1"
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("State"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![state(object).into(), age(object, context)]
    }
}

fn state(claim: &Value) -> String {
    let deleted = has(&claim["metadata"], "deletionTimestamp");
    let allocated = has(&claim["status"], "allocation");
    let mut states = Vec::new();
    if deleted {
        states.push("deleted");
    }
    if allocated {
        states.push("allocated");
        if !list(&claim["status"], "reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    states.join(",")
}
