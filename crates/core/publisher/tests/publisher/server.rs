//! A server that keeps slices, and a publisher that is driven against it.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::{
    api::resource::v1::{Device, DeviceTaint, ResourceSlice},
    apimachinery::pkg::apis::meta::v1::Time,
};
use lazaret_machine::{Effect, Machine, Turn, Wake};
use lazaret_model::Timestamp;
use lazaret_publisher::{Answer, DEVICES_PER_SLICE_MAX, EffectKind, Pool, Problem, Publisher, Scope};

pub(crate) const DRIVER: &str = "gpu.example.com";
pub(crate) const NODE: &str = "node-1";

/// A publisher that leads.
pub(crate) fn leading(scope: Scope) -> Publisher {
    let mut publisher = Publisher::new(DRIVER, scope);
    publisher.handle(Timestamp::EPOCH, &(), Turn::BecameLeader);
    publisher
}

pub(crate) fn device(name: &str) -> Device {
    Device { name: name.into(), ..Device::default() }
}

pub(crate) fn devices(count: usize) -> Vec<Device> {
    (0..count).map(|number| device(&format!("gpu-{number}"))).collect()
}

pub(crate) fn taint(key: &str, value: &str) -> DeviceTaint {
    DeviceTaint {
        key: key.into(),
        value: Some(value.into()),
        effect: "NoSchedule".into(),
        ..DeviceTaint::default()
    }
}

pub(crate) fn pools(list: &[(&str, Vec<Device>)]) -> BTreeMap<String, Pool> {
    list.iter().map(|(name, devices)| ((*name).to_owned(), Pool::of(devices.clone()))).collect()
}

/// The server, the publisher, the time, and what was written.
pub(crate) struct World {
    pub(crate) now: Timestamp,
    pub(crate) slices: BTreeMap<String, ResourceSlice>,
    pub(crate) publisher: Publisher,
    /// The publisher's writes, in short.
    pub(crate) log: Vec<String>,
    pub(crate) problems: Vec<Problem>,
    /// Answers to give instead of doing anything.
    pub(crate) faults: VecDeque<Answer>,
    /// A server without the feature.
    pub(crate) drops_taints: bool,
    pub(crate) node_uid: String,
    pub(crate) revision: u64,
    names: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            now: Timestamp::from_secs(1_000),
            slices: BTreeMap::new(),
            publisher: leading(Scope::Node { name: NODE.into() }),
            log: Vec::new(),
            problems: Vec::new(),
            faults: VecDeque::new(),
            drops_taints: false,
            node_uid: "node-uid".into(),
            revision: 0,
            names: 0,
        }
    }

    /// A new process: it knows nothing.
    pub(crate) fn restart(&mut self) {
        self.publisher = leading(Scope::Node { name: NODE.into() });
        self.list();
    }

    pub(crate) fn list(&mut self) {
        let all = self.slices.values().cloned().collect();
        self.publisher.list(self.now, all, &self.revision.to_string());
    }

    pub(crate) fn want(&mut self, pools: BTreeMap<String, Pool>) {
        self.publisher.want(pools).unwrap();
    }

    /// Lets the publisher work until it waits for nothing but time. Writes are echoed by a watch, before the answer.
    pub(crate) fn settle(&mut self) -> Vec<String> {
        for _ in 0..10_000 {
            self.publisher.handle(self.now, &(), Turn::Tick);
            let Some(Effect { id, kind: effect }) = self.publisher.poll_effect() else {
                while let Some(problem) = self.publisher.poll_problem() {
                    self.problems.push(problem);
                }
                return std::mem::take(&mut self.log);
            };
            let answer = self.perform(effect);
            self.publisher.acknowledge(self.now, id, answer);
        }
        panic!("the publisher does not come to rest: {:?}", self.log);
    }

    /// The same, with time for all retries.
    pub(crate) fn settle_in_time(&mut self) -> Vec<String> {
        let mut log = self.settle();
        for _ in 0..1_000 {
            let Some(Wake { at, .. }) = self.publisher.next_wake() else { break };
            self.now = self.now.max(at);
            log.extend(self.settle());
        }
        assert!(self.publisher.is_settled(), "{:?}", self.publisher);
        log
    }

    fn perform(&mut self, effect: EffectKind) -> Answer {
        if let Some(fault) = self.faults.pop_front() {
            self.log.push(format!("failed {}", short(&effect)));
            return fault;
        }
        match effect {
            EffectKind::ReadOwner { .. } => return Answer::Owner(self.node_uid.clone()),
            EffectKind::Create(_) | EffectKind::Update(_) | EffectKind::Delete { .. } => {
                self.log.push(short(&effect))
            }
        }
        match effect {
            EffectKind::Create(mut slice) => {
                self.names += 1;
                let prefix = slice.metadata.generate_name.clone().unwrap();
                slice.metadata.name = Some(format!("{prefix}{:05}", self.names));
                slice.metadata.uid = Some(format!("uid-{}", self.names));
                self.store(*slice)
            }
            EffectKind::Update(slice) => {
                let before = self.slices.get(slice.metadata.name.as_ref().unwrap());
                let Some(before) = before else { return Answer::Gone };
                assert_eq!(before.metadata.uid, slice.metadata.uid);
                if before.metadata.resource_version != slice.metadata.resource_version {
                    return Answer::Conflict("the object has been modified".into());
                }
                self.store(*slice)
            }
            EffectKind::Delete { name, uid, resource_version } => {
                let Some(slice) = self.slices.get(&name) else { return Answer::Gone };
                if slice.metadata.uid != Some(uid)
                    || slice.metadata.resource_version != Some(resource_version)
                {
                    return Answer::Conflict("the precondition failed".into());
                }
                self.revision += 1;
                let slice = self.slices.remove(&name).unwrap();
                self.publisher.miss(self.now, &slice);
                Answer::Gone
            }
            EffectKind::ReadOwner { .. } => unreachable!(),
        }
    }

    pub(crate) fn store(&mut self, mut slice: ResourceSlice) -> Answer {
        let devices = slice.spec.devices.get_or_insert_default();
        assert!(devices.len() <= DEVICES_PER_SLICE_MAX);
        for device in devices {
            if self.drops_taints {
                device.taints = None;
            }
            for taint in device.taints.iter_mut().flatten().filter(|taint| taint.time_added.is_none()) {
                let now = k8s_openapi::jiff::Timestamp::from_second(self.now.as_secs()).unwrap();
                taint.time_added = Some(Time(now));
            }
        }
        self.revision += 1;
        slice.metadata.resource_version = Some(self.revision.to_string());
        self.slices.insert(slice.metadata.name.clone().unwrap(), slice.clone());
        self.publisher.see(self.now, slice.clone());
        Answer::Stored(Box::new(slice))
    }

    /// Another client changes a slice.
    pub(crate) fn edit(&mut self, index: usize, change: impl FnOnce(&mut ResourceSlice)) {
        let mut slice = self.slices.values().nth(index).unwrap().clone();
        change(&mut slice);
        self.store(slice);
    }

    /// Another client deletes a slice.
    pub(crate) fn delete(&mut self, index: usize) {
        let name = self.slices.keys().nth(index).unwrap().clone();
        self.revision += 1;
        let slice = self.slices.remove(&name).unwrap();
        self.publisher.miss(self.now, &slice);
    }

    /// The devices of a pool that consumers use: those of the newest generation, if all its slices are there.
    pub(crate) fn visible(&self, pool: &str) -> Option<Vec<Device>> {
        let all = || self.slices.values().filter(|slice| slice.spec.pool.name == pool);
        let newest = all().map(|slice| slice.spec.pool.generation).max()?;
        let current: Vec<_> = all().filter(|slice| slice.spec.pool.generation == newest).collect();
        let count = usize::try_from(current[0].spec.pool.resource_slice_count).unwrap();
        let devices = current.iter().flat_map(|slice| slice.spec.devices.clone().unwrap_or_default());
        (current.len() == count).then(|| devices.collect())
    }

    pub(crate) fn generations(&self) -> Vec<i64> {
        self.slices.values().map(|slice| slice.spec.pool.generation).collect()
    }
}

fn short(effect: &EffectKind) -> String {
    let index = |name: &str| name.split('-').next().unwrap_or_default().trim_start_matches('0').to_owned();
    match effect {
        EffectKind::Create(slice) => {
            let prefix = slice.metadata.generate_name.as_deref().unwrap();
            format!("create {}@{}", index(prefix), slice.spec.pool.generation)
        }
        EffectKind::Update(slice) => {
            format!(
                "update {}@{}",
                index(slice.metadata.name.as_deref().unwrap()),
                slice.spec.pool.generation
            )
        }
        EffectKind::Delete { name, .. } => format!("delete {}", index(name)),
        EffectKind::ReadOwner { .. } => "read owner".into(),
    }
}
