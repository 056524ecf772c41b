//! Claims: a request that never changes, and a status through which scheduler and driver negotiate.

use lazaret_classic::ResourceClaim;
use lazaret_json::{Value, json};

use super::{MODES, PHASES, errors::add};
use crate::{
    Column, Context, Errors, Rules,
    check::{IMMUTABLE, not_supported},
    kind::age,
    rules::SPEC_AND_METADATA,
    value::{field_mut, fill, fill_zero, has, list, number, put, same_field, text},
};

/// Claims.
#[derive(Debug)]
pub(crate) struct Claim;

impl Rules for Claim {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(field_mut(object, "spec"), "allocationMode", "Delayed");
        if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
            fill(status, "phase", "Pending");
            fill_zero(status, "userLimit", 1);
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({"phase": "Pending", "userLimit": 1}));
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        if let Some(claim) = read(errors, object) {
            let found = lazaret_classic::validate_claim(&claim);
            // The server has looked at the name itself.
            let found = found.into_iter().filter(|error| !error.path.starts_with("metadata."));
            add(errors, found.collect(), ToOwned::to_owned);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        if !same_field(new, old, "spec") {
            errors.invalid("spec", new["spec"].clone(), IMMUTABLE);
        }
        if !same_field(&new["metadata"], &old["metadata"], "finalizers")
            && let (Some(new), Some(old)) = (read(errors, new), read(errors, old))
        {
            add(errors, lazaret_classic::validate_finalizers(&old, &new), ToOwned::to_owned);
        }
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        if let (Some(new), Some(old)) = (read(errors, new), read(errors, old)) {
            let found = lazaret_classic::validate_claim_status_update(&old, &new.status);
            add(errors, found, ToOwned::to_owned);
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Class"),
            Column::text("Mode"),
            Column::text("State"),
            Column::text("Driver"),
            Column::text("Users"),
            Column::wide("Selected Node"),
            Column::wide("Unsuitable"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let scheduling = &status["scheduling"];
        let (potential, unsuitable) = (
            list(&scheduling["scheduler"], "potentialNodes").len(),
            list(&scheduling["driver"], "unsuitableNodes").len(),
        );
        vec![
            text(spec, "resourceClassName").into(),
            text(spec, "allocationMode").into(),
            state(object).into(),
            or_dash(text(status, "driverName")),
            users(status).into(),
            or_dash(text(&scheduling["scheduler"], "selectedNode")),
            format!("{unsuitable}/{potential}").into(),
            age(object, context),
        ]
    }
}

/// A claim as the core has it, unless it has a mode or a phase that does not exist.
fn read(errors: &mut Errors, object: &Value) -> Option<ResourceClaim> {
    let (mode, phase) = (text(&object["spec"], "allocationMode"), text(&object["status"], "phase"));
    let claim = lazaret_api::read_classic_claim(object.to_string().as_bytes());
    if !mode.is_empty() && !MODES.contains(&mode) {
        errors.push("spec.allocationMode", not_supported(mode, MODES));
    } else if !phase.is_empty() && !PHASES.contains(&phase) {
        errors.push("status.phase", not_supported(phase, PHASES));
    } else if claim.is_none() {
        errors.invalid("", object.clone(), "cannot be read as a ResourceClaim");
    }
    claim
}

fn state(claim: &Value) -> String {
    let status = &claim["status"];
    let mut states = Vec::new();
    if has(&claim["metadata"], "deletionTimestamp") {
        states.push("deleted");
    }
    match text(status, "phase") {
        "Allocated" => {
            states.push("allocated");
            if !list(status, "reservedFor").is_empty() {
                states.push("reserved");
            }
        }
        "Reallocate" => states.push("reallocate"),
        _ => states.push("pending"),
    }
    states.join(",")
}

/// `1/1`, or `3/unlimited`.
fn users(status: &Value) -> String {
    let limit = match number(status, "userLimit") {
        lazaret_classic::USERS_UNLIMITED => "unlimited".to_owned(),
        limit => limit.to_string(),
    };
    format!("{}/{limit}", list(status, "reservedFor").len())
}

fn or_dash(text: &str) -> Value {
    if text.is_empty() { "-".into() } else { text.into() }
}
