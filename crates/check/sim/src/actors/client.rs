//! A client of the server: watches that are behind, stall, repeat themselves and break, each kind on its own.

use lazaret_fleet::{Changes, Fleet, Input};
use lazaret_model::{
    DeviceSelector, DeviceTaintRule, EvictionMode, GroupMode, Impact, NodeScope, Pod, PodPhase,
    ResourceClaim, ResourceSlice,
};
use std::sync::Arc;

use crate::{
    actors::news::Gaps,
    api::{Api, Kind},
    check::Moved,
    coverage::Mark,
    mutant::Mutant,
    palette,
    population::Population,
    rng::Rng,
    view::{Listed, View},
    world::{CLIENTS, Step, World},
};

/// The state of one client, twice: in the fleet under test, and in plain maps for the reference.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) view: View,
    pub(crate) fleet: Fleet,
    /// The first lists of its watches, and the events that they missed since.
    pub(crate) gaps: Gaps,
    /// Not running.
    pub(crate) down: bool,
    rng: Rng,
    planned: [bool; Kind::ALL.len()],
    quiet_until: [u64; Kind::ALL.len()],
}

impl Client {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            view: View::default(),
            fleet: Fleet::new(),
            gaps: Gaps::default(),
            down: true,
            rng,
            planned: [false; Kind::ALL.len()],
            quiet_until: [0; Kind::ALL.len()],
        }
    }

    /// Runs, and knows what another knows.
    fn know(&mut self, other: &Self) {
        self.down = false;
        self.view = other.view.clone();
        self.fleet = other.fleet.clone();
        self.began();
    }

    /// From here on it watches.
    fn began(&mut self) {
        let began = Kind::ALL.map(|kind| self.view.position(kind));
        self.gaps = Gaps { began, missed: Vec::new() };
    }

    /// Dies: knows nothing any more.
    pub(crate) fn forget(&mut self) {
        self.down = true;
        self.view = View::default();
        self.fleet = Fleet::new();
        self.gaps = Gaps::default();
    }

    pub(crate) fn stall(&mut self, kind: Kind, until: u64) {
        self.quiet_until[kind as usize] = until;
    }

    /// Until when the watch of a kind says nothing.
    pub(crate) fn quiet_until(&self, kind: Kind) -> u64 {
        self.quiet_until[kind as usize]
    }

    pub(crate) fn unstall(&mut self) {
        self.quiet_until = [0; Kind::ALL.len()];
    }
}

/// Per mille of first lists that are answered from a cache: in small worlds, and in large ones, where a whole list costs most.
const CACHED_PERMILLE: [u64; 2] = [500, 950];
/// The longest that a watch is behind when faults have ended. Events are routine then: they are passed on in large parts.
const RESTING_LAG_MS: u32 = 2_000;
/// Changes that a controller gets at once, by turns.
const TOLD_AT_ONCE: [usize; 4] = [2, 8, 64, 256];

impl World {
    /// A client that starts now, and the changes that it would get first.
    pub(crate) fn newcomer(&mut self) -> (Client, Changes) {
        Kind::ALL.into_iter().for_each(|kind| self.list(0, kind));
        let changes = self.clients[0].fleet.take_changes();
        (self.clients[0].clone(), changes)
    }

    /// All clients start at once and get the same, unless a mutant makes a difference.
    pub(crate) fn start_clients(&mut self, population: &Population) {
        if self.mutant.is_some() {
            return (0..CLIENTS).for_each(|number| self.start_client(number));
        }
        for client in &mut self.clients {
            client.know(&population.client);
        }
        for number in 0..CLIENTS {
            self.watches.begin(number, &self.api);
            self.controller_heard(number, &population.changes);
        }
    }

    /// Lists everything, as a client that starts does. The server may answer from a cache, as old as the world, and
    /// tell at once what has changed since.
    pub(crate) fn start_client(&mut self, number: usize) {
        self.watches.begin(number, &self.api);
        let permille = CACHED_PERMILLE[usize::from(self.config.is_large())];
        let cached = self.clients[number].rng.chance(permille) && self.mutant.is_none();
        match self.population.clone().filter(|_| cached) {
            Some(population) => {
                self.coverage.hit(Mark::CachedList);
                self.clients[number].know(&population.client);
                self.controller_heard(number, &population.changes);
                Kind::ALL.into_iter().for_each(|kind| self.catch_up(number, kind));
            }
            None => {
                self.clients[number].down = false;
                Kind::ALL.into_iter().for_each(|kind| self.list(number, kind));
            }
        }
        self.clients[number].began();
        // No machine decides anything yet: the changes need not come in parts.
        let changes = self.clients[number].fleet.take_changes();
        self.controller_heard(number, &changes);
    }

    /// Hears what became of every object of a kind that has changed.
    fn catch_up(&mut self, number: usize, kind: Kind) {
        let client = &mut self.clients[number];
        for input in client.view.list(&self.api, kind, Listed::Changed) {
            client.fleet.apply(input);
        }
    }

    /// Lists one kind and hands it to the fleet.
    fn list(&mut self, number: usize, kind: Kind) {
        let client = &mut self.clients[number];
        let mut objects = client.view.list(&self.api, kind, Listed::Everything);
        if self.mutant.is_some() {
            objects = objects.into_iter().filter_map(|input| distort(self.mutant, input)).collect();
        }
        client.fleet.relist(fleet_kind(kind), objects);
    }

    /// The watch of a kind breaks: list again.
    pub(crate) fn relist(&mut self, number: usize, kind: Kind) {
        if self.clients[number].down {
            return;
        }
        self.coverage.hit(Mark::Relisted);
        if self.mutant == Some(Mutant::SkipRelist) {
            let client = &mut self.clients[number];
            let _lost = client.view.list(&self.api, kind, Listed::Everything);
            return;
        }
        if kind == Kind::Node {
            self.relist_objects(number);
            self.relist_reports(number);
        }
        let before = self.clients[number].view.position(kind);
        self.list(number, kind);
        let client = &mut self.clients[number];
        client.gaps.missed.push((kind, before, client.view.position(kind)));
        self.digest(number);
    }

    /// The last event of a kind comes once more.
    pub(crate) fn repeat_event(&mut self, number: usize, kind: Kind) {
        let client = &mut self.clients[number];
        if client.down {
            return;
        }
        let Some(input) = client.view.repeat(&self.api, kind) else { return };
        if let Some(input) = distort(self.mutant, input) {
            client.fleet.apply(input);
        }
        self.coverage.hit(Mark::Repeated);
        self.digest(number);
    }

    /// There is something to deliver: plans it, unless it is planned.
    pub(crate) fn plan_delivery(&mut self, number: usize, kind: Kind) {
        let lag = if self.resting { RESTING_LAG_MS } else { self.config.lag_ms };
        let client = &mut self.clients[number];
        // A client that is not running will list everything when it is.
        if client.down || core::mem::replace(&mut client.planned[kind as usize], true) {
            return;
        }
        let at = self.now + client.rng.below(u64::from(lag) + 1);
        self.push(at, Step::Deliver(number, kind));
    }

    /// A watch delivers what there is, or a part of it.
    pub(crate) fn deliver(&mut self, number: usize, kind: Kind) {
        let client = &mut self.clients[number];
        client.planned[kind as usize] = false;
        if client.down {
            return;
        }
        let quiet_until = client.quiet_until[kind as usize];
        if quiet_until > self.now {
            client.planned[kind as usize] = true;
            self.coverage.hit(Mark::Stalled);
            self.push(quiet_until, Step::Deliver(number, kind));
            return;
        }
        let mut left = if client.rng.chance(200) { client.rng.between(1, 8) } else { u64::MAX };
        while left > 0 {
            left -= 1;
            let Some(input) = client.view.next(&self.api, kind) else { break };
            if let Some(input) = distort(self.mutant, input) {
                client.fleet.apply(input);
            }
        }
        if self.clients[number].view.behind(&self.api, kind) {
            self.plan_delivery(number, kind);
        }
        let last = self.clients[number].view.position(kind).checked_sub(1);
        let pod = last.and_then(|last| subject(&self.api, kind, last));
        self.moved = Some(Moved { client: number, pod, devices: kind != Kind::Pod });
        self.digest(number);
    }

    /// The client thinks about what it heard.
    fn digest(&mut self, number: usize) {
        // In parts, so that decisions are made, and checked, while there is more to be told.
        let part = self.clients[number].rng.pick(&TOLD_AT_ONCE);
        loop {
            let changes = self.clients[number].fleet.take_some_changes(part);
            self.controller_heard(number, &changes);
            if !changes.partial {
                return;
            }
        }
    }
}

/// The number of the pod that the write at this place is about.
fn subject(api: &Api, kind: Kind, place: usize) -> Option<u32> {
    match kind {
        Kind::Pod => Some(api.pods.log()[place].number),
        Kind::Claim => {
            let claim = api.claims.log()[place].object.as_ref()?;
            api.pods.number_of(&claim.key.namespace, &claim.reserved_for.first()?.name)
        }
        Kind::Slice | Kind::Rule | Kind::Patch | Kind::Class | Kind::Node => None,
    }
}

/// The fleet's name for a kind.
pub(crate) fn fleet_kind(kind: Kind) -> lazaret_fleet::Kind {
    match kind {
        Kind::Slice => lazaret_fleet::Kind::Slice,
        Kind::Rule => lazaret_fleet::Kind::Rule,
        Kind::Patch => lazaret_fleet::Kind::Patch,
        Kind::Class => lazaret_fleet::Kind::Class,
        Kind::Claim => lazaret_fleet::Kind::Claim,
        Kind::Pod => lazaret_fleet::Kind::Pod,
        Kind::Node => lazaret_fleet::Kind::Node,
    }
}

/// The event as a mutant passes it on to the fleet; `None`: it is lost.
fn distort(mutant: Option<Mutant>, input: Input) -> Option<Input> {
    let Some(mutant) = mutant else { return Some(input) };
    Some(match (mutant, input) {
        (Mutant::IgnoreTolerations, Input::Claim(claim)) => Input::Claim(without_tolerations(&claim)),
        (Mutant::ForgetCancel, Input::RuleGone(_)) => return None,
        (Mutant::IgnorePace, Input::Rule(rule)) => {
            let mut rule = DeviceTaintRule::clone(&rule);
            rule.taint.evictions_per_second = Some(1_000_000);
            Input::Rule(Arc::new(rule))
        }
        (
            Mutant::IgnoreMode
            | Mutant::IgnoreDeadline
            | Mutant::IgnoreConcurrent
            | Mutant::IgnoreExpiry
            | Mutant::IgnoreGroups
            | Mutant::IgnoreWindows,
            Input::Rule(rule),
        ) => {
            let mut rule = DeviceTaintRule::clone(&rule);
            if let Some(spec) = &mut rule.taint.eviction {
                let spec = Arc::make_mut(spec);
                if mutant == Mutant::IgnoreMode {
                    spec.mode = EvictionMode::Delete;
                } else if mutant == Mutant::IgnoreDeadline {
                    spec.deadline_seconds = Some(0);
                } else if mutant == Mutant::IgnoreExpiry {
                    spec.expires_at = None;
                } else if mutant == Mutant::IgnoreWindows {
                    spec.windows.clear();
                } else if mutant == Mutant::IgnoreGroups {
                    spec.groups = GroupMode::Apart;
                } else {
                    spec.max_concurrent = None;
                }
            }
            Input::Rule(Arc::new(rule))
        }
        (Mutant::EndlessApproval, Input::Rule(rule)) if rule.review.is_some() => {
            let mut rule = DeviceTaintRule::clone(&rule);
            if let Some(approval) = rule.review.as_mut().and_then(|review| review.approval.as_mut()) {
                approval.seen =
                    Impact { pods: u64::MAX / 2, namespaces: u64::MAX / 2, devices: u64::MAX / 2 };
            }
            Input::Rule(Arc::new(rule))
        }
        (Mutant::ForgetInForce, Input::Rule(rule)) if rule.effective_since.is_some() => {
            Input::Rule(Arc::new(DeviceTaintRule { effective_since: None, ..DeviceTaintRule::clone(&rule) }))
        }
        (Mutant::NilSelectsAll, Input::Rule(rule)) if rule.selector.is_none() => {
            let mut rule = DeviceTaintRule::clone(&rule);
            rule.selector = Some(DeviceSelector::default());
            Input::Rule(Arc::new(rule))
        }
        (Mutant::IgnoreSay, Input::Pod(pod)) if pod.eviction_preference.is_some() => {
            Input::Pod(Arc::new(Pod { eviction_preference: None, ..Pod::clone(&pod) }))
        }
        (Mutant::SplitGroups, Input::Pod(pod)) if is_odd(&pod) => {
            Input::Pod(Arc::new(Pod { eviction_group: None, group: None, ..Pod::clone(&pod) }))
        }
        (Mutant::EvictTerminating, Input::Pod(pod)) if pod.deleting_since.is_some() => {
            Input::Pod(Arc::new(Pod { deleting_since: None, ..Pod::clone(&pod) }))
        }
        (Mutant::LosePods, Input::Pod(pod)) if pod.node.is_some() => {
            Input::Pod(Arc::new(Pod { node: None, ..Pod::clone(&pod) }))
        }
        (Mutant::EvictFinished, Input::Pod(pod)) if pod.phase.is_finished() => {
            Input::Pod(Arc::new(Pod { phase: PodPhase::Running, ..Pod::clone(&pod) }))
        }
        (Mutant::BelieveForgedSlices, Input::Slice(slice)) if palette::is_forged(&slice) => {
            let nodes = NodeScope::Node(slice.pool.name.clone());
            Input::Slice(Arc::new(ResourceSlice { nodes, ..ResourceSlice::clone(&slice) }))
        }
        (Mutant::NoTaintSlices, Input::Slice(slice)) if !slice.taints.is_empty() => {
            let mut slice = ResourceSlice::clone(&slice);
            slice.taints.clear();
            Input::Slice(Arc::new(slice))
        }
        (_, input) => input,
    })
}

fn is_odd(pod: &Pod) -> bool {
    pod.uid.bytes().fold(0_u8, u8::wrapping_add) % 2 == 1
}

fn without_tolerations(claim: &ResourceClaim) -> Arc<ResourceClaim> {
    let mut claim = claim.clone();
    if let Some(allocation) = &mut claim.allocation {
        let mut bare = lazaret_model::Allocation::clone(allocation);
        for result in &mut bare.results {
            result.tolerations.clear();
        }
        *allocation = Arc::new(bare);
    }
    Arc::new(claim)
}
