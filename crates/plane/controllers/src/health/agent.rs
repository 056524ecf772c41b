//! The core with what it has been told.

mod operations;
mod policies;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_api::HealthPolicy;
use lazaret_fleet::{Fleet, Gates};
use lazaret_lifecycle::{
    ChildKind, DoneWhen, History, Input as CoreInput, Notice, Reconciler, ViewKind, ViewRequest,
};
use lazaret_machine::{Machine, Reply as Answer, Turn};
use lazaret_model::{DeviceHealth, Text, Timestamp};
use lazaret_runtime::{
    CLAIMS, Effect, EffectId, HEALTH_POLICIES, INCIDENTS, JOBS, Model, NODES, News, Object, Outcome, PATCHES,
    PODS, RULES, Reply, Resource, SIGNALS, TAINT_POLICIES, ViewWish, Wake,
};
use lazaret_signals::{Condition, GuardLimits, Levels, Usage};
use tracing::warn;

use super::{
    acceptance::{self, Candidate, Problem},
    children,
    executor::Operation,
    obstacle::obstacle,
    rules,
};
use crate::{
    Sources,
    feed::feed,
    guard::GuardBook,
    header::Header,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    proof::Proofs,
    wire,
};

/// Numbers of effects that the core knows nothing of.
const OWN_EFFECTS: u64 = 1 << 63;

/// A repair or validation in flight.
#[derive(Debug)]
struct Running {
    task: Text,
    /// Of a request: when it is done.
    done_when: Option<DoneWhen>,
}

/// A policy's generation, and why it is not acted on, as last reported in its status.
type Verdict = (i64, Option<Problem>);

/// The core and the objects that it has received.
#[derive(Debug)]
pub(crate) struct Health {
    core: Reconciler,
    /// Health policies stand in the place of rules: whom they select is kept up to date by the fleet.
    fleet: Fleet,
    /// Where rules are written.
    rules: Resource,
    ledger: Ledger,
    levels: Levels,
    guards: GuardBook,
    limits: GuardLimits,
    /// Policies that can be understood.
    candidates: BTreeMap<Text, Candidate>,
    /// Policies that only observe until it is found out whether they would take everything out of service.
    untried: BTreeSet<Text>,
    /// Those that would, which only observe.
    excessive: BTreeMap<Text, Problem>,
    /// Those that are acted on.
    policies: BTreeMap<Text, Arc<HealthPolicy>>,
    usage: Usage,
    /// Repairs and validations in flight, to read their answers.
    running: BTreeMap<EffectId, Running>,
    proofs: Proofs,
    repair_namespaces: Vec<String>,
    /// By policy: its generation, and the expression of it that could not be evaluated last.
    broken: BTreeMap<Text, (i64, String)>,
    /// The verdict on each policy, and whether it was written.
    verdicts: BTreeMap<Text, (Verdict, bool)>,
    reports: VecDeque<Text>,
    reporting: BTreeMap<EffectId, Text>,
    next: u64,
    leads: bool,
    now: Timestamp,
}

impl Health {
    pub(super) fn agent(
        sources: Sources,
        history: History,
        proofs: Proofs,
        repair_namespaces: Vec<String>,
    ) -> MachineAgent<HealthShell> {
        let gates = Gates { taints: true, rules: true, ..sources.gates() };
        let health = Self {
            core: Reconciler::new(history),
            fleet: Fleet::with_gates(gates),
            rules: sources.plain_rules(),
            ledger: Ledger::of_models(),
            levels: Levels::default(),
            guards: GuardBook::default(),
            limits: GuardLimits::default(),
            candidates: BTreeMap::new(),
            untried: BTreeSet::new(),
            excessive: BTreeMap::new(),
            policies: BTreeMap::new(),
            usage: Usage::default(),
            running: BTreeMap::new(),
            proofs,
            repair_namespaces,
            broken: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            reports: VecDeque::new(),
            reporting: BTreeMap::new(),
            next: OWN_EFFECTS,
            leads: false,
            now: Timestamp::EPOCH,
        };
        MachineAgent::new(health, HealthShell)
    }

    fn hear_change(&mut self, now: Timestamp, change: &Change) {
        match change {
            Change::Set(resource, object) => match *resource {
                HEALTH_POLICIES => self.policy(now, object),
                INCIDENTS => match lazaret_api::read_incident(object.text()) {
                    Ok(stored) => self.core.handle(now, Notice::Stored(Box::new(stored))),
                    Err(error) => object.cannot_be_read(
                        &error,
                        "the device of the incident as it is, and what the incident said before",
                    ),
                },
                SIGNALS => match lazaret_api::read_signal(object.text()) {
                    Ok(report) => self.core.handle(now, Notice::Report(report)),
                    Err(error) => object.cannot_be_read(&error, "what the signal said before"),
                },
                NODES => self.node(object),
                PODS => {
                    self.levels.pod(&object.key, health(object));
                    self.note_obstacle(now, object);
                }
                _ => self.object(now, *resource, object),
            },
            Change::Gone(resource, key, uid) => match *resource {
                HEALTH_POLICIES => self.policy_gone(now, &key.name),
                INCIDENTS => self.core.handle(now, Notice::StoredGone(key.name.clone(), uid.clone())),
                SIGNALS => self.core.handle(now, Notice::ReportGone(key.name.clone())),
                NODES => self.levels.node_gone(&key.name),
                PODS => self.levels.pod(key, Vec::new()),
                resource if resource.plural == "resourceslices" => self.levels.slice_gone(&key.name),
                resource => {
                    if resource.plural == RULES.plural {
                        rules::rule_gone(&mut self.fleet, &key.name);
                    }
                    if let Some(kind) = children::kind(&resource) {
                        let notice = Notice::ChildGone(kind, key.namespace.clone(), key.name.clone());
                        self.core.handle(now, notice);
                    }
                }
            },
        }
    }

    /// The pod of a repair or a validation says what keeps it from running.
    fn note_obstacle(&mut self, now: Timestamp, object: &Object) {
        let Ok(Model::Pod(pod)) = object.model() else { return };
        let Some(job) = pod.owner.as_ref().filter(|owner| *owner.kind == *JOBS.kind) else { return };
        if self.core.is_task(&job.name, &job.uid) {
            self.core.handle(now, Notice::Obstructed(job.name.clone(), obstacle(object)));
        }
    }

    fn node(&mut self, object: &Object) {
        let Some(header) = Header::read(object.json()) else { return };
        let conditions = header.conditions().iter();
        let conditions =
            conditions.map(|one| Condition { kind: &one.kind, status: &one.status, reason: &one.reason });
        self.levels.node(&object.key.name, conditions);
    }

    fn object(&mut self, now: Timestamp, resource: Resource, object: &Object) {
        if resource.plural == "resourceslices" {
            if let Ok(Model::Slice(slice)) = object.model() {
                self.levels.slice(slice);
            }
        } else if let Some(kind) = children::kind(&resource) {
            if kind == ChildKind::Rule {
                rules::rule(&mut self.fleet, object);
            }
            let gone = || Notice::ChildGone(kind, object.key.namespace.clone(), object.key.name.clone());
            let notice = children::child(kind, object, &self.proofs).map_or_else(gone, Notice::Child);
            self.core.handle(now, notice);
        }
    }

    /// Passes changes to the core. A leader first finds the policies that would take everything out of service at once without a guard that limits
    /// them: they only observe.
    fn tell_levels(&mut self, now: Timestamp) {
        if self.leads && !self.untried.is_empty() {
            self.levels.tell_all();
        }
        let told = self.levels.settle(now, &self.fleet, self.core.lifecycle());
        let untried = if self.leads { core::mem::take(&mut self.untried) } else { BTreeSet::new() };
        for name in untried {
            let Some(policy) = self.policies.get(&name).cloned() else { continue };
            let problem = acceptance::everything(now, &policy, &told).filter(|_| !self.limits.has_limits());
            match problem {
                Some(problem) => {
                    warn!(policy = %name, problem = problem.message, "a DeviceHealthPolicy only observes");
                    self.excessive.insert(name.clone(), problem.clone());
                    self.judge(name, (policy.generation, Some(problem)));
                }
                None => {
                    self.act_on(now, &name, &policy);
                    self.judge(name, (policy.generation, None));
                }
            }
        }
        for heard in told {
            self.usage.told(&heard);
            self.core.handle(now, Notice::Core(heard));
        }
    }

    /// Passes the limits of guards to the core, where they may have changed.
    fn tell_limits(&mut self, now: Timestamp, at_once: bool) {
        if let Some(limits) = self.limits.count(now, &self.fleet, at_once) {
            self.core.handle(now, Notice::Core(CoreInput::Limits(limits)));
        }
    }

    /// Passes on which devices of open incidents are in use.
    fn tell_usage(&mut self, now: Timestamp) {
        for heard in self.usage.settle(&self.fleet, self.core.lifecycle()) {
            self.core.handle(now, Notice::Core(heard));
        }
    }

    fn hear(&mut self, now: Timestamp, news: News) {
        if self.guards.hear(&news) {
            self.limits.set(self.guards.all());
            self.try_again();
            return;
        }
        let of = news.resource();
        if of.plural == PATCHES.plural {
            self.levels.tell_all();
        }
        let is_rule = of.plural == RULES.plural;
        if !is_rule && ![TAINT_POLICIES, HEALTH_POLICIES, INCIDENTS, SIGNALS, JOBS].contains(&of) {
            feed(&mut self.fleet, &news);
        }
        let mut ledger = core::mem::take(&mut self.ledger);
        ledger.changes(news, |change| self.hear_change(now, &change));
        self.ledger = ledger;
    }

    fn take_changes(&mut self) {
        let changes = self.fleet.take_changes();
        if !changes.classes.is_empty() {
            self.levels.tell_all();
        }
        self.usage.changed(&changes);
    }

    /// All that the server had when a view was asked for has been seen: the core gets what claims say before the notice that this is all.
    fn view_reached(&mut self, now: Timestamp, number: u64) {
        self.take_changes();
        if self.leads {
            self.tell_usage(now);
        }
        self.core.handle(now, Notice::ViewReached(number));
    }

    fn think(&mut self, now: Timestamp) {
        self.now = now;
        self.take_changes();
        // The core gets the limits before the signals that they limit.
        self.tell_limits(now, false);
        self.tell_levels(now);
        self.core.handle(now, Notice::Tick);
        if self.leads {
            self.tell_usage(now);
            self.core.handle(now, Notice::Tick);
        }
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.leads = leading;
        self.usage = Usage::default();
        self.running.clear();
        if leading {
            self.limits.begin();
            self.tell_limits(now, true);
            self.tell_levels(now);
        }
        self.core.handle(now, if leading { Notice::BecameLeader } else { Notice::LostLeadership });
        if leading {
            self.levels.begin();
            self.reports =
                self.verdicts.iter().filter(|(_, (_, told))| !told).map(|(name, _)| name.clone()).collect();
        } else {
            self.levels.end();
        }
    }

    fn acknowledge(&mut self, now: Timestamp, id: EffectId, reply: Answer) {
        let Answer { outcome, why, written } = reply;
        if let Some(name) = self.reporting.remove(&id) {
            if outcome == Outcome::Done
                && let Some((_, told)) = self.verdicts.get_mut(&name)
            {
                *told = true;
            }
            return;
        }
        let refused = (outcome == Outcome::Refused).then(|| why.as_deref().unwrap_or_default().to_owned());
        if let Some(why) = why.filter(|_| outcome != Outcome::Gone) {
            warn!(%why, "a write for an incident failed");
        }
        let (version, uid) = written.map(|one| (one.version, one.uid)).unzip();
        self.core.handle(now, Notice::Acknowledged { id, outcome, version, uid, refused });
    }
}

impl Machine for Health {
    type View = ();
    type Input<'a> = Turn;
    type Kind = Operation;
    type Why = &'static str;

    fn handle(&mut self, now: Timestamp, (): &(), turn: Turn) {
        match turn {
            Turn::Tick => self.think(now),
            Turn::BecameLeader => self.lead(now, true),
            Turn::LostLeadership => self.lead(now, false),
            Turn::Acknowledged(effect, reply) => self.acknowledge(now, effect, reply),
        }
    }

    fn poll_effect(&mut self) -> Option<Effect<Operation>> {
        if let Some(Effect { id, kind }) = self.core.poll_effect() {
            return Some(Effect { id, kind: self.deed(id, kind) });
        }
        if self.leads { self.poll_report() } else { None }
    }

    fn next_wake(&self) -> Option<Wake> {
        let count = if self.leads { self.limits.wake(&self.fleet) } else { None };
        let count = count.map(|at| Wake::new(at, "devices are to be counted for guards"));
        let pools = self.levels.wake().map(|at| Wake::new(at, "a pool has been incomplete for long"));
        Wake::first([self.core.next_wake(), count, pools])
    }
}

/// Nothing but what the machine itself keeps.
#[derive(Debug)]
pub(super) struct HealthShell;

impl Shell for HealthShell {
    type Machine = Health;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, health: &mut Health, now: Timestamp, news: News) {
        health.hear(now, news);
    }

    fn wants_view(&mut self, health: &mut Health) -> Option<ViewWish> {
        let ViewRequest { number, kinds } = health.core.poll_view()?;
        let resource = |kind: &ViewKind| match kind {
            ViewKind::Rules => health.rules,
            ViewKind::Claims => CLAIMS,
            ViewKind::Pods => PODS,
        };
        Some(ViewWish { number, resources: kinds.iter().map(resource).collect() })
    }

    fn view_reached(&mut self, health: &mut Health, now: Timestamp, number: u64) {
        health.view_reached(now, number);
    }

    fn acknowledge(&mut self, health: &mut Health, now: Timestamp, effect: EffectId, reply: Reply) {
        if let Some(running) = health.running.remove(&effect) {
            health.note_task(now, running, &reply);
        }
        health.handle(now, &(), Turn::Acknowledged(effect, wire::with_written(reply)));
    }
}

/// The health of devices in a pod's status.
fn health(object: &Object) -> Vec<DeviceHealth> {
    let Ok(Model::Pod(pod)) = object.model() else { return Vec::new() };
    pod.rare.as_ref().map(|rare| rare.device_health.clone()).unwrap_or_default()
}
