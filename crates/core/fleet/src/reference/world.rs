//! The objects that are there, and what follows from them.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::{String, ToString},
    sync::Arc,
    vec::Vec,
};

use lazaret_model::{
    AttrId, AttrNames, AttrValue, CapacityValue, ClaimSource, Device, DeviceClass, DeviceId, DeviceResult,
    DeviceSelector, DeviceTaintRule, Node, NodeScope, ObjectKey, Pod, PoolId, QualifiedName, Quantity,
    ResourceClaim, ResourceSlice, ResourceSlicePatch, Taint, Text,
};

use super::observation::{ClaimSeen, DeviceSeen, Observation, PoolSeen, RuleSeen, words};
use crate::{Input, Kind, cel};

/// Objects by name, and the devices that vanished while held.
#[derive(Clone, Debug, Default)]
pub struct Reference {
    slices: BTreeMap<Text, Arc<ResourceSlice>>,
    rules: BTreeMap<Text, Arc<DeviceTaintRule>>,
    patches: BTreeMap<Text, Arc<ResourceSlicePatch>>,
    classes: BTreeMap<Text, Arc<DeviceClass>>,
    claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
    pods: BTreeMap<ObjectKey, Arc<Pod>>,
    nodes: BTreeMap<Text, Arc<Node>>,
    /// Held devices as they were last published.
    memory: BTreeMap<DeviceId, Device>,
}

/// The result of one selector on one device.
enum Answer {
    No,
    Yes,
    Failed,
}

/// Where a device is known from.
enum Known<'a> {
    Published(&'a ResourceSlice, &'a Device),
    Remembered(&'a Device),
    Unknown,
}

impl Reference {
    /// Takes in one object.
    pub fn apply(&mut self, input: &Input) {
        if self.replaces_another(input) {
            self.apply(&input.gone());
        }
        match input.clone() {
            Input::Slice(slice) => drop(self.slices.insert(slice.name.clone(), slice)),
            Input::SliceGone(name) => drop(self.slices.remove(&name)),
            Input::Rule(rule) => drop(self.rules.insert(rule.name.clone(), rule)),
            Input::RuleGone(name) => drop(self.rules.remove(&name)),
            Input::Patch(patch) => drop(self.patches.insert(patch.name.clone(), patch)),
            Input::PatchGone(name) => drop(self.patches.remove(&name)),
            Input::Class(class) => drop(self.classes.insert(class.name.clone(), class)),
            Input::ClassGone(name) => drop(self.classes.remove(&name)),
            Input::Claim(claim) => drop(self.claims.insert(claim.key.clone(), claim)),
            Input::ClaimGone(key) => drop(self.claims.remove(&key)),
            Input::Pod(pod) => drop(self.pods.insert(pod.key.clone(), pod)),
            Input::PodGone(key) => drop(self.pods.remove(&key)),
            Input::Node(node) => drop(self.nodes.insert(node.name.clone(), node)),
            Input::NodeGone(name) => drop(self.nodes.remove(&name)),
        }
        self.remember();
    }

    /// Whether an object of the same name but another identity is there: that one goes first.
    fn replaces_another(&self, input: &Input) -> bool {
        if let Input::Claim(claim) = input {
            return self.claims.get(&claim.key).is_some_and(|old| old.uid != claim.uid);
        }
        if let Input::Slice(slice) = input {
            return self.slices.get(&slice.name).is_some_and(|old| old.pool_id() != slice.pool_id());
        }
        false
    }

    /// Takes in all objects of a kind.
    pub fn relist(&mut self, kind: Kind, objects: &[Input]) {
        let listed: BTreeSet<ObjectKey> =
            objects.iter().filter(|o| o.kind() == kind).map(Input::key).collect();
        objects.iter().for_each(|object| self.apply(object));
        let gone = self.objects().into_iter().filter(|o| o.kind() == kind && !listed.contains(&o.key()));
        gone.collect::<Vec<_>>().iter().for_each(|object| self.apply(&object.gone()));
    }

    /// All objects that are there.
    #[must_use]
    pub fn objects(&self) -> Vec<Input> {
        let mut all: Vec<Input> = Vec::new();
        all.extend(self.slices.values().cloned().map(Input::Slice));
        all.extend(self.rules.values().cloned().map(Input::Rule));
        all.extend(self.patches.values().cloned().map(Input::Patch));
        all.extend(self.classes.values().cloned().map(Input::Class));
        all.extend(self.claims.values().cloned().map(Input::Claim));
        all.extend(self.pods.values().cloned().map(Input::Pod));
        all.extend(self.nodes.values().cloned().map(Input::Node));
        all
    }

    /// Whether the attributes of some device are known from memory alone, or would be if objects had come in another order: then the past matters.
    #[must_use]
    pub fn depends_on_memory(&self) -> bool {
        // It is listed where it is not held; it was known from there as long as nothing said where it is held.
        let is_elsewhere = |id: &DeviceId| {
            let lists = |slice: &ResourceSlice| slice.devices.iter().any(|device| device.name == id.device);
            self.slices_of(&id.pool_id()).any(lists)
        };
        let held = self.held_ids();
        let elsewhere = held.iter().filter(|id| is_elsewhere(id));
        self.memory.keys().chain(elsewhere).any(|id| self.newest(id).is_none())
    }

    /// The state that a fleet must show.
    #[must_use]
    pub fn observe(&self) -> Observation {
        let pools: BTreeSet<PoolId> = self.slices.values().map(|slice| slice.pool_id()).collect();
        let with = |wanted: &dyn Fn(&ResourceSlice) -> bool| -> Vec<PoolId> {
            let found = |id: &&PoolId| self.slices.values().any(|s| s.pool_id() == **id && wanted(s));
            pools.iter().filter(found).cloned().collect()
        };
        let nodes: BTreeSet<Text> = self.slices.values().filter_map(|slice| node_of(slice)).collect();
        Observation {
            claims: self.claims.values().map(|claim| (claim.key.clone(), self.claim_seen(claim))).collect(),
            pods: self
                .pods
                .values()
                .map(|pod| (pod.key.clone(), (pod.uid.clone(), self.claims_of(pod))))
                .collect(),
            rules: self.rules.values().map(|rule| (rule.name.clone(), self.rule_seen(rule))).collect(),
            pools: pools.iter().map(|id| (id.clone(), self.pool_seen(id))).collect(),
            pools_of_node: nodes
                .into_iter()
                .map(|node| (node.clone(), with(&|slice| node_of(slice).as_ref() == Some(&node))))
                .collect(),
            shared_pools: with(&|slice| node_of(slice).is_none()),
            nodes: self.nodes.keys().cloned().collect(),
            classes: self.classes.keys().cloned().collect(),
        }
    }

    // === Publication ===

    fn slices_of<'a>(&'a self, pool: &'a PoolId) -> impl Iterator<Item = &'a ResourceSlice> {
        self.slices.values().map(|slice| &**slice).filter(move |slice| slice.pool_id() == *pool)
    }

    /// Whether a slice is of the newest generation among those that count where it is, or that is still coming. Slices of another node do not count; for
    /// a slice of no node none of a node does.
    fn is_shown(&self, slice: &ResourceSlice) -> bool {
        let node = node_of(slice);
        let counts = |other: &&ResourceSlice| node_of(other).is_none() || node_of(other) == node;
        let pool = slice.pool_id();
        let seen: Vec<_> = self.slices_of(&pool).filter(counts).collect();
        let newest = seen.iter().map(|slice| slice.pool.generation).max().unwrap_or(0);
        let members: Vec<_> = seen.iter().filter(|slice| slice.pool.generation == newest).collect();
        let there = i64::try_from(members.len()).unwrap_or(i64::MAX);
        slice.pool.generation == newest || there < members[0].pool.slice_count
    }

    fn published(&self, id: &DeviceId) -> Option<(&ResourceSlice, &Device)> {
        self.newest(id).filter(|(slice, _)| self.is_shown(slice))
    }

    /// The device as the newest slice has it, be that of a generation that is over, and only of the node where it is held.
    fn newest(&self, id: &DeviceId) -> Option<(&ResourceSlice, &Device)> {
        let node = self.node_of_device(id);
        let having = self.slices.values().filter(|slice| slice.pool_id() == id.pool_id());
        let devices = having.filter_map(|slice| {
            Some((&**slice, slice.devices.iter().find(|device| device.name == id.device)?))
        });
        let counts = |slice: &ResourceSlice| {
            node.is_none() || node_of(slice).is_none() || node_of(slice).as_ref() == node
        };
        devices.filter(|(slice, _)| counts(slice)).min_by_key(|(slice, _)| {
            let node = node_of(slice);
            let is_elsewhere = node.as_ref().is_some_and(|node| *node != id.pool);
            (!self.is_shown(slice), is_elsewhere, node, -slice.pool.generation, slice.name.clone())
        })
    }

    /// The node where a device is held.
    fn node_of_device(&self, id: &DeviceId) -> Option<&Text> {
        let holding = self.claims.values().filter(|claim| results(claim).iter().any(|one| one.device == *id));
        let nodes = holding.filter_map(|claim| claim.allocation.as_ref()?.only_node());
        nodes.min_by_key(|node| (**node != id.pool, *node))
    }

    fn held_ids(&self) -> BTreeSet<DeviceId> {
        self.claims.values().flat_map(|claim| results(claim)).map(|result| result.device.clone()).collect()
    }

    fn remember(&mut self) {
        let held = self.held_ids();
        self.memory.retain(|id, _| held.contains(id));
        for id in held {
            if let Some(device) = self.newest(&id).map(|(_, device)| device.clone()) {
                self.memory.insert(id, device);
            } else if !self.memory.contains_key(&id)
                && let Some(device) = self.said_of(&id)
            {
                self.memory.insert(id, device);
            }
        }
    }

    /// The record of a device on a claim that holds it.
    fn said_of(&self, id: &DeviceId) -> Option<Device> {
        let holding = self.claims.values().filter(|claim| results(claim).iter().any(|one| one.device == *id));
        let said = holding.flat_map(|claim| &claim.last_published).find(|said| said.is_of(id));
        said.map(|said| said.device.clone())
    }

    fn known(&self, id: &DeviceId) -> Known<'_> {
        match (self.published(id), self.memory.get(id)) {
            (Some((slice, device)), _) => Known::Published(slice, device),
            (None, Some(device)) => Known::Remembered(device),
            (None, None) => Known::Unknown,
        }
    }

    // === Selection ===

    fn means(&self, selector: Option<&DeviceSelector>, id: &DeviceId, device: Option<&Device>) -> Answer {
        let Some(selector) = selector else { return Answer::No };
        if !selector.names_match(id) || self.problem(selector).is_some() {
            return Answer::No;
        }
        if selector.class.is_none() && selector.cel.is_empty() {
            return Answer::Yes;
        }
        let Some(device) = device else { return Answer::No };
        let class = selector.class.iter().flat_map(|class| &self.classes[class].selectors).flatten();
        for expression in class.chain(&selector.cel) {
            let plain = Plain::new(&id.driver, device);
            let Ok(program) = cel::compile(expression, &cel::Env::stored()) else { return Answer::No };
            match program.bind(&plain.names).matches(&plain) {
                cel::Outcome::Match => {}
                cel::Outcome::NoMatch => return Answer::No,
                cel::Outcome::Error(_) => return Answer::Failed,
            }
        }
        Answer::Yes
    }

    fn problem(&self, selector: &DeviceSelector) -> Option<String> {
        let bad = |text: &Text| cel::compile(text, &cel::Env::stored()).is_err();
        if let Some(at) = selector.cel.iter().position(bad) {
            return Some(format!("selector {at}"));
        }
        let class = selector.class.as_ref()?;
        let Some(state) = self.classes.get(class) else { return Some(format!("no class {class}")) };
        let at = state.selectors.iter().position(|s| s.as_ref().is_none_or(bad))?;
        Some(format!("class {class} selector {at}"))
    }

    /// The patches that mean a device, strongest first.
    fn patches_on(&self, id: &DeviceId, raw: Option<&Device>) -> Vec<&ResourceSlicePatch> {
        let means =
            |patch: &&ResourceSlicePatch| matches!(self.means(patch.selector.as_ref(), id, raw), Answer::Yes);
        let mut patches: Vec<_> = self.patches.values().map(|patch| &**patch).filter(means).collect();
        patches.sort_by_key(|patch| (-patch.patch.priority, patch.name.clone()));
        patches
    }

    fn patched(&self, id: &DeviceId, raw: &Device) -> Device {
        let mut device = raw.clone();
        for patch in self.patches_on(id, Some(raw)).into_iter().rev() {
            overlay(&mut device.attributes, &patch.patch.attributes, &id.driver);
            overlay(&mut device.capacity, &patch.patch.capacity, &id.driver);
        }
        device
    }

    // === Taints ===

    /// The taints of a device, given its slice (if any) and what is published of it (if anything).
    fn taints(
        &self,
        id: &DeviceId,
        slice: Option<&ResourceSlice>,
        raw: Option<&Device>,
        memory: bool,
    ) -> Vec<String> {
        let patches = self.patches_on(id, raw);
        let overridden = |taint: &Taint, patches: &[&ResourceSlicePatch]| {
            let mut others = patches.iter().flat_map(|patch| &patch.patch.taints);
            others.any(|other| other.key == taint.key && other.effect == taint.effect)
        };
        let mut all = Vec::new();
        if let (Some(slice), Some(raw)) = (slice, raw) {
            let own = (0..).zip(&raw.taints).filter(|(_, taint)| !overridden(taint, &patches));
            all.extend(
                own.map(|(index, taint): (u32, _)| say(taint, &format!("device in {} #{index}", slice.name))),
            );
            for other in self.slices.values().filter(|other| other.pool_id() == id.pool_id()) {
                let is_of_other = node_of(other).is_some() && node_of(other) != node_of(slice);
                let is_over = other.pool.generation != slice.pool.generation && !self.is_shown(other);
                if is_of_other || is_over {
                    continue;
                }
                for (index, entry) in other.taints.iter().enumerate() {
                    if entry.device == id.device && !overridden(&entry.taint, &patches) {
                        all.push(say(&entry.taint, &format!("slice {} #{index}", other.name)));
                    }
                }
            }
        }
        for (at, patch) in patches.iter().enumerate() {
            for (index, taint) in patch.patch.taints.iter().enumerate() {
                let repeated = patch.patch.taints[..index]
                    .iter()
                    .any(|t| t.key == taint.key && t.effect == taint.effect);
                if !repeated && !overridden(taint, &patches[..at]) {
                    all.push(say(taint, &format!("patch {} #{index}", patch.name)));
                }
            }
        }
        let patched = raw.map(|raw| self.patched(id, raw));
        for rule in self.rules.values() {
            if matches!(self.means(rule.selector.as_ref(), id, patched.as_ref()), Answer::Yes) {
                let by_attributes = rule.selector.as_ref().is_some_and(|s| !s.by_names_only());
                let memory = if memory && by_attributes { " (memory)" } else { "" };
                all.push(say(&rule.taint, &format!("rule {} {}{memory}", rule.name, rule.uid)));
            }
        }
        all
    }

    /// The effective taints of any device.
    #[must_use]
    pub fn effective_taints(&self, id: &DeviceId) -> Vec<String> {
        match self.known(id) {
            Known::Published(slice, device) => self.taints(id, Some(slice), Some(device), false),
            Known::Remembered(device) => self.taints(id, None, Some(device), true),
            Known::Unknown => self.taints(id, None, None, false),
        }
    }

    // === Views ===

    fn claim_seen(&self, claim: &ResourceClaim) -> ClaimSeen {
        let held = results(claim).iter().map(|result| {
            let word = match self.known(&result.device) {
                Known::Published(..) => "published",
                Known::Remembered(_) => "remembered",
                Known::Unknown => "unknown",
            };
            (result.device.clone(), word, self.effective_taints(&result.device))
        });
        let pods = self.pods.values().filter(|pod| self.claims_of(pod).contains(&claim.key));
        ClaimSeen {
            uid: claim.uid.clone(),
            pods: pods.map(|pod| pod.key.clone()).collect(),
            held: held.collect(),
        }
    }

    fn claims_of(&self, pod: &Pod) -> BTreeSet<ObjectKey> {
        let mut names: Vec<(&Text, bool, bool)> = Vec::new();
        for entry in &pod.claims {
            match &entry.source {
                ClaimSource::Claim(name) => names.push((name, false, false)),
                ClaimSource::Template { resolved: Some(Some(name)), .. } => names.push((name, true, true)),
                ClaimSource::Template { .. } | ClaimSource::Unknown => {}
            }
        }
        names.extend(pod.extended_claim.iter().map(|name| (name, true, false)));
        let mut used = BTreeSet::new();
        for (name, owned, by_group) in names {
            let key = ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() };
            let Some(claim) = self.claims.get(&key) else { continue };
            let group = |name: &Text| pod.group.as_ref() == Some(name);
            let mine = claim.owner.as_ref().is_some_and(|owner| {
                owner.uid == pod.uid
                    || by_group
                        && owner.group == *"scheduling.k8s.io"
                        && owner.kind == *"PodGroup"
                        && group(&owner.name)
            });
            let reserved = claim.reserved_for.iter().any(|consumer| {
                consumer.uid == pod.uid
                    || consumer.api_group == *"scheduling.k8s.io"
                        && consumer.resource == *"podgroups"
                        && group(&consumer.name)
            });
            if claim.allocation.is_some() && (mine || !owned) && reserved {
                used.insert(key);
            }
        }
        used
    }

    fn rule_seen(&self, rule: &DeviceTaintRule) -> RuleSeen {
        let mut seen = RuleSeen { published: BTreeSet::new(), held: BTreeSet::new(), problem: None };
        let mut failed: Vec<DeviceId> = Vec::new();
        let mut ask = |id: &DeviceId, raw: Option<&Device>| {
            let patched = raw.map(|raw| self.patched(id, raw));
            match self.means(rule.selector.as_ref(), id, patched.as_ref()) {
                Answer::No => false,
                Answer::Yes => true,
                Answer::Failed => {
                    failed.push(id.clone());
                    false
                }
            }
        };
        for slice in self.slices.values() {
            for device in &slice.devices {
                let id = DeviceId::new(slice.driver.clone(), slice.pool.name.clone(), device.name.clone());
                let speaks = self.published(&id).is_some_and(|(_, best)| core::ptr::eq(best, device));
                if ask(&id, Some(device)) && speaks {
                    seen.published.insert(id);
                }
            }
        }
        for id in self.held_ids() {
            let (selected, memory) = match self.known(&id) {
                Known::Published(..) => (seen.published.contains(&id), false),
                Known::Remembered(device) => (ask(&id, Some(device)), true),
                Known::Unknown => (ask(&id, None), false),
            };
            let from_memory = memory && rule.selector.as_ref().is_some_and(|s| !s.by_names_only());
            for claim in self.claims.values().filter(|_| selected) {
                let positions = results(claim).iter().enumerate().filter(|(_, result)| result.device == id);
                seen.held.extend(positions.map(|(at, _)| (claim.key.clone(), at, from_memory)));
            }
        }
        let by_itself = rule.selector.as_ref().and_then(|selector| self.problem(selector));
        let on_devices = || Some(format!("failed on {}, as {}", failed.len(), failed.iter().min()?));
        seen.problem = by_itself.or_else(on_devices);
        seen
    }

    fn pool_seen(&self, pool: &PoolId) -> PoolSeen {
        let numbers: BTreeSet<i64> = self.slices_of(pool).map(|slice| slice.pool.generation).collect();
        let generations = numbers.into_iter().rev().map(|number| {
            let members: Vec<_> =
                self.slices_of(pool).filter(|slice| slice.pool.generation == number).collect();
            (number, members.len(), members[0].pool.slice_count, invalid(&members))
        });
        let slices = self.slices_of(pool).map(|slice| {
            let devices = slice.devices.iter().map(|device| {
                let id = DeviceId::new(slice.driver.clone(), slice.pool.name.clone(), device.name.clone());
                self.device_seen(&id, slice, device)
            });
            (slice.name.clone(), slice.pool.generation, devices.collect())
        });
        PoolSeen { generations: generations.collect(), slices: slices.collect() }
    }

    fn device_seen(&self, id: &DeviceId, slice: &ResourceSlice, raw: &Device) -> DeviceSeen {
        let patched = self.patched(id, raw);
        let results: Vec<&DeviceResult> = self
            .claims
            .values()
            .flat_map(|claim| results(claim))
            .filter(|result| result.device == *id && !result.admin_access)
            .collect();
        let shares: Vec<_> = results.iter().filter(|result| result.share_id.is_some()).collect();
        let mut consumed: BTreeMap<Text, Quantity> = BTreeMap::new();
        for (key, amount) in shares.iter().flat_map(|result| &result.consumed_capacity) {
            let sum = consumed.entry(key.clone()).or_insert_with(Quantity::zero);
            *sum = sum.add(amount);
        }
        DeviceSeen {
            name: raw.name.clone(),
            attributes: patched.attributes,
            capacity: patched.capacity,
            taints: self.taints(id, Some(slice), Some(raw), false),
            in_use: results.iter().any(|result| result.share_id.is_none()),
            shares: u32::try_from(shares.len()).unwrap_or(u32::MAX),
            consumed: consumed.into_iter().map(|(key, amount)| (key, amount.to_string())).collect(),
        }
    }
}

fn invalid(slices: &[&ResourceSlice]) -> Option<String> {
    if let Some(slice) = slices.iter().find(|slice| slice.devices.len() > 128) {
        return Some(format!("slice {} has more than 128 devices", slice.name));
    }
    let mut seen = BTreeSet::new();
    for device in slices.iter().flat_map(|slice| &slice.devices) {
        if !seen.insert(&device.name) {
            return Some(format!("two devices are named {}", device.name));
        }
    }
    let mut sets = BTreeMap::new();
    for set in slices.iter().flat_map(|slice| &slice.shared_counters) {
        if sets.insert(&set.name, set).is_some() {
            return Some(format!("two counter sets are named {}", set.name));
        }
    }
    for device in slices.iter().flat_map(|slice| &slice.devices) {
        for consumed in &device.consumes_counters {
            let (name, set) = (&device.name, &consumed.counter_set);
            let Some(known) = sets.get(set) else {
                return Some(format!("device {name} draws from counter set {set}, which does not exist"));
            };
            for (counter, _) in &consumed.counters {
                if !known.counters.iter().any(|(other, _)| other == counter) {
                    return Some(format!(
                        "device {name} draws from counter {counter}, which counter set {set} lacks"
                    ));
                }
            }
        }
    }
    None
}

fn results(claim: &ResourceClaim) -> &[DeviceResult] {
    claim.allocation.as_ref().map_or(&[], |allocation| &allocation.results)
}

fn node_of(slice: &ResourceSlice) -> Option<Text> {
    if let NodeScope::Node(node) = &slice.nodes { Some(node.clone()) } else { None }
}

fn say(taint: &Taint, origin: &str) -> String {
    words(&taint.to_string(), taint.time_added.map(|at| at.as_millis()), origin)
}

fn overlay<T: Clone>(values: &mut Vec<(Text, T)>, patch: &[(Text, Option<T>)], driver: &str) {
    for (key, value) in patch {
        let name = QualifiedName::of_key(key, driver);
        let same = |other: &Text| QualifiedName::of_key(other, driver) == name;
        let as_published = values.iter().map(|(other, _)| other).find(|other| same(other)).cloned();
        values.retain(|(other, _)| !same(other));
        if let Some(value) = value {
            values.push((as_published.unwrap_or_else(|| key.clone()), value.clone()));
        }
    }
    values.sort_by(|a, b| a.0.cmp(&b.0));
}

/// A device for CEL, with names of its own.
struct Plain<'a> {
    driver: &'a str,
    names: AttrNames,
    attributes: BTreeMap<AttrId, &'a AttrValue>,
    capacity: BTreeMap<AttrId, &'a CapacityValue>,
    allow_multiple: bool,
}

impl<'a> Plain<'a> {
    fn new(driver: &'a str, device: &'a Device) -> Self {
        let mut names = AttrNames::default();
        // Where `x` and `driver/x` are both there, the latter counts: it comes last.
        let mut sorted: Vec<_> = device.attributes.iter().collect();
        sorted.sort_by_key(|(key, _)| key.contains('/'));
        let mut id = |key: &str| names.intern(&QualifiedName::of_key(key, driver));
        let attributes = sorted.into_iter().map(|(key, value)| (id(key), value)).collect();
        let mut sorted: Vec<_> = device.capacity.iter().collect();
        sorted.sort_by_key(|(key, _)| key.contains('/'));
        let capacity = sorted.into_iter().map(|(key, value)| (id(key), value)).collect();
        let allow_multiple = device.allow_multiple_allocations == Some(true);
        Self { driver, names, attributes, capacity, allow_multiple }
    }
}

impl cel::Device for Plain<'_> {
    fn driver(&self) -> &str {
        self.driver
    }

    fn attribute(&self, id: AttrId) -> Option<&AttrValue> {
        self.attributes.get(&id).copied()
    }

    fn capacity(&self, id: AttrId) -> Option<&Quantity> {
        self.capacity.get(&id).map(|capacity| &capacity.value)
    }

    fn allow_multiple_allocations(&self) -> bool {
        self.allow_multiple
    }

    fn attributes(&self, visit: &mut dyn FnMut(AttrId, &AttrValue)) {
        self.attributes.iter().for_each(|(id, value)| visit(*id, value));
    }

    fn capacities(&self, visit: &mut dyn FnMut(AttrId, &Quantity)) {
        self.capacity.iter().for_each(|(id, capacity)| visit(*id, &capacity.value));
    }

    fn names(&self) -> &AttrNames {
        &self.names
    }

    fn has_unsupported_value(&self) -> bool {
        self.attributes.values().any(|value| match value {
            AttrValue::Unsupported => true,
            AttrValue::Version(version) => version.parsed.is_none(),
            AttrValue::Versions(versions) => versions.iter().any(|version| version.parsed.is_none()),
            AttrValue::Int(_)
            | AttrValue::Bool(_)
            | AttrValue::String(_)
            | AttrValue::Ints(_)
            | AttrValue::Bools(_)
            | AttrValue::Strings(_) => false,
        })
    }
}
