//! Where pods that have to leave could get devices again, before anything is done.

use std::sync::Arc;

use lazaret_allocator::{Allocator, Features, Found, NodeSearch, Options, Overlay, TimedTolerations};
use lazaret_fleet::{Fleet, Input, Snapshot};
use lazaret_model::{
    ClaimSource, DeviceTaintRule, Node, ObjectKey, Pod, ResourceClaim, Text, Timestamp, Uid,
};
use serde::{Deserialize, Serialize};

use super::{
    cluster::Cluster,
    plan::{Plan, PlanPod},
};

/// The work that goes into finding a place for one pod: a unit is what a unit of CEL's cost takes.
const POD_UNITS: u64 = 40_000_000;
/// For all pods of a plan.
const PLAN_UNITS: u64 = 400_000_000;

/// More pods than this are not placed one by one: nobody reads that, and each is a search over all nodes.
pub const PLACES_MAX: usize = 500;

/// Where a pod that leaves could get devices again. Devices alone are looked at: neither CPU and memory, nor what else keeps a pod from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Place {
    /// The pod that leaves, `namespace/name`.
    pub pod: String,
    /// The node that has all that it asks for. Absent: none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The devices that it would get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Why there is no place, or why nobody looks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Places for the pods of a plan of these rules, in the order in which they leave. The rules are set in `cluster` afterwards.
pub fn places(cluster: &mut Cluster, now: Timestamp, rules: Vec<DeviceTaintRule>, plan: &Plan) -> Vec<Place> {
    if !plan.evicts() {
        return Vec::new();
    }
    for rule in rules {
        cluster.fleet.apply(Input::Rule(Arc::new(rule)));
    }
    let mut order: Vec<&PlanPod> = plan.pods.iter().collect();
    order.sort_by_key(|pod| pod.position);
    let mut search = Search::new(cluster.fleet.snapshot(), now);
    let pods = order.into_iter().take(PLACES_MAX);
    pods.map(|pod| search.place(&cluster.fleet, pod)).collect()
}

/// Looks for one pod after the other: what one would get the next does not.
struct Search {
    snapshot: Arc<Snapshot>,
    nodes: Vec<Arc<Node>>,
    options: Options,
    allocator: Allocator,
    in_flight: Overlay,
}

impl Search {
    fn new(snapshot: Arc<Snapshot>, now: Timestamp) -> Self {
        let timed_tolerations = TimedTolerations::LastUntilOver(now);
        Self {
            nodes: snapshot.nodes().cloned().collect(),
            snapshot,
            options: Options { timed_tolerations, ..Options::default() },
            allocator: Allocator::new(Features::default()),
            in_flight: Overlay::new(),
        }
    }

    fn place(&mut self, fleet: &Fleet, pod: &PlanPod) -> Place {
        let key = ObjectKey::new(pod.namespace.as_str(), pod.name.as_str());
        let place = Place { pod: key.to_string(), ..Place::default() };
        let claims = match fleet.pod_ix(&key).and_then(|ix| fleet.pod(ix)) {
            _ if pod.owner.is_none() => Err("it has no owner: nothing makes it again".to_owned()),
            Some(pod) => again(fleet, pod),
            None => Err("it is not known".to_owned()),
        };
        match claims.and_then(|claims| self.find(&claims)) {
            Ok((node, devices)) => Place { node: Some(node), devices, ..place },
            Err(problem) => Place { problem: Some(problem), ..place },
        }
    }

    fn find(&mut self, claims: &[Arc<ResourceClaim>]) -> Result<(String, Vec<String>), String> {
        let Self { snapshot, nodes, options, allocator, in_flight } = self;
        let mut share_id = || Text::from("00000000-0000-4000-8000-000000000000");
        allocator.allow(POD_UNITS.min(PLAN_UNITS.saturating_sub(allocator.spent())));
        match allocator.find_node(&NodeSearch { snapshot, nodes, claims, in_flight, options }, &mut share_id)
        {
            Found::Node { index, allocations } => {
                let results = allocations.iter().flat_map(|allocation| &allocation.results);
                let devices = results.map(|result| result.device.to_string()).collect();
                for (claim, allocation) in claims.iter().zip(&allocations) {
                    in_flight.insert(&claim.uid, allocation);
                }
                Ok((nodes.get(index).map(|node| node.name.to_string()).unwrap_or_default(), devices))
            }
            Found::Nowhere(groups) => Err(groups.first().map_or_else(
                || "there is no node".to_owned(),
                |group| format!("{} of {} nodes: {}", group.nodes, nodes.len(), group.reason),
            )),
            Found::Failed(error) => Err(error.to_string()),
            Found::Unfinished { tried, .. } => {
                Err(format!("it is not known: the budget was spent after {tried} of {} nodes", nodes.len()))
            }
        }
    }
}

/// The claims that a pod made again would have: those from templates anew. A claim that it shares with others stays what it is.
fn again(fleet: &Fleet, pod: &Pod) -> Result<Vec<Arc<ResourceClaim>>, String> {
    let mut claims = Vec::new();
    for entry in &pod.claims {
        let name = match &entry.source {
            ClaimSource::Template { resolved: Some(Some(name)), .. } => name,
            ClaimSource::Claim(name) => {
                return Err(format!("its ResourceClaim {name} keeps the device until nobody uses the claim"));
            }
            ClaimSource::Template { .. } | ClaimSource::Unknown => continue,
        };
        let key = ObjectKey::new(pod.key.namespace.clone(), name.clone());
        let claim = fleet.claim_ix(&key).and_then(|ix| fleet.claim(ix));
        let Some(claim) = claim else { return Err(format!("its ResourceClaim {key} is not there")) };
        let uid = Uid::from(format!("{}-again", claim.uid).as_str());
        claims.push(Arc::new(ResourceClaim {
            key: ObjectKey::new(key.namespace, format!("{}-again", key.name)),
            uid,
            allocation: None,
            reserved_for: Vec::new(),
            ..ResourceClaim::clone(claim)
        }));
    }
    Ok(claims)
}
