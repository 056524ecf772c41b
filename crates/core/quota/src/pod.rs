//! The usage of a pod, and the scopes that apply to it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};

use lazaret_model::{Quantity, Timestamp, validate_label_name};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Amounts,
    amounts::Requests,
    counted::{DEVICE_CLASS, HUGE_PAGES, REQUESTS},
    scopes::Traits,
};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    resources: Option<Requests>,
    overhead: Amounts,
    active_deadline_seconds: Option<i64>,
    priority_class_name: Option<String>,
    affinity: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    name: String,
    resources: Option<Requests>,
    restart_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    container_statuses: Option<Vec<ContainerStatus>>,
    init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    reason: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    allocated_resources: Option<Amounts>,
    resources: Option<Requests>,
}

/// While a pod counts with what it requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Lasting,
    /// It is being deleted and must be gone by then.
    Until(Timestamp),
    Ended,
}

/// Resources that can be requested for a pod as a whole.
fn is_pod_level(resource: &str) -> bool {
    ["cpu", "memory"].contains(&resource) || resource.starts_with(HUGE_PAGES)
}

/// The resources that a quota forces containers to specify.
const MUST_SPECIFY: &[&str] =
    &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const AFFINITIES: &[&str] = &["podAffinity", "podAntiAffinity"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

impl Pod {
    pub(crate) fn activity(&self) -> Activity {
        if matches!(self.status.phase.as_deref(), Some("Failed" | "Succeeded")) {
            return Activity::Ended;
        }
        let at = self.metadata.deletion_timestamp.as_deref().and_then(|text| text.parse().ok());
        match (at, self.metadata.deletion_grace_period_seconds) {
            (Some(at), Some(grace)) => {
                let at: jiff::Timestamp = at;
                Activity::Until(Timestamp::from_millis(at.as_millisecond()).plus_secs(grace))
            }
            _ => Activity::Lasting,
        }
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
    }

    pub(crate) fn traits(&self) -> Traits {
        Traits::Pod {
            terminating: self.is_terminating(),
            best_effort: self.is_best_effort(),
            priority_class: self.spec.priority_class_name.clone().unwrap_or_default(),
            crosses_namespaces: self.crosses_namespaces(),
        }
    }

    /// The amounts that it uses while it is active, without the count of pods.
    pub(crate) fn amounts(&self) -> Amounts {
        of_requests(&self.requests(), &self.limits())
    }

    /// The resources that a quota requires and containers do not specify.
    pub(crate) fn unspecified<'a>(&self, required: impl Iterator<Item = &'a str>) -> Option<String> {
        if self.has_own_resources(|_| true) {
            return None;
        }
        let required: BTreeSet<&str> = required.filter(|name| MUST_SPECIFY.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in self.containers().chain(self.init_containers()) {
            let none = Requests::default();
            let said = container.resources.as_ref().unwrap_or(&none);
            let said = of_requests(&said.requests, &said.limits);
            for name in required.iter().filter(|name| !said.has(name)) {
                missing.entry(*name).or_default().insert(&container.name);
            }
        }
        let parts: Vec<String> = missing
            .iter()
            .map(|(name, containers)| {
                let containers: Vec<&str> = containers.iter().copied().collect();
                format!("{name} for: {}", containers.join(","))
            })
            .collect();
        (!parts.is_empty()).then(|| format!("must specify {}", parts.join("; ")))
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.containers.iter().flatten()
    }

    fn init_containers(&self) -> impl Iterator<Item = &Container> {
        self.spec.init_containers.iter().flatten()
    }

    /// Whether the pod as a whole requests something: where `requests` says so, or its limits.
    fn has_own_resources(&self, in_limits: impl Fn(&Requests) -> bool) -> bool {
        self.spec.resources.as_ref().is_some_and(|own| {
            own.requests.names().any(is_pod_level) || in_limits(own) && own.limits.names().any(is_pod_level)
        })
    }

    fn requests(&self) -> Amounts {
        let infeasible = self.is_resize_infeasible();
        let stated = self.peak(|container, _| container.resources.as_ref().map(|all| &all.requests));
        let allocated = self.peak(|container, status| {
            let allocated = status.and_then(|status| status.allocated_resources.as_ref());
            allocated.or_else(|| stated_unless(infeasible, container, |all| &all.requests))
        });
        let actuated = self.peak(|container, status| {
            let actuated = status.and_then(|status| status.resources.as_ref());
            actuated
                .map(|all| &all.requests)
                .filter(|amounts| !amounts.is_empty())
                .or_else(|| status.and_then(|status| status.allocated_resources.as_ref()))
                .or_else(|| stated_unless(infeasible, container, |all| &all.requests))
        });
        let mut requests = actuated;
        requests.max(&allocated);
        if !infeasible {
            requests.max(&stated);
        }
        if self.has_own_resources(|_| false) {
            self.set_own(&mut requests, |own| &own.requests);
        }
        requests.add(&self.spec.overhead);
        requests
    }

    fn limits(&self) -> Amounts {
        let infeasible = self.is_resize_infeasible();
        let stated = self.peak(|container, _| container.resources.as_ref().map(|all| &all.limits));
        let mut limits = self.peak(|container, status| {
            let actuated = status.and_then(|status| status.resources.as_ref());
            actuated
                .map(|all| &all.limits)
                .filter(|amounts| !amounts.is_empty())
                .or_else(|| stated_unless(infeasible, container, |all| &all.limits))
        });
        if !infeasible {
            limits.max(&stated);
        }
        if self.has_own_resources(|_| true) {
            self.set_own(&mut limits, |own| &own.limits);
        }
        for (name, amount) in self.spec.overhead.iter() {
            if limits.get(name).is_some_and(|limit| !limit.is_zero()) {
                limits.add_one(name, amount);
            }
        }
        limits
    }

    fn set_own(&self, amounts: &mut Amounts, of: impl Fn(&Requests) -> &Amounts) {
        if let Some(own) = &self.spec.resources {
            for (name, amount) in of(own).iter().filter(|(name, _)| is_pod_level(name)) {
                amounts.set(name, amount.clone());
            }
        }
    }

    /// The amounts of all containers together at their peak: those that keep running, and each init container with the sidecars that were
    /// started before it.
    fn peak<'p>(
        &'p self,
        of: impl Fn(&'p Container, Option<&'p ContainerStatus>) -> Option<&'p Amounts>,
    ) -> Amounts {
        let none = Amounts::default();
        let find = |list: &'p Option<Vec<ContainerStatus>>, name: &str| {
            list.iter().flatten().find(|status| status.name == name)
        };
        let mut total = Amounts::default();
        for container in self.containers() {
            total.add(of(container, find(&self.status.container_statuses, &container.name)).unwrap_or(&none));
        }
        let (mut running, mut starting) = (Amounts::default(), Amounts::default());
        for container in self.init_containers() {
            let own = of(container, find(&self.status.init_container_statuses, &container.name));
            let own = own.unwrap_or(&none);
            if container.restart_policy.as_deref() == Some("Always") {
                total.add(own);
                running.add(own);
                starting.max(&running);
            } else {
                let mut together = own.clone();
                together.add(&running);
                starting.max(&together);
            }
        }
        total.max(&starting);
        total
    }

    fn is_resize_infeasible(&self) -> bool {
        let pending = self.status.conditions.iter().flatten().find(|one| one.kind == "PodResizePending");
        pending.is_some_and(|condition| condition.reason.as_deref() == Some("Infeasible"))
    }

    fn is_best_effort(&self) -> bool {
        let bare = |resources: &Requests| {
            [&resources.requests, &resources.limits].into_iter().all(|amounts| {
                ["cpu", "memory"].iter().all(|name| amounts.get(name).is_none_or(Quantity::is_zero))
            })
        };
        match &self.spec.resources {
            Some(own) if self.has_own_resources(|_| true) => bare(own),
            _ => self
                .containers()
                .chain(self.init_containers())
                .all(|container| container.resources.as_ref().is_none_or(bare)),
        }
    }

    fn crosses_namespaces(&self) -> bool {
        let crosses = |term: &Value| {
            term["namespaces"].as_array().is_some_and(|list| !list.is_empty())
                || !term["namespaceSelector"].is_null()
        };
        let list = |kind: &str, strength: &str| {
            self.spec.affinity[kind][strength].as_array().map_or(&[][..], Vec::as_slice)
        };
        AFFINITIES.iter().any(|kind| {
            list(kind, REQUIRED).iter().any(crosses)
                || list(kind, PREFERRED).iter().any(|term| crosses(&term["podAffinityTerm"]))
        })
    }
}

fn stated_unless(
    infeasible: bool,
    container: &Container,
    of: impl Fn(&Requests) -> &Amounts,
) -> Option<&Amounts> {
    container.resources.as_ref().filter(|_| !infeasible).map(of)
}

/// Requests and limits under the names that quotas have for them, and one pod.
fn of_requests(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut amounts = Amounts::default();
    amounts.set("pods", Quantity::from_i64(1));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            amounts.set(name, request.clone());
            amounts.set(format!("{REQUESTS}{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            amounts.set(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests.iter() {
        if name.starts_with(HUGE_PAGES) {
            amounts.set(name, request.clone());
        }
        if name.starts_with(HUGE_PAGES) || is_extended(name) {
            amounts.set(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    amounts
}

/// Whether a resource that a container requests is neither Kubernetes' own nor a prefix of a quota's.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    let valid = || validate_label_name(&format!("{REQUESTS}{name}")).is_ok();
    name.starts_with(DEVICE_CLASS) || !native && !name.starts_with(REQUESTS) && valid()
}
