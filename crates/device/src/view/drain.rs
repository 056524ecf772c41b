//! A drain as a state machine: devices are closed, then emptied one after the other, while it is told which pods are where.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_eviction::{Patience, patience};
use lazaret_model::{DeviceId, Effect, ObjectKey, PodPhase, Taint, Timestamp, Uid};

use super::{cluster::Cluster, rule::DRAIN_KEY, time::age};

/// What is to be done next.
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
    /// At most so many pods a second. `None`: as fast as the server evicts.
    pub pods_per_second: Option<u32>,
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

#[derive(Clone, Debug)]
struct User {
    key: ObjectKey,
    owner: Option<Uid>,
    devices: Vec<usize>,
    ends: bool,
    stays: bool,
}

/// A drain under way.
#[derive(Debug)]
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
    events: VecDeque<DrainEvent>,
    left: usize,
    replaced: usize,
    looked: bool,
}

impl Drain {
    /// A drain of so many devices.
    #[must_use]
    pub fn new(devices: usize, manner: Manner, now: Timestamp) -> Self {
        Self {
            stages: vec![Stage::Open; devices],
            manner,
            started: now,
            next_at: now.plus_millis(manner.grace_ms),
            users: BTreeMap::new(),
            old: BTreeSet::new(),
            unreplaced: BTreeMap::new(),
            events: VecDeque::new(),
            left: 0,
            replaced: 0,
            looked: false,
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
            self.left += 1;
            let after = age(self.started, now);
            self.events.push_back(DrainEvent::Left { pod: user.key.clone(), after });
            if let Some(owner) = user.owner {
                self.unreplaced.entry(owner).or_default().push_back(user.key);
            }
        }
        self.find_replacements(pods);
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
                self.replaced += 1;
                let node = pod.node.clone().unwrap_or_default();
                self.events.push_back(DrainEvent::Replaced { pod: lost, by: pod.key.clone(), node });
            }
        }
    }

    /// What is to be done now; to be asked until there is nothing.
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
        let leaving = self
            .users
            .values()
            .filter(|user| !user.stays && !user.ends && user.devices.contains(&at))
            .count();
        if let Some(pace) = self.manner.pods_per_second {
            let pods = i64::try_from(leaving).unwrap_or(i64::MAX);
            self.next_at = now.plus_millis(pods.saturating_mul(1000) / i64::from(pace.max(1)));
        }
        Some(Order::Empty(at))
    }

    /// What to tell; to be asked until there is nothing.
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

    /// What to do so that nobody more is made to leave.
    #[must_use]
    pub fn stop(&self) -> Vec<Order> {
        let emptying = self.stages.iter().enumerate().filter(|(_, stage)| **stage == Stage::Emptying);
        emptying
            .map(|(at, _)| at)
            .filter(|at| self.users.values().any(|user| !user.stays && user.devices.contains(at)))
            .map(Order::Relax)
            .collect()
    }

    /// How many devices are closed or being emptied, pods left, and pods were replaced.
    #[must_use]
    pub fn tally(&self) -> (usize, usize, usize) {
        (self.stages.iter().filter(|stage| **stage != Stage::Open).count(), self.left, self.replaced)
    }

    /// How far a device is.
    #[must_use]
    pub fn stage(&self, at: usize) -> Option<Stage> {
        self.stages.get(at).copied()
    }
}

/// The taint of a drain.
#[must_use]
pub fn drain_taint(effect: Effect, pods_per_second: Option<u32>) -> Taint {
    let evictions_per_second = pods_per_second.map(i64::from);
    Taint { key: DRAIN_KEY.into(), effect, evictions_per_second, ..Taint::default() }
}

/// All pods with devices, and which of `devices` each uses.
#[must_use]
pub fn pods_seen(cluster: &Cluster, devices: &[DeviceId]) -> Vec<PodSeen> {
    let fleet = &cluster.fleet;
    let taint = drain_taint(Effect::NoExecute, None);
    let mut pods: Vec<PodSeen> = Vec::new();
    for (ix, pod) in fleet.pods() {
        let finished = pod.phase.is_finished();
        let (mut used, mut stays) = (Vec::new(), true);
        for held in fleet.claims_of_pod(ix).flat_map(|claim| fleet.held(claim)) {
            let Some(at) = devices.iter().position(|device| device == held.device) else { continue };
            used.push(at);
            stays &= patience(&taint, &held.result_ref.tolerations) == Patience::Forever;
        }
        used.sort_unstable();
        used.dedup();
        pods.push(PodSeen {
            key: pod.key.clone(),
            uid: pod.uid.clone(),
            owner: pod.owner.as_ref().map(|owner| owner.uid.clone()),
            node: pod.node.as_ref().map(ToString::to_string),
            runs: pod.phase == PodPhase::Running,
            ends: pod.deleting_since.is_some(),
            stays,
            devices: if finished { Vec::new() } else { used },
        });
    }
    pods
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    fn pod(name: &str, devices: &[usize]) -> PodSeen {
        PodSeen {
            key: ObjectKey::new("ns", name),
            uid: name.into(),
            owner: Some("job".into()),
            node: Some("node-2".into()),
            runs: true,
            ends: false,
            stays: false,
            devices: devices.to_vec(),
        }
    }

    fn orders(drain: &mut Drain, now: Timestamp) -> Vec<Order> {
        std::iter::from_fn(|| drain.poll_order(now)).collect()
    }

    fn events(drain: &mut Drain) -> Vec<String> {
        std::iter::from_fn(|| drain.poll_event())
            .map(|event| match event {
                DrainEvent::Ends(pod) => format!("{pod} ends"),
                DrainEvent::Left { pod, after } => format!("{pod} left after {after}"),
                DrainEvent::Replaced { pod, by, node } => format!("{by} on {node} for {pod}"),
            })
            .collect()
    }

    #[test]
    fn all_devices_are_closed_before_any_is_emptied() {
        let mut drain = Drain::new(2, Manner { grace_ms: 30_000, pods_per_second: None }, at(0));
        drain.observe(at(0), &[pod("a", &[0]), pod("b", &[1])]);
        assert_eq!(orders(&mut drain, at(0)), [Order::Close(0), Order::Close(1)]);
        assert_eq!(drain.wake_at(), Some(at(30)));
        assert_eq!(orders(&mut drain, at(29)), []);
        assert_eq!(orders(&mut drain, at(30)), [Order::Empty(0), Order::Empty(1)]);
        assert!(!drain.is_done());
        drain.observe(at(40), &[]);
        assert_eq!(events(&mut drain), ["ns/a left after 40s", "ns/b left after 40s"]);
        assert!(drain.is_done());
    }

    #[test]
    fn a_pace_moves_devices_one_after_the_other() {
        let mut drain = Drain::new(3, Manner { grace_ms: 0, pods_per_second: Some(1) }, at(0));
        drain.observe(at(0), &[pod("a", &[0]), pod("b", &[0]), pod("c", &[1]), pod("d", &[2])]);
        let start = orders(&mut drain, at(0));
        assert_eq!(start, [Order::Close(0), Order::Close(1), Order::Close(2), Order::Empty(0)]);
        assert_eq!(drain.wake_at(), Some(at(2)));
        assert_eq!(orders(&mut drain, at(1)), []);
        assert_eq!(orders(&mut drain, at(2)), [Order::Empty(1)]);
        assert_eq!(orders(&mut drain, at(3)), [Order::Empty(2)]);
        assert_eq!(drain.wake_at(), None);
    }

    #[test]
    fn pods_are_told_of_once_and_only_new_ones_replace_them() {
        let mut drain = Drain::new(1, Manner::default(), at(0));
        drain.observe(at(0), &[pod("a", &[0]), pod("old", &[])]);
        let ending = PodSeen { ends: true, ..pod("a", &[0]) };
        drain.observe(at(1), &[ending.clone(), pod("old", &[])]);
        drain.observe(at(2), &[ending, pod("old", &[])]);
        assert_eq!(events(&mut drain), ["ns/a ends"]);
        let starting = PodSeen { runs: false, ..pod("new", &[]) };
        drain.observe(at(3), &[pod("old", &[]), starting]);
        assert_eq!(events(&mut drain), ["ns/a left after 3s"]);
        assert_eq!(drain.unreplaced(), 1);
        drain.observe(at(4), &[pod("old", &[]), pod("new", &[])]);
        drain.observe(at(5), &[pod("old", &[]), pod("new", &[]), pod("newer", &[])]);
        assert_eq!(events(&mut drain), ["ns/new on node-2 for ns/a"]);
        assert_eq!((drain.tally(), drain.unreplaced()), ((0, 1, 1), 0));
    }

    #[test]
    fn stopping_lets_pods_be_that_are_still_there() {
        let mut drain = Drain::new(3, Manner::default(), at(0));
        let stays = PodSeen { stays: true, ..pod("s", &[2]) };
        drain.observe(at(0), &[pod("a", &[0]), stays.clone()]);
        orders(&mut drain, at(0));
        assert_eq!(drain.stop(), [Order::Relax(0)]);
        assert_eq!(drain.waiting(), [&ObjectKey::new("ns", "a")]);
        drain.observe(at(1), &[stays]);
        assert!(drain.is_done());
        assert_eq!(drain.staying(), [&ObjectKey::new("ns", "s")]);
    }
}
