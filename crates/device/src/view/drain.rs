//! A drain as a state machine: devices are closed, then emptied one after the other, as pods move.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use lazaret_eviction::{Patience, patience};
use lazaret_model::{DeviceId, Effect, ObjectKey, PodPhase, Taint, Timestamp, Uid, human_duration};
use lazaret_print::count;

use super::{
    change::selector_of,
    cluster::Cluster,
    forecast::Planned,
    pace::Pace,
    plan::planned_rule,
    rule::{DRAIN_KEY, rule_name},
    time::age,
};

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
            users: BTreeMap::new(),
            old: BTreeSet::new(),
            unreplaced: BTreeMap::new(),
            paced: BTreeSet::new(),
            events: VecDeque::new(),
            left: Vec::new(),
            left_in_grace: 0,
            replaced: Vec::new(),
            pending: Vec::new(),
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

    /// How far it is, in a line; `unconfirmed` devices are not yet said to be idle by their rules, `blocked` keeps pods from being evicted, and
    /// the plan foretold the end for `expected`.
    #[must_use]
    pub fn progress(
        &self,
        now: Timestamp,
        unconfirmed: usize,
        blocked: &BTreeSet<String>,
        expected: Option<Timestamp>,
    ) -> String {
        let (all, emptying) = (self.stages.len(), self.emptying());
        let waiting = self.waiting().len();
        let (gone, pods) = (self.left.len(), count(self.left.len() + waiting, "pod"));
        let kept: Vec<&str> = blocked.iter().map(String::as_str).collect();
        let kept = if kept.is_empty() { String::new() } else { format!(", blocked: {}", kept.join(", ")) };
        let what = if emptying == 0 && now < self.next_at {
            format!(
                "grace period: pods are evicted in {}, {} of {} still in use, {gone} of {pods} gone{}{kept}",
                age(now, self.next_at),
                self.in_use(),
                count(all, "device"),
                expected_end(now, expected)
            )
        } else if emptying < all || waiting > 0 {
            let pace = self.pace_so_far(now, waiting).unwrap_or_else(|| expected_end(now, expected));
            format!("{emptying} of {} being emptied, {gone} of {pods} gone{pace}{kept}", count(all, "device"))
        } else if unconfirmed > 0 {
            format!("pods are gone, {unconfirmed} of {} not yet reported Drained", count(all, "device"))
        } else {
            format!(
                "devices are empty, {} of {} replaced, {} Pending",
                self.replaced.len(),
                count(self.replaced.len() + self.unreplaced(), "pod"),
                self.pending.len()
            )
        };
        format!("{} elapsed: {what}", age(self.started, now))
    }

    fn emptying(&self) -> usize {
        self.stages.iter().filter(|stage| **stage == Stage::Emptying).count()
    }

    /// How many pods have left a second since they are evicted, and when the last one will have at that pace; nothing before one has. Those
    /// that ended by themselves before say nothing about it.
    fn pace_so_far(&self, now: Timestamp, waiting: usize) -> Option<String> {
        let elapsed_ms = now.millis_since(self.started.plus_millis(self.manner.grace_ms));
        let gone = (self.left.len() - self.left_in_grace.min(self.left.len())) as u64;
        let (Ok(elapsed_ms), 1..) = (u64::try_from(elapsed_ms), gone) else { return None };
        let per_hour = gone.saturating_mul(3_600_000) / elapsed_ms.max(1);
        let left_ms = (waiting as u64).saturating_mul(elapsed_ms) / gone;
        let left = human_duration(i64::try_from(left_ms / 1_000).unwrap_or(i64::MAX));
        let tenths = per_hour / 360;
        let pace = if tenths > 0 {
            format!("{}.{} a second", tenths / 10, tenths % 10)
        } else {
            format!("{per_hour} an hour")
        };
        Some(format!(", {pace}, about {left} left"))
    }

    fn in_use(&self) -> usize {
        let devices: BTreeSet<usize> = self
            .users
            .values()
            .filter(|user| !user.stays)
            .flat_map(|user| user.devices.iter().copied())
            .collect();
        devices.len()
    }

    /// How far a device is.
    #[must_use]
    pub fn stage(&self, at: usize) -> Option<Stage> {
        self.stages.get(at).copied()
    }
}

/// How long it takes as far as the plan could tell.
fn expected_end(now: Timestamp, expected: Option<Timestamp>) -> String {
    let left = expected.map(|end| end.millis_since(now)).filter(|left| *left > 0);
    left.map_or_else(String::new, |left| format!(", about {} left", human_duration(left / 1_000)))
}

/// The rules that a drain would make, each when it would make pods leave: by the machine that drains.
#[must_use]
pub fn planned_drain(
    cluster: &Cluster,
    devices: &[DeviceId],
    manner: Manner,
    now: Timestamp,
    evictions_per_second: Option<i64>,
) -> Vec<Planned> {
    let mut drain = Drain::new(devices.len(), manner, now);
    drain.observe(now, &pods_seen(cluster, devices));
    let taint = drain_taint(Effect::NoExecute, evictions_per_second);
    let mut planned = Vec::new();
    let mut at = now;
    loop {
        while let Some(order) = drain.poll_order(at) {
            if let Order::Empty(place) = order {
                let selector = selector_of(&devices[place]);
                let name = rule_name(&selector, DRAIN_KEY, None);
                planned.push(planned_rule(&selector, name, &taint, at));
            }
        }
        match drain.wake_at() {
            Some(next) => at = next.max(at),
            None => return planned,
        }
    }
}

/// The taint of a drain.
#[must_use]
pub fn drain_taint(effect: Effect, evictions_per_second: Option<i64>) -> Taint {
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
            pending: (pod.phase == PodPhase::Pending).then(|| scheduler_message(pod)),
            ends: pod.deleting_since.is_some(),
            stays,
            devices: if finished { Vec::new() } else { used },
        });
    }
    pods
}

/// The message of the scheduler about a pod that it could not place.
fn scheduler_message(pod: &lazaret_model::Pod) -> String {
    let scheduled = pod.conditions.iter().find(|condition| condition.kind == "PodScheduled");
    scheduled.map_or_else(String::new, |condition| condition.message.to_string())
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
            pending: None,
            ends: false,
            stays: false,
            devices: devices.to_vec(),
        }
    }

    fn paced(pace: &str) -> Manner {
        Manner { grace_ms: 0, pace: Some(Pace::parse(pace).unwrap()) }
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
        let mut drain = Drain::new(2, Manner { grace_ms: 30_000, pace: None }, at(0));
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
        let mut drain = Drain::new(3, paced("1"), at(0));
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
    fn a_fraction_of_a_pod_a_second_is_a_pace_and_a_pod_on_two_devices_counts_once() {
        let mut drain = Drain::new(3, paced("0.5"), at(0));
        drain.observe(at(0), &[pod("a", &[0, 1]), pod("b", &[1]), pod("c", &[2])]);
        let empties = |drain: &mut Drain, now| {
            orders(drain, at(now)).iter().filter(|o| matches!(o, Order::Empty(_))).count()
        };
        assert_eq!([0, 1, 2, 3, 4].map(|now| empties(&mut drain, now)), [1, 0, 1, 0, 1]);
    }

    /// Whatever pods are where and however often the clock is looked at, no window has more pods told to go than the pace permits.
    #[test]
    fn a_drain_never_exceeds_its_pace() {
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let devices = usize::try_from(1 + next(6)).unwrap();
            let pace = Pace::parse(&format!("{}.{:03}", next(4), 1 + next(999))).unwrap();
            let mut drain = Drain::new(devices, Manner { grace_ms: 0, pace: Some(pace) }, at(0));
            let pods: Vec<PodSeen> = (0..next(8))
                .map(|number| pod(&format!("p{number}"), &[usize::try_from(next(6)).unwrap() % devices]))
                .collect();
            drain.observe(at(0), &pods);
            let (mut now, mut due) = (at(0), at(0));
            while drain.closed() < devices || drain.wake_at().is_some() {
                for order in orders(&mut drain, now) {
                    let Order::Empty(place) = order else { continue };
                    assert!(now >= due, "a device was emptied before the pods ahead of it had their time");
                    let leaving = pods.iter().filter(|pod| pod.devices.contains(&place)).count();
                    due = now.plus_millis(pace.millis_of(leaving));
                }
                now = now.plus_millis(i64::try_from(1 + next(900)).unwrap());
            }
        }
    }

    #[test]
    fn pods_are_told_of_once_and_only_new_ones_replace_them() {
        let mut drain = Drain::new(1, Manner::default(), at(0));
        drain.observe(at(0), &[pod("a", &[0]), pod("old", &[])]);
        let ending = PodSeen { ends: true, ..pod("a", &[0]) };
        drain.observe(at(1), &[ending.clone(), pod("old", &[])]);
        drain.observe(at(2), &[ending, pod("old", &[])]);
        assert_eq!(events(&mut drain), ["ns/a ends"]);
        let reason = "0/2 nodes are available";
        let starting = PodSeen { runs: false, pending: Some(reason.into()), ..pod("new", &[]) };
        drain.observe(at(3), &[pod("old", &[]), starting]);
        assert_eq!(events(&mut drain), ["ns/a left after 3s"]);
        assert_eq!(drain.unreplaced(), 1);
        assert_eq!(drain.pending(), [Waiting { pod: "ns/new".into(), reason: reason.into() }]);
        drain.observe(at(4), &[pod("old", &[]), pod("new", &[])]);
        drain.observe(at(5), &[pod("old", &[]), pod("new", &[]), pod("newer", &[])]);
        assert_eq!(events(&mut drain), ["ns/new on node-2 for ns/a"]);
        assert_eq!((drain.left().len(), drain.replaced().len(), drain.unreplaced()), (1, 1, 0));
        assert_eq!(drain.pending(), []);
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
