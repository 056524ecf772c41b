//! The effect of a taint on devices and pods, before it is set.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_eviction::{Options, Patience, Preview, PreviewPod, Subject, positions, preview};
use lazaret_model::{DeviceId, DeviceSelector, DeviceTaintRule, Effect, Impact, ObjectKey, Taint, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    device::{State, node_of, state},
    forecast::{Planned, forecast, rooms},
    gates::is_off,
};

/// The consequences of a taint.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// The taint.
    pub taint: String,
    /// Its effect.
    pub effect: String,
    /// The devices that are published or held, by name.
    pub devices: Vec<PlanDevice>,
    /// The claims that hold them.
    pub claims: Vec<String>,
    /// The pods that would leave; with an effect other than NoExecute, those that would stay all the same.
    pub pods: Vec<PlanPod>,
    /// The pods that bear the taint for ever.
    pub tolerating: Vec<PlanPod>,
    /// Pods that would leave, by namespace.
    pub namespaces: BTreeMap<String, usize>,
    /// The reasons that would block evictions at first, as in the rules' condition `EvictionBlocked`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub holds: Vec<String>,
    /// After how many seconds the last pod would be gone, if pods take as long to end as they may. Absent: some would stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimated_seconds: Option<i64>,
    /// How many pods would not be evicted in the end, by what keeps them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stuck: BTreeMap<String, usize>,
    /// Why it would be as if the taint were not set: a feature gate is off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_effect: Option<String>,
    /// Why not everything can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A device in a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanDevice {
    /// `driver/pool/device`.
    pub name: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// As in a list of devices.
    pub state: String,
}

/// A pod in a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanPod {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The incarnation.
    pub uid: String,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its controller: `Job/train`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its priority.
    pub priority: i32,
    /// How long it bears the taint. Absent: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
    /// When it would have to leave. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Its place in the order in which a rule with `spec.eviction` evicts them. Absent: it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// After how many seconds it would be evicted. Absent: not at all, as far as can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted_after_seconds: Option<i64>,
    /// The reason that would block its eviction at first, as in the condition `EvictionBlocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The node where the claims of its replacement could be allocated, after those of pods that go before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement_node: Option<String>,
    /// Why they could be nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_room: Option<String>,
    /// Which of the devices it uses.
    pub devices: Vec<String>,
    /// The disruption budgets that cover it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<PlanBudget>,
}

/// A disruption budget over a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanBudget {
    /// Its name.
    pub name: String,
    /// How many more disruptions it allows now.
    pub disruptions_allowed: i64,
}

impl Plan {
    /// Whether pods leave.
    #[must_use]
    pub fn evicts(&self) -> bool {
        self.effect == Effect::NoExecute.name() && self.no_effect.is_none()
    }

    /// How much it reaches.
    #[must_use]
    pub fn impact(&self) -> Impact {
        let [pods, namespaces, devices] =
            [self.pods.len(), self.namespaces.len(), self.devices.len()].map(|count| count as u64);
        Impact { pods, namespaces, devices }
    }

    /// Budgets that would be overdrawn, with how many of their pods leave: eviction by taint does not ask budgets.
    #[must_use]
    pub fn overdrawn(&self) -> BTreeMap<(String, String), (usize, i64)> {
        let mut budgets: BTreeMap<(String, String), (usize, i64)> = BTreeMap::new();
        for pod in &self.pods {
            for budget in &pod.budgets {
                let key = (pod.namespace.clone(), budget.name.clone());
                budgets.entry(key).or_insert((0, budget.disruptions_allowed)).0 += 1;
            }
        }
        budgets.retain(|_, (pods, allowed)| i64::try_from(*pods).is_ok_and(|pods| pods > *allowed));
        budgets
    }
}

/// The consequences of `taint`, set by a rule, on the devices of `targets`.
#[must_use]
pub fn plan(cluster: &Cluster, now: Timestamp, targets: &[DeviceSelector], taint: &Taint) -> Plan {
    let mut plan = Plan {
        taint: taint.to_string(),
        effect: taint.effect.to_string(),
        no_effect: cluster.gates.stops_rules().map(is_off),
        ..Plan::default()
    };
    let mut devices = BTreeSet::new();
    let mut claims = BTreeSet::new();
    let mut leaving: BTreeMap<ObjectKey, PreviewPod> = BTreeMap::new();
    let mut tolerating: BTreeMap<ObjectKey, PreviewPod> = BTreeMap::new();
    for selector in targets {
        let selection = cluster.fleet.selection_of(selector);
        devices.extend(selection.published().map(|device| device.id()));
        devices.extend(selection.unpublished().map(|(id, _)| id));
        let preview: Preview =
            preview(&cluster.fleet, now, Subject::Taint { selector: Some(selector), taint });
        claims.extend(preview.claims);
        plan.problem = plan.problem.or(preview.problem);
        for pod in preview.pods {
            let sooner = leaving.get(&pod.pod).is_none_or(|known| pod.deadline < known.deadline);
            if sooner {
                leaving.insert(pod.pod.clone(), pod);
            }
        }
        tolerating.extend(preview.tolerating.into_iter().map(|pod| (pod.pod.clone(), pod)));
    }
    let staying = tolerating.into_values().filter(|pod| !leaving.contains_key(&pod.pod));
    let staying: Vec<PreviewPod> = staying.collect();
    plan.devices = devices
        .iter()
        .map(|id| {
            let device = cluster.fleet.device(id);
            PlanDevice {
                name: id.to_string(),
                node: device.and_then(node_of).map(ToString::to_string),
                state: device.map_or(State::Gone, |device| state(cluster, device)).word().to_owned(),
            }
        })
        .collect();
    plan.claims = claims.iter().map(ToString::to_string).collect();
    let describe = |pod: &PreviewPod| plan_pod(cluster, pod, &devices);
    let leaving: Vec<PreviewPod> = leaving.into_values().collect();
    plan.pods = leaving.iter().map(describe).collect();
    if plan.evicts() {
        for (pod, position) in plan.pods.iter_mut().zip(positions(&leaving)) {
            pod.position = Some(position);
        }
    }
    plan.tolerating = staying.iter().map(describe).collect();
    for pod in &plan.pods {
        *plan.namespaces.entry(pod.namespace.clone()).or_default() += 1;
    }
    plan
}

/// A rule that sets a taint and is not there yet, under the name that it would have.
#[must_use]
pub fn planned_rule(selector: &DeviceSelector, name: String, taint: &Taint, at: Timestamp) -> Planned {
    let rule = DeviceTaintRule {
        uid: format!("planned {name}").into(),
        name: name.into(),
        generation: 1,
        created: Some(at),
        selector: Some(selector.clone()),
        taint: Taint { time_added: Some(taint.time_added.unwrap_or(at)), ..taint.clone() },
        ..DeviceTaintRule::default()
    };
    Planned { at, rule: Arc::new(rule) }
}

impl Plan {
    /// Foretells how pods would leave because of these rules: in which order, what keeps them, where their replacements could go, and how long
    /// it takes. By the machine and the allocator of production.
    pub fn foretell(&mut self, cluster: &Cluster, now: Timestamp, planned: &[Planned]) {
        if !self.evicts() || self.pods.is_empty() {
            return;
        }
        let key = |pod: &PlanPod| ObjectKey::new(pod.namespace.as_str(), pod.name.as_str());
        let keys: BTreeSet<ObjectKey> = self.pods.iter().map(key).collect();
        let forecast = forecast(cluster, now, planned, &keys, Options::default());
        let mut order: Vec<&PlanPod> = self.pods.iter().collect();
        order.sort_by_key(|pod| {
            (forecast.evicted.get(&key(pod)).copied().unwrap_or(Timestamp::NEVER), pod.position)
        });
        let leaving: Vec<(ObjectKey, Vec<DeviceId>)> =
            order.into_iter().map(|pod| (key(pod), devices_of(cluster, &key(pod), &pod.devices))).collect();
        // Without nodes nobody knows where there is room.
        let rooms =
            if cluster.nodes.is_empty() { BTreeMap::new() } else { rooms(cluster, now, planned, &leaving) };
        let seconds = |at: Timestamp| (at.millis_since(now).max(0) + 999) / 1_000;
        for pod in &mut self.pods {
            let key = key(pod);
            pod.evicted_after_seconds = forecast.evicted.get(&key).map(|at| seconds(*at));
            pod.held = forecast.held.get(&key).map(|(why, _)| (*why).to_owned());
            match rooms.get(&key) {
                Some(Ok(node)) => pod.replacement_node = Some(node.to_string()),
                Some(Err(why)) => pod.no_room = Some(why.to_string()),
                None => {}
            }
        }
        self.holds = forecast.holds;
        self.estimated_seconds = forecast.ends.map(seconds);
        for why in forecast.stuck.into_values() {
            *self.stuck.entry(why.to_owned()).or_default() += 1;
        }
    }
}

fn devices_of(cluster: &Cluster, pod: &ObjectKey, names: &[String]) -> Vec<DeviceId> {
    let fleet = &cluster.fleet;
    let claims = fleet.pod_ix(pod).into_iter().flat_map(|ix| fleet.claims_of_pod(ix));
    let held = claims.flat_map(|claim| fleet.held(claim)).map(|held| held.device);
    held.filter(|device| names.contains(&device.to_string())).cloned().collect()
}

fn plan_pod(cluster: &Cluster, pod: &PreviewPod, devices: &BTreeSet<lazaret_model::DeviceId>) -> PlanPod {
    let fleet = &cluster.fleet;
    let claims = fleet.pod_ix(&pod.pod).into_iter().flat_map(|ix| fleet.claims_of_pod(ix));
    let mut used: Vec<String> = claims
        .flat_map(|claim| fleet.held(claim))
        .filter(|held| devices.contains(held.device))
        .map(|held| held.device.to_string())
        .collect();
    used.sort();
    used.dedup();
    PlanPod {
        namespace: pod.pod.namespace.to_string(),
        name: pod.pod.name.to_string(),
        uid: pod.uid.to_string(),
        node: pod.node.as_ref().map(ToString::to_string),
        owner: pod.owner.as_ref().map(|owner| format!("{}/{}", owner.kind, owner.name)),
        priority: pod.priority,
        toleration_seconds: match pod.patience {
            Patience::Seconds(seconds) => Some(seconds),
            Patience::Forever => None,
        },
        deadline: (pod.deadline != Timestamp::NEVER).then(|| lazaret_api::format_time(pod.deadline)),
        position: None,
        evicted_after_seconds: None,
        held: None,
        replacement_node: None,
        no_room: None,
        devices: used,
        budgets: cluster
            .budgets_of(&pod.pod)
            .into_iter()
            .map(|(name, allowed)| PlanBudget { name: name.to_owned(), disruptions_allowed: allowed })
            .collect(),
    }
}
