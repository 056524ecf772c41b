//! Effects of the manager of claims, and the answers to them.

use alloc::{collections::BTreeMap, string::String, vec::Vec};

use crate::{Call, ClaimId, NodeError, checkpoint::DeviceState};

/// The number of an operation on a pod.
pub type Operation = u64;

/// Something to do. Each but `Done` is answered once, with [`Manager::acknowledge`](crate::Manager::acknowledge). Checkpoints are written in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this as the checkpoint, to be there when the answer comes.
    Checkpoint(Vec<u8>),
    /// Call a plugin, all claims at once.
    Prepare {
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The claims.
        claims: Vec<ClaimId>,
    },
    /// Likewise.
    Unprepare {
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The claims.
        claims: Vec<ClaimId>,
    },
    /// Call a plugin of classic claims, which is asked about one at a time.
    CallClassic {
        /// The driver.
        driver: String,
        /// Where it is.
        endpoint: String,
        /// The claim.
        claim: ClaimId,
        /// The call.
        call: ClassicCall,
    },
    /// Look whether a claim is there: its plugin does not know it. Answered with `Found`.
    FindClaim(ClaimId),
    /// An operation ended.
    Done(Operation, Result<(), NodeError>),
}

/// A call to a plugin of classic claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassicCall {
    /// `NodePrepareResource`.
    Prepare {
        /// Written into the claim by the driver's controller.
        attributes: BTreeMap<String, String>,
    },
    /// `NodeUnprepareResource`.
    Unprepare {
        /// The plugin's answer when it prepared the claim.
        cdi_ids: Vec<String>,
    },
}

impl ClassicCall {
    /// Which call it is.
    #[must_use]
    pub fn call(&self) -> Call {
        match self {
            Self::Prepare { .. } => Call::Prepare,
            Self::Unprepare { .. } => Call::Unprepare,
        }
    }
}

/// The answer to an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The checkpoint is written.
    Written,
    /// A plugin answered, by the UIDs of claims. Of `Unprepare` there are no devices.
    Claims(BTreeMap<String, ClaimAnswer>),
    /// A plugin of classic claims did it: the CDI names of the claim. Of `Unprepare` there are none.
    Classic(Vec<String>),
    /// A plugin of classic claims says that there is no such claim.
    NotFound(String),
    /// The UID of the claim that there is under the name; none: there is none.
    Found(Option<String>),
    /// It failed.
    Failed(String),
}

/// For one claim: its devices, or why not.
pub type ClaimAnswer = Result<Vec<DeviceState>, String>;
