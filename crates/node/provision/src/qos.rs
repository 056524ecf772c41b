//! The class of a pod by which it is served when resources are short, and what a pod asks for as a whole.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use lazaret_model::Quantity;

use crate::{
    amount::{self, Resources, amount, parse},
    pod,
};

/// The class of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has limits for processor and memory, and asks for just as much.
    Guaranteed,
    /// Some container asks for something, or has a limit.
    Burstable,
    /// No container asks for anything.
    BestEffort,
}

impl QosClass {
    /// As `status.qosClass` has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guaranteed => "Guaranteed",
            Self::Burstable => "Burstable",
            Self::BestEffort => "BestEffort",
        }
    }
}

/// The class of a pod: as its status says, or worked out.
#[must_use]
pub fn qos_class(pod: &Pod) -> QosClass {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => QosClass::Guaranteed,
        Some("Burstable") => QosClass::Burstable,
        Some("BestEffort") => QosClass::BestEffort,
        Some(_) | None => pod.spec.as_ref().map_or(QosClass::BestEffort, computed),
    }
}

fn computed(spec: &PodSpec) -> QosClass {
    if let Some(resources) = pod_level(spec) {
        return of_requirements(resources);
    }
    let mut class = None;
    for container in pod::long_running(spec) {
        let next = container.resources.as_ref().map_or(QosClass::BestEffort, of_requirements);
        if next == QosClass::Burstable || class.is_some_and(|class| class != next) {
            return QosClass::Burstable;
        }
        class = Some(next);
    }
    class.unwrap_or(QosClass::BestEffort)
}

fn of_requirements(resources: &ResourceRequirements) -> QosClass {
    let of = |name| {
        let (request, limit) =
            (amount(resources.requests.as_ref(), name), amount(resources.limits.as_ref(), name));
        match request == limit {
            false => QosClass::Burstable,
            true if request.is_zero() => QosClass::BestEffort,
            true => QosClass::Guaranteed,
        }
    };
    let (cpu, memory) = (of("cpu"), of("memory"));
    if cpu == memory { cpu } else { QosClass::Burstable }
}

/// Resources of the pod itself, when it has some that count.
pub(crate) fn pod_level(spec: &PodSpec) -> Option<&ResourceRequirements> {
    spec.resources.as_ref().filter(|resources| {
        [&resources.requests, &resources.limits].into_iter().flatten().flatten().any(|(name, _)| counts(name))
    })
}

/// Whether a resource can be asked for by the pod itself.
pub(crate) fn counts(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The requests of the pod and all of its containers, with the overhead.
pub(crate) fn pod_requests(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let mut total = aggregate(spec, amount::requests);
    if let Some(resources) = pod_level(spec) {
        apply_pod_level(&mut total, resources.requests.as_ref());
    }
    for (name, quantity) in spec.overhead.iter().flatten() {
        add(&mut total, name, &parse(quantity));
    }
    total
}

/// The limits of all containers together, and of the pod.
pub(crate) fn pod_limits(spec: &PodSpec) -> BTreeMap<String, Quantity> {
    let mut total = aggregate(spec, amount::limits);
    if let Some(resources) = pod_level(spec) {
        apply_pod_level(&mut total, resources.limits.as_ref());
    }
    for (name, quantity) in spec.overhead.iter().flatten() {
        if let Some(limit) = total.get_mut(name).filter(|limit| !limit.is_zero()) {
            *limit = limit.add(&parse(quantity));
        }
    }
    total
}

fn apply_pod_level(total: &mut BTreeMap<String, Quantity>, own: Option<&Resources>) {
    for (name, quantity) in own.into_iter().flatten().filter(|(name, _)| counts(name)) {
        total.insert(name.clone(), parse(quantity));
    }
}

/// The sum over containers, or what initialisation takes at its highest, if that is more. Sidecars count with both.
pub(crate) fn aggregate(
    spec: &PodSpec,
    of: fn(&Container) -> Option<&Resources>,
) -> BTreeMap<String, Quantity> {
    let mut total = BTreeMap::new();
    for container in &spec.containers {
        add_all(&mut total, of(container));
    }
    let mut sidecars = BTreeMap::new();
    let mut highest: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in spec.init_containers.iter().flatten() {
        let now = if pod::is_sidecar(container) {
            add_all(&mut total, of(container));
            add_all(&mut sidecars, of(container));
            sidecars.clone()
        } else {
            let mut now = sidecars.clone();
            add_all(&mut now, of(container));
            now
        };
        raise(&mut highest, now);
    }
    raise(&mut total, highest);
    total
}

fn add_all(total: &mut BTreeMap<String, Quantity>, resources: Option<&Resources>) {
    for (name, quantity) in resources.into_iter().flatten() {
        add(total, name, &parse(quantity));
    }
}

fn add(total: &mut BTreeMap<String, Quantity>, name: &str, quantity: &Quantity) {
    let sum = total.get(name).map_or_else(|| quantity.clone(), |before| before.add(quantity));
    total.insert(name.to_owned(), sum);
}

fn raise(total: &mut BTreeMap<String, Quantity>, to: BTreeMap<String, Quantity>) {
    for (name, quantity) in to {
        if total.get(&name).is_none_or(|before| *before < quantity) {
            total.insert(name, quantity);
        }
    }
}
