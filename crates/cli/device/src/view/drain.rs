//! A drain as a state machine: devices are closed, then emptied one after the other, as pods move.

mod progress;
mod seen;
#[cfg(test)]
mod tests;

pub use seen::{drain_taint, planned_drain, pods_seen, waits_of_drain};

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_model::{ObjectKey, Timestamp, Uid};

use super::{pace::Pace, time::age};

/// The next action of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Keep new pods away from the device at this place.
    Close(usize),
    /// Make the pods on it leave.
    Empty(usize),
    /// Let the pods on it be, and keep it closed.
    Relax(usize),
}

/// How far a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing was done yet.
    Open,
    /// New pods are kept away.
    Closed,
    /// Pods are made to leave.
    Emptying,
}

/// How a drain goes about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Between keeping new pods away and making pods leave, so that what is nearly done can end.
    pub grace_ms: i64,
    /// How many pods leave all devices together. `None`: as fast as the server evicts.
    pub pace: Option<Pace>,
}

/// A pod as it was last seen.
#[derive(Clone, Debug)]
pub struct PodSeen {
    /// Where it is.
    pub key: ObjectKey,
    /// Which incarnation.
    pub uid: Uid,
    /// The incarnation of what controls it.
    pub owner: Option<Uid>,
    /// On which node.
    pub node: Option<String>,
    /// Its containers run.
    pub runs: bool,
    /// It has not started yet: what the scheduler says about it, may be empty.
    pub pending: Option<String>,
    /// It was told to end.
    pub ends: bool,
    /// It stays whatever the taint says.
    pub stays: bool,
    /// Places of the drained devices that it uses.
    pub devices: Vec<usize>,
}

/// Something worth a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrainEvent {
    /// A pod was told to end.
    Ends(ObjectKey),
    /// A pod is gone, or does not use the devices any more.
    Left {
        /// Which pod.
        pod: ObjectKey,
        /// How long the drain had run.
        after: String,
    },
    /// Another pod of the same owner runs.
    Replaced {
        /// The pod that left.
        pod: ObjectKey,
        /// The pod that runs.
        by: ObjectKey,
        /// Where.
        node: String,
    },
}

/// A pod that was made in place of another and does not run yet.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Waiting {
    /// Which pod, `namespace/name`.
    pub pod: String,
    /// Why, in the scheduler's words; empty where it said nothing.
    pub reason: String,
}

/// A pod that runs in place of another.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Replacement {
    /// The pod that left, `namespace/name`.
    pub pod: String,
    /// The pod that runs.
    pub by: String,
    /// Where.
    pub node: String,
}

#[derive(Clone, Debug)]
struct User {
    key: ObjectKey,
    owner: Option<Uid>,
    devices: Vec<usize>,
    ends: bool,
    stays: bool,
}

/// A drain in progress.
#[derive(Debug, Default)]
pub struct Drain {
    stages: Vec<Stage>,
    manner: Manner,
    started: Timestamp,
    /// When the next device may be emptied.
    next_at: Timestamp,
    users: BTreeMap<Uid, User>,
    /// Pods that were there when it began: they replace nobody.
    old: BTreeSet<Uid>,
    /// Pods that left, by owner, until another runs in their place.
    unreplaced: BTreeMap<Uid, VecDeque<ObjectKey>>,
    /// Pods that count for the pace already: a pod on two devices counts once.
    paced: BTreeSet<Uid>,
    events: VecDeque<DrainEvent>,
    left: Vec<ObjectKey>,
    /// How many of them had left by themselves when pods began to be evicted.
    left_in_grace: usize,
    replaced: Vec<Replacement>,
    pending: Vec<Waiting>,
    looked: bool,
}

impl Drain {
    /// A drain of this number of devices.
    #[must_use]
    pub fn new(devices: usize, manner: Manner, now: Timestamp) -> Self {
        Self {
            stages: vec![Stage::Open; devices],
            manner,
            started: now,
            next_at: now.plus_millis(manner.grace_ms),
            ..Self::default()
        }
    }

    /// Takes in all pods as they are now.
    pub fn observe(&mut self, now: Timestamp, pods: &[PodSeen]) {
        let first = !std::mem::replace(&mut self.looked, true);
        for pod in pods {
            if first {
                self.old.insert(pod.uid.clone());
            }
            if !pod.devices.is_empty() {
                self.uses(pod);
            }
        }
        let using: BTreeSet<&Uid> =
            pods.iter().filter(|pod| !pod.devices.is_empty()).map(|pod| &pod.uid).collect();
        let gone: Vec<Uid> = self.users.keys().filter(|uid| !using.contains(uid)).cloned().collect();
        for uid in gone {
            let Some(user) = self.users.remove(&uid) else { continue };
            self.left.push(user.key.clone());
            let after = age(self.started, now);
            self.events.push_back(DrainEvent::Left { pod: user.key.clone(), after });
            if let Some(owner) = user.owner {
                self.unreplaced.entry(owner).or_default().push_back(user.key);
            }
        }
        if self.emptying() == 0 {
            self.left_in_grace = self.left.len();
        }
        self.find_replacements(pods);
        self.pending = self.find_pending(pods);
    }

    fn uses(&mut self, pod: &PodSeen) {
        let user = self.users.entry(pod.uid.clone()).or_insert_with(|| User {
            key: pod.key.clone(),
            owner: pod.owner.clone(),
            devices: Vec::new(),
            ends: false,
            stays: false,
        });
        user.devices.clone_from(&pod.devices);
        user.stays = pod.stays;
        if pod.ends && !std::mem::replace(&mut user.ends, true) {
            self.events.push_back(DrainEvent::Ends(pod.key.clone()));
        }
    }

    fn find_replacements(&mut self, pods: &[PodSeen]) {
        for pod in pods.iter().filter(|pod| pod.runs && !pod.ends && pod.devices.is_empty()) {
            let Some(owner) = &pod.owner else { continue };
            if self.old.contains(&pod.uid) {
                continue;
            }
            if let Some(lost) = self.unreplaced.get_mut(owner).and_then(VecDeque::pop_front) {
                self.old.insert(pod.uid.clone());
                let node = pod.node.clone().unwrap_or_default();
                self.replaced.push(Replacement {
                    pod: lost.to_string(),
                    by: pod.key.to_string(),
                    node: node.clone(),
                });
                self.events.push_back(DrainEvent::Replaced { pod: lost, by: pod.key.clone(), node });
            }
        }
    }

    /// New pods of owners that still lack one.
    fn find_pending(&self, pods: &[PodSeen]) -> Vec<Waiting> {
        let lacks = |owner: &Uid| self.unreplaced.get(owner).is_some_and(|lost| !lost.is_empty());
        let new = pods.iter().filter(|pod| !pod.ends && !self.old.contains(&pod.uid));
        let mut waiting: Vec<Waiting> = new
            .filter(|pod| pod.owner.as_ref().is_some_and(lacks))
            .filter_map(|pod| Some(Waiting { pod: pod.key.to_string(), reason: pod.pending.clone()? }))
            .collect();
        waiting.sort_by(|a, b| a.pod.cmp(&b.pod));
        waiting
    }

    /// The next action now; to be called until there is none.
    pub fn poll_order(&mut self, now: Timestamp) -> Option<Order> {
        if let Some(at) = self.stages.iter().position(|stage| *stage == Stage::Open) {
            self.stages[at] = Stage::Closed;
            return Some(Order::Close(at));
        }
        if now < self.next_at {
            return None;
        }
        let at = self.stages.iter().position(|stage| *stage == Stage::Closed)?;
        self.stages[at] = Stage::Emptying;
        let leaving: Vec<Uid> = self
            .users
            .iter()
            .filter(|(uid, user)| {
                !user.stays && !user.ends && user.devices.contains(&at) && !self.paced.contains(*uid)
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        if let Some(pace) = self.manner.pace {
            self.next_at = now.plus_millis(pace.millis_of(leaving.len()));
        }
        self.paced.extend(leaving);
        Some(Order::Empty(at))
    }

    /// The next event for the user; to be called until there is none.
    pub fn poll_event(&mut self) -> Option<DrainEvent> {
        self.events.pop_front()
    }

    /// When there will be an order again, if nothing is seen before.
    #[must_use]
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.stages.contains(&Stage::Closed).then_some(self.next_at)
    }

    /// Whether all devices are empty but for pods that stay.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.stages.iter().all(|stage| *stage == Stage::Emptying) && self.waiting().is_empty()
    }

    /// Pods that still have to leave, by name.
    #[must_use]
    pub fn waiting(&self) -> Vec<&ObjectKey> {
        let mut keys: Vec<&ObjectKey> =
            self.users.values().filter(|user| !user.stays).map(|user| &user.key).collect();
        keys.sort();
        keys
    }

    /// Pods that stay on the devices because they tolerate the taint for ever.
    #[must_use]
    pub fn staying(&self) -> Vec<&ObjectKey> {
        self.users.values().filter(|user| user.stays).map(|user| &user.key).collect()
    }

    /// How many pods that left have an owner and nothing that runs in their place yet.
    #[must_use]
    pub fn unreplaced(&self) -> usize {
        self.unreplaced.values().map(VecDeque::len).sum()
    }

    /// The actions after which no further pod is evicted.
    #[must_use]
    pub fn stop(&self) -> Vec<Order> {
        let emptying = self.stages.iter().enumerate().filter(|(_, stage)| **stage == Stage::Emptying);
        emptying
            .map(|(at, _)| at)
            .filter(|at| self.users.values().any(|user| !user.stays && user.devices.contains(at)))
            .map(Order::Relax)
            .collect()
    }

    /// How many devices are closed or being emptied.
    #[must_use]
    pub fn closed(&self) -> usize {
        self.stages.iter().filter(|stage| **stage != Stage::Open).count()
    }

    /// Pods that left, in this order.
    #[must_use]
    pub fn left(&self) -> &[ObjectKey] {
        &self.left
    }

    /// Pods that run in place of others, in this order.
    #[must_use]
    pub fn replaced(&self) -> &[Replacement] {
        &self.replaced
    }

    /// Pods that were made in place of others and do not run yet, by name.
    #[must_use]
    pub fn pending(&self) -> &[Waiting] {
        &self.pending
    }

    /// Whether pods that stay use the device at this place.
    #[must_use]
    pub fn is_kept(&self, at: usize) -> bool {
        self.users.values().any(|user| user.stays && user.devices.contains(&at))
    }

    fn emptying(&self) -> usize {
        self.stages.iter().filter(|stage| **stage == Stage::Emptying).count()
    }

    /// How far a device is.
    #[must_use]
    pub fn stage(&self, at: usize) -> Option<Stage> {
        self.stages.get(at).copied()
    }
}
