//! The fields of a Node that its kubelet reads.

use alloc::{collections::BTreeSet, string::String};

use lazaret_machine::Contents;
use lazaret_model::{Text, Uid};

use crate::checkpoint::SeenCheckpoint;

/// A Node as it is.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SeenNode {
    /// Its name.
    pub name: Text,
    /// Its incarnation.
    pub uid: Uid,
    /// Its version.
    pub version: Text,
    /// Its condition Ready is True.
    pub ready: bool,
    /// Its taints without the one that says it is not ready, in their wire form; `None` if it has no such taint.
    pub taints_when_ready: Option<Contents<String>>,
    /// How long its driver takes to unprepare, if that is given.
    pub unprepare_after_ms: Option<i64>,
    /// Whether it says that it reports what is prepared.
    pub reports: bool,
    /// UIDs of the claims that it is asked about.
    pub awaiting: BTreeSet<Uid>,
    /// UIDs of the claims that it said are not prepared.
    pub unprepared: BTreeSet<Uid>,
    /// The checkpoint of its prepared claims.
    pub checkpoint: SeenCheckpoint,
}
