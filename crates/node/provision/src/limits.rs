//! How much a pod and its containers may use.

use k8s_openapi::api::core::v1::{Container, PodSpec};
use lazaret_containers::Limits;
use lazaret_model::Quantity;

use crate::{
    NodeFacts, QosClass,
    amount::{self, amount, milli, units},
    pod::{self, PodView},
    qos::{self, qos_class},
};

/// The kernel takes no less for a share of processor time.
const CPU_SHARES_MIN: u64 = 2;
/// Nor more.
const CPU_SHARES_MAX: u64 = 262_144;
const CPU_SHARES_PER_PROCESSOR: i64 = 1024;
/// The kernel's own default, and kubelet's.
const CPU_PERIOD_US: i64 = 100_000;
/// The kernel takes no less for a quota.
const CPU_QUOTA_US_MIN: i64 = 1000;
const OOM_GUARANTEED: i64 = -997;
const OOM_BEST_EFFORT: i64 = 1000;

/// The limits of one container.
pub(crate) fn of_container(view: &PodView<'_>, container: &Container, facts: &NodeFacts) -> Limits {
    let own = amount::limits(container);
    let of_pod = qos::pod_level(view.spec).and_then(|resources| resources.limits.as_ref());
    let limit = |name| {
        let limit = amount(own, name);
        if limit.is_zero() { amount(of_pod, name) } else { limit }
    };
    let (cpu, memory) = (limit("cpu"), limit("memory"));
    let request = match amount::requests(container).and_then(|requests| requests.get("cpu")) {
        Some(request) => amount::parse(request),
        None => cpu.clone(),
    };
    Limits {
        cpu_shares: Some(cpu_shares(&request)),
        memory: memory_limit(&memory),
        oom_score_adjustment: Some(oom_score(view, container, facts)),
        ..quota(&cpu)
    }
}

/// The limits over all containers of a pod.
pub(crate) fn of_pod(view: &PodView<'_>, facts: &NodeFacts) -> Limits {
    let spec = view.spec;
    let (requests, limits) = (qos::pod_requests(spec), qos::pod_limits(spec));
    let of = |name: &str| limits.get(name).cloned().unwrap_or_default();
    let all = Limits { pids: facts.pod_pids_max, ..Limits::default() };
    if qos_class(view.pod) == QosClass::BestEffort {
        return Limits { cpu_shares: Some(CPU_SHARES_MIN), ..all };
    }
    let shares = cpu_shares(&requests.get("cpu").cloned().unwrap_or_default());
    let mut all = Limits { cpu_shares: Some(shares), ..all };
    if is_limited(spec, "cpu") {
        let Limits { cpu_quota_us, cpu_period_us, .. } = quota(&of("cpu"));
        (all.cpu_quota_us, all.cpu_period_us) = (cpu_quota_us, cpu_period_us);
    }
    if is_limited(spec, "memory") {
        all.memory = memory_limit(&of("memory"));
    }
    all
}

/// Whether the pod as a whole has a limit: its own, or one in each container.
fn is_limited(spec: &PodSpec, name: &str) -> bool {
    let own = qos::pod_level(spec).and_then(|resources| resources.limits.as_ref());
    !amount(own, name).is_zero()
        || pod::long_running(spec).all(|container| !amount(amount::limits(container), name).is_zero())
}

fn cpu_shares(request: &Quantity) -> u64 {
    let shares = milli(request).saturating_mul(CPU_SHARES_PER_PROCESSOR) / 1000;
    u64::try_from(shares).unwrap_or_default().clamp(CPU_SHARES_MIN, CPU_SHARES_MAX)
}

fn quota(limit: &Quantity) -> Limits {
    let limit = milli(limit);
    if limit == 0 {
        return Limits::default();
    }
    let quota = (limit.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_US_MIN);
    Limits {
        cpu_quota_us: Some(quota),
        cpu_period_us: Some(CPU_PERIOD_US.unsigned_abs()),
        ..Limits::default()
    }
}

fn memory_limit(limit: &Quantity) -> Option<u64> {
    Some(units(limit).unsigned_abs()).filter(|bytes| *bytes > 0)
}

/// Which programs are killed first when memory is short.
fn oom_score(view: &PodView<'_>, container: &Container, facts: &NodeFacts) -> i32 {
    let score = if view.spec.priority_class_name.as_deref() == Some("system-node-critical") {
        OOM_GUARANTEED
    } else {
        match qos_class(view.pod) {
            QosClass::Guaranteed => OOM_GUARANTEED,
            QosClass::BestEffort => OOM_BEST_EFFORT,
            QosClass::Burstable => burstable_score(view.spec, container, facts),
        }
    };
    i32::try_from(score).unwrap_or(i32::MAX)
}

fn burstable_score(spec: &PodSpec, container: &Container, facts: &NodeFacts) -> i64 {
    let capacity = i64::try_from(facts.memory_capacity).unwrap_or(i64::MAX).max(1);
    let memory = |container: &Container| units(&amount(amount::requests(container), "memory"));
    let left = memory_left_per_container(spec);
    let score = |request: i64| 1000 - request.saturating_add(left).saturating_mul(1000) / capacity;
    let mut result = score(memory(container));
    let is_sidecar = pod::is_sidecar(container)
        && spec.init_containers.iter().flatten().any(|other| other.name == container.name);
    if is_sidecar {
        // A sidecar is not killed before the containers that it serves.
        let least = spec.containers.iter().map(memory).min().unwrap_or_default();
        result = result.min(score(least));
    }
    // Above every guaranteed pod, below every pod that asked for nothing.
    match result {
        _ if result < 1000 + OOM_GUARANTEED => 1000 + OOM_GUARANTEED,
        OOM_BEST_EFFORT => OOM_BEST_EFFORT - 1,
        _ => result,
    }
}

/// The pod's own memory request beyond those of its containers, divided among them.
fn memory_left_per_container(spec: &PodSpec) -> i64 {
    let own = qos::pod_level(spec).and_then(|resources| resources.requests.as_ref());
    let own = units(&amount(own, "memory"));
    if own == 0 {
        return 0;
    }
    let asked = qos::aggregate(spec, amount::requests).get("memory").map_or(0, units);
    let containers = i64::try_from(pod::long_running(spec).count()).unwrap_or(i64::MAX).max(1);
    own.saturating_sub(asked).max(0) / containers
}
