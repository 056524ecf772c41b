//! The reports of kubelets, in their Nodes, on the claims that are prepared there, when the claim controller asks.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_claims::AskNode;
use lazaret_machine::Outcome;
use lazaret_model::{NodeReport, Text};

use crate::{
    actors::kubelet_watches::Watch,
    coverage::Mark,
    mutant::Mutant,
    palette,
    rng::Rng,
    scenario::Config,
    world::{Step, World},
};

/// The stream of randomness that delays of its watches come from.
const REPORTS: u64 = 41;

/// The reports of nodes, and the questions to them.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) by_node: BTreeMap<Text, Arc<NodeReport>>,
    /// All writes, for watches.
    pub(crate) log: Vec<Arc<NodeReport>>,
    /// How much of it the watch of each process has delivered.
    pub(crate) told: [usize; 2],
    rng: Rng,
}

impl Reports {
    pub(crate) fn new(config: &Config) -> Self {
        let report = |number: u32| NodeReport {
            name: palette::node(number),
            uid: palette::node(number),
            version: "0".into(),
            reports: true,
            ..NodeReport::default()
        };
        let by_node = (0..config.nodes).map(|number| (palette::node(number), Arc::new(report(number))));
        let by_node = by_node.collect();
        Self { by_node, log: Vec::new(), told: [0; 2], rng: Rng::new(config.seed, REPORTS) }
    }
}

impl World {
    /// A Node is written.
    pub(super) fn write_report(&mut self, node: &Text, edit: impl FnOnce(&mut NodeReport)) {
        let reports = &mut self.reports;
        let Some(report) = reports.by_node.get_mut(node) else { return };
        let report = Arc::make_mut(report);
        edit(report);
        report.version = (reports.log.len() + 1).to_string().into();
        let written = Arc::new(report.clone());
        reports.log.push(written);
        for number in 0..self.controllers.len() {
            let delay = self.reports.rng.below(u64::from(self.config.lag_ms) + 1);
            self.push(self.now + delay, Step::DeliverReports(number));
        }
        self.plan_kubelet_delivery(Watch::Nodes);
    }

    /// The watch of nodes of a process delivers.
    pub(crate) fn deliver_reports(&mut self, number: usize) {
        self.reports.told[number] = self.reports.log.len();
        self.claims.told(number);
        self.schedulers.told(number);
    }

    /// The claim controller reads a Node: whether it reports. All do that are in service.
    pub(crate) fn confirm_node(&self, name: &Text) -> Outcome {
        let report = self.reports.by_node.get(name).filter(|report| report.reports && !report.out_of_service);
        match report.filter(|_| self.mutant != Some(Mutant::NoNodes)) {
            Some(_) => Outcome::Done,
            None => Outcome::Gone,
        }
    }

    /// The claim controller writes what it wants to know of a node.
    pub(crate) fn ask_node(&mut self, ask: &AskNode) -> Outcome {
        let report = self.reports.by_node.get(&ask.node).filter(|report| report.uid == ask.uid);
        let Some(report) = report else { return Outcome::Gone };
        if report.version != ask.version {
            return Outcome::Conflict;
        }
        if !ask.awaiting.is_empty() {
            self.coverage.hit(Mark::NodeAsked);
        }
        // A mutant has the answer before anybody has looked.
        let is_hasty = self.mutant == Some(Mutant::Hasty);
        self.write_report(&ask.node, |report| {
            report.awaiting.clone_from(&ask.awaiting);
            if is_hasty {
                report.unprepared = ask.awaiting.iter().map(|one| one.uid.clone()).collect();
            }
        });
        Outcome::Done
    }
}
