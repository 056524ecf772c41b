//! Replacement policies: an administrator writes them, and controllers hear of them, and of their statuses, a while later.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_machine::{LabelSelector, Labels};
use lazaret_model::{Effect, Node, ObjectKey, Operator, Requirement, Taint, Text, Uid};
use lazaret_replacement::{Policy, Record, Share, Spec, Status, Strategy, TaintOption};

use crate::{
    api::{PodMetadata, wall},
    coverage::Mark,
    palette,
    rng::Rng,
    world::{Step, World},
};

/// The stream of randomness that delays come from.
const POLICIES: u64 = 51;
/// The names of policies; each namespace may have one of each.
pub(crate) const NAMES: [&str; 2] = ["p", "q"];
/// The label that policies select by, and its values; the last is that of pods made when the world comes to rest.
const COMPONENT: &str = "component";
const COMPONENTS: [&str; 3] = ["web", "db", "idle"];
/// The label that names the fault domain of a node.
const ZONE: &str = "zone";
const ZONES: u32 = 3;

/// A taint that is away for longer is missed: watches are not that late, and no process is away for that long.
const MISSED_AFTER_MS: u64 = 30_000;

/// The policies, and the records of all that was begun for them.
#[derive(Debug)]
pub(crate) struct Replacements {
    pub(crate) policies: BTreeMap<ObjectKey, Arc<Policy>>,
    /// All writes, for watches.
    pub(crate) log: Vec<(ObjectKey, Option<Arc<Policy>>)>,
    /// How much of it the watch of each process has delivered.
    pub(crate) told: [usize; 2],
    /// By pod: the record of its replacement as it was decided last.
    pub(crate) records: BTreeMap<Uid, Record>,
    /// Taints without a time, by node and key.
    undated: BTreeMap<(Text, Text), Undated>,
    rng: Rng,
}

/// A taint that does not say when it was set.
#[derive(Debug)]
struct Undated {
    set_at: u64,
    removed_at: Option<u64>,
}

impl Replacements {
    /// When a taint without a time was set, by the controllers' lights: one that was away for a short time may not have been missed by any.
    pub(crate) fn set_at(&self, node: &Text, key: &Text) -> Option<u64> {
        self.undated.get(&(node.clone(), key.clone())).map(|taint| taint.set_at)
    }

    fn set(&mut self, node: Text, key: Text, now: u64) {
        let taint = self.undated.entry((node, key)).or_insert(Undated { set_at: now, removed_at: None });
        if taint.removed_at.take().is_some_and(|at| at + MISSED_AFTER_MS < now) {
            taint.set_at = now;
        }
    }

    fn remove(&mut self, node: Text, key: Text, now: u64) {
        if let Some(taint) = self.undated.get_mut(&(node, key)) {
            taint.removed_at = Some(now);
        }
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self {
            policies: BTreeMap::new(),
            log: Vec::new(),
            told: [0; 2],
            records: BTreeMap::new(),
            undated: BTreeMap::new(),
            rng: Rng::new(seed, POLICIES),
        }
    }

    /// The policies as they were when the log was as long as this.
    pub(crate) fn known(&self, length: usize) -> BTreeMap<&ObjectKey, &Arc<Policy>> {
        let mut known = BTreeMap::new();
        for (key, policy) in &self.log[..length] {
            match policy {
                Some(policy) => known.insert(key, policy),
                None => known.remove(key),
            };
        }
        known
    }
}

/// The spec of a policy by number.
fn spec(number: u32, durations: u32) -> Spec {
    let one_of = |choices: &[i64], by: u32| choices[by as usize % choices.len()];
    let components = if number.is_multiple_of(3) { &COMPONENTS[..2] } else { &COMPONENTS[..1] };
    let selected = Requirement {
        key: COMPONENT.into(),
        operator: Operator::In,
        values: components.iter().map(|component| Text::from(*component)).collect(),
    };
    let option = |key: &str, effect: Option<&str>, secs: i64| TaintOption {
        key: key.into(),
        value: None,
        effect: effect.map(Text::from),
        secs,
    };
    let first = one_of(&[0, 2, 5, 12], durations);
    let other = one_of(&[1, 4, 25, i64::MAX], durations / 4);
    let mut device_options = vec![option(palette::KEYS[0], None, first)];
    if (number / 3).is_multiple_of(2) {
        device_options.push(option(palette::KEYS[1], Some("NoSchedule"), other));
    }
    if !(number / 6).is_multiple_of(3) {
        device_options.push(option("*", None, one_of(&[3, 8], durations / 16)));
    }
    Spec {
        selector: LabelSelector { requirements: vec![selected] },
        enabled: !(number / 18).is_multiple_of(8),
        max_concurrent: 1 + number / 144 % 3,
        node_options: if (number / 432).is_multiple_of(3) {
            Vec::new()
        } else {
            vec![option("*", None, one_of(&[2, 6, 10], durations / 32))]
        },
        device_options,
        replacement_secs: one_of(&[0, 1, 4], durations / 96),
        failure_secs: 60,
        node_failures: false,
        fault_domain_key: (number / 1_296).is_multiple_of(2).then(|| ZONE.into()),
        max_domains_tainted: match number / 2_592 % 6 {
            0 => Some(Share::Count(1)),
            1 => Some(Share::Percent(50)),
            2 => Some(Share::Count(2)),
            _ => None,
        },
        strategy: if (number / 15_552).is_multiple_of(4) {
            Strategy::Recreate
        } else {
            Strategy::ReplaceFirst
        },
        ready_secs: one_of(&[15, 60], durations / 288),
    }
}

fn policy_key(number: u32) -> ObjectKey {
    let namespaces = palette::NAMESPACES.len();
    let name = NAMES[number as usize / namespaces % NAMES.len()];
    ObjectKey::new(palette::NAMESPACES[number as usize % namespaces], name)
}

/// A node as replacement sees it.
pub(crate) fn node_of(node: &Node) -> lazaret_replacement::Node {
    let number: u32 = node.name.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let labels = [(Text::from(ZONE), Text::from(format!("zone-{}", number % ZONES)))];
    let taints = node.taints.iter().map(|taint| lazaret_replacement::NodeTaint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.name().into(),
        time_added: taint.time_added,
    });
    lazaret_replacement::Node {
        name: node.name.clone(),
        labels: Arc::new(Labels::from(labels)),
        taints: taints.collect(),
        failing: None,
    }
}

impl World {
    /// A policy is written, made or not.
    pub(crate) fn write_replacement_policy(&mut self, number: u32, how: u32, durations: u32) {
        if self.config.replaced == 0 {
            return;
        }
        let key = policy_key(number);
        let before = self.replacements.policies.get(&key).cloned();
        let uid = before.as_ref().map_or_else(|| self.api.new_uid(), |before| before.uid.clone());
        let policy = Policy {
            key,
            uid,
            version: Text::default(),
            generation: before.as_ref().map_or(1, |before| before.generation + 1),
            deleting: false,
            spec: Ok(Arc::new(spec(how, durations))),
            status: before.map_or_else(|| Arc::new(Status::default()), |before| Arc::clone(&before.status)),
        };
        self.put_replacement_policy(policy);
    }

    pub(crate) fn delete_replacement_policy(&mut self, number: u32) {
        let key = policy_key(number);
        if self.replacements.policies.remove(&key).is_some() {
            self.replacements.log.push((key, None));
            self.tell_replacements();
        }
    }

    /// Gives the new version.
    pub(crate) fn put_replacement_policy(&mut self, policy: Policy) -> Text {
        let replacements = &mut self.replacements;
        let version = Text::from((replacements.log.len() + 1).to_string());
        let policy = Arc::new(Policy { version: version.clone(), ..policy });
        replacements.policies.insert(policy.key.clone(), Arc::clone(&policy));
        replacements.log.push((policy.key.clone(), Some(policy)));
        self.tell_replacements();
        version
    }

    fn tell_replacements(&mut self) {
        for number in 0..self.controllers.len() {
            let delay = self.replacements.rng.below(u64::from(self.config.lag_ms) + 1);
            self.push(self.now + delay, Step::DeliverReplacements(number));
        }
    }

    /// The watch of policies of a process delivers.
    pub(crate) fn deliver_replacements(&mut self, number: usize) {
        self.replacements.told[number] = self.replacements.log.len();
        self.replacers.told(number);
    }

    /// A node gets a taint that the scheduler does not mind, or loses it. Half of them say when they were set.
    pub(crate) fn taint_node(&mut self, number: u32, how: u32) {
        let name = palette::node(number % self.config.nodes);
        let Some(stored) = self.api.nodes.get(&name) else { return };
        let mut node = Node::clone(stored.object);
        let key = Text::from(palette::KEYS[how as usize % palette::KEYS.len()]);
        let before = node.taints.len();
        node.taints.retain(|taint| taint.key != key);
        if node.taints.len() < before {
            self.replacements.remove(name, key, self.now);
        } else {
            let is_dated = (how / 3).is_multiple_of(2);
            if !is_dated {
                self.replacements.set(name, key.clone(), self.now);
            }
            node.taints.push(Taint {
                key,
                effect: Effect::Unknown("PreferNoSchedule".into()),
                time_added: is_dated.then(|| wall(self.now).truncated_to_secs()),
                ..Taint::default()
            });
            self.coverage.hit(Mark::NodeTainted);
        }
        self.api.nodes.put(&mut self.api.versions, node);
    }

    /// The pods of the start get the label that policies select by.
    pub(crate) fn label_first_pods(&mut self) {
        if self.config.replaced == 0 {
            return;
        }
        let pods: Vec<(Uid, usize)> = self
            .api
            .pods
            .iter()
            .filter_map(|stored| {
                let number = self.api.pods.number(&stored.object.key)?;
                Some((stored.object.uid.clone(), self.workloads.number_of(number)?))
            })
            .collect();
        for (uid, workload) in pods {
            let mut metadata = self.api.pod_metadata(&uid).cloned().unwrap_or_default();
            self.label(&mut metadata, workload);
            self.api.change_metadata(&uid, 0, metadata);
        }
        self.watches.forget_pods();
    }

    /// The server labels a pod of a workload that is made, for policies to select by. One that is made when the world comes to rest is one of no
    /// policy: if it got a device with a taint that it tolerates, it would be replaced for ever.
    pub(crate) fn label(&self, metadata: &mut PodMetadata, workload: usize) {
        if self.config.replaced != 0 {
            let component = COMPONENTS[if self.resting { 2 } else { workload % 2 }];
            Arc::make_mut(&mut metadata.labels).insert(COMPONENT.into(), component.into());
        }
    }
}
