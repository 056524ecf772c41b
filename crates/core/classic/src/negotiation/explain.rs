//! Why a pod waits, for people.

use alloc::{format, string::String, vec::Vec};
use core::fmt::{self, Write as _};

use lazaret_model::{ObjectKey, Text};

use super::{effect::Waiting, machine::Negotiator};
use crate::model::{Phase, ResourceClaim};

/// Of one claim this many nodes are named; the rest is counted.
const NODES_NAMED_MAX: usize = 3;
/// This many claims are named; the rest is counted.
const CLAIMS_NAMED_MAX: usize = 3;

impl Negotiator {
    /// Why a pod waits, and which driver said no to which node; `None`: it has a node, or is not known.
    #[must_use]
    pub fn explain(&self, pod: &ObjectKey) -> Option<String> {
        let slot = self.pods.get(pod)?;
        let mut text = format!("{}", slot.waiting);
        let claims = slot.claims.iter().filter_map(|claim| self.objects.claims.get(claim));
        for claim in claims.filter(|claim| claim.status.phase == Phase::Pending).take(CLAIMS_NAMED_MAX) {
            let unsuitable = &claim.status.driver.unsuitable_nodes;
            if !unsuitable.is_empty() {
                let driver = self.driver_of(claim);
                // Writing to a string does not fail.
                let _ = write!(
                    text,
                    "; {driver} refused {} for {:?}",
                    names(unsuitable),
                    claim.key.name.as_str()
                );
            }
        }
        Some(text)
    }

    fn driver_of(&self, claim: &ResourceClaim) -> String {
        match self.objects.classes.get(&claim.spec.class_name) {
            Some(class) => format!("driver {}", class.driver_name),
            None => format!("the driver of class {:?}", claim.spec.class_name.as_str()),
        }
    }
}

/// `node-1, node-2, node-3 and 4 more nodes`.
fn names(nodes: &[Text]) -> String {
    let named: Vec<&str> = nodes.iter().take(NODES_NAMED_MAX).map(Text::as_str).collect();
    match nodes.len().saturating_sub(NODES_NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more nodes", named.join(", ")),
    }
}

fn claims(keys: &[ObjectKey]) -> String {
    let named: Vec<String> =
        keys.iter().take(CLAIMS_NAMED_MAX).map(|key| format!("{:?}", key.name.as_str())).collect();
    match keys.len().saturating_sub(CLAIMS_NAMED_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = |f: &mut fmt::Formatter<'_>, before: &str, claim: &ObjectKey, after: &str| {
            write!(f, "{before}classic resourceclaim {:?}{after}", claim.name.as_str())
        };
        match self {
            Self::New | Self::Candidates => f.write_str("waiting for a node that everything else permits"),
            Self::Missing(claim) => about(f, "", claim, " not found"),
            Self::Foreign(claim) => about(f, "", claim, " does not belong to this pod"),
            Self::Deleting(claim) => about(f, "", claim, " is being deleted"),
            Self::Deallocation(claim) => about(f, "waiting for the deallocation of ", claim, ""),
            Self::Immediate(claim) => about(f, "waiting for the immediate allocation of ", claim, ""),
            Self::NoNode(keys) => write!(f, "no node suits classic resourceclaim(s) {}", claims(keys)),
            Self::OtherPod(claim) => about(f, "another pod negotiates about ", claim, ""),
            Self::Drivers(keys) => {
                write!(f, "waiting for drivers to allocate classic resourceclaim(s) {}", claims(keys))
            }
            Self::Backoff => f.write_str("the last attempt failed; waiting before the next one"),
            Self::Full(claim) => about(f, "", claim, " has as many users as it may have"),
            Self::Write(claim) => about(f, "waiting for a write to ", claim, ""),
            Self::Binding => f.write_str("being bound"),
        }
    }
}
