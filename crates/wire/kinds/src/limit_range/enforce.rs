//! A limit range held against a pod or a claim for a volume.

use std::collections::BTreeMap;

use lazaret_json::Value;
use lazaret_model::Quantity;

use crate::value::{entries, field_mut, has, list, list_mut, put, quantity, some, text};

/// The annotation on a pod that was changed.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// A pod that breaks the limits in this number of places is not checked any further.
const REASONS_MAX: usize = 100;
/// Resources that can be requested for a pod as a whole.
const POD_LEVEL: &[&str] = &["cpu", "memory"];

type Amounts = BTreeMap<String, Quantity>;

/// Gives containers the requests and limits that they do not have, and says so in an annotation.
pub fn default_pod(range: &Value, pod: &mut Value) {
    let mut defaults: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
    for item in of_type(range, "Container") {
        for (field, kind) in [("defaultRequest", "requests"), ("default", "limits")] {
            for (name, amount) in entries(item, field) {
                defaults.entry(kind).or_default().insert(name.to_string(), amount.clone());
            }
        }
    }
    let mut notes = Vec::new();
    for (field, called) in [("containers", "container"), ("initContainers", "init container")] {
        let Some(spec) = pod.get_mut("spec") else { return };
        for container in list_mut(spec, field).iter_mut().filter(|container| container.is_object()) {
            let name = text(container, "name").to_owned();
            // A limit is set first, and mentioned last.
            let limits = fill(container, "limits", defaults.get("limits"));
            let requests = fill(container, "requests", defaults.get("requests"));
            for (set, kind) in [(requests, "request"), (limits, "limit")] {
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {called} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let annotations = field_mut(field_mut(pod, "metadata"), "annotations");
        put(annotations, ANNOTATION, format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Sets what is missing; the names of it.
fn fill(container: &mut Value, kind: &str, defaults: Option<&BTreeMap<String, Value>>) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.into_iter().flatten() {
        if !has(&container["resources"][kind], name) {
            put(field_mut(field_mut(container, "resources"), kind), name, amount.clone());
            set.push(name.clone());
        }
    }
    set
}

/// Whether a pod and its containers keep to the limits.
///
/// # Errors
/// The amounts that are too high, too low, or missing.
pub(super) fn check_pod(range: &Value, pod: &Value) -> Result<(), String> {
    let spec = &pod["spec"];
    let mut wrong = Vec::new();
    for item in list(&range["spec"], "limits") {
        match text(item, "type") {
            "Container" => {
                for container in ["containers", "initContainers"].iter().flat_map(|field| list(spec, field)) {
                    let amounts = |kind: &str| amounts(&container["resources"], kind);
                    check(item, &amounts("requests"), &amounts("limits"), &mut wrong);
                }
            }
            "Pod" => check(item, &of_pod(spec, "requests"), &of_pod(spec, "limits"), &mut wrong),
            _ => {}
        }
    }
    all(wrong)
}

/// Whether a claim for a volume keeps to the limits.
///
/// # Errors
/// The amounts that are too high, too low, or missing.
pub(super) fn check_claim(range: &Value, claim: &Value) -> Result<(), String> {
    let requests = amounts(&claim["spec"]["resources"], "requests");
    let mut wrong = Vec::new();
    for item in of_type(range, "PersistentVolumeClaim") {
        let kind = text(item, "type");
        for (name, least) in quantities(item, "min") {
            wrong.extend(too_little(kind, &name, &least, requests.get(&name), None));
        }
        for (name, most) in quantities(item, "max") {
            let why = |what: String| format!("maximum {name} usage per {kind} is {most}{what}");
            match requests.get(&name) {
                None => wrong.push(why(".  No request is specified".into())),
                Some(request) if *request > most => wrong.push(why(format!(", but request is {request}"))),
                Some(_) => {}
            }
        }
    }
    all(wrong)
}

fn of_type<'a>(range: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list(&range["spec"], "limits").iter().filter(move |item| text(item, "type") == kind)
}

fn quantities(holder: &Value, field: &str) -> Vec<(String, Quantity)> {
    entries(holder, field).filter_map(|(name, said)| Some((name.to_string(), quantity(said)?))).collect()
}

fn amounts(resources: &Value, kind: &str) -> Amounts {
    quantities(resources, kind).into_iter().collect()
}

fn check(item: &Value, requests: &Amounts, limits: &Amounts, wrong: &mut Vec<String>) {
    if wrong.len() >= REASONS_MAX {
        return;
    }
    let kind = text(item, "type");
    for (name, least) in quantities(item, "min") {
        wrong.extend(too_little(kind, &name, &least, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in quantities(item, "max") {
        wrong.extend(too_much(kind, &name, &most, requests.get(&name), limits.get(&name)));
    }
    for (name, most) in quantities(item, "maxLimitRequestRatio") {
        wrong.extend(too_far_apart(kind, &name, &most, requests.get(&name), limits.get(&name)));
    }
}

fn too_little(
    kind: &str,
    name: &str,
    least: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let why = |what: String| Some(format!("minimum {name} usage per {kind} is {least}{what}"));
    match (request, limit) {
        (None, _) => why(".  No request is specified".into()),
        (Some(request), _) if request < least => why(format!(", but request is {request}")),
        (Some(_), Some(limit)) if limit < least => why(format!(", but limit is {limit}")),
        _ => None,
    }
}

fn too_much(
    kind: &str,
    name: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let why = |what: String| Some(format!("maximum {name} usage per {kind} is {most}{what}"));
    match (limit, request) {
        (None, _) => why(".  No limit is specified".into()),
        (Some(limit), _) if limit > most => why(format!(", but limit is {limit}")),
        (Some(_), Some(request)) if request > most => why(format!(", but request is {request}")),
        _ => None,
    }
}

fn too_far_apart(
    kind: &str,
    name: &str,
    most: &Quantity,
    request: Option<&Quantity>,
    limit: Option<&Quantity>,
) -> Option<String> {
    let why =
        |what: String| Some(format!("{name} max limit to request ratio per {kind} is {most}, but {what}"));
    let Some(request) = request.filter(|request| !request.is_zero()) else {
        return why("no request is specified or request is 0".into());
    };
    let Some(limit) = limit.filter(|limit| !limit.is_zero()) else {
        return why("no limit is specified or limit is 0".into());
    };
    // Exact: the limit is at most `most` times the request.
    if *limit <= request.mul(most) {
        return None;
    }
    why(format!("provided ratio is {}", decimals(limit.approximate_f64() / request.approximate_f64())))
}

/// As Go writes a number with `%f`.
pub(super) fn decimals(number: f64) -> String {
    if number.is_infinite() { "+Inf".into() } else { format!("{number:.6}") }
}

/// The requests of a pod, including its overhead.
pub(crate) fn pod_requests(spec: &Value) -> Amounts {
    let mut requests = of_pod(spec, "requests");
    add(&mut requests, &amounts(spec, "overhead"));
    requests
}

/// The amounts of all containers together, at their peak.
fn of_pod(spec: &Value, kind: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in list(spec, "containers") {
        add(&mut total, &amounts(&container["resources"], kind));
    }
    let (mut running, mut starting) = (Amounts::new(), Amounts::new());
    for container in list(spec, "initContainers") {
        let own = amounts(&container["resources"], kind);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &own);
            add(&mut running, &own);
            keep_larger(&mut starting, &running);
        } else {
            let mut together = own;
            add(&mut together, &running);
            keep_larger(&mut starting, &together);
        }
    }
    keep_larger(&mut total, &starting);
    let own = some(spec, "resources").map(|own| amounts(own, kind)).unwrap_or_default();
    total.extend(own.into_iter().filter(|(name, _)| POD_LEVEL.contains(&name.as_str())));
    total
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = total.get(name).map_or_else(|| amount.clone(), |known| known.add(amount));
        total.insert(name.clone(), sum);
    }
}

fn keep_larger(total: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if total.get(name).is_none_or(|known| amount > known) {
            total.insert(name.clone(), amount.clone());
        }
    }
}

/// One reason by itself, several in brackets, none twice.
fn all(mut wrong: Vec<String>) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    wrong.retain(|why| seen.insert(why.clone()));
    match wrong.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}
