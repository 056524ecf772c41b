//! Scheduling: runs [`lazaret_scheduler`] and does what it decides.

mod allocatable;
mod claims;
mod executor;
mod nodes;
mod pods;

use std::sync::Arc;

use lazaret_model::Timestamp;
use lazaret_runtime::{
    CLASSIC_CLAIMS, CLASSIC_CLASSES, DISRUPTION_BUDGETS, Model, NAMESPACES, News, Object, POD_GROUPS, Reply,
    Resource,
};
use lazaret_scheduler::{Input, Options, Scheduler};

use crate::{
    Sources,
    classic::claim_news,
    ledger::{Change, Ledger},
    machine_agent::{MachineAgent, Shell},
    wire,
};

pub(crate) const NAME: &str = "default-scheduler";

/// The resources that it watches.
pub(crate) fn resources(sources: Sources) -> Vec<Resource> {
    let mut resources = sources.resources();
    resources.extend([NAMESPACES, DISRUPTION_BUDGETS]);
    if sources.has_groups() {
        resources.push(POD_GROUPS);
    }
    if sources.has_classic() {
        resources.extend([CLASSIC_CLAIMS, CLASSIC_CLASSES]);
    }
    resources
}

/// The objects that the core has received.
#[derive(Debug)]
pub(crate) struct SchedulerShell {
    ledger: Ledger,
    sources: Sources,
}

impl SchedulerShell {
    pub(crate) fn agent(options: Options, sources: Sources) -> MachineAgent<Self> {
        let shell = Self { ledger: Ledger::of_models(), sources };
        MachineAgent::new(Scheduler::new(options), shell)
    }
}

impl Shell for SchedulerShell {
    type Machine = Scheduler;

    fn view(&self) -> &() {
        &()
    }

    fn hear(&mut self, scheduler: &mut Scheduler, now: Timestamp, news: News) {
        let Self { ledger, sources } = self;
        ledger.changes(news, |change| {
            if let Some(input) = input(change, *sources) {
                scheduler.handle(now, input);
            }
        });
    }

    fn reply(reply: Reply) -> lazaret_machine::Reply {
        wire::with_written(reply)
    }
}

fn input(change: Change, sources: Sources) -> Option<Input> {
    use lazaret_fleet::Input as Device;
    if let Some(news) = claim_news(&change) {
        return Some(Input::Classic(news));
    }
    match change {
        Change::Set(resource, object) => set(&resource, &object, sources),
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

fn set(resource: &Resource, object: &Object, sources: Sources) -> Option<Input> {
    use lazaret_fleet::Input as Device;
    match resource.plural {
        "namespaces" => return nodes::namespace(object).map(|(name, labels)| Input::Namespace(name, labels)),
        "poddisruptionbudgets" => return nodes::budget(object).map(|budget| Input::Budget(Arc::new(budget))),
        _ => {}
    }
    match object.model() {
        Ok(Model::Pod(pod)) => pods::pod(pod, object, sources).map(|pod| Input::Pod(Arc::new(pod))),
        Ok(Model::Group(group)) => Some(Input::Group(Arc::clone(group))),
        Ok(Model::Node(_)) => nodes::node(object).map(|node| Input::Node(Arc::new(node))),
        Ok(Model::Claim(claim)) => Some(Input::Claim(Arc::new(claims::claim(claim, object)))),
        Ok(Model::Slice(slice)) => Some(Input::Fleet(Device::Slice(Arc::clone(slice)))),
        Ok(Model::Class(class)) => Some(Input::Fleet(Device::Class(Arc::clone(class)))),
        Ok(Model::Rule(rule)) => Some(Input::Fleet(Device::Rule(Arc::clone(rule)))),
        Ok(Model::Patch(patch)) => Some(Input::Fleet(Device::Patch(Arc::clone(patch)))),
        // The object says why nothing is known of it; what the core holds of it stays.
        Ok(Model::Template(_) | Model::Other) | Err(_) => None,
    }
}
