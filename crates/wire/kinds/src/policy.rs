//! Disruption budgets.

use lazaret_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    check::label_selector,
    kind::age,
    path::Path,
    value::{has, number, put, some, text},
};

const EVICTION_POLICIES: &[&str] = &["AlwaysAllow", "IfHealthyBudget"];

/// Disruption budgets.
#[derive(Debug)]
pub(crate) struct DisruptionBudget;

impl Rules for DisruptionBudget {
    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(
            object,
            "status",
            json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}),
        );
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let spec = &object["spec"];
        let path = Path::root("spec");
        if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
            errors.invalid(path, spec.clone(), "minAvailable and maxUnavailable cannot be both set");
        }
        for field in ["minAvailable", "maxUnavailable"] {
            if let Some(amount) = some(spec, field).filter(|amount| !is_amount(amount)) {
                errors.invalid(
                    path.field(field),
                    amount.clone(),
                    "must be a number of at least 0, or a percentage up to 100%",
                );
            }
        }
        label_selector(errors, &path.field("selector"), &spec["selector"]);
        let policy = text(spec, "unhealthyPodEvictionPolicy");
        if !policy.is_empty() && !EVICTION_POLICIES.contains(&policy) {
            errors.push(
                path.field("unhealthyPodEvictionPolicy"),
                crate::check::not_supported(policy, EVICTION_POLICIES),
            );
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Min Available"),
            Column::text("Max Unavailable"),
            Column::number("Allowed Disruptions"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let amount = |field: &str| match some(&object["spec"], field) {
            None => "N/A".to_owned(),
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_string(),
        };
        vec![
            amount("minAvailable").into(),
            amount("maxUnavailable").into(),
            number(&object["status"], "disruptionsAllowed").into(),
            age(object, context),
        ]
    }
}

fn is_amount(amount: &Value) -> bool {
    match amount {
        Value::Number(number) => number.as_i64().is_some_and(|number| number >= 0),
        Value::String(text) => text
            .strip_suffix('%')
            .and_then(|digits| digits.parse::<u8>().ok())
            .is_some_and(|percent| percent <= 100),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) | Value::Encoded(_) => false,
    }
}
