//! The workload controllers share an agent and its objects; each writes by rights of its own.

use std::collections::BTreeMap;

use lazaret_model::{SetBack, Timestamp};
use lazaret_runtime::{Agent, Effect, EffectId, News, Outcome, Perform, Reply, Resource, ViewWish, Wake};
use lazaret_workloads::{Limits, Selection, Write};

use crate::{context::PartContext, machine_agent::MachineAgent, workloads::WorkloadsShell, writer::Writer};

/// A write, and the controller that wants it.
#[derive(Clone, Debug)]
pub(crate) struct ControllerWrite {
    controller: &'static str,
    write: Write,
}

/// The agent of all workload controllers.
#[derive(Debug)]
pub(crate) struct WorkloadsAgent(MachineAgent<WorkloadsShell>);

impl WorkloadsAgent {
    pub(crate) fn new(limits: Limits, chosen: Selection) -> Self {
        Self(WorkloadsShell::agent(limits, chosen))
    }
}

impl Agent for WorkloadsAgent {
    type Effect = ControllerWrite;

    fn clock_set_back(&mut self, set_back: SetBack) {
        self.0.clock_set_back(set_back);
    }

    fn hear(&mut self, now: Timestamp, news: News) {
        self.0.hear(now, news);
    }

    fn follow(&mut self) -> Option<Vec<Resource>> {
        self.0.follow()
    }

    fn think(&mut self, now: Timestamp) {
        self.0.think(now);
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.0.lead(now, leading);
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.0.acknowledge(now, effect, reply);
    }

    fn poll(&mut self) -> Option<Effect<ControllerWrite>> {
        let Effect { id, kind: write } = self.0.poll()?;
        // Each effect has the number of its controller; a name that no role has may write nothing.
        let controller = self.0.machine().controller_of(id).unwrap_or_default();
        Some(Effect { id, kind: ControllerWrite { controller, write } })
    }

    fn wake(&self) -> Option<Wake> {
        self.0.wake()
    }

    fn wants_view(&mut self) -> Option<ViewWish> {
        self.0.wants_view()
    }

    fn view_reached(&mut self, now: Timestamp, number: u64) {
        self.0.view_reached(now, number);
    }

    fn final_writes(&mut self, now: Timestamp) -> bool {
        self.0.final_writes(now)
    }
}

/// A writer for each of the workload controllers.
#[derive(Debug)]
pub(crate) struct WorkloadWriters(BTreeMap<&'static str, Writer>);

impl WorkloadWriters {
    pub(crate) fn new(context: &PartContext, chosen: Selection) -> Self {
        Self(chosen.rules().iter().map(|rules| (rules.name, context.writer(rules.name))).collect())
    }
}

impl Perform<ControllerWrite> for WorkloadWriters {
    async fn perform(&self, ControllerWrite { controller, write }: ControllerWrite) -> Reply {
        match self.0.get(controller) {
            Some(writer) => writer.perform(write).await,
            None => Outcome::Refused.into(),
        }
    }
}
