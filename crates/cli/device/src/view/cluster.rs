//! A cluster as it was read: its devices in the form of the cores, and facts that only people need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_api::{FieldError, Object, fields};
use lazaret_fleet::{Fleet, Gates, Input, Kind};
use lazaret_model::{Awaited, DisruptionGuard, ObjectKey, Timestamp};

use super::{gates::GateFacts, unprepare::awaiting, unread::Unread};

/// A cluster, as far as it was read.
#[derive(Debug, Default)]
pub struct Cluster {
    /// Devices, rules, claims, pods, with what is in force: what a feature gate turns off is not in it.
    pub fleet: Fleet,
    /// The same with what is turned off; absent where nothing is.
    everything: Option<Box<Fleet>>,
    /// Feature gates, as far as the server tells.
    pub gates: GateFacts,
    /// Gates that are off although objects have taints that need them.
    pub gates_missed: BTreeSet<&'static str>,
    /// Metadata of rules, by name.
    pub rules: BTreeMap<String, Meta>,
    /// Whether the condition `Drained` of a rule is true, by the rule's name; `None` where it has none.
    pub drained: BTreeMap<String, Option<bool>>,
    /// Facts of pods that claims do not have, for pods that use devices.
    pub pods: BTreeMap<ObjectKey, PodFacts>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Of the claims that nodes are asked to unprepare, those that are gone.
    pub(super) held: BTreeSet<ObjectKey>,
    /// Disruption budgets.
    pub budgets: BTreeMap<ObjectKey, Budget>,
    /// The guards, whose limits evictions must not exceed, as they were written. A forecast alone reads them.
    pub(super) guards: Vec<String>,
    /// Objects that could not be decoded. The fleet has the parts that could be read.
    pub unreadable: Vec<Unread>,
    /// The resources that this user may not see.
    pub hidden: Hidden,
}

/// Resources that this user may not see, in whole or in part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hidden {
    /// A device without a visible holder may have one.
    pub claims: bool,
    /// A device without a visible pod may have one.
    pub pods: bool,
}

fields! {
    /// Metadata of an object that the cores have no use for.
    #[derive(Clone)]
    pub struct Meta {
        /// The name.
        pub name: String = "name",
        /// The namespace.
        pub namespace: String = "namespace",
        /// The incarnation.
        pub uid: String = "uid",
        /// The version, for preconditions.
        pub resource_version: String = "resourceVersion",
        /// When it was made.
        pub creation_timestamp: Option<String> = "creationTimestamp",
        /// Labels.
        pub labels: BTreeMap<String, String> = "labels",
        /// Annotations.
        pub annotations: BTreeMap<String, String> = "annotations",
        /// The managers of its fields.
        pub managed_fields: Vec<Manager> = "managedFields",
    }

    /// A writer of an object.
    #[derive(Clone)]
    pub struct Manager {
        /// The name of the manager.
        pub manager: String = "manager",
        /// When it wrote last.
        pub time: Option<String> = "time",
        /// `status` where it wrote that alone.
        pub subresource: String = "subresource",
    }
}

/// A pod, besides what the cores know.
#[derive(Clone, Debug, Default)]
pub struct PodFacts {
    /// Labels: budgets select by them.
    pub labels: BTreeMap<String, String>,
    /// How long it may take to end.
    grace_seconds: Option<i64>,
}

/// A node, besides what the cores know.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// The claims that it is asked to unprepare.
    pub(super) awaiting: Vec<Awaited>,
}

const BUDGET: &str = "PodDisruptionBudget";
const GUARD: &str = "DisruptionGuard";
/// How long a pod may take to end that does not say.
const GRACE_SECONDS_DEFAULT: i64 = 30;

fields! {
    struct WithSpec {
        spec: PodSpec = "spec",
    }

    struct PodSpec {
        termination_grace_period_seconds: Option<i64> = "terminationGracePeriodSeconds",
    }

    /// A disruption budget.
    #[derive(Clone)]
    pub struct Budget {
        /// Where it is.
        pub metadata: Meta = "metadata",
        spec: BudgetSpec = "spec",
        status: BudgetStatus = "status",
    }

    #[derive(Clone)]
    struct BudgetSpec {
        selector: Option<LabelSelector> = "selector",
    }

    #[derive(Clone)]
    struct BudgetStatus {
        disruptions_allowed: i64 = "disruptionsAllowed",
    }

    #[derive(Clone)]
    struct LabelSelector {
        match_labels: BTreeMap<String, String> = "matchLabels",
        match_expressions: Vec<LabelRequirement> = "matchExpressions",
    }

    #[derive(Clone)]
    struct LabelRequirement {
        key: String = "key",
        operator: String = "operator",
        values: Vec<String> = "values",
    }

    struct Named {
        metadata: Option<Meta> = "metadata",
    }

    struct WithStatus {
        status: NodeStatus = "status",
    }

    struct RuleWithStatus {
        metadata: Generation = "metadata",
        status: RuleStatus = "status",
    }

    struct Generation {
        generation: i64 = "generation",
    }

    struct RuleStatus {
        conditions: Vec<RuleCondition> = "conditions",
    }

    struct RuleCondition {
        r#type: String = "type",
        status: String = "status",
        observed_generation: Option<i64> = "observedGeneration",
    }
}

/// Set by an eviction controller that says when no pod and no claim uses the devices of a rule any more.
const DRAINED_CONDITION: &str = "Drained";

/// Whether a rule's devices are idle; `None` where the controller does not say. A condition of an earlier spec does not count as yes.
fn drained(json: &str) -> Option<bool> {
    let rule: RuleWithStatus = serde_json::from_str(json).ok()?;
    let condition = rule.status.conditions.iter().find(|condition| condition.r#type == DRAINED_CONDITION)?;
    let current = condition.observed_generation.is_none_or(|seen| seen >= rule.metadata.generation);
    Some(current && condition.status == "True")
}

fields! {
    struct NodeStatus {
        conditions: Vec<NodeCondition> = "conditions",
    }

    struct NodeCondition {
        r#type: String = "type",
        status: String = "status",
    }
}

impl Cluster {
    /// A cluster of which nothing was read yet, with the gates of its server.
    #[must_use]
    pub fn with_gates(gates: GateFacts) -> Self {
        let of_fleet = gates.of_fleet();
        let everything = (of_fleet != Gates::default()).then(Box::default);
        Self { fleet: Fleet::with_gates(of_fleet), everything, gates, ..Self::default() }
    }

    /// Every rule and taint, in force or not.
    #[must_use]
    pub fn everything(&self) -> &Fleet {
        self.everything.as_deref().unwrap_or(&self.fleet)
    }

    /// The guards. One that cannot be read keeps every eviction from beginning, as it does in the cluster.
    pub(super) fn guards(&self) -> impl Iterator<Item = DisruptionGuard> {
        self.guards.iter().map(|json| {
            lazaret_api::read_guard(json).unwrap_or_else(|why| {
                lazaret_api::guard_that_stops_everything("unreadable".into(), &why.to_string())
            })
        })
    }

    fn apply(&mut self, input: Input) {
        if let Some(everything) = &mut self.everything {
            everything.apply(input.clone());
        }
        self.fleet.apply(input);
    }

    /// Takes in an object as it is now. One that cannot be decoded is noted, and what is known of it counts.
    pub fn set(&mut self, json: &str) {
        if let Some(object) = self.read(json) {
            self.take(object, json);
        }
    }

    /// Reads an object as far as it can be read; `None`: nothing, and the earlier version stays.
    fn read(&mut self, json: &str) -> Option<Object> {
        let error = match lazaret_api::decode_json(json) {
            Ok(object) => {
                self.no_longer_unreadable(json);
                return Some(object);
            }
            Err(error) => error,
        };
        let (unread, known) = Unread::of(json, &error);
        self.unreadable.retain(|other| (&other.kind, &other.name) != (&unread.kind, &unread.name));
        self.unreadable.push(unread);
        let (object, says_what_is_held) = known?;
        let said = input(object.clone())?;
        let keeps = !says_what_is_held && self.fleet.holds(said.kind(), &said.key());
        (!keeps).then_some(object)
    }

    fn no_longer_unreadable(&mut self, json: &str) {
        if self.unreadable.is_empty() {
            return;
        }
        let (this, _) = Unread::of(json, &FieldError { path: String::new(), message: String::new() });
        self.unreadable.retain(|other| (&other.kind, &other.name) != (&this.kind, &this.name));
    }

    /// Takes in that an object is gone.
    pub fn gone(&mut self, json: &str) {
        self.no_longer_unreadable(json);
        let read = lazaret_api::decode_json(json).ok();
        let Some(object) = read.or_else(|| Some(lazaret_api::what_is_known_of(json)?.object)) else { return };
        if matches!(&object, Object::Other(kind) if kind == BUDGET) {
            if let Some(meta) = meta(json) {
                self.budgets.remove(&meta.key());
            }
            return;
        }
        let Some(input) = input(object) else { return };
        let (kind, key) = (input.kind(), input.key());
        self.forget(kind, &key);
        self.apply(input.gone());
        if matches!(kind, Kind::Claim | Kind::Node) {
            self.hold_awaited();
        }
    }

    /// Forgets the facts of one object. Another object of the same name keeps its own.
    fn forget(&mut self, kind: Kind, key: &ObjectKey) {
        match kind {
            Kind::Rule => {
                self.rules.remove(key.name.as_str());
                self.drained.remove(key.name.as_str());
            }
            Kind::Pod => {
                self.pods.remove(key);
            }
            Kind::Node => {
                self.nodes.remove(key.name.as_str());
            }
            Kind::Slice | Kind::Patch | Kind::Class | Kind::Claim => {}
        }
    }

    /// Takes in all objects of a kind: what is not among them is gone.
    pub fn relist<'a>(&mut self, kind: &str, objects: impl Iterator<Item = &'a str>) {
        if kind == BUDGET {
            self.budgets.clear();
            objects.for_each(|json| self.set(json));
            return;
        }
        let Some(kind) = kind_of(kind) else { return };
        match kind {
            Kind::Rule => {
                self.rules.clear();
                self.drained.clear();
            }
            Kind::Pod => self.pods.clear(),
            Kind::Node => self.nodes.clear(),
            Kind::Slice | Kind::Patch | Kind::Class | Kind::Claim => {}
        }
        let (mut inputs, mut kept) = (Vec::new(), BTreeSet::new());
        for json in objects {
            match self.read(json) {
                Some(object) => {
                    self.take(object.clone(), json);
                    inputs.extend(input(object));
                }
                None => kept.extend(meta(json).map(|meta| meta.key())),
            }
        }
        if let Some(everything) = &mut self.everything {
            everything.relist_keeping(kind, inputs.clone(), &kept);
        }
        self.fleet.relist_keeping(kind, inputs, &kept);
        if matches!(kind, Kind::Claim | Kind::Node) {
            self.hold_awaited();
        }
    }

    fn take(&mut self, object: Object, json: &str) {
        self.gates_missed.extend(self.gates.stops_object(&object));
        let mut replaced = false;
        match &object {
            Object::Rule(rule) => {
                self.drained.insert(rule.name.to_string(), drained(json));
                if let Some(meta) = meta(json) {
                    self.rules.insert(rule.name.to_string(), meta);
                }
            }
            Object::Pod(pod) => {
                if pod.claims.is_empty() && pod.extended_claim.is_none() {
                    return;
                }
                if let Some(meta) = meta(json) {
                    let spec = serde_json::from_str::<WithSpec>(json).unwrap_or_default().spec;
                    let grace_seconds = spec.termination_grace_period_seconds;
                    self.pods.insert(pod.key.clone(), PodFacts { labels: meta.labels, grace_seconds });
                }
            }
            Object::Node(node) => {
                let status = serde_json::from_str::<WithStatus>(json).unwrap_or_default().status;
                let ready = status.conditions.iter().any(|c| c.r#type == "Ready" && c.status == "True");
                let facts = NodeFacts { ready, awaiting: awaiting(json) };
                let is_asked = !facts.awaiting.is_empty();
                let known = self.nodes.insert(node.name.to_string(), facts);
                if is_asked || known.is_some_and(|known| !known.awaiting.is_empty()) {
                    self.hold_awaited();
                }
            }
            Object::Other(kind) => {
                if kind == BUDGET
                    && let Ok(budget) = serde_json::from_str::<Budget>(json)
                {
                    self.budgets.insert(budget.metadata.key(), budget);
                }
                if kind == GUARD {
                    if let Err(error) = lazaret_api::read_guard(json) {
                        let (mut unread, _) = Unread::of(json, &error);
                        unread.kept = "every device and every pod: no eviction begins".to_owned();
                        self.unreadable.push(unread);
                    }
                    self.guards.push(json.to_owned());
                }
            }
            Object::Claim(claim) => replaced = self.held.remove(&claim.key),
            Object::Slice(_)
            | Object::Class(_)
            | Object::Template(_)
            | Object::Group(_)
            | Object::Patch(_) => {}
        }
        if let Some(input) = input(object) {
            self.apply(input);
        }
        if replaced {
            self.hold_awaited();
        }
    }

    /// How long a pod takes to end at most.
    #[must_use]
    pub fn grace_seconds(&self, pod: &ObjectKey) -> i64 {
        let said = self.pods.get(pod).and_then(|facts| facts.grace_seconds);
        said.unwrap_or(GRACE_SECONDS_DEFAULT).max(0)
    }

    /// The budgets that cover a pod, each with how many disruptions it still allows.
    pub fn budgets_of(&self, pod: &ObjectKey) -> Vec<(&str, i64)> {
        let Some(facts) = self.pods.get(pod) else { return Vec::new() };
        let covering = self.budgets.values().filter(|budget| {
            *pod.namespace == budget.metadata.namespace
                && budget.spec.selector.as_ref().is_some_and(|selector| selector.matches(&facts.labels))
        });
        covering.map(|budget| (budget.metadata.name.as_str(), budget.status.disruptions_allowed)).collect()
    }
}

impl Meta {
    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace.as_str(), self.name.as_str())
    }

    /// When it was made.
    #[must_use]
    pub fn created(&self) -> Option<Timestamp> {
        lazaret_api::parse_time(self.creation_timestamp.as_ref()?).ok()
    }

    /// The last who wrote its spec, by the name it gave itself.
    #[must_use]
    pub fn last_manager(&self) -> Option<&Manager> {
        self.managed_fields
            .iter()
            .filter(|manager| manager.subresource.is_empty())
            .max_by(|a, b| a.time.cmp(&b.time))
    }
}

impl LabelSelector {
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.match_labels.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels))
    }
}

impl LabelRequirement {
    fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        let listed = || value.is_some_and(|value| self.values.contains(value));
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            // An operator of a newer server: nobody can say, so nothing is claimed.
            _ => false,
        }
    }
}

fn meta(json: &str) -> Option<Meta> {
    serde_json::from_str::<Named>(json).ok().and_then(|named| named.metadata)
}

fn kind_of(name: &str) -> Option<Kind> {
    Some(match name {
        "ResourceSlice" => Kind::Slice,
        "DeviceTaintRule" => Kind::Rule,
        "ResourceSlicePatch" => Kind::Patch,
        "DeviceClass" => Kind::Class,
        "ResourceClaim" => Kind::Claim,
        "Pod" => Kind::Pod,
        "Node" => Kind::Node,
        _ => return None,
    })
}

fn input(object: Object) -> Option<Input> {
    Some(match object {
        Object::Slice(slice) => Input::Slice(Arc::new(slice)),
        Object::Class(class) => Input::Class(Arc::new(class)),
        Object::Claim(claim) => Input::Claim(Arc::new(claim)),
        Object::Rule(rule) => Input::Rule(Arc::new(rule)),
        Object::Patch(patch) => Input::Patch(Arc::new(patch)),
        Object::Pod(pod) => Input::Pod(Arc::new(pod)),
        Object::Node(node) => Input::Node(Arc::new(node)),
        Object::Template(_) | Object::Group(_) | Object::Other(_) => return None,
    })
}

#[cfg(test)]
mod tests;
