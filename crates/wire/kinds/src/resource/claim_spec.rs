//! The spec of a claim, also in a template: defaults, gated fields, validation, the flat form of v1beta1.

use std::collections::BTreeSet;

use lazaret_json::{Map, Value};

use super::{
    cel,
    common::{
        CONFIG_MAX, REQUESTS_MAX, RequestNames, attribute_name, configuration, default_tolerations,
        tolerations,
    },
    compile_budget::CompileBudget,
};
use crate::{
    Context, Errors,
    check::{dns_label, each, each_named, fully_qualified_name, not_supported, subdomain},
    gate::Gate,
    path::Path,
    value::{
        field_mut, fill, has, is_filled, is_true, list, list_mut, number, put, quantity, remove, some, text,
    },
};

const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const DERIVED_ATTRIBUTES_MAX: usize = 32;
/// Bound on the cost of all derived attributes of a claim together.
const DERIVED_COST_MAX: u64 = 1_000_000;
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";

/// Fields of an exact request that v1beta1 has in the request itself.
const FLAT_FIELDS: &[&str] = &[
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
];

/// Fills in how many devices are meant and how tolerations compare.
pub(super) fn default(spec: &mut Value) {
    for request in list_mut(field_mut(spec, "devices"), "requests") {
        if let Some(exactly) = request.get_mut("exactly").filter(|exactly| exactly.is_object()) {
            default_request(exactly);
        }
        list_mut(request, "firstAvailable").iter_mut().for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    fill(request, "allocationMode", "ExactCount");
    if text(request, "allocationMode") == "ExactCount" && number(request, "count") == 0 {
        put(request, "count", 1);
    }
    default_tolerations(request);
}

/// Exact requests and alternatives alike.
fn any_request(spec: &Value, test: impl Fn(&Value) -> bool) -> bool {
    list(&spec["devices"], "requests").iter().any(|request| {
        some(request, "exactly").is_some_and(&test) || list(request, "firstAvailable").iter().any(&test)
    })
}

fn each_request(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for request in list_mut(field_mut(spec, "devices"), "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            change(exactly);
        }
        list_mut(request, "firstAvailable").iter_mut().for_each(&mut change);
    }
}

/// Fields of features, by feature.
pub(super) const GATES: &[Gate] = &[
    Gate {
        features: &["DRAPrioritizedList"],
        in_use: |spec| {
            list(&spec["devices"], "requests").iter().any(|request| is_filled(request, "firstAvailable"))
        },
        clear: |spec| {
            list_mut(field_mut(spec, "devices"), "requests")
                .iter_mut()
                .for_each(|request| remove(request, "firstAvailable"));
        },
    },
    Gate {
        features: &["DRADeviceTaints"],
        in_use: |spec| any_request(spec, |request| is_filled(request, "tolerations")),
        clear: |spec| each_request(spec, |request| remove(request, "tolerations")),
    },
    Gate {
        features: &["DRAAdminAccess"],
        in_use: uses_admin_access,
        clear: |spec| each_request(spec, |request| remove(request, "adminAccess")),
    },
    Gate {
        features: &["DRAConsumableCapacity"],
        in_use: uses_consumable_capacity,
        clear: |spec| {
            each_request(spec, |request| remove(request, "capacity"));
            list_mut(field_mut(spec, "devices"), "constraints")
                .iter_mut()
                .for_each(|constraint| remove(constraint, "distinctAttribute"));
        },
    },
    Gate {
        features: &["DRADerivedAttributes"],
        in_use: |spec| any_request(spec, |request| is_filled(request, "derivedAttributes")),
        clear: |spec| each_request(spec, |request| remove(request, "derivedAttributes")),
    },
];

pub(super) fn uses_admin_access(spec: &Value) -> bool {
    any_request(spec, |request| has(request, "adminAccess"))
}

pub(super) fn uses_consumable_capacity(spec: &Value) -> bool {
    list(&spec["devices"], "constraints").iter().any(|constraint| has(constraint, "distinctAttribute"))
        || any_request(spec, |request| has(request, "capacity"))
}

/// Admin access needs a namespace that allows it. The path names the claim's own fields even in a template.
pub(super) fn check_admin_access(errors: &mut Errors, spec: &Value, context: &Context<'_>) {
    let requests = list(&spec["devices"], "requests");
    let first = requests
        .iter()
        .position(|request| some(request, "exactly").is_some_and(|exactly| is_true(exactly, "adminAccess")));
    if let Some(at) = first.filter(|_| !namespace_allows_admin_access(context)) {
        let path = Path::root("spec.devices.requests");
        errors.forbidden(path.index(at).field("adminAccess"), admin_access_refusal());
    }
}

/// Whether the namespace carries the label.
pub(super) fn namespace_allows_admin_access(context: &Context<'_>) -> bool {
    (context.namespace)().is_some_and(|namespace| namespace["metadata"]["labels"][ADMIN_LABEL] == "true")
}

/// Clients look for this text.
pub(super) fn admin_access_refusal() -> String {
    format!("admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace")
}

/// A new spec. A stored one is immutable and never validated again.
pub(super) fn validate(errors: &mut Errors, path: &Path<'_>, spec: &Value, context: &Context<'_>) {
    let devices = &spec["devices"];
    let path = path.field("devices");
    let names = RequestNames::of(devices);
    let mut requests = Requests {
        context,
        constraints: list(devices, "constraints"),
        derived_cost: 0,
        budget: CompileBudget::default(),
    };
    each_named(
        errors,
        &path.field("requests"),
        list(devices, "requests"),
        REQUESTS_MAX,
        "name",
        |errors, path, item| requests.check(errors, path, item),
    );
    let derived_cost = requests.derived_cost;
    each(
        errors,
        &path.field("constraints"),
        list(devices, "constraints"),
        CONSTRAINTS_MAX,
        |errors, path, item| constraint(errors, path, item, &names, context),
    );
    each(errors, &path.field("config"), list(devices, "config"), CONFIG_MAX, |errors, path, item| {
        names.check_all(errors, path, item);
        configuration(errors, path, item, false);
    });
    if derived_cost > DERIVED_COST_MAX {
        errors.forbidden(
            path,
            "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit",
        );
    }
}

fn constraint(
    errors: &mut Errors,
    path: &Path<'_>,
    item: &Value,
    names: &RequestNames<'_>,
    context: &Context<'_>,
) {
    names.check_all(errors, path, item);
    if has(item, "matchAttribute") {
        attribute_name(errors, path, item, "matchAttribute");
    } else if has(item, "distinctAttribute") {
        attribute_name(errors, path, item, "distinctAttribute");
    } else if context.features.is_on("DRAConsumableCapacity") {
        errors.required(path, "one of `matchAttribute` or `distinctAttribute` is required");
    } else {
        errors.required(path.field("matchAttribute"), "");
    }
}

struct Requests<'a> {
    context: &'a Context<'a>,
    constraints: &'a [Value],
    derived_cost: u64,
    budget: CompileBudget,
}

impl Requests<'_> {
    fn check(&mut self, errors: &mut Errors, path: &Path<'_>, request: &Value) {
        let name = text(request, "name");
        dns_label(errors, &path.field("name"), name);
        let alternatives = list(request, "firstAvailable");
        match (some(request, "exactly"), alternatives.is_empty()) {
            (None, true) => {
                errors.required(path, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (Some(_), false) => errors.invalid(
                path,
                Value::Null,
                "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set",
            ),
            (Some(exactly), true) => self.one(errors, &path.field("exactly"), exactly, name),
            (None, false) => {
                let path = path.field("firstAvailable");
                each_named(errors, &path, alternatives, ALTERNATIVES_MAX, "name", |errors, path, item| {
                    dns_label(errors, &path.field("name"), text(item, "name"));
                    self.one(errors, path, item, &format!("{name}/{}", text(item, "name")));
                });
            }
        }
    }

    /// `reference`: how constraints name it.
    fn one(&mut self, errors: &mut Errors, path: &Path<'_>, request: &Value, reference: &str) {
        subdomain(errors, &path.field("deviceClassName"), text(request, "deviceClassName"));
        cel::selectors(
            errors,
            &path.field("selectors"),
            list(request, "selectors"),
            false,
            (self.context, &self.budget),
        );
        self.derived_attributes(errors, &path.field("derivedAttributes"), request, reference);
        let count = number(request, "count");
        match text(request, "allocationMode") {
            "All" if count != 0 => errors.invalid(
                path.field("count"),
                count,
                "must not be specified when allocationMode is 'All'",
            ),
            "ExactCount" if count <= 0 => {
                errors.invalid(path.field("count"), count, "must be greater than zero");
            }
            "All" | "ExactCount" => {}
            other => errors.push(path.field("allocationMode"), not_supported(other, &["All", "ExactCount"])),
        }
        tolerations(errors, &path.field("tolerations"), list(request, "tolerations"), false);
        if let Some(requests) = request.pointer("/capacity/requests").and_then(Value::as_object) {
            let path = path.field("capacity");
            let path = path.field("requests");
            for (key, value) in requests.iter().filter(|(_, value)| quantity(value).is_none()) {
                errors.invalid(path.key(key), value.clone(), "must be a quantity");
            }
        }
    }

    fn derived_attributes(&mut self, errors: &mut Errors, path: &Path<'_>, request: &Value, reference: &str) {
        let attributes = list(request, "derivedAttributes");
        each_named(errors, path, attributes, DERIVED_ATTRIBUTES_MAX, "name", |errors, path, item| {
            let name = text(item, "name");
            if name.is_empty() {
                errors.required(path.field("name"), "");
            } else {
                fully_qualified_name(errors, &path.field("name"), name);
                if !self.is_constrained(name, reference) {
                    errors.invalid(
                        path.field("name"),
                        name,
                        "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request",
                    );
                }
            }
            let expression = text(item, "expression");
            if expression.is_empty() {
                errors.required(path.field("expression"), "");
            } else {
                let cost =
                    cel::derived(errors, &path.field("expression"), expression, (self.context, &self.budget));
                self.derived_cost = self.derived_cost.saturating_add(cost);
            }
        });
    }

    /// Whether a constraint on this attribute is about the request, its parent, or all requests.
    fn is_constrained(&self, attribute: &str, reference: &str) -> bool {
        let parent = reference.split_once('/').map(|(parent, _)| parent);
        self.constraints.iter().any(|constraint| {
            let matched = text(constraint, "matchAttribute");
            let named = if matched.is_empty() { text(constraint, "distinctAttribute") } else { matched };
            let targets: BTreeSet<&str> =
                list(constraint, "requests").iter().filter_map(Value::as_str).collect();
            named == attribute
                && (targets.is_empty()
                    || targets.contains(reference)
                    || parent.is_some_and(|parent| targets.contains(parent)))
        })
    }
}

/// From the form of v1beta1, where an exact request is flat.
pub(super) fn from_flat(spec: &mut Value) {
    for request in list_mut(field_mut(spec, "devices"), "requests") {
        let Value::Object(map) = request else { continue };
        let exactly: Map = FLAT_FIELDS.iter().filter_map(|field| map.remove_entry(field)).collect();
        let says_something = exactly.values().any(|value| !crate::value::is_blank(value) && *value != 0);
        if says_something {
            map.insert("exactly", Value::Object(exactly));
        }
    }
}

/// To the form of v1beta1.
pub(super) fn to_flat(spec: &mut Value) {
    for request in list_mut(field_mut(spec, "devices"), "requests") {
        if let Value::Object(map) = request
            && let Some(Value::Object(exactly)) = map.remove("exactly")
        {
            map.extend(exactly);
        }
    }
}
