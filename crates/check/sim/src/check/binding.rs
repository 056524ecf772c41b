//! Binding: no pod before its devices are ready, none on a node that is cordoned, out of service or without room for it, and nobody leaves for an equal. Nothing of the
//! scheduler is used to find that out.

use std::collections::BTreeMap;

use lazaret_model::{Allocation, ObjectKey, Pod, ResourceClaim, Text, Uid};
use lazaret_scheduler::{Bind, Evict, ReleaseClaim};

use crate::{
    actors::{cordons::is_cordoned, outages::is_out_of_service},
    api::{claim_name, wall},
    coverage::Mark,
    palette,
    world::World,
};

impl World {
    /// A scheduler decides to bind a pod: the devices of its claims were reported ready. While the write is under way, somebody may take them, and the claim
    /// get others.
    pub(crate) fn check_made_ready(&mut self, bind: &Bind, is_new: bool) {
        if self.config.binding == 0 || !is_new {
            return;
        }
        let Some(pod) = self.api.pods.get(&bind.pod).map(|stored| stored.object) else { return };
        let named =
            pod.claims.iter().filter_map(|entry| claim_name(&entry.source)).chain(&pod.extended_claim);
        let keys = named.map(|name| ObjectKey { namespace: pod.key.namespace.clone(), name: name.clone() });
        let mut claims = keys.filter_map(|key| self.api.claims.get(&key));
        let unready = claims.find(|claim| !self.readiness.was_ready(&claim.object.uid));
        if let Some(detail) =
            unready.map(|claim| format!("{} is bound before {}", bind.pod, claim.object.key))
        {
            self.violate("a pod is bound after its devices are ready", detail);
        }
    }

    /// A pod is bound: its node has room for it.
    pub(crate) fn check_fits(&mut self, bind: &Bind) {
        let left = self.cpu_left(&bind.node);
        if left < 0 {
            let detail = format!("{} on {}, which lacks {} thousandths of a CPU", bind.pod, bind.node, -left);
            self.violate("no node is given more than it has room for", detail);
        }
    }

    /// The CPU of a node that no pod has, in thousandths.
    fn cpu_left(&self, node: &Text) -> i64 {
        if self.config.crowded == 0 {
            return 0;
        }
        let is_there = |pod: &&Pod| pod.node.as_ref() == Some(node) && !pod.phase.is_finished();
        let pods = self.api.pods.iter().map(|stored| &**stored.object).filter(is_there);
        self.config.node_cpu_milli() - pods.map(|pod| self.config.cpu_milli(&pod.uid)).sum::<i64>()
    }

    /// By node that takes pods: the CPU that no pod has.
    pub(super) fn open_nodes(&self) -> BTreeMap<Text, i64> {
        let names = (0..self.config.nodes).map(palette::node);
        let is_open = |name: &Text| self.api.nodes.get(name).is_some_and(|node| !is_cordoned(node.object));
        names.filter(is_open).map(|name| (name.clone(), self.cpu_left(&name))).collect()
    }

    /// A scheduler gives devices away, by what it has heard: not those of a node that is cordoned or out of service.
    pub(super) fn check_open(&mut self, number: usize, allocation: &Allocation) {
        let Some(name) = allocation.only_node() else { return };
        let node = self.seen(number).node(name);
        if node.is_none_or(|node| is_cordoned(node) || is_out_of_service(node)) {
            let detail = format!("devices of {name} are given");
            self.violate("no pod is placed on a node that takes none", detail);
        }
    }

    /// A scheduler decides to bind a pod, by what it has heard: to a Node that is there.
    pub(crate) fn check_node_is_there(&mut self, number: usize, bind: &Bind, is_new: bool) {
        if is_new && self.seen(number).node(&bind.node).is_none() {
            let detail = format!("{} to {}", bind.pod, bind.node);
            self.violate("no pod is bound to a Node that is known to be gone", detail);
        }
    }

    /// A scheduler has a pod leave for another, by what it had heard when it decided: the other one waits, and is more important.
    pub(crate) fn check_preempted(&mut self, number: usize, evict: &Evict, is_new: bool) {
        if is_new {
            let waits = self.seen(number).pod(&evict.preemptor).filter(|pod| pod.node.is_none());
            let waits = waits.map(|pod| pod.uid.clone());
            self.checker.decided.preemptors.insert(number, waits);
        }
        let is_more = |pod: &Uid| self.config.priority(pod) > self.config.priority(&evict.uid);
        let preemptor = self.checker.decided.preemptors.get(&number).and_then(Option::as_ref);
        if !preemptor.is_some_and(is_more) {
            let detail = format!("{} for {}", evict.victim, evict.preemptor);
            self.violate("nobody is made to leave for an equal", detail);
        }
    }

    /// The scheduler gives devices back. They were not ready in time if their time is over.
    pub(crate) fn note_timeout(&mut self, claim: &ResourceClaim, release: &ReleaseClaim) {
        let given = claim.allocation.as_ref().filter(|_| release.deallocate && self.config.binding != 0);
        let until =
            given.and_then(|given| given.timestamp).map(|at| at.plus_secs(self.config.binding.into()));
        if !self.readiness.was_ready(&claim.uid) && until.is_some_and(|until| until <= wall(self.now)) {
            self.coverage.hit(Mark::DevicesLate);
        }
    }
}
