//! Scheduling: runs [`lazaret_scheduler`] and does what it decides.

mod allocatable;
mod amounts;
mod claims;
mod executor;
mod nodes;
mod pods;
mod specs;

use std::sync::Arc;

use lazaret_model::Timestamp;
use lazaret_runtime::{
    Agent, DISRUPTION_BUDGETS, Model, NAMESPACES, News, Object, POD_GROUPS, Reply, Resource,
};
use lazaret_scheduler::{Effect, EffectId, EffectKind, Input, Options, Scheduler, Written};

use self::specs::Specs;
pub(crate) use executor::Executor;

use crate::{
    Sources,
    ledger::{Change, Ledger},
    wire,
};

/// What it calls itself.
pub(crate) const NAME: &str = "default-scheduler";

/// What it hears of.
pub(crate) fn resources(sources: Sources) -> Vec<Resource> {
    let mut resources = sources.resources();
    resources.extend([NAMESPACES, DISRUPTION_BUDGETS]);
    if sources.has_groups() {
        resources.push(POD_GROUPS);
    }
    resources
}

/// The core with what it has been told.
#[derive(Debug)]
pub(crate) struct SchedulerAgent {
    scheduler: Scheduler,
    ledger: Ledger,
    sources: Sources,
    specs: Specs,
}

impl SchedulerAgent {
    pub(crate) fn new(options: Options, sources: Sources) -> Self {
        let scheduler = Scheduler::new(options);
        Self { scheduler, ledger: Ledger::default(), sources, specs: Specs::default() }
    }
}

impl Agent for SchedulerAgent {
    type Effect = EffectKind;

    fn hear(&mut self, now: Timestamp, news: News) {
        let Self { scheduler, ledger, sources, specs } = self;
        ledger.changes(news, |change| {
            if let Some(input) = input(change, *sources, specs) {
                scheduler.handle(now, input);
            }
        });
    }

    fn think(&mut self, now: Timestamp) {
        self.scheduler.handle(now, Input::Tick);
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.scheduler.handle(now, if leading { Input::BecameLeader } else { Input::LostLeadership });
    }

    fn acknowledge(&mut self, now: Timestamp, effect: u64, reply: Reply) {
        let outcome = reply.outcome;
        let written = reply.object.as_deref().and_then(wire::metadata).map(|metadata| Written {
            name: metadata.name.into(),
            uid: metadata.uid.into(),
            version: metadata.resource_version.parse().unwrap_or(0),
        });
        let reply = lazaret_scheduler::Reply { outcome, written };
        self.scheduler.handle(now, Input::Acknowledged(EffectId(effect), reply));
    }

    fn poll(&mut self) -> Option<(u64, EffectKind)> {
        self.scheduler.poll_effect().map(|Effect { id, kind }| (id.0, kind))
    }

    fn wake(&self) -> Option<Timestamp> {
        self.scheduler.next_wake().map(|wake| wake.at)
    }
}

fn input(change: Change, sources: Sources, specs: &mut Specs) -> Option<Input> {
    use lazaret_fleet::Input as Device;
    match change {
        Change::Set(resource, object) => set(&resource, &object, sources, specs),
        Change::Gone(resource, key, _) => Some(match resource.plural {
            "pods" => Input::PodGone(key),
            "nodes" => Input::NodeGone(key.name),
            "resourceclaims" => Input::ClaimGone(key),
            "namespaces" => Input::NamespaceGone(key.name),
            "poddisruptionbudgets" => Input::BudgetGone(key),
            "podgroups" => Input::GroupGone(key),
            "resourceslices" => Input::Fleet(Device::SliceGone(key.name)),
            "devicetaintrules" => Input::Fleet(Device::RuleGone(key.name)),
            "resourceslicepatches" => Input::Fleet(Device::PatchGone(key.name)),
            "deviceclasses" => Input::Fleet(Device::ClassGone(key.name)),
            _ => return None,
        }),
    }
}

fn set(resource: &Resource, object: &Object, sources: Sources, specs: &mut Specs) -> Option<Input> {
    use lazaret_fleet::Input as Device;
    match resource.plural {
        "namespaces" => return nodes::namespace(object).map(|(name, labels)| Input::Namespace(name, labels)),
        "poddisruptionbudgets" => return nodes::budget(object).map(|budget| Input::Budget(Arc::new(budget))),
        _ => {}
    }
    match object.model() {
        Ok(Model::Pod(_)) => pods::pod(specs, object).map(|mut pod| {
            // Where nobody tells of groups, pods do without.
            pod.group = pod.group.filter(|_| sources.has_groups());
            Input::Pod(Arc::new(pod))
        }),
        Ok(Model::Group(group)) => Some(Input::Group(Arc::clone(group))),
        Ok(Model::Node(_)) => nodes::node(object).map(|node| Input::Node(Arc::new(node))),
        Ok(Model::Claim(claim)) => Some(Input::Claim(Arc::new(claims::claim(claim, object)))),
        Ok(Model::Slice(slice)) => Some(Input::Fleet(Device::Slice(Arc::clone(slice)))),
        Ok(Model::Class(class)) => Some(Input::Fleet(Device::Class(Arc::clone(class)))),
        Ok(Model::Rule(rule)) => Some(Input::Fleet(Device::Rule(Arc::clone(rule)))),
        Ok(Model::Patch(patch)) => Some(Input::Fleet(Device::Patch(Arc::clone(patch)))),
        Ok(Model::Template(_) | Model::Other) => None,
        Err(error) => {
            tracing::warn!(key = %object.key, %error, "an object that cannot be understood is left out");
            None
        }
    }
}
