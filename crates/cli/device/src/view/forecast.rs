//! How an eviction would go: plays the machine that evicts in production over what was read, with rules that are not there yet and a clock of
//! its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use lazaret_allocator::Features;
use lazaret_eviction::{
    Capacity, CapacityAnswer, CapacityQuestion, Effect, EffectKind, Evict, Eviction, Input, LeavingPod,
    Manner, Options, Outcome,
};
use lazaret_fleet::{Fleet, Input as Object};
use lazaret_model::{DeviceId, DeviceTaintRule, ObjectKey, Pod, Text, Timestamp};

use super::cluster::Cluster;

/// Wake-ups in a row after which nobody left: whoever is left waits for something that is not in a forecast.
const IDLE_WAKES_MAX: usize = 2_000;
/// The machine has led for this long: longer than clocks are apart, so that new taints have their burst.
const LEADING_SECONDS: i64 = 3_600;
/// Nothing is foretold that is further away: 30 days.
const HORIZON_MS: i64 = 30 * 24 * 3_600_000;
/// Effects of one forecast: 512 rules and tens of thousands of pods.
const EFFECTS_MAX: usize = 200_000;

/// A rule that is not there yet, and when it comes.
#[derive(Clone, Debug)]
pub struct Planned {
    /// When it takes effect.
    pub at: Timestamp,
    /// The rule.
    pub rule: Arc<DeviceTaintRule>,
}

/// The forecast for the pods.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    /// When each pod would be evicted.
    pub evicted: BTreeMap<ObjectKey, Timestamp>,
    /// The reason and message that block pods at first.
    pub held: BTreeMap<ObjectKey, (&'static str, Text)>,
    /// The messages of the rules' condition `EvictionBlocked`.
    pub holds: Vec<String>,
    /// When the last pod would be gone, if all of them would.
    pub ends: Option<Timestamp>,
    /// The pods that would stay, and what keeps them.
    pub stuck: BTreeMap<ObjectKey, &'static str>,
}

/// Where the replacements of pods could go: a node, or why there is none. In this order, each after what the ones before it took.
#[must_use]
pub fn rooms(
    cluster: &Cluster,
    now: Timestamp,
    planned: &[Planned],
    pods: &[(ObjectKey, Vec<DeviceId>)],
) -> BTreeMap<ObjectKey, Result<Text, Text>> {
    let mut fleet = cluster.fleet.clone();
    for Planned { rule, .. } in planned {
        fleet.apply(Object::Rule(Arc::clone(rule)));
    }
    let mut capacity = Capacity::new(Features::default());
    let mut found = BTreeMap::new();
    for (key, devices) in pods {
        let Some(pod) = fleet.pod_ix(key).and_then(|at| fleet.pod(at)) else { continue };
        let leaving = LeavingPod { pod: key.clone(), uid: pod.uid.clone(), devices: devices.clone() };
        let question = CapacityQuestion { pods: vec![leaving] };
        let room = match capacity.ask(now, &mut fleet, &question) {
            CapacityAnswer::Room(promised) => {
                Ok(promised.into_iter().next().map(|one| one.node).unwrap_or_default())
            }
            CapacityAnswer::NoRoom(why) => Err(why),
            CapacityAnswer::Gone => continue,
        };
        found.insert(key.clone(), room);
    }
    found
}

/// Plays the eviction that these rules bring about, until all pods that they hit are gone or nobody else leaves.
#[must_use]
pub fn forecast(
    cluster: &Cluster,
    now: Timestamp,
    planned: &[Planned],
    pods: &BTreeSet<ObjectKey>,
    options: Options,
) -> Forecast {
    let mut play = Play {
        cluster,
        fleet: cluster.fleet.clone(),
        rooms: cluster.fleet.clone(),
        capacity: Capacity::new(Features::default()),
        machine: Eviction::new(options),
        now,
        coming: planned.to_vec(),
        leaving: BTreeMap::new(),
        budgets: BTreeMap::new(),
        effects: 0,
        forecast: Forecast::default(),
    };
    play.coming.sort_by_key(|planned| core::cmp::Reverse(planned.at));
    play.begin();
    let names: Vec<Text> = planned.iter().map(|planned| planned.rule.name.clone()).collect();
    play.note_holds(pods, &names);
    play.go_on(pods);
    play.end(pods)
}

struct Play<'a> {
    cluster: &'a Cluster,
    fleet: Fleet,
    /// The same, for questions about room, which change it for a moment.
    rooms: Fleet,
    capacity: Capacity,
    machine: Eviction,
    now: Timestamp,
    /// Rules that are still to come, the next one last.
    coming: Vec<Planned>,
    /// When pods that are terminating are gone.
    leaving: BTreeMap<(Timestamp, ObjectKey), ()>,
    /// Disruptions that budgets allow, less those that pods have used.
    budgets: BTreeMap<(Text, String), i64>,
    effects: usize,
    forecast: Forecast,
}

impl Play<'_> {
    fn hear(&mut self, input: Input<'_>) {
        self.machine.handle(self.now, &self.fleet, input);
    }

    fn tell(&mut self) {
        let changes = self.fleet.take_changes();
        self.machine.handle(self.now, &self.fleet, Input::Changed(&changes));
    }

    fn apply(&mut self, object: Object) {
        self.rooms.apply(object.clone());
        self.fleet.apply(object);
    }

    fn begin(&mut self) {
        let guards: BTreeMap<Text, _> =
            self.cluster.guards().map(|guard| (guard.name.clone(), Arc::new(guard))).collect();
        let guards: Vec<_> = guards.into_values().collect();
        let now = self.now;
        self.now = now.plus_secs(-LEADING_SECONDS);
        self.hear(Input::Guards(&guards));
        self.hear(Input::BecameLeader);
        self.now = now;
        self.tell();
        self.bring_rules();
        self.work();
    }

    /// Rules whose time has come are there.
    fn bring_rules(&mut self) {
        let mut changed = false;
        while let Some(Planned { rule, .. }) = self.coming.pop_if(|planned| planned.at <= self.now) {
            self.apply(Object::Rule(rule));
            changed = true;
        }
        if changed {
            self.tell();
        }
    }

    fn note_holds(&mut self, pods: &BTreeSet<ObjectKey>, rules: &[Text]) {
        for (pod, why, message) in self.machine.kept().filter(|(pod, ..)| pods.contains(*pod)) {
            self.forecast.held.insert(pod.clone(), (why.name(), message.clone()));
        }
        let said: BTreeSet<String> = rules.iter().filter_map(|rule| self.machine.what_blocks(rule)).collect();
        self.forecast.holds = said.into_iter().collect();
    }

    fn go_on(&mut self, pods: &BTreeSet<ObjectKey>) {
        let end = self.now.plus_millis(HORIZON_MS);
        let mut idle = 0;
        while idle < IDLE_WAKES_MAX && self.effects < EFFECTS_MAX {
            if pods.iter().all(|pod| self.forecast.evicted.contains_key(pod)) && self.leaving.is_empty() {
                return;
            }
            let before = self.forecast.evicted.len() + self.leaving.len() + self.coming.len();
            let wake = self.machine.next_wake().map(|wake| wake.at);
            let gone = self.leaving.first_key_value().map(|((at, _), ())| *at);
            let rule = self.coming.last().map(|planned| planned.at);
            let Some(next) = [wake, gone, rule].into_iter().flatten().min().filter(|at| *at <= end) else {
                return;
            };
            self.now = self.now.max(next);
            self.bring_rules();
            self.remove_pods();
            self.hear(Input::Tick);
            self.work();
            let after = self.forecast.evicted.len() + self.leaving.len() + self.coming.len();
            idle = if before == after { idle + 1 } else { 0 };
        }
    }

    fn remove_pods(&mut self) {
        let mut changed = false;
        while let Some(((at, pod), ())) = self.leaving.pop_first() {
            if at > self.now {
                self.leaving.insert((at, pod), ());
                break;
            }
            self.apply(Object::PodGone(pod));
            changed = true;
        }
        if changed {
            self.tell();
        }
    }

    fn work(&mut self) {
        loop {
            if let Some(view) = self.machine.poll_view() {
                self.hear(Input::ViewReached(view.number));
                continue;
            }
            let Some(Effect { id, kind }) = self.machine.poll_effect() else { return };
            self.effects += 1;
            let input = match kind {
                EffectKind::Evict(evict) => match self.refused(&evict) {
                    Some(why) => Input::Held { effect: id, why },
                    None => {
                        self.evict(&evict);
                        Input::Acknowledged { effect: id, outcome: Outcome::Done }
                    }
                },
                EffectKind::AskCapacity(question) => {
                    match self.capacity.ask(self.now, &mut self.rooms, &question) {
                        CapacityAnswer::Room(_) => Input::Acknowledged { effect: id, outcome: Outcome::Done },
                        CapacityAnswer::NoRoom(why) => Input::Held { effect: id, why },
                        CapacityAnswer::Gone => {
                            Input::Acknowledged { effect: id, outcome: Outcome::RetryLater }
                        }
                    }
                }
                EffectKind::SetRuleStatus(_)
                | EffectKind::SetLastPublished(_)
                | EffectKind::SetGuardStatus(_) => Input::Acknowledged { effect: id, outcome: Outcome::Done },
                EffectKind::Event(_) | EffectKind::RuleEvent(_) | EffectKind::GuardEvent(_) => continue,
            };
            self.hear(input);
            self.tell();
            if self.effects >= EFFECTS_MAX {
                return;
            }
        }
    }

    /// Why the eviction API would refuse.
    fn refused(&self, evict: &Evict) -> Option<Text> {
        if evict.manner != Manner::Evict {
            return None;
        }
        let budgets = self.cluster.budgets_of(&evict.pod);
        let spent = |name: &str| {
            self.budgets.get(&(evict.pod.namespace.clone(), name.to_owned())).copied().unwrap_or(0)
        };
        let (name, allowed) = budgets.into_iter().find(|(name, allowed)| *allowed <= spent(name))?;
        Some(format!("disruption budget {name} allows {allowed} more").into())
    }

    fn evict(&mut self, evict: &Evict) {
        for (name, _) in self.cluster.budgets_of(&evict.pod) {
            *self.budgets.entry((evict.pod.namespace.clone(), name.to_owned())).or_insert(0) += 1;
        }
        self.forecast.evicted.entry(evict.pod.clone()).or_insert(self.now);
        let Some(pod) = self.fleet.pod_ix(&evict.pod).and_then(|at| self.fleet.pod(at)) else { return };
        let mut pod = Pod::clone(pod);
        pod.deleting_since = Some(self.now);
        pod.conditions.push(evict.condition());
        pod.evicted_by = Some(Box::new(evict.mark()));
        let gone = self.now.plus_secs(self.cluster.grace_seconds(&evict.pod));
        self.leaving.insert((gone, pod.key.clone()), ());
        self.forecast.ends = self.forecast.ends.max(Some(gone));
        self.apply(Object::Pod(Arc::new(pod)));
    }

    fn end(mut self, pods: &BTreeSet<ObjectKey>) -> Forecast {
        let kept: BTreeMap<&ObjectKey, &'static str> =
            self.machine.kept().map(|(pod, why, _)| (pod, why.name())).collect();
        for pod in pods.iter().filter(|pod| !self.forecast.evicted.contains_key(*pod)) {
            self.forecast.stuck.insert(pod.clone(), kept.get(pod).copied().unwrap_or("Waiting"));
        }
        if !self.forecast.stuck.is_empty() {
            self.forecast.ends = None;
        }
        self.forecast
    }
}
