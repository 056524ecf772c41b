//! Everything that can be seen of a fleet, in plain words.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    vec::Vec,
};

use lazaret_model::{AttrValue, CapacityValue, DeviceId, ObjectKey, PoolId, Text};

use crate::{Changes, DeviceRef, EffectiveTaint, Fleet, Origin, Problem, SliceState};

/// The observable state of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Claims: the devices that they hold, the pods that use them.
    pub claims: BTreeMap<ObjectKey, ClaimSeen>,
    /// Pods: which claims they use.
    pub pods: BTreeMap<ObjectKey, (Text, BTreeSet<ObjectKey>)>,
    /// Rules: what they mean.
    pub rules: BTreeMap<Text, RuleSeen>,
    /// Pools of the snapshot.
    pub pools: BTreeMap<PoolId, PoolSeen>,
    /// By node, its pools.
    pub pools_of_node: BTreeMap<Text, Vec<PoolId>>,
    /// Pools with a slice that is not bound to a node.
    pub shared_pools: Vec<PoolId>,
    /// Names of nodes.
    pub nodes: Vec<Text>,
    /// Names of classes.
    pub classes: Vec<Text>,
}

/// The observable state of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSeen {
    /// The incarnation.
    pub uid: Text,
    /// The pods that use it.
    pub pods: BTreeSet<ObjectKey>,
    /// Each device: where from, its effective taints, and whether the claim is among its holders.
    pub held: Vec<(DeviceId, &'static str, Vec<String>)>,
}

/// The observable state of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSeen {
    /// Published devices that it selects.
    pub published: BTreeSet<DeviceId>,
    /// Results it means: claim, position, from memory.
    pub held: BTreeSet<(ObjectKey, usize, bool)>,
    /// The error in it.
    pub problem: Option<String>,
}

/// The observable state of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSeen {
    /// Newest first: number, slices there, slices expected, why invalid.
    pub generations: Vec<(i64, usize, i64, Option<String>)>,
    /// By name: generation and devices.
    pub slices: Vec<(Text, i64, Vec<DeviceSeen>)>,
}

/// The observable state of a device of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSeen {
    /// Its name.
    pub name: Text,
    /// Attributes by key, patches applied.
    pub attributes: Vec<(Text, AttrValue)>,
    /// Capacities by key, patches applied.
    pub capacity: Vec<(Text, CapacityValue)>,
    /// Effective taints.
    pub taints: Vec<String>,
    /// Whether some claim has it to itself.
    pub in_use: bool,
    /// How many shares are given out.
    pub shares: u32,
    /// How much of it, by key.
    pub consumed: Vec<(Text, String)>,
}

impl Observation {
    /// The observable state of this fleet.
    pub fn of(fleet: &mut Fleet) -> Self {
        let snapshot = fleet.snapshot();
        let fleet = &*fleet;
        let claim_key = |ix| fleet.claim(ix).map(|claim| claim.key.clone()).unwrap_or_default();
        let claims = fleet.claims().map(|(ix, claim)| (claim.key.clone(), claim_seen(fleet, ix, &claim.uid)));
        let pods = fleet.pods().map(|(ix, pod)| {
            (pod.key.clone(), (pod.uid.clone(), fleet.claims_of_pod(ix).map(claim_key).collect()))
        });
        let rules = fleet.rules().map(|view| (view.rule.name.clone(), rule_seen(fleet, &view.rule.name)));
        let pools = snapshot.pools().map(|pool| {
            let generations = pool.generations().iter().map(|generation| {
                let invalid = generation.invalid.as_ref().map(ToString::to_string);
                (generation.number, generation.slices, generation.slice_count, invalid)
            });
            let slices = pool.slices.iter().map(|slice| {
                let devices = slice.devices(snapshot.names()).map(device_seen).collect();
                (slice.name().clone(), slice.generation(), devices)
            });
            (pool.id.clone(), PoolSeen { generations: generations.collect(), slices: slices.collect() })
        });
        let of_node =
            |node: &Text| snapshot.pools_of_node(node).map(|pool| pool.id.clone()).collect::<Vec<_>>();
        let named: BTreeSet<Text> =
            snapshot.pools().flat_map(|pool| pool.slices.iter().filter_map(|slice| node_of(slice))).collect();
        Self {
            claims: claims.collect(),
            pods: pods.collect(),
            rules: rules.collect(),
            pools: pools.collect(),
            pools_of_node: named.into_iter().map(|node| (node.clone(), of_node(&node))).collect(),
            shared_pools: snapshot.shared_pools().map(|pool| pool.id.clone()).collect(),
            nodes: snapshot.nodes().map(|node| node.name.clone()).collect(),
            classes: snapshot.classes().map(|class| class.class.name.clone()).collect(),
        }
    }

    /// The differences from `before` that are not among `changes`: none, if the fleet is correct. `fleet` is in the state that `self` shows; `gone`
    /// are the numbers that claims and pods had before.
    #[must_use]
    pub fn unannounced(
        &self,
        before: &Self,
        changes: &Changes,
        fleet: &Fleet,
        gone: &Numbers,
    ) -> Vec<String> {
        let mut missed = Vec::new();
        for key in differing(&before.claims, &self.claims) {
            let now = fleet.claim_ix(key).map(|ix| ix.0);
            let told = now.into_iter().chain(gone.claims.get(key).copied());
            if !told.into_iter().all(|ix| changes.claims.binary_search(&crate::ClaimIx(ix)).is_ok()) {
                missed.push(format!("claim {key}"));
            }
        }
        for key in differing(&before.pods, &self.pods) {
            let now = fleet.pod_ix(key).map(|ix| ix.0);
            let told = now.into_iter().chain(gone.pods.get(key).copied());
            if !told.into_iter().all(|ix| changes.pods.binary_search(&crate::PodIx(ix)).is_ok()) {
                missed.push(format!("pod {key}"));
            }
        }
        let rules =
            differing(&before.rules, &self.rules).filter(|name| changes.rules.binary_search(name).is_err());
        missed.extend(rules.map(|name| format!("rule {name}")));
        let pools =
            differing(&before.pools, &self.pools).filter(|id| changes.pools.binary_search(id).is_err());
        missed.extend(pools.map(|id| format!("pool {id}")));
        missed
    }
}

/// The numbers that claims and pods have.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    claims: BTreeMap<ObjectKey, u32>,
    pods: BTreeMap<ObjectKey, u32>,
}

impl Numbers {
    /// Those of now.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        Self {
            claims: fleet.claims().map(|(ix, claim)| (claim.key.clone(), ix.0)).collect(),
            pods: fleet.pods().map(|(ix, pod)| (pod.key.clone(), ix.0)).collect(),
        }
    }
}

fn differing<'a, K: Ord, V: PartialEq>(
    before: &'a BTreeMap<K, V>,
    after: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    let keys: BTreeSet<&K> = before.keys().chain(after.keys()).collect();
    keys.into_iter().filter(|key| before.get(key) != after.get(key))
}

fn claim_seen(fleet: &Fleet, ix: crate::ClaimIx, uid: &Text) -> ClaimSeen {
    let pod_key = |ix| fleet.pod(ix).map(|pod| pod.key.clone()).unwrap_or_default();
    let held = fleet.held(ix).map(|held| {
        let taints: Vec<String> = held.taints().map(taint_words).collect();
        let again: Vec<String> = fleet.effective_taints(held.device).map(taint_words).collect();
        assert_eq!(taints, again, "two ways to the same taints of {}", held.device);
        assert!(
            fleet.holders(held.device).any(|holder| holder == ix),
            "{} does not know its holder",
            held.device
        );
        (held.device.clone(), presence_word(held.presence), taints)
    });
    ClaimSeen { uid: uid.clone(), pods: fleet.pods_of_claim(ix).map(pod_key).collect(), held: held.collect() }
}

fn rule_seen(fleet: &Fleet, name: &str) -> RuleSeen {
    let selection = fleet.rule_selection(name);
    let published: Vec<DeviceId> = selection.published().map(DeviceRef::id).collect();
    assert_eq!(selection.published_count(), published.len(), "count of what {name} means");
    let held = selection.held().map(|held| {
        let key = fleet.claim(held.claim).map(|claim| claim.key.clone()).unwrap_or_default();
        (key, held.result, held.from_memory)
    });
    RuleSeen {
        published: published.into_iter().collect(),
        held: held.collect(),
        problem: selection.problem().map(|problem| problem_words(&problem)),
    }
}

fn device_seen(device: DeviceRef<'_>) -> DeviceSeen {
    DeviceSeen {
        name: device.name().clone(),
        attributes: device.attributes().map(|(key, _, value)| (key.clone(), value.clone())).collect(),
        capacity: device.capacity().map(|(key, _, value)| (key.clone(), value.clone())).collect(),
        taints: device.taints().map(taint_words).collect(),
        in_use: device.in_use(),
        shares: device.shares(),
        consumed: device
            .consumed_capacity()
            .iter()
            .map(|(key, amount)| (key.clone(), amount.to_string()))
            .collect(),
    }
}

fn node_of(slice: &SliceState) -> Option<Text> {
    match slice.nodes() {
        lazaret_model::NodeScope::Node(node) => Some(node.clone()),
        lazaret_model::NodeScope::Selector(_)
        | lazaret_model::NodeScope::All
        | lazaret_model::NodeScope::PerDevice
        | lazaret_model::NodeScope::Unknown => None,
    }
}

pub(super) fn presence_word(presence: crate::Presence) -> &'static str {
    match presence {
        crate::Presence::Published => "published",
        crate::Presence::Remembered => "remembered",
        crate::Presence::Unknown => "unknown",
    }
}

/// A problem without the evaluator's own words.
pub(super) fn problem_words(problem: &Problem) -> String {
    match problem {
        Problem::BadExpression { selector, .. } => format!("selector {selector}"),
        Problem::ClassMissing { class } => format!("no class {class}"),
        Problem::BadClass { class, selector, .. } => format!("class {class} selector {selector}"),
        Problem::FailedOnDevices { devices, example, .. } => format!("failed on {devices}, as {example}"),
    }
}

fn taint_words(taint: EffectiveTaint<'_>) -> String {
    let origin = match taint.origin {
        Origin::Device { slice, index } => format!("device in {slice} #{index}"),
        Origin::TaintSlice { slice, index } => format!("slice {slice} #{index}"),
        Origin::Patch { name, index } => format!("patch {name} #{index}"),
        Origin::Rule { name, uid, from_memory } => {
            format!("rule {name} {uid}{}", if from_memory { " (memory)" } else { "" })
        }
    };
    words(&taint.taint.to_string(), taint.taint.time_added.map(|at| at.as_millis()), &origin)
}

pub(super) fn words(taint: &str, time: Option<i64>, origin: &str) -> String {
    format!("{taint} at {time:?} by {origin}")
}
