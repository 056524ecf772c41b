//! Resources of a pod as a whole, beside those of its containers: what absent ones stand for, and what must hold between the two.

use std::collections::BTreeMap;

use lazaret_json::Value;
use lazaret_model::Quantity;

use crate::{
    Errors, Release,
    check::not_supported,
    path::Path,
    value::{entries, field_mut, has, is_filled, list, put, quantity, text},
};

const SUPPORTED: &[&str] = &["cpu", "memory"];
const HUGE_PAGES: &str = "hugepages-";

type Amounts = BTreeMap<String, Quantity>;

/// Completes the resources of a pod that has some of its own.
pub(super) fn default(spec: &mut Value, release: Release) {
    let own = &spec["resources"];
    if !is_filled(own, "requests") && !is_filled(own, "limits") {
        return;
    }
    let (requests, limits) = (aggregate(spec, "requests"), aggregate(spec, "limits"));
    for (resource, limit) in limits.iter().filter(|(resource, _)| resource.starts_with(HUGE_PAGES)) {
        if !has(&spec["resources"]["requests"], resource) {
            fill(spec, "limits", resource, limit);
        }
    }
    for (resource, request) in requests.iter().filter(|(resource, _)| SUPPORTED.contains(&resource.as_str()))
    {
        fill(spec, "requests", resource, request);
    }
    for (resource, limit) in of(&spec["resources"], "limits") {
        if is_supported(&resource) {
            fill(spec, "requests", &resource, &limit);
        }
    }
    if release >= Release::V1_37 {
        default_limits(spec, &limits);
    }
}

/// Where every container has a limit, the pod has one too: that of all of them, and at least what the pod requests.
fn default_limits(spec: &mut Value, limits: &Amounts) {
    for (resource, request) in of(&spec["resources"], "requests") {
        let everywhere =
            containers(spec).all(|(_, container)| has(&container["resources"]["limits"], &resource));
        if let Some(limit) = limits.get(&resource).filter(|_| everywhere && is_supported(&resource)) {
            fill(spec, "limits", &resource, limit.max(&request));
        }
    }
}

/// A pod requests at least what its containers do together, and none of them may have more than the pod.
pub(super) fn check(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    let own = &spec["resources"];
    for field in ["limits", "requests"] {
        let path = path.field(field);
        for (resource, _) in entries(own, field).filter(|(resource, _)| !is_supported(resource)) {
            errors.push(path.key(resource), not_supported(resource.as_str(), SUPPORTED));
        }
    }
    let together = [("requests", ""), ("limits", HUGE_PAGES)];
    for (field, prefix) in together {
        let path = path.field(field);
        for (resource, sum) in aggregate(spec, field).iter().filter(|(name, _)| name.starts_with(prefix)) {
            if let Some(whole) =
                own[field].get(resource.as_str()).and_then(quantity).filter(|whole| sum > whole)
            {
                let why = format!("must be greater than or equal to aggregate container {field} of {sum}");
                errors.invalid(path.key(resource), whole.to_string(), why);
            }
        }
    }
    for (at, container) in list(spec, "containers").iter().enumerate() {
        for (resource, limit) in of(&container["resources"], "limits") {
            let whole = own["limits"].get(resource.as_str()).and_then(quantity);
            if let Some(whole) = whole.filter(|whole| limit > *whole) {
                // Kubernetes names it so.
                let path = path.field("containers");
                let path = path.index(at);
                let path = path.key(&resource);
                let why = format!("must be less than or equal to pod limits of {whole}");
                errors.invalid(path.field("limits"), limit.to_string(), why);
            }
        }
    }
}

fn is_supported(resource: &str) -> bool {
    SUPPORTED.contains(&resource) || resource.starts_with(HUGE_PAGES)
}

fn fill(spec: &mut Value, field: &str, resource: &str, amount: &Quantity) {
    let amounts = field_mut(field_mut(spec, "resources"), field);
    if !has(amounts, resource) {
        put(amounts, resource, amount.to_string());
    }
}

/// The peak of all containers of a pod together: init containers run one by one, except those that keep running.
fn aggregate(spec: &Value, field: &str) -> Amounts {
    let mut total = Amounts::new();
    let mut staying = Amounts::new();
    let mut peak = Amounts::new();
    for (starts_first, container) in containers(spec) {
        let amounts = of(&container["resources"], field);
        if !starts_first {
            add(&mut total, &amounts);
            continue;
        }
        let mut now = staying.clone();
        add(&mut now, &amounts);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &amounts);
            staying.clone_from(&now);
        }
        raise(&mut peak, &now);
    }
    raise(&mut total, &peak);
    total
}

/// Init containers first, each with whether it is one.
fn containers(spec: &Value) -> impl Iterator<Item = (bool, &Value)> {
    let first = list(spec, "initContainers").iter().map(|container| (true, container));
    first.chain(list(spec, "containers").iter().map(|container| (false, container)))
}

fn of(resources: &Value, field: &str) -> Amounts {
    entries(resources, field).filter_map(|(name, value)| Some((name.to_string(), quantity(value)?))).collect()
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let total = sum.get(name).map_or_else(|| amount.clone(), |known| known.add(amount));
        sum.insert(name.clone(), total);
    }
}

fn raise(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if sum.get(name).is_none_or(|known| known < amount) {
            sum.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    fn container(requests: Value, limits: Value) -> Value {
        json!({"name": "c", "resources": {"requests": requests, "limits": limits}})
    }

    #[test]
    fn what_a_pod_leaves_open_follows_from_its_containers() {
        let four = container(json!({"cpu": "1"}), json!({"cpu": "2"}));
        for (own, containers, wanted) in [
            (
                json!({"limits": {"cpu": "4"}}),
                vec![json!({"name": "c"})],
                json!({"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}),
            ),
            (
                json!({"limits": {"cpu": "4"}}),
                vec![four.clone(), four.clone()],
                json!({"limits": {"cpu": "4"}, "requests": {"cpu": "2"}}),
            ),
            (
                json!({"requests": {"cpu": "3"}}),
                vec![four.clone()],
                json!({"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}),
            ),
            (
                json!({"requests": {"cpu": "3"}}),
                vec![four.clone(), json!({"name": "d"})],
                json!({"requests": {"cpu": "3"}}),
            ),
            (json!({}), vec![four], json!({})),
        ] {
            let mut spec = json!({"resources": own, "containers": containers});
            default(&mut spec, Release::NEWEST);
            assert_eq!(spec["resources"], wanted, "{spec}");
        }
    }

    #[test]
    fn a_pod_has_room_for_its_containers() {
        let found = |own: Value, containers: Value| {
            let mut errors = Errors::new();
            let path = Path::root("spec");
            check(
                &mut errors,
                &path.field("resources"),
                &json!({"resources": own, "containers": containers}),
            );
            errors.list().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let two = container(json!({"cpu": "1"}), json!({"cpu": "2"}));
        assert_eq!(
            found(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), json!([two, two])),
            [""; 0]
        );
        assert_eq!(
            found(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), json!([two, two])),
            [
                "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
                "spec.resources.containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
                "spec.resources.containers[1][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
            ]
        );
        assert_eq!(found(json!({"limits": {"ephemeral-storage": "1"}}), json!([])).len(), 1);
    }

    #[test]
    fn init_containers_count_when_they_run() {
        let init = |cpu: &str, stays: bool| {
            let mut init = container(json!({"cpu": cpu}), json!({}));
            if stays {
                init["restartPolicy"] = "Always".into();
            }
            init
        };
        let spec = json!({
            "initContainers": [init("1", true), init("5", false), init("1", true)],
            "containers": [container(json!({"cpu": "2"}), json!({}))],
        });
        assert_eq!(aggregate(&spec, "requests")["cpu"].to_string(), "6");
    }
}
