//! The node half of a classic driver: a plugin of type `ResourcePlugin`, called for one claim of `cdi.k8s.io` at a time.
//!
//! A vendor writes two functions, the trait [`ClassicDriver`]. Registration, sockets, limits, one call at a time and an end without lost answers
//! are the kit's, as for [`Driver`](crate::Driver). The half that allocates is in [`controller`](crate::controller).

mod kit;
mod service;

use std::{collections::BTreeMap, fmt, future::Future};

pub use self::kit::{ClassicKit, RunningPlugin};
use crate::{ClaimRef, Failure};

/// The vendor's part: the hardware on a node. Calls never overlap. A call that was begun is finished, even if the caller stops waiting.
pub trait ClassicDriver: Send + Sync + 'static {
    /// Makes the devices of a claim usable on this node, and gives the CDI names that its containers need. There may be none.
    ///
    /// It may be called again for a claim that is prepared, and must then answer the same. It does as little as possible: whatever may fail belongs
    /// into the allocation.
    fn prepare(
        &self,
        claim: &ClassicClaim,
    ) -> impl Future<Output = Result<Vec<String>, ClassicFailure>> + Send;

    /// Undoes `prepare`. The claim may never have been prepared, or be unprepared already: that is a success.
    fn unprepare(&self, claim: &ClaimRef) -> impl Future<Output = Result<(), ClassicFailure>> + Send;
}

/// A classic claim that is allocated to this driver and reserved for a pod on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicClaim {
    /// Which. A caller that knows no more than the enhancement's text says gives the UID alone.
    pub id: ClaimRef,
    /// Written into the claim by the driver's controller when it allocated it.
    pub attributes: BTreeMap<String, String>,
}

/// Why a claim is not prepared or unprepared. The caller tries again after a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClassicFailure {
    /// There are no devices for this claim: the caller checks first that the claim exists.
    NotFound(String),
    /// Anything else.
    Failed(Failure),
}

impl fmt::Display for ClassicFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(why) => f.write_str(why),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl From<Failure> for ClassicFailure {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl<E: std::error::Error> From<E> for ClassicFailure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
