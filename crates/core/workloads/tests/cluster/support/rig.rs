//! Controllers over the model server, with or without faults, in virtual time.

use std::collections::{BTreeMap, VecDeque};

use lazaret_machine::Outcome;
use lazaret_model::Timestamp;
use lazaret_workloads::{Effect, Key, Object, Propagation, Resource, Rules, Workloads, resource};
use serde_json::{Value, json};

use super::api::{Api, key_of};

/// How things go wrong, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Watches stand still for a while.
    pub lag: u64,
    /// Watches break, and the kind is listed anew.
    pub relist: u64,
    /// Answers get lost, whether or not the write was done.
    pub unknown: u64,
    /// The server is too busy.
    pub busy: u64,
    /// Writes wait before they are carried out.
    pub slow: u64,
}

impl Faults {
    pub const NONE: Self = Self { lag: 0, relist: 0, unknown: 0, busy: 0, slow: 0 };
    pub const MANY: Self = Self { lag: 40, relist: 5, unknown: 10, busy: 10, slow: 40 };
}

/// A small generator: the same seed gives the same run.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// How pods behave after they are created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// They start, and stay.
    Run,
    /// They start and succeed.
    Succeed,
    /// They start and fail.
    Fail,
    /// They start; those of a job with an odd index fail, and the others succeed.
    FailIfOdd,
    /// They are never bound.
    Wait,
}

/// Controllers, a server, and pods that do something.
pub struct Rig {
    pub api: Api,
    pub now: Timestamp,
    pub core: Workloads,
    pub rng: Rng,
    faults: Faults,
    pub pods: Pods,
    /// How far each kind's watch has read the log.
    read: BTreeMap<&'static Resource, usize>,
    in_flight: VecDeque<Effect>,
    /// Looked at after every step.
    pub check: fn(&Rig),
    pub writes: usize,
}

impl Rig {
    pub fn new(rules: &[Rules], seed: u64, faults: Faults) -> Self {
        let mut rig = Self {
            api: Api::default(),
            now: Timestamp::from_secs(1_800_000_000),
            core: Workloads::new(rules),
            rng: Rng::new(seed),
            faults,
            pods: Pods::Run,
            read: BTreeMap::new(),
            in_flight: VecDeque::new(),
            check: |_| {},
            writes: 0,
        };
        for resource in resource::KNOWN.iter().copied() {
            rig.core.list(rig.now, resource, Vec::new(), 0);
            rig.read.insert(resource, 0);
        }
        rig
    }

    /// The controllers forget everything, as after a restart; answers to what was in flight never come.
    pub fn restart(&mut self, rules: &[Rules]) {
        self.core = Workloads::new(rules);
        while let Some(effect) = self.in_flight.pop_front() {
            if self.rng.percent(50) {
                self.api.carry_out(self.now, &effect.kind);
            }
        }
        for resource in resource::KNOWN.iter().copied() {
            self.relist(resource);
        }
    }

    pub fn create(&mut self, resource: &'static Resource, object: Value) -> Value {
        self.api.create(self.now, resource, object).unwrap()
    }

    pub fn delete(&mut self, resource: &'static Resource, name: &str, how: Propagation) {
        let namespace = if resource.namespaced { "default" } else { "" };
        self.api.delete(self.now, resource, &Key::new(namespace, name), how).unwrap();
    }

    pub fn object(&self, resource: &'static Resource, name: &str) -> &Value {
        let namespace = if resource.namespaced { "default" } else { "" };
        self.api.get(resource, namespace, name).unwrap_or(&Value::Null)
    }

    pub fn live_pods(&self) -> Vec<&Value> {
        self.api
            .all(&resource::PODS)
            .filter(|pod| {
                pod["metadata"]["deletionTimestamp"].is_null()
                    && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
            })
            .collect()
    }

    /// Runs until nothing happens any more, for at most `secs` seconds.
    pub fn settle(&mut self, secs: i64) {
        let end = self.now.plus_secs(secs);
        let mut quiet = 0;
        while self.now < end && quiet < 40 {
            let before = (self.api.revision, self.in_flight.len());
            self.step();
            let caught_up = self.read.values().all(|read| *read == self.api.log.len());
            let idle = before == (self.api.revision, 0) && self.in_flight.is_empty() && caught_up;
            let waking = self.core.next_wake().is_some_and(|at| at <= self.now.plus_millis(2_000));
            quiet = if idle && !waking { quiet + 1 } else { 0 };
            // Nothing happens before the controllers look again: no need to sit through it.
            if quiet == 20
                && let Some(at) = self.core.next_wake().filter(|at| *at < end)
            {
                self.now = at.max(self.now);
                quiet = 0;
            }
        }
    }

    /// Lets this time pass, step by step.
    pub fn pass(&mut self, secs: i64) {
        let end = self.now.plus_secs(secs);
        while self.now < end {
            self.step();
        }
    }

    /// A little time passes: watches tell, controllers decide, the server does, pods live.
    pub fn step(&mut self) {
        self.now = self.now.plus_millis(25 + i64::try_from(self.rng.below(50)).unwrap());
        for resource in resource::KNOWN.iter().copied() {
            if self.rng.percent(self.faults.lag) {
                continue;
            }
            if self.rng.percent(self.faults.relist) {
                self.relist(resource);
            } else {
                self.watch(resource);
            }
        }
        let effects = self.core.poll(self.now);
        self.writes += effects.len();
        self.in_flight.extend(effects);
        for _ in 0..self.in_flight.len() {
            let Some(effect) = self.in_flight.pop_front() else { break };
            if self.rng.percent(self.faults.slow) {
                self.in_flight.push_back(effect);
                continue;
            }
            self.carry_out(&effect);
            (self.check)(self);
        }
        self.live();
        (self.check)(self);
    }

    fn carry_out(&mut self, effect: &Effect) {
        let answer = if self.rng.percent(self.faults.busy) {
            Outcome::RetryLater.into()
        } else if self.rng.percent(self.faults.unknown) {
            if self.rng.percent(50) {
                self.api.carry_out(self.now, &effect.kind);
            }
            Outcome::Unknown.into()
        } else {
            self.api.carry_out(self.now, &effect.kind)
        };
        self.core.acknowledge(self.now, effect.id, answer);
    }

    fn watch(&mut self, resource: &'static Resource) {
        let mut at = self.read[resource];
        while at < self.api.log.len() {
            let logged = &self.api.log[at];
            if logged.resource == resource {
                let key = key_of(&logged.object);
                let uid = logged.object["metadata"]["uid"].as_str().unwrap();
                if logged.removed {
                    self.core.remove(self.now, resource, &key, uid);
                } else {
                    self.core.put(self.now, Object::parse(resource, &logged.object).unwrap());
                }
                if self.rng.percent(self.faults.lag / 4) {
                    at += 1;
                    break;
                }
            }
            at += 1;
        }
        self.read.insert(resource, at);
    }

    fn relist(&mut self, resource: &'static Resource) {
        let objects = self.api.all(resource).map(|object| Object::parse(resource, object).unwrap()).collect();
        self.core.list(self.now, resource, objects, self.api.revision);
        self.read.insert(resource, self.api.log.len());
    }

    /// Each pod takes a step, some of the time.
    fn live(&mut self) {
        let pods: Vec<Value> = self.api.all(&resource::PODS).cloned().collect();
        for pod in pods {
            if !self.rng.percent(30) {
                continue;
            }
            let key = key_of(&pod);
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                if pod["metadata"]["deletionGracePeriodSeconds"] != 0 {
                    self.api.stopped(&key);
                }
                continue;
            }
            let bound = pod["spec"]["nodeName"].is_string();
            let phase = pod["status"]["phase"].as_str().unwrap_or_default().to_owned();
            let (now, wish, node) = (self.now, self.pods, self.rng.below(3));
            self.api.change(&resource::PODS, &key.namespace, &key.name, |pod| {
                match (bound, phase.as_str(), wish) {
                    (_, _, Pods::Wait) => {}
                    (false, ..) => {
                        let named = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
                            ["nodeSelectorTerms"][0]["matchFields"][0]["values"][0];
                        let node = named.as_str().map_or_else(|| format!("node-{node}"), ToOwned::to_owned);
                        pod["spec"]["nodeName"] = json!(node);
                    }
                    (true, "Pending", _) => {
                        let number: u64 = pod["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                        let address = format!("10.1.{}.{}", number / 256 % 256, number % 256);
                        pod["status"] = json!({"phase": "Running", "podIPs": [{"ip": address}], "conditions": [
                            {"type": "Ready", "status": "True", "lastTransitionTime": super::api::stamp(now)},
                        ]});
                    }
                    (true, "Running", Pods::Succeed) => pod["status"] = json!({"phase": "Succeeded"}),
                    (true, "Running", Pods::Fail) => pod["status"] = json!({"phase": "Failed"}),
                    (true, "Running", Pods::FailIfOdd) => {
                        let index = &pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
                        let odd = index.as_str().and_then(|text| text.parse::<u32>().ok()).is_some_and(|index| index % 2 == 1);
                        pod["status"] = json!({"phase": if odd { "Failed" } else { "Succeeded" }});
                    }
                    (true, ..) => {}
                }
            });
        }
    }
}
