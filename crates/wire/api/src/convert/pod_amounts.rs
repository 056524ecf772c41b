//! The requests of pods, as numbers.

use lazaret_model::{Amounts, CPU_MILLI_ASSUMED, MEMORY_ASSUMED, PodLevel, ScoredAmounts};

use super::pod_spec::is_sidecar;
use crate::wire;

fn listed(list: &wire::Amounts) -> Amounts {
    Amounts::of(list.0.iter().map(|(name, amount)| (name.as_str(), &amount.0)))
}

fn request(container: &wire::Container) -> &wire::Amounts {
    &container.resources.0.requests
}

/// The highest amount of each resource that a pod needs at one time.
pub(super) fn requests(spec: &wire::PodSpec) -> Amounts {
    let mut most = peak(spec, |container| listed(request(container)));
    let pod_level = &spec.resources.0.requests;
    let whole_pod = listed(pod_level);
    if pod_level.0.contains_key("cpu") {
        most.cpu_milli = whole_pod.cpu_milli;
    }
    if pod_level.0.contains_key("memory") {
        most.memory = whole_pod.memory;
    }
    for (name, amount) in &whole_pod.others {
        most.set_other(name, *amount);
    }
    most.add(&listed(&spec.overhead));
    most
}

/// The requests at the level of the pod, beside the peak of its containers, for the resources that can be requested at that level.
pub(super) fn pod_level(spec: &wire::PodSpec) -> Vec<PodLevel> {
    let list = &spec.resources.0.requests;
    if list.0.is_empty() {
        return Vec::new();
    }
    let containers = peak(spec, |container| listed(request(container)));
    let whole_pod = listed(list);
    let can = |name: &&String| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
    list.0
        .keys()
        .filter(can)
        .map(|name| PodLevel {
            resource: name.as_str().into(),
            requested: whole_pod.amount(name),
            containers: containers.amount(name),
        })
        .collect()
}

/// The amounts that nodes are scored by: a container without a request counts with a default.
pub(super) fn weighed(spec: &wire::PodSpec) -> ScoredAmounts {
    let most = peak(spec, |container| {
        let list = request(container);
        let mut amounts = listed(list);
        if !list.0.contains_key("cpu") {
            amounts.cpu_milli = CPU_MILLI_ASSUMED;
        }
        if !list.0.contains_key("memory") {
            amounts.memory = MEMORY_ASSUMED;
        }
        amounts
    });
    let overhead = listed(&spec.overhead);
    ScoredAmounts {
        cpu_milli: most.cpu_milli.saturating_add(overhead.cpu_milli),
        memory: most.memory.saturating_add(overhead.memory),
    }
}

/// Those that initialise run one after the other, beside the sidecars started before them; then everything at once.
fn peak(spec: &wire::PodSpec, of: impl Fn(&wire::Container) -> Amounts) -> Amounts {
    let (mut sidecars, mut highest) = (Amounts::default(), Amounts::default());
    for container in &spec.init_containers.0 {
        let mut moment = of(container);
        moment.add(&sidecars);
        if is_sidecar(container) {
            sidecars = moment.clone();
        }
        highest.raise_to(&moment);
    }
    for container in &spec.containers.0 {
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
        let spec: wire::PodSpec = serde_json::from_value(serde_json::json!({
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
}
