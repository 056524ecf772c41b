//! Nodes.

use std::{cmp::Ordering, collections::BTreeSet, net::IpAddr};

use lazaret_json::{Value, json};

use super::pod_validation::TAINT_EFFECTS;
use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    addresses::{NO_CIDR, cidr},
    check::{label_name, label_value, one_of},
    gate::{Gate, drop_disabled},
    kind::age,
    path::Path,
    rules::{keep_all_but_status, keep_status},
    value::{
        canonical_quantities, entries, field_mut, has, is_filled, is_true, list, put, quantity, remove, text,
        texts,
    },
};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

/// Fields of the spec that belong to a feature.
const SPEC_GATES: &[Gate] = &[Gate {
    features: &["InPlacePodVerticalScalingSchedulerPreemption"],
    in_use: |node| has(&node["spec"], "podPreemptionPolicy"),
    clear: |node| {
        if has(&node["spec"], "podPreemptionPolicy")
            && let Some(spec) = node.get_mut("spec")
        {
            remove(spec, "podPreemptionPolicy");
        }
    },
}];

const GATES: &[Gate] = &[Gate {
    features: &["NodeDeclaredFeatures"],
    in_use: |node| !list(&node["status"], "declaredFeatures").is_empty(),
    clear: |node| {
        if let Some(status) = node.get_mut("status").filter(|status| status.is_object()) {
            remove(status, "declaredFeatures");
        }
    },
}];

/// The first network of a node and the list of all say the same.
fn default_networks(node: &mut Value) {
    let first = text(&node["spec"], "podCIDR").to_owned();
    let listed = texts(&node["spec"], "podCIDRs").next().unwrap_or_default().to_owned();
    if first == listed {
        return;
    }
    let spec = field_mut(node, "spec");
    if first.is_empty() {
        put(spec, "podCIDR", listed);
    } else {
        put(spec, "podCIDRs", json!([first]));
    }
}

/// Nodes.
#[derive(Debug)]
pub(crate) struct Node;

impl Rules for Node {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        if let Some(status) = object.get_mut("status").filter(|status| status.is_object())
            && !has(status, "allocatable")
            && let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned()
        {
            put(status, "allocatable", capacity);
        }
        default_networks(object);
        canonical_quantities(object, "core/v1.Node");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        drop_disabled(GATES, object, None, context.features);
        drop_disabled(SPEC_GATES, object, None, context.features);
        remove_below(object, "spec", "configSource");
        remove_below(object, "status", "config");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        taints(errors, &object["spec"]);
        resources(errors, &object["status"]);
        declared_features(errors, &object["status"]);
        networks(errors, &object["spec"]);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        drop_disabled(SPEC_GATES, new, Some(old), context.features);
        // The feature is gone: what an older server stored may stay.
        if !has(&old["spec"], "configSource") {
            remove_below(new, "spec", "configSource");
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        taints(errors, &new["spec"]);
        for (field, why) in [
            ("podCIDR", "node updates may not change podCIDR except from \"\" to valid"),
            ("providerID", "node updates may not change providerID except from \"\" to valid"),
        ] {
            let before = text(&old["spec"], field);
            if !before.is_empty() && text(&new["spec"], field) != before {
                errors.forbidden(format!("spec.{field}"), why);
            }
        }
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        drop_disabled(GATES, new, Some(old), context.features);
        keep_all_but_status(new, old, self.status_resets());
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        resources(errors, &new["status"]);
        declared_features(errors, &new["status"]);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "spec.unschedulable").then(|| is_true(&object["spec"], "unschedulable").to_string())
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Status"),
            Column::text("Roles"),
            Column::AGE,
            Column::text("Version"),
            Column::wide("Internal-IP"),
            Column::wide("External-IP"),
            Column::wide("OS-Image"),
            Column::wide("Kernel-Version"),
            Column::wide("Container-Runtime"),
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let info = &object["status"]["nodeInfo"];
        let known = |field: &str| match text(info, field) {
            "" => "<unknown>".to_owned(),
            text => text.to_owned(),
        };
        let mut kernel = known("kernelVersion");
        let architecture = text(info, "architecture");
        if !architecture.is_empty() {
            kernel = format!("{kernel} ({architecture})");
        }
        vec![
            state(object).into(),
            roles(object).into(),
            age(object, context),
            text(info, "kubeletVersion").into(),
            address(object, "InternalIP").into(),
            address(object, "ExternalIP").into(),
            known("osImage").into(),
            kernel.into(),
            known("containerRuntimeVersion").into(),
        ]
    }
}

fn taints(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    let path = path.field("taints");
    let mut seen = BTreeSet::new();
    for (at, taint) in list(spec, "taints").iter().enumerate() {
        let path = path.index(at);
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        label_name(errors, &path.field("key"), key);
        label_value(errors, &path.field("value"), text(taint, "value"));
        one_of(errors, &path.field("effect"), effect, TAINT_EFFECTS);
        if !seen.insert((key, effect)) {
            let why = "taints must be unique by key and effect pair".to_owned();
            errors.push(path, FieldProblem::NotUnique(taint.clone(), why));
        }
    }
}

fn remove_below(object: &mut Value, part: &str, field: &str) {
    if has(&object[part], field)
        && let Some(part) = object.get_mut(part)
    {
        remove(part, field);
    }
}

const FEATURE_BYTES_MAX: usize = 253;
const FEATURE_FORM: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";

fn is_feature_name(name: &str) -> bool {
    let is_segment = |segment: &str| {
        segment.starts_with(|c: char| c.is_ascii_alphabetic())
            && segment.chars().all(|c| c.is_ascii_alphanumeric())
    };
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(is_segment)
}

/// Names of features are sorted, and each is there once.
fn declared_features(errors: &mut Errors, status: &Value) {
    let path = Path::root("status");
    let path = path.field("declaredFeatures");
    let mut before: Option<&str> = None;
    for (at, feature) in texts(status, "declaredFeatures").enumerate() {
        let why = if feature.len() > FEATURE_BYTES_MAX {
            format!("invalid feature name {feature:?}: must be no more than {FEATURE_BYTES_MAX} characters")
        } else if !is_feature_name(feature) {
            format!("invalid feature name {feature:?}: {FEATURE_FORM}")
        } else {
            String::new()
        };
        if !why.is_empty() {
            errors.invalid(path.index(at), feature, why);
        }
        match before.map(|before| before.cmp(feature)) {
            Some(Ordering::Equal) => errors.push(path.index(at), FieldProblem::Duplicate(feature.into())),
            Some(Ordering::Greater) => {
                errors.invalid(path.index(at), feature, "list must be sorted alphabetically");
            }
            Some(Ordering::Less) | None => {}
        }
        before = Some(feature);
    }
}

/// One network of each family at most.
fn networks(errors: &mut Errors, spec: &Value) {
    let path = Path::root("spec");
    let path = path.field("podCIDRs");
    let networks: Vec<&str> = texts(spec, "podCIDRs").collect();
    let known: Vec<Option<IpAddr>> = networks.iter().map(|said| cidr(said).map(|(at, _)| at)).collect();
    for (at, said) in networks.iter().enumerate().filter(|(at, _)| known[*at].is_none()) {
        errors.invalid(path.index(at), *said, NO_CIDR);
    }
    let of_both = known.iter().flatten().any(IpAddr::is_ipv4) && known.iter().flatten().any(IpAddr::is_ipv6);
    if networks.len() > 1 && known.iter().all(Option::is_some) && (!of_both || networks.len() > 2) {
        let said: Vec<Value> = networks.into_iter().map(Value::from).collect();
        errors.invalid(path, said, "may specify no more than one CIDR for each IP family");
    }
}

fn resources(errors: &mut Errors, status: &Value) {
    let path = Path::root("status");
    for field in ["capacity", "allocatable"] {
        let path = path.field(field);
        for (resource, value) in entries(status, field) {
            if quantity(value).is_none_or(|amount| amount.is_negative()) {
                errors.invalid(path.key(resource), value.clone(), "must be a quantity of at least 0");
            }
        }
    }
}

fn state(node: &Value) -> String {
    let ready =
        list(&node["status"], "conditions").iter().find(|condition| text(condition, "type") == "Ready");
    let mut state = match ready.map(|condition| text(condition, "status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if is_true(&node["spec"], "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    state
}

fn roles(node: &Value) -> String {
    let mut roles: Vec<&str> = entries(&node["metadata"], "labels")
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".into() } else { roles.join(",") }
}

fn address<'a>(node: &'a Value, kind: &str) -> &'a str {
    let found = list(&node["status"], "addresses").iter().find(|address| text(address, "type") == kind);
    found.filter(|address| is_filled(address, "address")).map_or("<none>", |address| text(address, "address"))
}
