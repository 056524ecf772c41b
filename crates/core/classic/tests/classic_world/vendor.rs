//! Hardware of a vendor, and the code that its driver controller calls.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_classic::{Allocate, Allocation, Refusal, Suitability};
use lazaret_model::{NodeSelector, NodeSelectorTerm, Operator, Requirement, Text, Uid};

use super::dice::Dice;

/// Devices of one driver.
pub(crate) struct Vendor {
    pub(crate) name: Text,
    /// Whether every node reaches every device; otherwise each node has its own.
    pub(crate) fabric: bool,
    /// All devices of a fabric, or those of each node.
    pub(crate) devices: usize,
    /// The node for which devices are held for each claim.
    pub(crate) held: BTreeMap<Uid, Text>,
    pub(crate) nodes: Vec<Text>,
    /// How many users an allocation may have.
    pub(crate) user_limit: i64,
    /// Mutant: what is deallocated stays held.
    pub(crate) leaks: bool,
}

/// How the vendor's code behaves in one call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VendorBehaviour {
    Honest,
    /// It refuses without a reason, or names nodes that would do.
    Refusing,
    /// It holds devices and answers with something that no status can say.
    Unusable,
    /// It holds devices for another node than the one that was asked for.
    Elsewhere,
    /// The answer is lost after it was done.
    LostAnswer,
    /// It was not done, and the outcome is unknown.
    LostCall,
}

impl VendorBehaviour {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.roll(20) {
            0 => Self::Refusing,
            1 => Self::Unusable,
            2 => Self::Elsewhere,
            3 | 4 => Self::LostAnswer,
            5 | 6 => Self::LostCall,
            _ => Self::Honest,
        }
    }
}

pub(crate) fn only(node: &str) -> NodeSelector {
    let requirement =
        Requirement { key: "metadata.name".into(), operator: Operator::In, values: vec![node.into()] };
    NodeSelector {
        terms: vec![NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![requirement] }],
    }
}

impl Vendor {
    /// Devices that are free for a node.
    pub(crate) fn free(&self, node: &Text) -> usize {
        let used = self.held.values().filter(|held| self.fabric || *held == node).count();
        self.devices.saturating_sub(used)
    }

    pub(crate) fn allocate(
        &mut self,
        call: &Allocate,
        behaviour: VendorBehaviour,
    ) -> Result<Allocation, Refusal> {
        if behaviour == VendorBehaviour::LostCall {
            return Err(Refusal::Unknown);
        }
        if !self.held.contains_key(&call.uid) {
            let free = |node: &&Text| self.free(node) > 0;
            let wanted = match &call.node {
                Some(node) if behaviour != VendorBehaviour::Elsewhere => Some(node),
                Some(_) | None => self.nodes.iter().rev().find(free),
            };
            match wanted.filter(free) {
                Some(node) if behaviour != VendorBehaviour::Refusing => {
                    self.held.insert(call.uid.clone(), node.clone());
                }
                Some(_) | None => return Err(Refusal::Failed),
            }
        }
        if behaviour == VendorBehaviour::LostAnswer {
            return Err(Refusal::Unknown);
        }
        let node = &self.held[&call.uid];
        let text =
            if behaviour == VendorBehaviour::Unusable { "x".repeat(100_000) } else { node.to_string() };
        Ok(Allocation {
            attributes: [("device".into(), text.into())].into(),
            available_on_nodes: (!self.fabric).then(|| Arc::new(only(node))),
            user_limit: self.user_limit,
        })
    }

    /// Whether it says that it is done.
    pub(crate) fn deallocate(&mut self, uid: &Uid, behaviour: VendorBehaviour) -> bool {
        if matches!(behaviour, VendorBehaviour::Refusing | VendorBehaviour::LostCall) {
            return false;
        }
        if !self.leaks {
            self.held.remove(uid);
        }
        behaviour != VendorBehaviour::LostAnswer
    }

    pub(crate) fn examine(&self, nodes: &[Text], behaviour: VendorBehaviour) -> Option<Suitability> {
        let unsuitable = match behaviour {
            VendorBehaviour::LostAnswer | VendorBehaviour::LostCall => return None,
            VendorBehaviour::Refusing => nodes.to_vec(),
            VendorBehaviour::Unusable => vec!["no-such-node".into()],
            VendorBehaviour::Honest | VendorBehaviour::Elsewhere => {
                nodes.iter().filter(|node| self.free(node) == 0).cloned().collect()
            }
        };
        Some(Suitability { unsuitable_nodes: unsuitable, available_on_nodes: None })
    }
}
