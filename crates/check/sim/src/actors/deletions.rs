//! Nodes that are deleted: an administrator deletes the Node of a machine that runs, whose kubelet registers it anew, or a cloud that of a machine that
//! went off, perhaps for good. The person who deletes a Node answers for what is prepared there.

use lazaret_model::{Node, NodeReport, Pod, Text};

use crate::{
    actors::nodes::{Incarnation, NodeWrite},
    coverage::Mark,
    palette,
    world::World,
};

/// One in this many deletions is that of a machine that goes off for good.
const FOR_GOOD: u32 = 8;

impl World {
    /// The Node of a machine is deleted, and the machine goes off or not. A world keeps one machine.
    pub(crate) fn delete_node(&mut self, number: u32, how: u32, down_ms: u64) {
        let name = palette::node(number % self.config.nodes);
        if self.api.nodes.get(&name).is_none() {
            return;
        }
        let others = self.reports.by_node.keys().filter(|other| **other != name);
        let is_last = others.filter(|other| !self.kubelets.scrapped.contains(*other)).count() == 0;
        let is_scrapped = how % FOR_GOOD == 1 && !is_last;
        let is_lost = how % 2 == 1;
        self.coverage.hit(if is_lost { Mark::NodeLost } else { Mark::NodeDeleted });
        if is_scrapped {
            self.kubelets.scrapped.insert(name.clone());
        }
        if is_lost && self.kubelets.off.insert(name.clone()) {
            self.restart_kubelets(down_ms);
        }
        self.answer_for_all_on(&name);
        self.api.nodes.remove(&mut self.api.versions, &name);
        self.reports.by_node.remove(&name);
        self.orphan_slices(&name);
        self.tell_of_node(NodeWrite { name, report: None });
    }

    /// The kubelet of a machine registers its Node.
    pub(super) fn register_node(&mut self, name: &Text) {
        // A machine that is off sends nothing.
        if self.kubelets.off.contains(name) || self.api.nodes.get(name).is_some() {
            return;
        }
        self.coverage.hit(Mark::NodeRegistered);
        let uid = self.api.new_uid();
        let place = self.api.nodes.log().len();
        self.reports.made.push(Incarnation { name: name.clone(), place, uid: uid.clone() });
        self.api.nodes.put(&mut self.api.versions, Node { name: name.clone(), ..Node::default() });
        // As the agent of a node does: a pod that is lost at once is waited for.
        let report = NodeReport { name: name.clone(), uid, reports: true, ..NodeReport::default() };
        self.reports.by_node.insert(name.clone(), report.into());
        self.write_report(name, |_| {});
        self.publish_missing_of(name);
    }

    /// Whether a Node is there and says that its kubelet answers.
    pub(crate) fn node_reports(&self, name: &Text) -> bool {
        self.reports.by_node.get(name).is_some_and(|report| report.reports)
    }

    /// Every machine that runs has its Node, and no pod is bound to a Node that is gone.
    pub(crate) fn check_nodes_at_rest(&mut self) {
        for name in (0..self.config.nodes).map(palette::node) {
            let is_there = self.node_reports(&name) && self.api.nodes.get(&name).is_some();
            if is_there == self.kubelets.off.contains(&name) {
                let detail = format!("{name} is there: {is_there}");
                self.violate("a machine that runs has its Node", detail);
            }
        }
        let is_left = |pod: &Pod| pod.node.as_ref().is_some_and(|node| self.api.nodes.get(node).is_none());
        let left = self.api.pods.iter().map(|stored| stored.object).find(|pod| is_left(pod));
        if let Some(detail) = left.map(|pod| format!("{} on {:?}", pod.key, pod.node)) {
            self.violate("no pod stays on a Node that is gone", detail);
        }
    }
}
