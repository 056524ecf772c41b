//! The kubelets: the core that ships, one agent for all nodes, in a process and on a loop of its own. Its watches are behind, its writes take time and
//! fail, their answers get lost, and the process starts again with nothing in memory.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_kubelet::{Checkpoint, EffectKind, Input, Kubelet, Options, Why};
use lazaret_leader::{Action, EffectEnd, Precedence, Turn, TurnOptions};
use lazaret_machine::{Effect, Machine as _, Outcome, Turn as Told, Wake};
use lazaret_model::{Text, Uid};

use crate::{
    actors::{kubelet_watches::Watch, news::Progress},
    api::{EPOCH_MS, Kind, wall},
    coverage::Mark,
    palette,
    rng::Rng,
    scenario::Config,
    world::{Step, World},
};

/// As in the program.
const OPTIONS: Options = Options {
    lease_interval_ms: 10_000,
    job_run_ms: 1_000,
    in_flight_max: 32,
    leaves_taints: true,
    process: 0,
};
const LOOP: TurnOptions =
    TurnOptions { in_flight_max: OPTIONS.in_flight_max, precedence: Precedence::Patient };
/// The stream of randomness that delays come from.
const DELAYS: u64 = 43;

/// The kubelets of all nodes.
#[derive(Debug)]
pub(crate) struct Kubelets {
    pub(crate) core: Kubelet,
    turn: Turn<Kind>,
    /// Grows with each process.
    process: u64,
    pub(super) is_up: bool,
    /// When the process started.
    pub(super) started_at: u64,
    /// The events that it has processed.
    pub(super) progress: Progress,
    /// A delivery is planned: of pods, of claims, of nodes.
    pub(super) planned: [bool; 3],
    pub(super) is_told: bool,
    /// When it is called for its work, and when for a lease.
    work_at: Option<u64>,
    lease_at: Option<u64>,
    /// When each node renewed its lease.
    pub(crate) renewed: BTreeMap<usize, u64>,
    /// Nodes whose drivers are slow.
    pub(super) slow: Vec<Text>,
    /// Nodes whose machines are off.
    pub(super) off: BTreeSet<Text>,
    /// Those that are off for good.
    pub(super) scrapped: BTreeSet<Text>,
    /// Pods whose containers exit, well or badly.
    pub(super) exits: BTreeMap<Uid, bool>,
    /// The checkpoints in Nodes, by the UID of the Node.
    pub(super) checkpoints: BTreeMap<Uid, Checkpoint>,
    pub(super) rng: Rng,
}

/// Something that is going to happen to the kubelets.
#[derive(Debug)]
pub(crate) enum KubeletStep {
    /// A watch delivers.
    Deliver(Watch),
    /// The process asked to be called, for a lease alone or for more.
    Tick {
        /// Only if it is still that process.
        process: u64,
        /// For the lease of a node.
        is_lease: bool,
    },
    /// A write reaches the server.
    Arrive(Post),
    /// Its answer reaches the process.
    Answer(Post),
    /// The process starts again.
    Restart(u64),
}

/// A write on its way.
#[derive(Debug)]
pub(crate) struct Post {
    process: u64,
    effect: Effect<EffectKind>,
    outcome: Outcome,
}

impl KubeletStep {
    /// Whether it comes again and again, also in a world at rest.
    pub(crate) fn is_routine(&self) -> bool {
        matches!(self, Self::Tick { is_lease: true, .. })
    }
}

impl Kubelets {
    /// Nodes of which nothing was seen yet.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            core: Kubelet::new(OPTIONS, (0..config.nodes).map(palette::node)),
            turn: Turn::new(wall(0), LOOP),
            process: 0,
            is_up: false,
            started_at: 0,
            progress: Progress::default(),
            planned: [false; 3],
            is_told: false,
            work_at: None,
            lease_at: None,
            renewed: BTreeMap::new(),
            slow: Vec::new(),
            off: BTreeSet::new(),
            scrapped: BTreeSet::new(),
            exits: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            rng: Rng::new(config.seed, DELAYS),
        }
    }

    /// The same in a world that begins with what these know.
    pub(crate) fn known_by(born: &Self, config: &Config) -> Self {
        let (core, progress) = (born.core.clone(), born.progress.clone());
        let checkpoints = born.checkpoints.clone();
        Self { core, progress, checkpoints, is_up: born.is_up, is_told: true, ..Self::new(config) }
    }
}

impl World {
    /// The process ends, and starts again.
    pub(crate) fn restart_kubelets(&mut self, down_ms: u64) {
        if !self.kubelets.is_up {
            return;
        }
        self.coverage.hit(Mark::KubeletsRestarted);
        let old = core::mem::replace(&mut self.kubelets, Kubelets::new(&self.config));
        let Kubelets { process, renewed, slow, off, scrapped, exits, checkpoints, rng, planned, .. } = old;
        let process = process + 1;
        let options = Options { process, ..OPTIONS };
        self.kubelets = Kubelets {
            process,
            renewed,
            slow,
            off,
            scrapped,
            exits,
            checkpoints,
            rng,
            planned,
            core: Kubelet::new(options, (0..self.config.nodes).map(palette::node)),
            turn: Turn::new(wall(self.now), LOOP),
            ..Kubelets::new(&self.config)
        };
        self.push(self.now + down_ms, Step::Kubelet(Box::new(KubeletStep::Restart(process))));
    }

    pub(crate) fn kubelet_step(&mut self, step: KubeletStep) {
        match step {
            KubeletStep::Deliver(watch) => self.kubelets_hear(watch),
            KubeletStep::Tick { process, is_lease } => {
                let kubelets = &mut self.kubelets;
                if kubelets.process == process {
                    let planned = if is_lease { &mut kubelets.lease_at } else { &mut kubelets.work_at };
                    (*planned, kubelets.is_told) = (None, true);
                }
            }
            KubeletStep::Arrive(post) => self.kubelet_write_arrives(post),
            KubeletStep::Answer(post) => {
                let kubelets = &mut self.kubelets;
                if kubelets.process == post.process {
                    kubelets.turn.landed(wall(self.now));
                    kubelets.is_told = true;
                    let answer = Input::Acknowledged { effect: post.effect.id, outcome: post.outcome };
                    kubelets.core.handle(wall(self.now), answer);
                }
            }
            KubeletStep::Restart(process) => {
                if self.kubelets.process == process {
                    self.start_kubelets();
                }
            }
        }
    }

    /// After each step: kubelets that were told something think.
    pub(crate) fn turn_kubelets(&mut self) {
        if !self.kubelets.is_up || !core::mem::take(&mut self.kubelets.is_told) {
            return;
        }
        let now = wall(self.now);
        let Kubelets { core, turn, .. } = &mut self.kubelets;
        loop {
            match turn.stand(now, Some(0), false, true, |_| Some(0)) {
                Action::Lead(leads) => core.handle(now, Told::leads(leads).into()),
                Action::Hear => turn.heard(),
                Action::Ask(..)
                | Action::Watch(_)
                | Action::List(_)
                | Action::Granted(_)
                | Action::Wait(_) => break,
            }
        }
        core.handle(now, Input::Tick);
        turn.begin_to_send(now);
        while self.kubelets.turn.may_take(Some(0), [0; 3]) {
            let Some(effect) = self.kubelets.core.poll_effect() else { break };
            if self.kubelets.turn.may_send(Some(0)) {
                self.send_for_kubelet(effect);
            }
        }
        self.plan_kubelet_ticks();
    }

    fn send_for_kubelet(&mut self, effect: Effect<EffectKind>) {
        let process = self.kubelets.process;
        // Writes that nobody in these worlds reads take no time.
        let at_once = match &effect.kind {
            EffectKind::RenewLease { node, .. } => Some(self.renew_for(*node)),
            EffectKind::Warn(_) => Some(Outcome::Done),
            EffectKind::Start(start) => {
                self.check_prepared_once(start.node, &start.pod.pod);
                None
            }
            EffectKind::Register { .. }
            | EffectKind::SetNodeReady { .. }
            | EffectKind::Report { .. }
            | EffectKind::Save { .. }
            | EffectKind::RemoveNotReadyTaint { .. }
            | EffectKind::SetPodReady { .. }
            | EffectKind::End(_)
            | EffectKind::Remove(_) => None,
        };
        if let Some(outcome) = at_once {
            let now = wall(self.now);
            self.kubelets.turn.landed(now);
            return self.kubelets.core.handle(now, Input::Acknowledged { effect: effect.id, outcome });
        }
        let post = Post { process, effect, outcome: Outcome::Unknown };
        let at = self.now + self.kubelets.rng.below(u64::from(self.config.latency_ms) + 1);
        self.push(at, Step::Kubelet(Box::new(KubeletStep::Arrive(post))));
    }

    fn renew_for(&mut self, node: usize) -> Outcome {
        if self.kubelet_fault().is_some() {
            return Outcome::Unknown;
        }
        self.kubelets.renewed.insert(node, self.now);
        Outcome::Done
    }

    /// The manner in which a write fails, if it does.
    fn kubelet_fault(&mut self) -> Option<u32> {
        let errors = self.errors.filter(|errors| errors.until > self.now)?;
        self.kubelets.rng.chance(errors.permille).then_some(errors.manner)
    }

    fn kubelet_write_arrives(&mut self, mut post: Post) {
        // The connections of a process that has ended are closed before the next one lists.
        if self.kubelets.process != post.process && self.kubelets.is_up {
            return;
        }
        let kind = &post.effect.kind;
        post.outcome = match self.kubelet_fault().map(|manner| manner % 5) {
            None => self.write_for_kubelet(kind, false),
            Some(0) => Outcome::RetryLater,
            Some(1) => Outcome::Conflict,
            Some(2) => {
                let _unheard = self.write_for_kubelet(kind, false);
                EffectEnd::Panicked.outcome()
            }
            Some(3) => Outcome::Unknown,
            Some(_) => {
                let _unheard = self.write_for_kubelet(kind, true);
                Outcome::Unknown
            }
        };
        let at = self.now + self.kubelets.rng.below(u64::from(self.config.latency_ms) / 2 + 1);
        self.push(at, Step::Kubelet(Box::new(KubeletStep::Answer(post))));
    }

    fn plan_kubelet_ticks(&mut self) {
        let Kubelets { core, turn, work_at, lease_at, process, .. } = &mut self.kubelets;
        let Some(wake) = turn.wake(core.next_wake().map(Wake::in_words)) else { return };
        let virtual_ms = |at: lazaret_model::Timestamp| {
            u64::try_from(at.as_millis().saturating_sub(EPOCH_MS)).unwrap_or(0).max(self.now + 1)
        };
        let mut ticks = Vec::new();
        let is_due = |planned: &Option<u64>, at: u64| planned.is_none_or(|planned| planned > at);
        if let Some(at) = core.next_wake_but_leases().map(virtual_ms).filter(|at| is_due(work_at, *at)) {
            *work_at = Some(at);
            ticks.push((at, false));
        }
        let at = virtual_ms(wake.at);
        if wake.why == <&str>::from(Why::Lease) && is_due(lease_at, at) {
            *lease_at = Some(at);
            ticks.push((at, true));
        }
        let process = *process;
        for (at, is_lease) in ticks {
            self.push(at, Step::Kubelet(Box::new(KubeletStep::Tick { process, is_lease })));
        }
    }
}
