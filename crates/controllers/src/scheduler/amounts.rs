//! The requests of pods and the resources of nodes, as numbers.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity as Wire,
};
use lazaret_model::Quantity;
use lazaret_scheduler::{Amounts, CPU_MILLI_ASSUMED, MEMORY_ASSUMED, PodLevel, ScoredAmounts};

type Listed = BTreeMap<String, Wire>;

/// A whole number of units, rounded up; what cannot be counted is as much as can be.
pub(super) fn whole(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |quantity| quantity.value_i64_rounded_up().unwrap_or(i64::MAX))
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |quantity| {
        let rounded = || quantity.value_i64_rounded_up().unwrap_or(i64::MAX).saturating_mul(1_000);
        quantity.milli_exact().unwrap_or_else(rounded)
    })
}

/// A list of resources; how many pods is not among the amounts.
pub(super) fn listed(list: &Listed) -> Amounts {
    let mut amounts = Amounts::default();
    for (name, quantity) in list {
        match name.as_str() {
            "cpu" => amounts.cpu_milli = milli(&quantity.0),
            "memory" => amounts.memory = whole(&quantity.0),
            "ephemeral-storage" => amounts.ephemeral_storage = whole(&quantity.0),
            "pods" => {}
            other => amounts.set_other(&other.into(), whole(&quantity.0)),
        }
    }
    amounts
}

/// The highest amount of each resource that a pod needs at one time.
pub(super) fn requests(spec: &PodSpec) -> Amounts {
    let mut most = peak(spec, |container| request(container).map(listed).unwrap_or_default());
    let pod_level = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    if let Some(list) = pod_level {
        let whole_pod = listed(list);
        if list.contains_key("cpu") {
            most.cpu_milli = whole_pod.cpu_milli;
        }
        if list.contains_key("memory") {
            most.memory = whole_pod.memory;
        }
        for (name, amount) in &whole_pod.others {
            most.set_other(name, *amount);
        }
    }
    if let Some(overhead) = &spec.overhead {
        most.add(&listed(overhead));
    }
    most
}

/// The requests at the level of the pod, beside the peak of its containers, for the resources that can be requested at that level.
pub(super) fn pod_level(spec: &PodSpec) -> Vec<PodLevel> {
    let Some(list) = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref()) else {
        return Vec::new();
    };
    let containers = peak(spec, |container| request(container).map(listed).unwrap_or_default());
    let whole_pod = listed(list);
    let can = |name: &&String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    list.keys()
        .filter(can)
        .map(|name| PodLevel {
            resource: name.as_str().into(),
            requested: whole_pod.amount(name),
            containers: containers.amount(name),
        })
        .collect()
}

/// The amounts that nodes are scored by: a container without a request counts with a default.
pub(super) fn weighed(spec: &PodSpec) -> ScoredAmounts {
    let most = peak(spec, |container| {
        let list = request(container);
        let has = |name| list.is_some_and(|list| list.contains_key(name));
        let mut amounts = list.map(listed).unwrap_or_default();
        amounts.cpu_milli = if has("cpu") { amounts.cpu_milli } else { CPU_MILLI_ASSUMED };
        amounts.memory = if has("memory") { amounts.memory } else { MEMORY_ASSUMED };
        amounts
    });
    let overhead = spec.overhead.as_ref().map(listed).unwrap_or_default();
    ScoredAmounts {
        cpu_milli: most.cpu_milli.saturating_add(overhead.cpu_milli),
        memory: most.memory.saturating_add(overhead.memory),
    }
}

fn request(container: &Container) -> Option<&Listed> {
    container.resources.as_ref()?.requests.as_ref()
}

/// Those that initialise run one after the other, beside the sidecars started before them; then everything at once.
fn peak(spec: &PodSpec, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let (mut sidecars, mut highest) = (Amounts::default(), Amounts::default());
    for container in spec.init_containers.iter().flatten() {
        let mut moment = of(container);
        moment.add(&sidecars);
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = moment.clone();
        }
        highest.raise_to(&moment);
    }
    for container in &spec.containers {
        sidecars.add(&of(container));
    }
    highest.raise_to(&sidecars);
    highest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_demanding_moment_counts() {
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "initContainers": [
                {"name": "log", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
                {"name": "migrate", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
            ],
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Mi", "example.com/gpu": "2"}}},
                {"name": "b"},
            ],
            "overhead": {"cpu": "10m"},
        }))
        .unwrap();
        let most = requests(&spec);
        assert_eq!((most.cpu_milli, most.memory, most.other("example.com/gpu")), (2_110, 1 << 30, 2));
        let weighed = weighed(&spec);
        assert_eq!(weighed.cpu_milli, 2_110);
        assert_eq!(weighed.memory, (1 << 30) + MEMORY_ASSUMED);
    }

    #[test]
    fn quantities() {
        for (text, cpu, other) in
            [("1", 1_000, 1), ("250m", 250, 1), ("1e3", 1_000_000, 1_000), ("nonsense", 0, 0)]
        {
            assert_eq!((milli(text), whole(text)), (cpu, other), "{text}");
        }
    }
}
