//! Nodes prepare the claims of their pods, notice late that a pod was removed by force, and say what is unprepared when they are asked.

use std::collections::BTreeSet;

use lazaret_classic::Pod;
use lazaret_model::{NodeReport, Text, Uid};

use super::{mutant::Mutant, world::World};

impl World {
    /// A pod was bound: its claims are prepared.
    pub(crate) fn prepare(&mut self, pod: &Pod, node: &Text) {
        let claims: Vec<Uid> = self.server.claims_of(pod).iter().map(|claim| claim.uid.clone()).collect();
        self.prepared.extend(claims.into_iter().map(|uid| (node.clone(), uid)));
    }

    /// A pod ends on its node: claims that no other pod uses there are unprepared.
    pub(crate) fn unprepare(&mut self, pod: &Pod) {
        let Some(node) = &pod.node else { return };
        let others = self.server.pods.values().filter(|other| other.uid != pod.uid);
        let used: BTreeSet<Uid> = others
            .filter(|other| other.node.as_ref() == Some(node))
            .flat_map(|other| self.server.claims_of(other))
            .map(|claim| claim.uid.clone())
            .collect();
        let ended: BTreeSet<Uid> = self.server.claims_of(pod).iter().map(|claim| claim.uid.clone()).collect();
        self.prepared.retain(|(at, uid)| at != node || used.contains(uid) || !ended.contains(uid));
    }

    /// A node looks at its pods and at its questions. Whether it had something to do.
    pub(crate) fn kubelet(&mut self, node: &Text) -> bool {
        let pods = self.server.pods.values().filter(|pod| pod.node.as_ref() == Some(node));
        let used: BTreeSet<Uid> =
            pods.flat_map(|pod| self.server.claims_of(pod)).map(|claim| claim.uid.clone()).collect();
        let before = self.prepared.len();
        let is_hasty = self.mutant == Some(Mutant::HastyNode);
        if !is_hasty || self.dice.one_in(4) {
            self.prepared.retain(|(at, uid)| at != node || used.contains(uid));
        }
        let Some(report) = self.server.reports.get(node).cloned() else { return false };
        let is_prepared = |uid: &Uid| self.prepared.contains(&(node.clone(), uid.clone()));
        let asked = report.awaiting.iter().map(|one| one.uid.clone());
        let unprepared: BTreeSet<Uid> = asked.filter(|uid| is_hasty || !is_prepared(uid)).collect();
        let is_news = unprepared != report.unprepared;
        if is_news {
            self.server.put_report(NodeReport { unprepared, ..report });
        }
        is_news || before != self.prepared.len()
    }

    pub(crate) fn some_kubelet(&mut self) {
        let node = self.nodes[self.dice.roll(self.nodes.len())].clone();
        self.kubelet(&node);
    }

    pub(crate) fn all_kubelets(&mut self) -> bool {
        let nodes = self.nodes.clone();
        nodes.iter().filter(|node| self.kubelet(node)).count() > 0
    }
}
