//! Leases.

use lazaret_json::Value;

use crate::{
    Column, Context, Errors, Rules,
    gate::{Gate, drop_disabled},
    kind::age,
    path::Path,
    value::{has, number, remove, text},
};

/// Fields of coordinated leader election.
const GATES: &[Gate] = &[
    Gate {
        features: &["CoordinatedLeaderElection"],
        in_use: |lease| has(&lease["spec"], "strategy"),
        clear: |lease| clear(lease, "strategy"),
    },
    Gate {
        features: &["CoordinatedLeaderElection"],
        in_use: |lease| has(&lease["spec"], "preferredHolder"),
        clear: |lease| clear(lease, "preferredHolder"),
    },
];

fn clear(lease: &mut Value, field: &str) {
    if has(&lease["spec"], field)
        && let Some(spec) = lease.get_mut("spec")
    {
        remove(spec, field);
    }
}

/// Leases.
#[derive(Debug)]
pub(crate) struct Lease;

impl Rules for Lease {
    fn may_exceed_limits(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        drop_disabled(GATES, object, None, context.features);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        drop_disabled(GATES, new, Some(old), context.features);
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let spec = &object["spec"];
        let path = Path::root("spec");
        if has(spec, "leaseDurationSeconds") && number(spec, "leaseDurationSeconds") <= 0 {
            let seconds = number(spec, "leaseDurationSeconds");
            errors.invalid(path.field("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if number(spec, "leaseTransitions") < 0 {
            let transitions = number(spec, "leaseTransitions");
            errors.invalid(path.field("leaseTransitions"), transitions, "must be greater than or equal to 0");
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Holder"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(&object["spec"], "holderIdentity").into(), age(object, context)]
    }
}
