//! Nodes as schedulers hear of them: what the Node says, and what its kubelet reports.

use std::sync::Arc;

use lazaret_model::{Node, NodeReport, Text};
use lazaret_scheduler::Input;

use crate::{
    actors::{
        cordons::{UNSCHEDULABLE, is_cordoned},
        news::{Event, listed},
        scheduler_hear::SchedulerInputs,
    },
    api::Kind,
    mutant::Mutant,
};

/// More than any world has.
const PODS_MAX: i64 = 1_000_000;

impl SchedulerInputs<'_> {
    pub(super) fn hear_node(&mut self, report: &Arc<NodeReport>) {
        if let Some(node) = self.nodes.report(report) {
            self.tell_node(node);
        }
    }

    fn tell_node(&mut self, mut node: Arc<lazaret_scheduler::Node>) {
        if self.mutant == Some(Mutant::UnseenQuestions) {
            Arc::make_mut(&mut node).awaiting.clear();
        }
        self.tell(Input::Node(node));
    }

    /// The first list of nodes: they are passed on with their reports.
    pub(super) fn list_nodes(&mut self) {
        for place in listed(&self.api.nodes, self.gaps.began[Kind::Node as usize]) {
            if let Some(stored) = self.api.nodes.written(place) {
                self.set_node(stored.object, place as usize - 1);
            }
        }
    }

    /// A Node was written at this place of the log. One whose name was used again is gone first.
    fn set_node(&mut self, facts: &Arc<Node>, place: usize) {
        let uid = self.reports.uid_at(&facts.name, place);
        let unschedulable = is_cordoned(facts) && self.mutant != Some(Mutant::UnseenCordon);
        let cpu_milli = self.config.node_cpu_milli();
        let is_another = self.nodes.set(&facts.name, uid, |node| {
            node.facts = Arc::clone(facts);
            node.unschedulable = unschedulable;
            node.taints = facts.taints.iter().filter(|taint| taint.key != UNSCHEDULABLE).cloned().collect();
            (node.pods_max, node.allocatable.cpu_milli) = (PODS_MAX, cpu_milli);
        });
        if is_another {
            self.tell_node_gone(&facts.name);
        }
    }

    fn tell_node_gone(&mut self, name: &Text) {
        if self.mutant != Some(Mutant::GhostNode) {
            self.tell(Input::NodeGone(name.clone()));
        }
    }

    /// The nodes that were written from here to there.
    pub(super) fn follow_nodes(&mut self, from: usize, to: usize) {
        let api = self.api;
        for Event { place, .. } in self.gaps.events(&api.nodes, from, to) {
            let logged = &api.nodes.log()[place];
            let Some(facts) = &logged.object else {
                let name = api.nodes.key(logged.number);
                if self.nodes.remove(name) {
                    self.tell_node_gone(name);
                }
                continue;
            };
            if self.mutant == Some(Mutant::UnseenUncordon) && !is_cordoned(facts) {
                continue;
            }
            self.set_node(facts, place);
            self.nodes.get(&facts.name).into_iter().for_each(|node| self.tell_node(node));
        }
    }
}
