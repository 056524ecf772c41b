//! The steps of a world: one happens at a time.

use lazaret_claims::Claims;
use lazaret_model::{ObjectKey, Text, Uid};
use lazaret_scheduler::Scheduler;

use super::World;
use crate::{
    actors::{
        election::LeaseStep, health::HealthStep, kubelets::KubeletStep, part::PartStep,
        replacement::Replacer, turn::Question, writes::Sent,
    },
    api::Kind,
};

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum Step {
    /// Something from outside.
    Transition(usize),
    /// Faults end.
    Rest,
    /// A watch delivers.
    Deliver(usize, Kind),
    /// Something about the lease.
    Lease(LeaseStep),
    /// A controller starts again; only if it is still that process.
    Restart(usize, u64),
    /// A controller that was asked to end has had enough time; only if it is still that process.
    Kill(usize, u64),
    /// A controller whose agent was given up begins another, if it is still in that life.
    BeginAnew(usize, u64),
    /// A controller asks how far the server is.
    Ask(Box<Question>),
    /// It hears the answer.
    Told(Box<Question>),
    /// A controller looks again whether its watches are as far.
    Look(usize),
    /// A controller asked to be called.
    Tick(usize, u64),
    /// A controller is about to send a write: the last look at the lease.
    Send(Box<Sent>),
    /// The write reaches the server.
    Arrive(Box<Sent>),
    /// The answer reaches the controller.
    Answer(Box<Sent>),
    /// A driver publishes a slice of a pool.
    Publish(usize, usize),
    /// A driver publishes a slice that it misses.
    PublishAgain(usize, usize),
    /// The slices of a Node that is gone are collected.
    Collect(Text),
    /// A driver deletes a slice that another has replaced.
    Withdraw(Text),
    /// Something about the kubelets.
    Kubelet(Box<KubeletStep>),
    /// Something about the claim controllers.
    Claims(Box<PartStep<lazaret_claims::EffectKind>>),
    /// A watch of nodes delivers what kubelets say.
    DeliverReports(usize),
    /// A driver reports on the devices of a claim.
    ReportDevices(ObjectKey, Uid),
    /// Something about the schedulers.
    Scheduler(Box<PartStep<lazaret_scheduler::EffectKind>>),
    /// Something about the workload controllers.
    Workloads(Box<PartStep<lazaret_workloads::Write>>),
    /// The watches of objects that are kept as JSON deliver.
    DeliverObjects(usize),
    /// Something about the replacement controllers.
    Replacer(Box<PartStep<lazaret_replacement::EffectKind>>),
    /// A watch of replacement policies delivers.
    DeliverReplacements(usize),
    /// A controller hears of the guards.
    Guards(usize),
    /// Something about incidents.
    Health(Box<HealthStep>),
}

impl Step {
    /// Whether it comes again and again, also in a world at rest.
    pub(super) fn is_routine(&self) -> bool {
        matches!(self, Self::Lease(_)) || matches!(self, Self::Kubelet(step) if step.is_routine())
    }
}

impl World {
    /// When a step can be taken whose actor is stopped.
    pub(super) fn frozen_until(&self, step: &Step) -> Option<u64> {
        let controller = match step {
            Step::Deliver(client, _) => *client,
            Step::Lease(step) => step.controller()?,
            Step::Tick(controller, _)
            | Step::Look(controller)
            | Step::BeginAnew(controller, _)
            | Step::DeliverReports(controller)
            | Step::DeliverObjects(controller)
            | Step::DeliverReplacements(controller)
            | Step::Guards(controller) => *controller,
            Step::Send(sent) | Step::Answer(sent) => sent.controller,
            Step::Told(question) => question.controller,
            Step::Health(step) => step.controller()?,
            Step::Claims(step) => step.controller()?,
            Step::Scheduler(step) => step.controller()?,
            Step::Workloads(step) => step.controller()?,
            Step::Replacer(step) => step.controller()?,
            Step::Transition(_)
            | Step::Rest
            | Step::Restart(..)
            | Step::Kill(..)
            | Step::Arrive(_)
            | Step::Ask(_)
            | Step::Publish(..)
            | Step::PublishAgain(..)
            | Step::Collect(_)
            | Step::Withdraw(_)
            | Step::Kubelet(_)
            | Step::ReportDevices(..) => return None,
        };
        self.controllers.get(controller)?.frozen(self.now)
    }

    pub(super) fn take(&mut self, step: Step) {
        if self.trace && !step.is_routine() {
            self.say(format_args!("{step:?}"));
        }
        match step {
            Step::Transition(number) => self.transition(number),
            Step::Rest => self.begin_rest(),
            Step::Deliver(client, kind) => self.deliver(client, kind),
            Step::Lease(step) => self.lease_step(step),
            Step::Restart(controller, process) => self.restart(controller, process),
            Step::Kill(controller, process) => self.kill(controller, process),
            Step::BeginAnew(controller, life) => {
                if self.controllers[controller].life == life {
                    self.begin_anew(controller);
                }
            }
            Step::Ask(question) => self.asked(question),
            Step::Told(question) => self.told_how_far(*question),
            // The loop of every controller turns after each step.
            Step::Look(..) => {}
            Step::Tick(controller, life) => self.tick(controller, life),
            Step::Send(sent) => self.send(sent),
            Step::Arrive(sent) => self.arrive(sent),
            Step::Answer(sent) => self.answer(&sent),
            Step::Publish(pool, slice) => self.publish(pool, slice),
            Step::PublishAgain(pool, slice) => self.publish_if_there(pool, slice),
            Step::Collect(node) => self.collect_slices(&node),
            Step::Withdraw(name) => self.withdraw(&name),
            Step::Kubelet(step) => self.kubelet_step(*step),
            Step::Claims(step) => self.part_step::<Claims>(*step),
            Step::Scheduler(step) => self.part_step::<Scheduler>(*step),
            Step::Replacer(step) => self.part_step::<Replacer>(*step),
            Step::DeliverReplacements(controller) => self.deliver_replacements(controller),
            Step::DeliverReports(controller) => self.deliver_reports(controller),
            Step::Workloads(step) => self.part_step::<lazaret_workloads::Workloads>(*step),
            Step::DeliverObjects(controller) => self.deliver_objects(controller),
            Step::ReportDevices(claim, uid) => self.report_devices(&claim, &uid),
            Step::Guards(controller) => self.hear_guards(controller),
            Step::Health(step) => self.health_step(*step),
        }
    }
}
