//! The nodes as a scheduler has heard of them: what the watch of Nodes says, and the reports of kubelets, which are heard of by themselves.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_model::{Awaited, DeviceId, NodeReport, Text, Uid};
use lazaret_scheduler::Node;

/// The nodes that are there, and the last report of each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownNodes {
    by_name: BTreeMap<Text, (Uid, Node)>,
    reports: BTreeMap<Text, Arc<NodeReport>>,
}

impl KnownNodes {
    /// A Node of this UID was written; whether another of its name was there.
    pub(super) fn set(&mut self, name: &Text, uid: Uid, edit: impl FnOnce(&mut Node)) -> bool {
        let before = self.by_name.remove(name);
        let is_another = before.as_ref().is_some_and(|(known, _)| *known != uid);
        let mut node = match before.filter(|_| !is_another) {
            Some((_, node)) => node,
            None => {
                let report = self.reports.get(name).filter(|report| report.uid == uid);
                report.map_or_else(Node::default, |report| with_report(Node::default(), report))
            }
        };
        edit(&mut node);
        self.by_name.insert(name.clone(), (uid, node));
        is_another
    }

    /// A kubelet reports: the node, if it is that Node which is there.
    pub(super) fn report(&mut self, report: &Arc<NodeReport>) -> Option<Arc<Node>> {
        self.reports.insert(report.name.clone(), Arc::clone(report));
        let (uid, node) = self.by_name.get_mut(&report.name)?;
        if *uid != report.uid {
            return None;
        }
        *node = with_report(core::mem::take(node), report);
        self.get(&report.name)
    }

    /// The Node of this name is gone; whether it was there.
    pub(super) fn remove(&mut self, name: &Text) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// The question to a node that is there which is about this device.
    pub(crate) fn asked_about(&self, device: &DeviceId) -> Option<&Awaited> {
        let asked = self.by_name.values().flat_map(|(_, node)| &node.awaiting);
        asked.into_iter().find(|one| one.devices.contains(device))
    }

    pub(super) fn get(&self, name: &Text) -> Option<Arc<Node>> {
        self.by_name.get(name).map(|(_, node)| Arc::new(node.clone()))
    }
}

fn with_report(mut node: Node, report: &NodeReport) -> Node {
    (node.reports, node.awaiting) = (report.reports, report.awaiting.clone());
    node
}
