//! The reports of kubelets, in their Nodes, on the claims that are prepared there, when the claim controller asks.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_claims::AskNode;
use lazaret_machine::Outcome;
use lazaret_model::{NodeReport, Text, Uid};

use crate::{
    actors::kubelet_watches::Watch,
    coverage::Mark,
    mutant::Mutant,
    palette,
    rng::Rng,
    scenario::Config,
    world::{CLIENTS, Step, World},
};

/// The stream of randomness that delays of its watches come from.
const REPORTS: u64 = 41;

/// A write of a Node.
#[derive(Clone, Debug)]
pub(crate) struct NodeWrite {
    pub(crate) name: Text,
    /// `None`: it was deleted.
    pub(crate) report: Option<Arc<NodeReport>>,
}

/// A Node that was made by its kubelet.
#[derive(Clone, Debug)]
pub(crate) struct Incarnation {
    pub(crate) name: Text,
    /// The place in the log of Nodes where it was made.
    pub(crate) place: usize,
    pub(crate) uid: Uid,
}

/// The reports of nodes, and the questions to them.
#[derive(Debug)]
pub(crate) struct Reports {
    pub(crate) by_node: BTreeMap<Text, Arc<NodeReport>>,
    /// All writes, for watches.
    pub(crate) log: Vec<NodeWrite>,
    /// How much of it the watch of each process has delivered.
    pub(crate) told: [usize; CLIENTS],
    /// A watch that broke off here was opened anew there.
    missed: [Vec<(usize, usize)>; CLIENTS],
    /// The Nodes that were not there from the start.
    pub(super) made: Vec<Incarnation>,
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
        Self {
            by_node,
            log: Vec::new(),
            told: [0; CLIENTS],
            missed: Default::default(),
            made: Vec::new(),
            rng: Rng::new(config.seed, REPORTS),
        }
    }

    /// Writes from here to there, as the watch of a process told of them: of writes that it missed, the last of each Node. A Node whose name was
    /// used again is gone first.
    pub(super) fn events(&self, number: usize, from: usize, to: usize) -> Vec<NodeWrite> {
        let gap = |place: &usize| {
            self.missed[number].iter().find(|(begin, end)| (*begin..*end).contains(place) && *end > from)
        };
        let mut events = Vec::new();
        for place in from..to {
            let write = &self.log[place];
            if let Some((_, end)) = gap(&place) {
                let rest = &self.log[place + 1..*end];
                let is_hidden = rest.iter().any(|later| later.name == write.name);
                if is_hidden && write.report.is_some() {
                    continue;
                }
            }
            events.push(write.clone());
        }
        events
    }

    /// The UID of the Node that was written at this place of the log of Nodes.
    pub(super) fn uid_at(&self, name: &Text, place: usize) -> Uid {
        let made = self.made.iter().rev().find(|one| one.name == *name && one.place <= place);
        made.map_or_else(|| name.clone(), |one| one.uid.clone())
    }

    /// Whether a Node was ever deleted.
    fn is_any_deleted(&self) -> bool {
        self.log.iter().any(|write| write.report.is_none())
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
        let report = Some(Arc::new(report.clone()));
        self.tell_of_node(NodeWrite { name: node.clone(), report });
    }

    /// The watches tell of a write of a Node.
    pub(super) fn tell_of_node(&mut self, write: NodeWrite) {
        self.reports.log.push(write);
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

    /// The watch of nodes of a process breaks: it lists again.
    pub(super) fn relist_reports(&mut self, number: usize) {
        // As long as none was deleted, to miss some writes is nothing but to hear of them later.
        if self.reports.is_any_deleted() {
            let length = self.reports.log.len();
            let before = core::mem::replace(&mut self.reports.told[number], length);
            self.reports.missed[number].push((before, length));
            self.claims.told(number);
            self.schedulers.told(number);
        }
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
        self.check_questions(ask);
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
