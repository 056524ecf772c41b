//! How much of a device there is, and which parts of it can be asked for.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::Quantity;

use crate::{
    Context, Errors, FieldProblem,
    check::qualified_name,
    path::Path,
    value::{entries, is_true, list, quantity, quantity_or_zero, some},
};

const VALID_VALUES_MAX: usize = 10;

/// The capacities of a device. Only one that may be shared has policies for requests.
pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, device: &Value, context: &Context<'_>) {
    let shared = is_true(device, "allowMultipleAllocations");
    for (key, capacity) in entries(device, "capacity") {
        qualified_name(errors, path, key);
        let path = path.key(key);
        let Some(value) = quantity_or_zero(capacity, "value") else {
            errors.invalid(path.field("value"), capacity["value"].clone(), "must be a quantity");
            continue;
        };
        match some(capacity, "requestPolicy") {
            Some(_) if !shared => {
                errors.forbidden(path.field("requestPolicy"), "allowMultipleAllocations must be true");
            }
            Some(policy) => {
                let fractional = context.features.is_on("DRAFractionalCapacityRange");
                request_policy(errors, &path.field("requestPolicy"), &value, policy, fractional);
            }
            None => {}
        }
    }
}

fn request_policy(
    errors: &mut Errors,
    path: &Path<'_>,
    capacity: &Quantity,
    policy: &Value,
    fractional: bool,
) {
    let values = list(policy, "validValues");
    let range = some(policy, "validRange");
    if !values.is_empty() && range.is_some() {
        errors.forbidden(
            path,
            r#"exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time"#,
        );
        return;
    }
    let default = read(errors, path, policy, "default");
    let needed = if range.is_some() { "validRange" } else { "validValues" };
    if default.is_none() && (range.is_some() || !values.is_empty()) {
        if some(policy, "default").is_none() {
            errors.required(path.field("default"), &format!("required when {needed} is defined"));
        }
        return;
    }
    let Some(default) = default else { return };
    if let Some(range) = range {
        Range { errors, capacity, default: &default, fractional }.check(&path.field("validRange"), range);
    } else if !values.is_empty() {
        valid_values(errors, &path.field("validValues"), values, capacity, &default, fractional);
    }
}

/// A quantity if the field is there; what is none is an error.
fn read(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str) -> Option<Quantity> {
    let found = some(holder, field)?;
    let parsed = quantity(found);
    if parsed.is_none() {
        errors.invalid(path.field(field), found.clone(), "must be a quantity");
    }
    parsed
}

fn valid_values(
    errors: &mut Errors,
    path: &Path<'_>,
    items: &[Value],
    capacity: &Quantity,
    default: &Quantity,
    fractional: bool,
) {
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        match quantity(item) {
            Some(value) => values.push(value),
            None => {
                errors.invalid(path.index(at), item.clone(), "must be a quantity");
                return;
            }
        }
    }
    for (at, pair) in values.windows(2).enumerate() {
        if pair[0] > pair[1] {
            errors.invalid(
                path.index(at + 1),
                pair[1].to_string(),
                "values must be sorted in ascending order",
            );
        }
    }
    if values.len() > VALID_VALUES_MAX {
        errors.push(path, FieldProblem::TooMany(values.len(), VALID_VALUES_MAX));
    } else {
        let mut seen = BTreeSet::new();
        for (at, value) in values.iter().enumerate() {
            if value > capacity {
                errors.invalid(
                    path.index(at),
                    value.to_string(),
                    format!("option is larger than capacity value: {capacity}"),
                );
            }
            // Without fractions, values that round to the same whole number are the same.
            let key =
                if fractional { value.to_string() } else { format!("{:?}", value.value_i64_rounded_up()) };
            if !seen.insert(key) {
                errors.push(path.index(at), FieldProblem::Duplicate(value.to_string().into()));
            }
        }
    }
    if !values.contains(default) {
        errors.invalid(
            path,
            default.to_string(),
            "default value is not valid according to the requestPolicy",
        );
    }
}

struct Range<'a> {
    errors: &'a mut Errors,
    capacity: &'a Quantity,
    default: &'a Quantity,
    fractional: bool,
}

impl Range<'_> {
    fn check(&mut self, path: &Path<'_>, range: &Value) {
        let min = read(self.errors, path, range, "min");
        let max = read(self.errors, path, range, "max");
        let step = read(self.errors, path, range, "step");
        let Some(min) = min else {
            if some(range, "min").is_none() {
                self.errors.required(path.field("min"), "required when validRange is defined");
            }
            return;
        };
        self.bounds(path, &min, max.as_ref());
        let named = [
            ("default", Some(self.default)),
            ("min", Some(&min)),
            ("max", max.as_ref()),
            ("step", step.as_ref()),
        ];
        let bounds: Vec<(&str, &Quantity)> =
            named.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect();
        let in_milli = self.fractional && bounds.iter().any(|(_, value)| !value.is_integer());
        if in_milli
            && !self.fit(path, &bounds, Quantity::milli_exact, "value cannot be represented as a milli value")
        {
            return;
        }
        let Some(step) = &step else { return };
        if step.sign() <= 0 {
            self.errors.invalid(path.field("step"), step.to_string(), "must be greater than zero");
            return;
        }
        let first = min.add(step);
        if first > *self.capacity {
            let why = format!("one step {first} is larger than capacity value: {}", self.capacity);
            self.errors.invalid(path.field("step"), step.to_string(), why);
        }
        let whole = |value: &Quantity| value.value_i64_rounded_up().filter(|value| *value >= 0);
        if !in_milli && !self.fit(path, &bounds, whole, "must be between 0 and 9223372036854775807") {
            return;
        }
        let number = |value: &Quantity| if in_milli { value.milli_exact() } else { whole(value) };
        for value in std::iter::once(self.default).chain(max.as_ref()) {
            let on_grid =
                || Some((number(value)?.checked_sub(number(&min)?)?).checked_rem(number(step)?)? == 0);
            if on_grid() != Some(true) {
                let why = format!("value is not a multiple of a given step ({step}) from ({min})");
                self.errors.invalid(path.field("step"), value.to_string(), why);
            }
        }
    }

    fn bounds(&mut self, path: &Path<'_>, min: &Quantity, max: Option<&Quantity>) {
        let (capacity, default) = (self.capacity, self.default);
        let mut refuse = |wrong: bool, field: &str, value: &Quantity, why: String| {
            if wrong {
                self.errors.invalid(path.field(field), value.to_string(), why);
            }
        };
        refuse(min > capacity, "min", min, format!("min is larger than capacity value: {capacity}"));
        refuse(default < min, "default", default, format!("default is less than min: {min}"));
        if let Some(max) = max {
            refuse(min > max, "max", min, format!("min is larger than max: {max}"));
            refuse(max > capacity, "max", max, format!("max is larger than capacity value: {capacity}"));
            refuse(default > max, "default", default, format!("default is more than max: {max}"));
        }
    }

    /// Whether all bounds are numbers to reckon with.
    fn fit(
        &mut self,
        path: &Path<'_>,
        bounds: &[(&str, &Quantity)],
        number: impl Fn(&Quantity) -> Option<i64>,
        why: &str,
    ) -> bool {
        let mut fit = true;
        for (name, value) in bounds.iter().filter(|(_, value)| number(value).is_none()) {
            self.errors.invalid(path.field(name), value.to_string(), why);
            fit = false;
        }
        fit
    }
}
