//! The core with what it has been told.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use lazaret_api::{HealthPolicy, HealthStep};
use lazaret_fleet::{Fleet, Gates, Input as Told};
use lazaret_lifecycle::{
    ChildKind, DoneWhen, History, Incident, Input as Heard, Mode, Notice, Owner, Policy, Reconciler, Task,
    WriteKind,
};
use lazaret_model::{DeviceId, Text, Timestamp};
use lazaret_runtime::{
    Agent, Call, Effect, EffectId, HEALTH_POLICIES, INCIDENTS, JOBS, Model, NODES, News, Object, Outcome,
    PATCHES, PODS, RULES, Reply, Resource, SIGNALS, TAINT_POLICIES, Wake,
};
use serde_json::Value;
use tracing::warn;

use super::{
    acceptance::{self, Candidate, Problem},
    children,
    executor::{Deed, New, delete, record, resource},
    levels::Levels,
    limits::GuardLimits,
    pods, rules,
    task::Subject,
    writes,
};
use crate::{
    Sources,
    feed::feed,
    ledger::{Change, Ledger},
    wire,
};

/// Numbers of effects that the core knows nothing of.
const OWN_EFFECTS: u64 = 1 << 63;

/// What a device's pods were last said to be.
type Usage = (bool, Vec<Text>);

/// What a policy was last said to be: its generation, and why it is not acted on.
type Verdict = (i64, Option<Problem>);

/// The core with what it has been told.
#[derive(Debug)]
pub(crate) struct HealthAgent {
    core: Reconciler,
    /// Health policies stand in the place of rules: whom they select is kept up to date by the fleet.
    fleet: Fleet,
    /// Where rules are written.
    rules: Resource,
    ledger: Ledger,
    levels: Levels,
    limits: GuardLimits,
    /// Policies that can be understood.
    candidates: BTreeMap<Text, Candidate>,
    /// Policies that only observe until it is found out whether they would take everything out of service.
    untried: BTreeSet<Text>,
    /// Those that would, which only observe.
    excessive: BTreeMap<Text, Problem>,
    /// Those that are acted on.
    policies: BTreeMap<Text, Arc<HealthPolicy>>,
    /// What was said of devices with open incidents.
    usage: BTreeMap<DeviceId, Usage>,
    /// Claims, or names of devices, have changed since.
    is_usage_stale: bool,
    /// The number of the newest incident by then.
    usage_told_at: u64,
    /// Requests in flight, to read their answers.
    asked: BTreeMap<EffectId, (Text, DoneWhen)>,
    /// What policies are, and whether that was written.
    verdicts: BTreeMap<Text, (Verdict, bool)>,
    reports: VecDeque<Text>,
    reporting: BTreeMap<EffectId, Text>,
    next: u64,
    leads: bool,
    now: Timestamp,
}

impl HealthAgent {
    pub(super) fn new(sources: Sources, history: History) -> Self {
        let gates = Gates { taints: true, rules: true, ..sources.gates() };
        Self {
            core: Reconciler::new(history),
            fleet: Fleet::with_gates(gates),
            rules: sources.plain_rules(),
            ledger: Ledger::default(),
            levels: Levels::default(),
            limits: GuardLimits::default(),
            candidates: BTreeMap::new(),
            untried: BTreeSet::new(),
            excessive: BTreeMap::new(),
            policies: BTreeMap::new(),
            usage: BTreeMap::new(),
            is_usage_stale: true,
            usage_told_at: 0,
            asked: BTreeMap::new(),
            verdicts: BTreeMap::new(),
            reports: VecDeque::new(),
            reporting: BTreeMap::new(),
            next: OWN_EFFECTS,
            leads: false,
            now: Timestamp::EPOCH,
        }
    }

    fn hear_change(&mut self, now: Timestamp, change: &Change) {
        match change {
            Change::Set(resource, object) => match *resource {
                HEALTH_POLICIES => self.policy(now, object),
                INCIDENTS => match lazaret_api::read_incident(text(object)) {
                    Ok(stored) => self.core.handle(now, Notice::Stored(Box::new(stored))),
                    Err(error) => warn!(incident = %object.key, %error, "an incident cannot be read"),
                },
                SIGNALS => match lazaret_api::read_signal(text(object)) {
                    Ok(report) => self.core.handle(now, Notice::Report(report)),
                    Err(error) => warn!(signal = %object.key, %error, "a signal cannot be read"),
                },
                NODES => self.levels.node(object),
                PODS => self.levels.pod(&object.key, pods::health(object)),
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
            let notice = children::child(kind, object).map_or_else(gone, Notice::Child);
            self.core.handle(now, notice);
        }
    }

    fn policy(&mut self, now: Timestamp, object: &Object) {
        let name = object.key.name.clone();
        match lazaret_api::read_health_policy(text(object)) {
            Ok(policy) => {
                let generation = policy.generation;
                let known = self.candidates.get(&name).map(|known| known.policy.generation);
                if known == Some(generation) && generation > 0 {
                    return;
                }
                self.candidates.insert(name.clone(), Candidate::new(policy, object));
                self.weigh(now, Some(&name));
            }
            Err(error) => {
                let generation = generation(object);
                self.discard(now, &name);
                let problem = Problem { reason: "Invalid", message: error.to_string() };
                self.judge(name, (generation, Some(problem)));
            }
        }
    }

    fn policy_gone(&mut self, now: Timestamp, name: &Text) {
        self.verdicts.remove(name);
        self.discard(now, name);
    }

    /// There is no policy of this name that can be understood.
    fn discard(&mut self, now: Timestamp, name: &Text) {
        self.excessive.remove(name);
        self.candidates.remove(name);
        self.withdraw(now, name);
        self.weigh(now, None);
    }

    /// Acts on every policy that can be acted on, and on no other; on `changed` anew.
    fn weigh(&mut self, now: Timestamp, changed: Option<&Text>) {
        let was_excessive = changed.is_some_and(|name| self.excessive.remove(name).is_some());
        let names: Vec<Text> = self.candidates.keys().cloned().collect();
        for name in names {
            let Some(candidate) = self.candidates.get(&name).cloned() else { continue };
            let generation = candidate.policy.generation;
            if let Some(problem) = acceptance::contradiction(&name, &self.candidates) {
                self.withdraw(now, &name);
                self.judge(name, (generation, Some(problem)));
                continue;
            }
            let known = self.policies.get(&name);
            if changed == Some(&name) || known.is_none_or(|known| known.generation != generation) {
                // One that enforced before goes on: its devices are out of service, and stay so.
                let enforced = known.is_some_and(|known| known.policy.mode == Mode::Enforce)
                    && !self.untried.contains(&name)
                    && !was_excessive;
                if candidate.must_be_tried() && !enforced {
                    self.untried.insert(name.clone());
                }
                self.act_on(now, &name, &candidate.policy);
            }
            if !self.untried.contains(&name) {
                let problem = self.excessive.get(&name).cloned();
                self.judge(name, (generation, problem));
            }
        }
    }

    /// Hands a policy to the core. One that was not tried yet, or that would take everything out of service, only observes.
    fn act_on(&mut self, now: Timestamp, name: &Text, policy: &Arc<HealthPolicy>) {
        self.fleet.apply(Told::Rule(Arc::new(rules::selection(policy))));
        let observes = self.untried.contains(name) || self.excessive.contains_key(name);
        let mode = if observes { Mode::Observe } else { policy.policy.mode };
        self.core
            .handle(now, Notice::Heard(Heard::Policy(Box::new(Policy { mode, ..policy.policy.clone() }))));
        if !self.policies.contains_key(name) && !policy.counts.is_empty() {
            let counted = Heard::Counted { policy: name.clone(), tallies: policy.counts.clone() };
            self.core.handle(now, Notice::Heard(counted));
        }
        self.policies.insert(name.clone(), Arc::clone(policy));
        self.levels.tell_all();
    }

    fn withdraw(&mut self, now: Timestamp, name: &Text) {
        self.untried.remove(name);
        if self.policies.remove(name).is_some() {
            self.fleet.apply(Told::RuleGone(name.clone()));
            self.core.handle(now, Notice::Heard(Heard::PolicyGone(name.clone())));
            self.levels.tell_all();
        }
    }

    /// Tells the core what changed. A leader finds out before that which policies would take everything out of service at once, unless guards say how much may
    /// be: they go on observing.
    fn tell_levels(&mut self, now: Timestamp) {
        if self.leads && !self.untried.is_empty() {
            self.levels.tell_all();
        }
        let told = self.levels.settle(now, &self.fleet, &self.policies, self.core.lifecycle());
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
            // A device that is gone may have another name, under which its incident goes on.
            self.is_usage_stale |= matches!(heard, Heard::DeviceGone(_));
            self.core.handle(now, Notice::Heard(heard));
        }
    }

    /// Guards have changed: what they permit may be enough for policies that would take everything out of service.
    fn try_again(&mut self) {
        let excessive = core::mem::take(&mut self.excessive);
        self.untried.extend(excessive.into_keys());
    }

    fn judge(&mut self, name: Text, verdict: Verdict) {
        if self.verdicts.get(&name).is_none_or(|(known, _)| *known != verdict) {
            self.verdicts.insert(name.clone(), (verdict, false));
            self.reports.push_back(name);
        }
    }

    /// What guards permit, where that may have changed.
    fn tell_limits(&mut self, now: Timestamp, at_once: bool) {
        if let Some(limits) = self.limits.count(now, &self.fleet, at_once) {
            self.core.handle(now, Notice::Heard(Heard::Limits(limits)));
        }
    }

    /// Who uses the devices of open incidents: of those that were opened since, and of all where claims or the names of devices have changed.
    fn tell_usage(&mut self, now: Timestamp) {
        let from = if core::mem::take(&mut self.is_usage_stale) { 0 } else { self.usage_told_at };
        let lifecycle = self.core.lifecycle();
        self.usage_told_at = lifecycle.numbers_given();
        let opened = lifecycle.incidents_after(from).map(|incident| incident.device.clone());
        let devices: BTreeSet<DeviceId> = opened.collect();
        if from == 0 {
            self.usage.retain(|device, _| devices.contains(device));
        }
        for device in devices {
            let usage = usage(&self.fleet, &device);
            if self.usage.get(&device) != Some(&usage) {
                let (is_used, namespaces) = usage.clone();
                let heard = Heard::InUse { device: device.clone(), is_used, namespaces };
                self.usage.insert(device, usage);
                self.core.handle(now, Notice::Heard(heard));
            }
        }
    }

    /// What has to be written for an effect of the core.
    fn deed(&mut self, id: EffectId, kind: WriteKind) -> Deed {
        match kind {
            WriteKind::Create(incident) => {
                let body = lazaret_api::incident_to_json(&incident).to_string();
                Deed::Send(Box::new(Call::create(&INCIDENTS, "", body)))
            }
            WriteKind::Record(uid, version, incident) => {
                let status = lazaret_api::incident_status_to_json(&incident);
                Deed::Send(Box::new(record(&incident.name, &uid, &version, &status)))
            }
            WriteKind::Remove(name, uid) => Deed::Send(Box::new(delete(&INCIDENTS, "", &name, &uid))),
            WriteKind::Taint { owner, device, effect, taint, uid } => {
                writes::taint(self.rules, &owner, &device, (effect, &taint), uid)
            }
            WriteKind::Drain { owner, device, taint, policy } => {
                writes::drain(&owner, &device, &taint, self.policies.get(&policy).map(|policy| &**policy))
            }
            WriteKind::Tally(policy, tallies) => writes::tally(&policy, &tallies),
            WriteKind::Run { owner, name, task, incident } => self.run(id, &owner, &name, task, &incident),
            WriteKind::Delete(kind, namespace, name, uid) => {
                Deed::Send(Box::new(delete(&resource(kind, self.rules), &namespace, &name, &uid)))
            }
            WriteKind::DropReport(name, uid) => Deed::Send(Box::new(delete(&SIGNALS, "", &name, &uid))),
            WriteKind::Broken(policy, rule, error) => {
                Deed::Warn(format!("DeviceHealthPolicy {policy}: spec.rules[{rule}].when: {error}"))
            }
        }
    }

    fn run(&mut self, id: EffectId, owner: &Owner, name: &Text, task: Task, incident: &Incident) -> Deed {
        let Some(policy) = self.policies.get(&incident.policy).cloned() else {
            return Deed::Impossible("its policy is gone".to_owned());
        };
        let node = match self.levels.node_of(&self.fleet, &incident.device) {
            Ok(node) => node,
            Err(why) => return Deed::Impossible(why),
        };
        let subject = Subject { owner, incident, name, node };
        let new = |resource: Resource, namespace: &str, body: &Value| New {
            resource,
            namespace: namespace.to_owned(),
            name: name.to_string(),
            body: body.to_string(),
        };
        match task {
            Task::Repair(step) => match policy.steps.get(step) {
                Some(HealthStep::Job { namespace, template }) => {
                    let job = subject.repair(template, namespace);
                    Deed::Make(owner.uid.clone(), vec![new(JOBS, namespace, &job)])
                }
                Some(HealthStep::Request { api_version, kind, template, done_when }) => {
                    self.asked.insert(id, (name.clone(), done_when.clone()));
                    Deed::Request(owner.uid.clone(), subject.request(api_version, kind, template))
                }
                None => Deed::Impossible(format!("its policy has no step {step}")),
            },
            Task::Validate => {
                let Some(validation) = &policy.validation else {
                    return Deed::Impossible("its policy has no validation".to_owned());
                };
                match subject.validation(validation, &policy.identity) {
                    Ok((job, claim)) => {
                        let namespace = &validation.namespace;
                        let all =
                            vec![new(lazaret_runtime::CLAIMS, namespace, &claim), new(JOBS, namespace, &job)];
                        Deed::Make(owner.uid.clone(), all)
                    }
                    Err(why) => Deed::Impossible(why),
                }
            }
        }
    }

    /// What a policy is, for its status.
    fn poll_report(&mut self) -> Option<Effect<Deed>> {
        let name = self.reports.pop_front()?;
        let Some(((generation, problem), _)) = self.verdicts.get(&name) else { return self.poll_report() };
        let call = writes::verdict(self.now, &name, *generation, problem.as_ref());
        let id = EffectId(self.next);
        self.next += 1;
        self.reporting.insert(id, name);
        Some(Effect { id, kind: Deed::Send(Box::new(call)) })
    }
}

impl Agent for HealthAgent {
    type Effect = Deed;

    fn hear(&mut self, now: Timestamp, news: News) {
        if self.limits.hear(&news) {
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

    fn think(&mut self, now: Timestamp) {
        self.now = now;
        let changes = self.fleet.take_changes();
        if !changes.classes.is_empty() {
            self.levels.tell_all();
        }
        self.is_usage_stale |= !changes.claims.is_empty();
        // What is permitted is known before anything is wanted.
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
        self.usage.clear();
        self.is_usage_stale = true;
        self.asked.clear();
        if leading {
            self.tell_limits(now, true);
            self.tell_levels(now);
        }
        self.core.handle(now, if leading { Notice::BecameLeader } else { Notice::LostLeadership });
        if leading {
            self.levels.begin();
            self.reports =
                self.verdicts.iter().filter(|(_, (_, told))| !told).map(|(name, _)| name.clone()).collect();
        }
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        if let Some(name) = self.reporting.remove(&effect) {
            if reply.outcome == Outcome::Done
                && let Some((_, told)) = self.verdicts.get_mut(&name)
            {
                *told = true;
            }
            return;
        }
        let written = reply.object.as_deref().and_then(wire::metadata);
        if let Some((task, when)) = self.asked.remove(&effect)
            && let Some(object) = &reply.object
            && lazaret_api::done(&when, object)
        {
            self.core.handle(now, Notice::Asked(task, Some(Ok(()))));
        }
        let refused = (reply.outcome == Outcome::Refused).then(|| reply.why.clone().unwrap_or_default());
        if let Some(why) = reply.why.filter(|_| reply.outcome != Outcome::Gone) {
            warn!(%why, "a write for an incident failed");
        }
        self.core.handle(
            now,
            Notice::Acknowledged {
                id: effect,
                outcome: reply.outcome,
                version: written.as_ref().map(|one| one.resource_version.as_str().into()),
                uid: written.as_ref().map(|one| one.uid.as_str().into()),
                refused,
            },
        );
    }

    fn poll(&mut self) -> Option<Effect<Deed>> {
        if let Some(Effect { id, kind }) = self.core.poll_effect() {
            return Some(Effect { id, kind: self.deed(id, kind) });
        }
        if self.leads { self.poll_report() } else { None }
    }

    fn wake(&self) -> Option<Wake> {
        let count = if self.leads { self.limits.wake(&self.fleet) } else { None };
        let count = count.map(|at| Wake::new(at, "devices are to be counted for guards"));
        let pools = self.levels.wake().map(|at| Wake::new(at, "a pool has been incomplete for long"));
        Wake::first([self.core.next_wake(), count, pools])
    }
}

fn text(object: &Object) -> &str {
    core::str::from_utf8(object.json()).unwrap_or_default()
}

fn generation(object: &Object) -> i64 {
    let value: Value = serde_json::from_slice(object.json()).unwrap_or_default();
    value["metadata"]["generation"].as_i64().unwrap_or_default()
}

/// Whether claims hold a device, and the namespaces of those claims. Who only monitors does not use it.
fn usage(fleet: &Fleet, device: &DeviceId) -> Usage {
    let mut namespaces: Vec<Text> = fleet
        .holders(device)
        .filter(|claim| fleet.held(*claim).any(|held| held.device == device && !held.result_ref.admin_access))
        .filter_map(|claim| Some(fleet.claim(claim)?.key.namespace.clone()))
        .collect();
    namespaces.sort();
    namespaces.dedup();
    (!namespaces.is_empty(), namespaces)
}
