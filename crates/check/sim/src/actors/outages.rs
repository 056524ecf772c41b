//! Machines that are off for a while: nothing runs there and nothing is prepared. An administrator says so by the taint that Kubernetes has for it, and
//! removes the pods.

use lazaret_model::{Effect, Node, Pod, Taint, Text};

use crate::{coverage::Mark, palette, world::World};

/// The taint of a node that is out of service.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Whether nothing runs on a node, by its taint.
pub(crate) fn is_out_of_service(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

impl World {
    /// The machine of a node goes off. The other kubelets are interrupted, for they are one process.
    pub(crate) fn power_off(&mut self, number: u32, down_ms: u64) {
        let name = palette::node(number % self.config.nodes);
        if self.kubelets.off.contains(&name) {
            return;
        }
        self.coverage.hit(Mark::PoweredOff);
        self.kubelets.off.insert(name.clone());
        self.restart_kubelets(down_ms);
        // Its devices are unprepared with the power, and whoever starts the machine again knows that.
        let uid = self.reports.by_node.get(&name).map(|report| report.uid.clone());
        uid.into_iter().for_each(|uid| drop(self.kubelets.checkpoints.remove(&uid)));
        self.say_out_of_service(&name, true);
        for pod in self.pods_on(&name) {
            self.remove_by_force(&pod);
        }
    }

    /// The machine starts, and its kubelet finds the pods that were bound to it meanwhile.
    pub(crate) fn power_on(&mut self, number: u32) {
        let name = palette::node(number % self.config.nodes);
        if self.kubelets.scrapped.contains(&name) || !self.kubelets.off.remove(&name) {
            return;
        }
        self.look_for_node(&name);
        self.say_out_of_service(&name, false);
        for pod in self.pods_on(&name) {
            self.api.edit_pod(&pod.key, &pod.uid, |_| {});
        }
    }

    pub(crate) fn power_on_all(&mut self) {
        (0..self.config.nodes).for_each(|number| self.power_on(number));
    }

    fn pods_on(&self, node: &Text) -> Vec<Pod> {
        let pods = self.api.pods.iter().map(|stored| &**stored.object);
        pods.filter(|pod| pod.node.as_ref() == Some(node)).cloned().collect()
    }

    fn say_out_of_service(&mut self, name: &Text, out_of_service: bool) {
        self.write_report(name, |report| report.out_of_service = out_of_service);
        let Some(stored) = self.api.nodes.get(name) else { return };
        let mut node = Node::clone(stored.object);
        let taint =
            || Taint { key: palette::word(OUT_OF_SERVICE), effect: Effect::NoExecute, ..Taint::default() };
        node.taints.retain(|taint| taint.key != OUT_OF_SERVICE);
        node.taints.extend(out_of_service.then(taint));
        self.api.nodes.put(&mut self.api.versions, node);
    }
}
