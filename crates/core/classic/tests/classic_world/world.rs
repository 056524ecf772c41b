//! The world: processes, their requests on the way, people, kubelets, time.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_classic::{
    AllocationMode, ClaimSpec, Pod, PodClaim, PodClaimSource, Reference, ResourceClaim, ResourceClass, Step,
    Template, claim_name,
};
use lazaret_machine::{EffectId, Outcome, Turn};
use lazaret_model::{ObjectKey, Text, Timestamp, Uid};

use super::{
    dice::Dice,
    machines::{Core, Process, Request},
    mutant::Mutant,
    server::Server,
    vendor::Vendor,
};

/// Lines of a trace.
const TRACE_MAX: usize = 20_000;
/// Pods at a time.
const PODS_MAX: usize = 6;

/// An effect on its way.
pub(crate) struct Flight {
    pub(crate) process: usize,
    pub(crate) effect: EffectId,
    pub(crate) request: Request,
    /// Of a change: which step is next, and the version that it is meant for.
    pub(crate) step: usize,
    pub(crate) version: Option<Text>,
}

/// A write whose sender does not wait any more, and that still arrives.
pub(crate) struct LateWrite {
    pub(crate) process: usize,
    pub(crate) claim: ObjectKey,
    pub(crate) uid: Uid,
    pub(crate) version: Text,
    pub(crate) step: Step,
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) dice: Dice,
    pub(crate) now: i64,
    pub(crate) processes: Vec<Process>,
    pub(crate) vendors: Vec<Vendor>,
    pub(crate) flights: VecDeque<Flight>,
    pub(crate) late_writes: Vec<LateWrite>,
    /// Nodes that everything but claims permits for a pod; `None` while it is not to be scheduled.
    pub(crate) permitted: BTreeMap<Uid, Option<Arc<[Text]>>>,
    pub(crate) classes: Vec<(ResourceClass, AllocationMode)>,
    pub(crate) nodes: Vec<Text>,
    /// Claims that are prepared, and where.
    pub(crate) prepared: BTreeSet<(Text, Uid)>,
    pub(crate) mutant: Option<Mutant>,
    pub(crate) faults: bool,
    pub(crate) violation: Option<String>,
    /// How often each event of interest happened.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    pub(crate) trace: VecDeque<String>,
    traced: bool,
    names: u64,
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

impl World {
    pub(crate) fn new(seed: u64, mutant: Option<Mutant>, traced: bool) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5eed);
        let nodes: Vec<Text> = (0..2 + dice.roll(3)).map(|node| format!("node-{node}").into()).collect();
        let mut server =
            Server { ignores_versions: mutant == Some(Mutant::IgnoreVersions), ..Server::default() };
        nodes.iter().for_each(|node| server.put_node(node));
        let mut vendors = Vec::new();
        let mut classes = Vec::new();
        for number in 0..1 + dice.roll(2) {
            let name: Text = format!("driver-{number}.example.com").into();
            let fabric = dice.one_in(2);
            vendors.push(Vendor {
                name: name.clone(),
                fabric,
                devices: 1 + dice.roll(if fabric { 4 } else { 2 }),
                held: BTreeMap::new(),
                nodes: nodes.clone(),
                user_limit: [0, 1, 2, 3, -1][dice.roll(5)],
                leaks: mutant == Some(Mutant::Leak),
            });
            for mode in [AllocationMode::Delayed, AllocationMode::Delayed, AllocationMode::Immediate] {
                let class = ResourceClass {
                    name: format!("class-{}", classes.len()).into(),
                    driver_name: name.clone(),
                    parameters: "{}".into(),
                };
                server.put_class(class.clone());
                classes.push((class, mode));
            }
        }
        let mut world = Self {
            server,
            dice,
            now: 1_000_000,
            processes: Vec::new(),
            vendors,
            flights: VecDeque::new(),
            late_writes: Vec::new(),
            permitted: BTreeMap::new(),
            classes,
            nodes,
            prepared: BTreeSet::new(),
            mutant,
            faults: true,
            violation: None,
            seen: BTreeMap::new(),
            trace: VecDeque::new(),
            traced,
            names: 0,
        };
        let drivers =
            world.vendors.iter().enumerate().map(|(number, vendor)| Core::driver(number, &vendor.name));
        let cores: Vec<Core> =
            [Core::Claims(Box::default()), Core::scheduler()].into_iter().chain(drivers).collect();
        for core in cores {
            world.processes.push(Process { core, heard: Default::default() });
            world.start(world.processes.len() - 1);
        }
        world
    }

    pub(crate) fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if self.traced {
            if self.trace.len() >= TRACE_MAX {
                self.trace.pop_front();
            }
            let line = line();
            self.trace.push_back(format!("{:>9} {line}", self.now - 1_000_000));
        }
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.note(|| format!("VIOLATION {what}"));
        self.violation.get_or_insert(what);
    }

    /// A process that was just started hears everything and leads.
    fn start(&mut self, which: usize) {
        let now = self.at();
        for news in self.server.list() {
            if let Some(news) = self.seen(which, news, true) {
                self.processes[which].core.tell(now, news);
            }
        }
        self.processes[which].heard = core::array::from_fn(|kind| self.server.log[kind].len());
        self.processes[which].core.turn(now, Turn::BecameLeader);
        self.tell_candidates();
        self.poll(which);
    }

    /// A process ends, or loses its lease and gets it back. Its requests arrive late or never; its calls of vendors end with it.
    pub(crate) fn restart(&mut self, which: usize) {
        self.note(|| format!("restart of {which}"));
        let mut left = VecDeque::new();
        for flight in std::mem::take(&mut self.flights) {
            if flight.process == which {
                self.count("a process restarted with a request in flight");
                self.strand(flight);
            } else {
                left.push_back(flight);
            }
        }
        self.flights = left;
        if matches!(self.processes[which].core, Core::Scheduler(_)) {
            // Its lease outlasts its requests.
            for at in (0..self.late_writes.len()).rev() {
                if self.late_writes[at].process == which {
                    let late_write = self.late_writes.swap_remove(at);
                    if self.dice.one_in(2) {
                        self.arrive(late_write);
                    }
                }
            }
        }
        let now = self.at();
        if self.dice.one_in(3) {
            self.processes[which].core.turn(now, Turn::LostLeadership);
            self.hear_all(which);
            self.processes[which].core.turn(now, Turn::BecameLeader);
            self.poll(which);
        } else {
            let name = match &self.processes[which].core {
                Core::Driver(number, _) => self.vendors[*number].name.clone(),
                Core::Claims(_) | Core::Scheduler(_) => Text::default(),
            };
            self.processes[which].core = self.processes[which].core.fresh(&name);
            self.start(which);
        }
    }

    pub(crate) fn hear_all(&mut self, which: usize) {
        for kind in 0..self.server.log.len() {
            while self.hear(which, kind) {}
        }
    }

    /// A process hears the next news of a kind.
    pub(crate) fn hear(&mut self, which: usize, kind: usize) -> bool {
        let now = self.at();
        let Some(news) = self.server.log[kind].get(self.processes[which].heard[kind]).cloned() else {
            return false;
        };
        self.processes[which].heard[kind] += 1;
        if let Some(news) = self.seen(which, news, false) {
            self.processes[which].core.tell(now, news);
        }
        if kind == 0 {
            self.tell_candidates();
        }
        self.poll(which);
        true
    }

    pub(crate) fn tell_candidates(&mut self) {
        let now = self.at();
        let pods: Vec<_> = self.server.pods.values().filter(|pod| pod.is_unplaced()).cloned().collect();
        let Some(which) = self.processes.iter().position(|one| matches!(one.core, Core::Scheduler(_))) else {
            return;
        };
        for pod in pods {
            let nodes = self.permitted.get(&pod.uid).cloned().flatten();
            self.processes[which].core.candidates(now, &pod.key, &pod.uid, nodes);
        }
        self.poll(which);
    }

    pub(crate) fn poll(&mut self, which: usize) {
        while let Some((effect, request)) = self.processes[which].core.poll() {
            let name = self.processes[which].core.name();
            self.note(|| format!("{name} sends {} {}", effect.0, brief(&request)));
            self.flights.push_back(Flight { process: which, effect, request, step: 0, version: None });
        }
    }

    pub(crate) fn acknowledge(&mut self, flight: &Flight, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Unknown if self.mutant == Some(Mutant::UnknownIsDone) => Outcome::Done,
            other => other,
        };
        self.note(|| format!("answer {} {outcome:?}", flight.effect.0));
        let now = self.at();
        self.processes[flight.process].core.turn(now, Turn::Acknowledged(flight.effect, outcome.into()));
        self.poll(flight.process);
    }

    pub(crate) fn tick(&mut self, which: usize) {
        if self.mutant == Some(Mutant::LostWake) {
            return;
        }
        let now = self.at();
        self.processes[which].core.turn(now, Turn::Tick);
        self.poll(which);
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn spec(&mut self) -> Arc<ClaimSpec> {
        let which = self.dice.roll(self.classes.len());
        let (class, mode) = &self.classes[which];
        Arc::new(ClaimSpec { class_name: class.name.clone(), parameters: "{}".into(), mode: *mode })
    }

    /// A person makes a pod with one to three claims, some of which others use too.
    pub(crate) fn create_pod(&mut self) {
        if self.server.pods.len() >= PODS_MAX {
            return;
        }
        let name = if self.dice.one_in(6) { "again".into() } else { self.name("p") };
        if self.server.pods.contains_key(&key(&name)) {
            return;
        }
        let shared: Vec<Text> =
            ["shared-a", "shared-b"].into_iter().filter(|_| self.dice.one_in(4)).map(Text::from).collect();
        let mut claims: Vec<PodClaim> = (0..1 + self.dice.roll(2))
            .map(|entry| {
                let template = Template { spec: self.spec(), ..Template::default() };
                let source = Some(PodClaimSource::Template(Arc::new(template)));
                PodClaim { name: format!("e{entry}").into(), source }
            })
            .collect();
        if !shared.is_empty() && self.dice.one_in(2) {
            claims.clear();
        }
        let named = |name: Text| PodClaim { name: name.clone(), source: Some(PodClaimSource::Named(name)) };
        claims.extend(shared.into_iter().map(named));
        let uid = self.server.uid();
        let mut nodes: Vec<Text> = self.nodes.clone();
        if self.dice.one_in(3) {
            nodes.remove(self.dice.roll(nodes.len()));
        }
        self.permitted.insert(uid.clone(), Some(nodes.into()));
        if self.dice.one_in(12) {
            self.create_claim(&claim_name(&name, "e0"), None);
        }
        self.note(|| format!("pod {name} {claims:?}"));
        self.server.put_pod(Pod { key: key(&name), uid, claims, ..Pod::default() });
    }

    /// A pod with as many claims of a class.
    pub(crate) fn create_pod_of_class(&mut self, name: &str, class: usize, claims: usize) {
        let (class, mode) = &self.classes[class];
        let spec = ClaimSpec { class_name: class.name.clone(), parameters: "{}".into(), mode: *mode };
        let template = Arc::new(Template { spec: Arc::new(spec), ..Template::default() });
        let claim = |entry: usize| PodClaim {
            name: format!("e{entry}").into(),
            source: Some(PodClaimSource::Template(template.clone())),
        };
        let claims = (0..claims).map(claim).collect();
        let uid = self.server.uid();
        self.permitted.insert(uid.clone(), Some(self.nodes.clone().into()));
        self.server.put_pod(Pod { key: key(name), uid, claims, ..Pod::default() });
    }

    /// A person makes a claim.
    pub(crate) fn create_claim(&mut self, name: &str, owner: Option<Reference>) {
        if self.server.claims.contains_key(&key(name)) {
            return;
        }
        let claim = ResourceClaim {
            key: key(name),
            uid: self.server.uid(),
            owners: owner.into_iter().collect(),
            spec: self.spec(),
            ..ResourceClaim::default()
        };
        self.server.put_claim(claim);
    }

    /// A pod ends: its kubelet gives back its claims, then it is deleted. By force, only the latter.
    pub(crate) fn end_pod(&mut self, pod: &Pod, force: bool) {
        self.note(|| format!("pod {} ends, force {force}", pod.key.name));
        if !force {
            self.unprepare(pod);
            for claim in pod.claim_keys() {
                self.server.change_users(&claim, |users| users.retain(|user| user.uid != pod.uid));
            }
        }
        self.permitted.remove(&pod.uid);
        self.server.remove_pod(&pod.key);
    }
}

fn brief(request: &Request) -> String {
    let mut text = format!("{request:?}");
    if text.len() > 700 {
        let cut = text.char_indices().map(|(at, _)| at).take_while(|at| *at < 700).last();
        text.truncate(cut.unwrap_or(0));
    }
    text
}
