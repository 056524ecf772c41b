//! Defaults and validation of a limit range.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::{Quantity, validate_label_name};

use crate::{
    Ceiling, Context, Errors, FieldProblem, Rules,
    path::Path,
    resource_names::{container_resource, is_overcommittable, resource},
    value::{
        canonical_quantities, count, entries, field_mut, has, is_filled, list, list_mut, put, quantity, text,
    },
};

/// Limit ranges.
#[derive(Debug)]
pub(crate) struct LimitRange;

// DEVIATION(quota-limits): a pod can have thousands of containers, and each gets all defaults.
/// Items that one limit range has at most.
const ITEMS_MAX: usize = 64;
/// Resources that one field of an item names at most.
const RESOURCES_MAX: usize = 64;
const TYPES: &[&str] = &["Container", "PersistentVolumeClaim", "Pod"];

impl Rules for LimitRange {
    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::NamespaceRules)
    }

    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        if let Some(spec) = object.get_mut("spec") {
            list_mut(spec, "limits").iter_mut().for_each(default_item);
        }
        canonical_quantities(object, "core/v1.LimitRange");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("spec");
        let path = path.field("limits");
        let items = list(&object["spec"], "limits");
        if items.len() > ITEMS_MAX {
            errors.push(path, FieldProblem::TooMany(items.len(), ITEMS_MAX));
            return;
        }
        let mut types = BTreeSet::new();
        for (at, item) in items.iter().enumerate() {
            let path = path.index(at);
            let kind = text(item, "type");
            type_name(errors, &path.field("type"), kind);
            if !types.insert(kind) {
                errors.push(path.field("type"), FieldProblem::Duplicate(kind.into()));
            }
            self::item(errors, &path, item);
        }
    }

    fn validate_update(&self, new: &Value, _old: &Value, context: &Context<'_>, errors: &mut Errors) {
        self.validate_create(new, context, errors);
    }
}

/// For containers: the limit is the most that is allowed, the request is the limit, or else the least that is allowed.
fn default_item(item: &mut Value) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let amounts: Vec<(String, Value)> =
            entries(item, from).map(|(name, amount)| (name.to_string(), amount.clone())).collect();
        for (name, amount) in amounts {
            let defaults = field_mut(item, to);
            if !has(defaults, &name) {
                put(defaults, &name, amount);
            }
        }
    }
}

fn type_name(errors: &mut Errors, path: &Path<'_>, name: &str) {
    if let Err(error) = validate_label_name(name) {
        errors.invalid(path, name, error.to_string());
    } else if !name.contains('/') && !TYPES.contains(&name) {
        errors.invalid(path, name, "must be a standard limit type or fully qualified");
    }
}

fn item(errors: &mut Errors, path: &Path<'_>, item: &Value) {
    let kind = text(item, "type");
    let name_of: fn(&mut Errors, &Path<'_>, &str) = if ["Pod", "Container"].contains(&kind) {
        container_resource
    } else {
        |errors: &mut Errors, path: &Path<'_>, name: &str| {
            resource(errors, path, name);
        }
    };
    let mut names = BTreeSet::new();
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && field.starts_with("default") {
            if is_filled(item, field) {
                errors.forbidden(path.field(field), "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        if count(item, field) > RESOURCES_MAX {
            errors.push(path.field(field), FieldProblem::TooMany(count(item, field), RESOURCES_MAX));
            continue;
        }
        for (name, _) in entries(item, field) {
            name_of(errors, &path.field(field).key(name), name);
            names.insert(name.as_str());
        }
    }
    if kind == "PersistentVolumeClaim" && !has(&item["min"], "storage") && !has(&item["max"], "storage") {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.required(path.field("limits"), why);
    }
    names.into_iter().for_each(|name| amounts(errors, path, item, name));
}

/// Checks that the amounts of one resource are consistent.
fn amounts(errors: &mut Errors, path: &Path<'_>, item: &Value, name: &str) {
    let of = |field: &str| {
        item[field]
            .get(name)
            .and_then(quantity)
            .filter(|_| !(text(item, "type") == "Pod" && field.starts_with("default")))
    };
    let (min, max, limit, request) = (of("min"), of("max"), of("default"), of("defaultRequest"));
    let mut order =
        |field: &str, shown: &Quantity, low: (&str, &Option<Quantity>), high: (&str, &Option<Quantity>)| {
            if let ((low_name, Some(low)), (high_name, Some(high))) = (low, high)
                && low > high
            {
                let why = format!("{low_name} value {low} is greater than {high_name} value {high}");
                errors.invalid(path.field(field).key(name), shown.to_string(), why);
            }
        };
    if let Some(shown) = &min {
        order("min", shown, ("min", &min), ("max", &max));
    }
    if let Some(shown) = &request {
        order("defaultRequest", shown, ("min", &min), ("default request", &request));
        order("defaultRequest", shown, ("default request", &request), ("max", &max));
        order("defaultRequest", shown, ("default request", &request), ("default limit", &limit));
    }
    if let Some(shown) = &min {
        order("default", shown, ("min", &min), ("default", &limit));
    }
    if let Some(shown) = &max {
        order("default", shown, ("default", &limit), ("max", &max));
    }
    if let Some(ratio) = of("maxLimitRequestRatio") {
        self::ratio(
            errors,
            &path.field("maxLimitRequestRatio").key(name),
            &ratio,
            min.as_ref(),
            max.as_ref(),
        );
    }
    if let (Some(limit), Some(request)) = (&limit, &request)
        && !is_overcommittable(name)
        && limit != request
    {
        let why = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        errors.invalid(path.field("defaultRequest").key(name), request.to_string(), why);
    }
}

fn ratio(
    errors: &mut Errors,
    path: &Path<'_>,
    ratio: &Quantity,
    min: Option<&Quantity>,
    max: Option<&Quantity>,
) {
    if *ratio < Quantity::from_i64(1) {
        errors.invalid(path, ratio.to_string(), format!("ratio {ratio} is less than 1"));
    }
    let (Some(min), Some(max)) = (min, max) else { return };
    let most = max.approximate_f64() / min.approximate_f64();
    if ratio.approximate_f64() > most {
        let why = format!("ratio {ratio} is greater than max/min = {}", super::enforce::decimals(most));
        errors.invalid(path, ratio.to_string(), why);
    }
}
