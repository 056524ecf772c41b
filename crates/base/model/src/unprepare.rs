//! The report of a node that precedes the next allocation of a device whose pod vanished.
//!
//! A pod that ends on its node reaches a terminal phase, and a node lets it do so only after it has unprepared the devices. A pod whose
//! object was removed before that says nothing. The claim controller then asks the node by listing the claim in an annotation of the
//! Node; the node answers in another one. Only nodes that say that they answer are asked.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use crate::{Allocation, DeviceId, NodeSelector, ObjectKey, Operator, Text, Timestamp, Uid};

/// On a Node, by the node: `true` if it answers in [`UNPREPARED`].
pub const REPORTS_UNPREPARED: &str = "lazaret.dev/reports-unprepared";
/// On a Node, by the claim controller: the claims that it waits for. On a claim: the names of the nodes that are waited for.
pub const AWAITING_UNPREPARE: &str = "lazaret.dev/awaiting-unprepare";
/// On a Node, by the controller of classic claims: the same for classic claims. Each of the two has one writer.
pub const AWAITING_CLASSIC_UNPREPARE: &str = "lazaret.dev/awaiting-classic-unprepare";
/// On a Node, by the node: UIDs of claims listed in [`AWAITING_UNPREPARE`] or [`AWAITING_CLASSIC_UNPREPARE`] of which nothing is prepared on it any more.
pub const UNPREPARED: &str = "lazaret.dev/unprepared";
/// A node with this taint is off: nothing runs there, nothing is prepared.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Claims that one node is asked about at a time; others follow when these are done. A node has at most some hundred devices, and an
/// object's annotations have room for 256 KiB.
pub const AWAITED_PER_NODE_MAX: usize = 64;
/// And their size, in bytes, but for a single one.
pub const AWAITED_BYTES_PER_NODE_MAX: usize = 64 << 10;

/// A claim that a node is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Awaited {
    /// Which claim.
    pub claim: ObjectKey,
    /// Which incarnation of it.
    pub uid: Uid,
    /// The devices allocated to it.
    pub devices: Vec<DeviceId>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Why a person released it without the node's word.
    pub released: Option<Text>,
}

impl Awaited {
    /// Its size on the wire, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_device = |id: &DeviceId| id.driver.len() + id.pool.len() + id.device.len() + 6;
        let devices: usize = self.devices.iter().map(of_device).sum();
        let reason = self.released.as_ref().map_or(0, |reason| reason.len());
        self.claim.namespace.len() + self.claim.name.len() + self.uid.len() + devices + reason + 96
    }

    /// The message for people, the same everywhere.
    #[must_use]
    pub fn words(&self, node: &str) -> String {
        let devices: Vec<String> = self.devices.iter().map(|device| format!("{device}")).collect();
        format!(
            "waiting for node {node} to unprepare {} for claim {}, whose pod was removed before it ended",
            devices.join(", "),
            self.claim
        )
    }
}

/// The claims prepared on a node, and the claim controller's requests to it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NodeReport {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its version.
    pub version: Text,
    /// Whether it answers at all.
    pub reports: bool,
    /// Whether it has the taint [`OUT_OF_SERVICE`].
    pub out_of_service: bool,
    /// The claims that it is to unprepare.
    pub awaiting: Vec<Awaited>,
    /// The claims that it has unprepared.
    pub unprepared: BTreeSet<Uid>,
}

impl NodeReport {
    /// Whether a claim may still be prepared on it, by its report.
    #[must_use]
    pub fn may_have_prepared(&self, claim: &Uid) -> bool {
        let released = || self.awaiting.iter().any(|one| one.uid == *claim && one.released.is_some());
        self.reports && !self.out_of_service && !self.unprepared.contains(claim) && !released()
    }
}

impl NodeSelector {
    /// The one node that it selects, if it selects by the name of one.
    #[must_use]
    pub fn only_node(&self) -> Option<&Text> {
        let [term] = self.terms.as_slice() else { return None };
        let by_name = term.match_fields.iter().find(|field| field.key == "metadata.name")?;
        match (&by_name.operator, by_name.values.as_slice()) {
            (Operator::In, [name]) => Some(name),
            _ => None,
        }
    }
}

impl Allocation {
    /// The one node on which it is usable, if its devices are those of a node.
    #[must_use]
    pub fn only_node(&self) -> Option<&Text> {
        self.node_selector.as_ref()?.only_node()
    }

    /// The devices that no other claim can have while it stands.
    pub fn held_devices(&self) -> impl Iterator<Item = &DeviceId> {
        self.results.iter().filter(|result| !result.admin_access).map(|result| &result.device)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::{NodeSelectorTerm, Requirement};

    #[test]
    fn an_answer_a_person_or_a_node_that_is_off_ends_the_wait() {
        let claim: Uid = "c".into();
        let awaiting = vec![Awaited { uid: claim.clone(), ..Awaited::default() }];
        let asked = NodeReport { reports: true, awaiting, ..NodeReport::default() };
        assert!(asked.may_have_prepared(&claim));
        assert!(!NodeReport { reports: false, ..asked.clone() }.may_have_prepared(&claim));
        assert!(!NodeReport { out_of_service: true, ..asked.clone() }.may_have_prepared(&claim));
        let answered = NodeReport { unprepared: [claim.clone()].into(), ..asked.clone() };
        assert!(!answered.may_have_prepared(&claim) && answered.may_have_prepared(&"d".into()));
        let mut released = asked;
        released.awaiting[0].released = Some("the board was replaced".into());
        assert!(!released.may_have_prepared(&claim));
    }

    #[test]
    fn an_allocation_of_local_devices_names_its_node() {
        let on = |operator, values: &[&str]| Allocation {
            node_selector: Some(NodeSelector {
                terms: vec![NodeSelectorTerm {
                    match_fields: vec![Requirement {
                        key: "metadata.name".into(),
                        operator,
                        values: values.iter().map(|value| (*value).into()).collect(),
                    }],
                    ..NodeSelectorTerm::default()
                }],
            }),
            ..Allocation::default()
        };
        assert_eq!(on(Operator::In, &["node-1"]).only_node(), Some(&"node-1".into()));
        assert_eq!(on(Operator::In, &["a", "b"]).only_node(), None);
        assert_eq!(on(Operator::NotIn, &["a"]).only_node(), None);
        assert_eq!(Allocation::default().only_node(), None);
    }
}
