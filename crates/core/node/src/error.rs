//! Why a pod cannot start or end yet. All of it may pass: a shell tries again.

use alloc::{collections::BTreeSet, string::String};
use core::fmt;

/// Why claims of a pod are not prepared or unprepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The claim of a template is not made yet.
    ClaimNotCreated,
    /// There is no such claim.
    ClaimMissing(String),
    /// A claim of this name is not the one that was made for the pod.
    NotOwned {
        /// The claim.
        claim: String,
        /// The pod.
        pod: String,
    },
    /// The pod may not use the claim.
    NotReserved {
        /// The claim.
        claim: String,
        /// Its incarnation.
        claim_uid: String,
        /// The pod.
        pod: String,
        /// Its incarnation.
        pod_uid: String,
    },
    /// The claim has no devices.
    NotAllocated(String),
    /// The driver is not registered.
    NotRegistered(String),
    /// Likewise, for a classic claim.
    ClassicNotRegistered(String),
    /// An earlier claim of the same name is still being cleaned up.
    Replaced {
        /// The claim.
        claim: String,
        /// The incarnation that is here.
        old: String,
        /// The one that is wanted.
        new: String,
    },
    /// The claim is just being unprepared.
    Unpreparing(String),
    /// The pod is being prepared or unprepared already.
    Busy(String),
    /// A call failed.
    Call {
        /// Of which driver.
        driver: String,
        /// Why.
        why: String,
    },
    /// A driver left claims out.
    Skipped {
        /// Which driver.
        driver: String,
        /// How many.
        count: usize,
    },
    /// A driver answered for a claim that it was not asked about.
    UnknownClaim {
        /// Which driver.
        driver: String,
        /// The claim's UID.
        uid: String,
    },
    /// A device is still prepared for another claim.
    InUse {
        /// The device.
        device: String,
        /// The claim that has it.
        claim: String,
        /// The claim that was given it too.
        wanted: String,
        /// UIDs of the pods that use the claim which has it.
        pods: BTreeSet<String>,
    },
    /// The claim is prepared, and was given other devices since.
    Moved(String),
    /// The claim is being taken back: the node may have answered that nothing is prepared for it.
    Awaited(String),
    /// There are too many claims on the node.
    TooMany,
    /// The checkpoint cannot be written.
    Checkpoint(String),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClaimNotCreated => f.write_str("a ResourceClaim of the pod is not created yet"),
            Self::ClaimMissing(name) => write!(f, "ResourceClaim {name} not found"),
            Self::NotOwned { claim, pod } => write!(f, "ResourceClaim {claim} was not created for pod {pod}"),
            Self::NotReserved { claim, claim_uid, pod, pod_uid } => write!(
                f,
                "pod {pod} ({pod_uid}) is not allowed to use ResourceClaim {claim} ({claim_uid}): it is not reserved for it"
            ),
            Self::NotAllocated(name) => write!(f, "ResourceClaim {name} is not allocated"),
            Self::NotRegistered(driver) => write!(f, "DRA driver {driver} is not registered"),
            Self::ClassicNotRegistered(driver) => {
                write!(f, "driver {driver} has registered no plugin of type ResourcePlugin")
            }
            Self::Replaced { claim, old, new } => {
                write!(f, "ResourceClaim {claim} ({new}): an earlier one ({old}) is still being unprepared")
            }
            Self::Unpreparing(name) => write!(f, "ResourceClaim {name} is being unprepared"),
            Self::Busy(pod) => write!(f, "claims of pod {pod} are being prepared or unprepared"),
            Self::Call { driver, why } => write!(f, "DRA driver {driver}: {why}"),
            Self::Skipped { driver, count } => {
                write!(f, "DRA driver {driver} skipped {count} ResourceClaims")
            }
            Self::UnknownClaim { driver, uid } => {
                write!(
                    f,
                    "DRA driver {driver} answered for ResourceClaim {uid}, which it was not asked about"
                )
            }
            Self::Moved(name) => write!(
                f,
                "ResourceClaim {name} is prepared for other devices than those that it is allocated now: it waits until they are unprepared"
            ),
            Self::InUse { device, claim, .. } => {
                write!(f, "device {device} is still prepared for ResourceClaim {claim}")
            }
            Self::Awaited(claim) => {
                write!(f, "ResourceClaim {claim} is being taken back from a pod that was removed")
            }
            Self::TooMany => f.write_str("too many ResourceClaims are prepared on this node"),
            Self::Checkpoint(why) => write!(f, "write the checkpoint: {why}"),
        }
    }
}

impl core::error::Error for NodeError {}
