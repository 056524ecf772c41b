//! Why a pod is not placed: complete for a program, one line for a person.

use alloc::{
    collections::BTreeMap,
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::fmt;

use lazaret_allocator::NodeGroup;
use lazaret_model::{DeviceId, ObjectKey, Text};

use crate::causes::{Cause, Causes};

/// A message is cut to this number of bytes: the API server keeps longer ones, but people do not read them.
pub const MESSAGE_BYTES_MAX: usize = 1_024;
/// Groups of nodes whose devices are explained in a message; the rest is counted.
const GROUPS_LISTED_MAX: usize = 3;

/// Why a pod is not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingReason {
    /// The obstacle.
    pub verdict: Verdict,
    /// The result of the preemption.
    pub preemption: Option<String>,
    /// Not all was looked at: it is tried again whether or not something happens.
    pub retries: bool,
}

/// The obstacle to placing a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has scheduling gates.
    Gated(Vec<Text>),
    /// Its claims are not such that it could be placed anywhere.
    Claims(ClaimProblem),
    /// It fits on no node.
    Nowhere(NoFittingNode),
    /// It waits for its classic claims, and for this.
    Classic(String),
    /// It could not be found out.
    Failed(String),
    /// It was not found out within the budget. It is tried again, and goes on from there.
    Unfinished {
        /// Nodes that were tried.
        tried: usize,
        /// Nodes that there are to be tried.
        nodes: usize,
        /// It is tried again after this time at most.
        again_ms: i64,
    },
}

/// Why a pod fits on no node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NoFittingNode {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many of them were refused for what. A node can be refused for several resources.
    pub refusals: BTreeMap<Refusal, usize>,
    /// Some node cannot use an allocated claim, whatever it was refused for first.
    pub claim_elsewhere: bool,
    /// Nodes without the devices, by what is wrong with those; most nodes first.
    pub devices: Vec<NodeGroup>,
}

/// Why a node does not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// It is cordoned.
    Unschedulable,
    /// Another one is named.
    NodeName,
    /// It has a taint that is not tolerated.
    Tainted,
    /// Selector or affinity do not admit it.
    NodeAffinity,
    /// The affinity names the nodes that come into question, and it is none of them.
    NotNamed,
    /// A port is taken.
    Ports,
    /// It has as many pods as it takes.
    TooManyPods,
    /// Too little is left of this resource.
    Insufficient(Text),
    /// It lacks a label that pods are spread over.
    SpreadLabel,
    /// Pods would be spread too unevenly.
    Spread,
    /// The pods that it must be near are not.
    Affinity,
    /// A pod that it must not be near is.
    AntiAffinity,
    /// A pod that must not be near it is.
    ExistingAntiAffinity,
    /// A claim is allocated where this node cannot use it, or its devices did not get ready.
    ClaimElsewhere,
    /// Devices for all claims cannot be had.
    Devices,
    /// The same, and pools of the node are invalid: their devices are not known.
    InvalidPools,
}

/// Why claims do not let a pod be placed anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimProblem {
    /// The claim for an entry was not made from its template yet.
    NotMade {
        /// The entry.
        entry: Text,
    },
    /// An entry is of a kind this version does not know.
    UnknownSource {
        /// The entry.
        entry: Text,
    },
    /// There is no such claim.
    Missing(ObjectKey),
    /// The claim is being deleted.
    Deleting(ObjectKey),
    /// The claim was not made for this pod, or its group.
    NotOwned(ObjectKey),
    /// There is no such group of pods.
    NoGroup(ObjectKey),
    /// The group is placed as a gang, and has too few pods.
    GangIncomplete {
        /// The group.
        group: ObjectKey,
        /// How many pods it has.
        there: usize,
        /// How many it must have.
        wanted: usize,
    },
    /// Too few pods of the group have a place.
    GangUnplaceable {
        /// How many must have one.
        wanted: usize,
    },
    /// The group is placed as a gang that is larger than this scheduler places at once.
    GangTooLarge {
        /// The group.
        group: ObjectKey,
        /// How many pods are placed at once.
        most: usize,
    },
    /// The group is placed as a gang, and the pod has classic claims, about which each pod negotiates for itself.
    ClassicInGang(ObjectKey),
    /// No more pods may use the claim.
    Full(ObjectKey),
    /// Devices of the claim stand for resources of the node, and another pod uses it.
    NotShareable(ObjectKey),
    /// The request of the pod as a whole does not cover the amounts that its claims take.
    PodLevelTooSmall {
        /// Of which resource.
        resource: Text,
    },
    /// The claim's devices are being released.
    BeingFreed(ObjectKey),
    /// A binding of the pod got no answer: it may run with the claim that was made for its extended resources.
    MayBeBound,
    /// The claim's devices did not get ready.
    NotReady {
        /// The claim.
        claim: ObjectKey,
        /// The error in them.
        message: Text,
    },
    /// A class that the claim asks for does not exist.
    NoClass {
        /// The claim.
        claim: ObjectKey,
        /// The class.
        class: Text,
    },
    /// A device of the claim has a `NoExecute` taint that the claim does not tolerate.
    Tainted {
        /// The claim.
        claim: ObjectKey,
        /// The device.
        device: DeviceId,
        /// `key=value:effect`.
        taint: Text,
        /// From where: `rule NAME`, `slice NAME`, `patch NAME`.
        by: Text,
    },
    /// Another claim has a device of the claim as well.
    GivenTwice {
        /// The claim.
        claim: ObjectKey,
        /// The device.
        device: DeviceId,
        /// The other claim.
        holder: ObjectKey,
    },
}

impl ClaimProblem {
    /// The claim, if it would be of use with other devices.
    pub(crate) fn reallocatable_claim(&self) -> Option<&ObjectKey> {
        match self {
            Self::NotReady { claim, .. } | Self::Tainted { claim, .. } | Self::GivenTwice { claim, .. } => {
                Some(claim)
            }
            Self::NotMade { .. }
            | Self::UnknownSource { .. }
            | Self::Missing(_)
            | Self::Deleting(_)
            | Self::NotOwned(_)
            | Self::NoGroup(_)
            | Self::GangIncomplete { .. }
            | Self::GangUnplaceable { .. }
            | Self::GangTooLarge { .. }
            | Self::ClassicInGang(_)
            | Self::Full(_)
            | Self::NotShareable(_)
            | Self::PodLevelTooSmall { .. }
            | Self::BeingFreed(_)
            | Self::MayBeBound
            | Self::NoClass { .. } => None,
        }
    }
}

impl Refusal {
    /// The change that could remove the obstacle.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Unschedulable
            | Self::NodeName
            | Self::Tainted
            | Self::NodeAffinity
            | Self::NotNamed
            | Self::SpreadLabel => Cause::Nodes,
            Self::Ports | Self::TooManyPods | Self::Insufficient(_) => Cause::Room,
            Self::Spread | Self::Affinity | Self::AntiAffinity | Self::ExistingAntiAffinity => {
                Cause::Neighbours
            }
            Self::ClaimElsewhere => Cause::Claims,
            Self::Devices | Self::InvalidPools => Cause::Devices,
        }
    }

    /// Whether it could help that pods leave the node.
    #[must_use]
    pub fn yields_to_preemption(&self) -> bool {
        match self {
            Self::Unschedulable
            | Self::NodeName
            | Self::Tainted
            | Self::NodeAffinity
            | Self::NotNamed
            | Self::SpreadLabel
            | Self::Affinity
            | Self::ClaimElsewhere => false,
            Self::Ports
            | Self::TooManyPods
            | Self::Insufficient(_)
            | Self::Spread
            | Self::AntiAffinity
            | Self::ExistingAntiAffinity
            | Self::Devices
            | Self::InvalidPools => true,
        }
    }
}

impl PendingReason {
    pub(crate) fn of(verdict: Verdict) -> Self {
        Self { verdict, preemption: None, retries: false }
    }

    /// The changes that could help. Waiting for nodes and for a claim's release always helps: a new node may do, and
    /// a pod refused for one reason may have been refused for another before.
    #[must_use]
    pub fn causes(&self) -> Causes {
        match &self.verdict {
            Verdict::Gated(_) | Verdict::Classic(_) | Verdict::Failed(_) | Verdict::Unfinished { .. } => {
                Causes::NONE
            }
            Verdict::Claims(problem) => match problem {
                ClaimProblem::NoClass { .. }
                | ClaimProblem::Tainted { .. }
                | ClaimProblem::GivenTwice { .. }
                | ClaimProblem::PodLevelTooSmall { .. } => {
                    Causes::NONE.with(Cause::Claims).with(Cause::Devices)
                }
                ClaimProblem::NotMade { .. }
                | ClaimProblem::UnknownSource { .. }
                | ClaimProblem::Missing(_)
                | ClaimProblem::Deleting(_)
                | ClaimProblem::NotOwned(_)
                | ClaimProblem::NoGroup(_)
                | ClaimProblem::GangIncomplete { .. }
                | ClaimProblem::GangUnplaceable { .. }
                | ClaimProblem::GangTooLarge { .. }
                | ClaimProblem::ClassicInGang(_)
                | ClaimProblem::BeingFreed(_)
                | ClaimProblem::MayBeBound
                | ClaimProblem::NotReady { .. }
                | ClaimProblem::NotShareable(_)
                | ClaimProblem::Full(_) => Causes::NONE.with(Cause::Claims),
            },
            Verdict::Nowhere(nowhere) => {
                let refusals = nowhere.refusals.keys().map(Refusal::cause);
                let claims = nowhere.claim_elsewhere.then_some(Cause::Claims);
                refusals.chain(claims).fold(Causes::NONE.with(Cause::Nodes), Causes::with)
            }
        }
    }

    /// `reason` of the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self.verdict {
            Verdict::Gated(_) => "SchedulingGated",
            Verdict::Claims(_) | Verdict::Nowhere(_) | Verdict::Classic(_) => "Unschedulable",
            Verdict::Failed(_) | Verdict::Unfinished { .. } => "SchedulerError",
        }
    }

    /// One line, at most [`MESSAGE_BYTES_MAX`] bytes.
    #[must_use]
    pub fn message(&self) -> String {
        truncated(self.to_string())
    }
}

fn truncated(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let mut end = MESSAGE_BYTES_MAX - "...".len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str("...");
    }
    text
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::NodeName => "node(s) didn't match the requested node name",
            Self::Tainted => "node(s) had untolerated taint(s)",
            Self::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Self::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::TooManyPods => "Too many pods",
            Self::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::ClaimElsewhere => "resourceclaim not available on the node",
            Self::Devices => "cannot allocate all claims",
            Self::InvalidPools => "invalid resource pools were encountered",
        })
    }
}

impl fmt::Display for ClaimProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMade { entry } => {
                write!(f, "waiting for the claim of pod entry {entry:?} to be made from its template")
            }
            Self::UnknownSource { entry } => {
                write!(f, "pod entry {entry:?} names neither a claim nor a template")
            }
            Self::Missing(claim) => write!(f, "resourceclaim {:?} not found", claim.name.as_str()),
            Self::Deleting(claim) => write!(f, "resourceclaim {:?} is being deleted", claim.name.as_str()),
            Self::NoGroup(group) => write!(f, "waiting for pod group {:?}", group.name.as_str()),
            Self::GangIncomplete { group, there, wanted } => {
                write!(f, "pod group {:?} has {there} of {wanted} pods", group.name.as_str())
            }
            Self::GangUnplaceable { wanted } => {
                write!(f, "pod group is unschedulable, minCount ({wanted}) cannot be satisfied")
            }
            Self::GangTooLarge { group, most } => write!(
                f,
                "pod group {:?} needs more than {most} pods to be placed at once",
                group.name.as_str()
            ),
            Self::ClassicInGang(group) => write!(
                f,
                "pod group {:?} is placed as a gang, which pods with classic claims cannot be part of",
                group.name.as_str()
            ),
            Self::NotOwned(claim) => {
                write!(f, "resourceclaim {:?} was not created for this pod", claim.name.as_str())
            }
            Self::Full(claim) => write!(
                f,
                "resourceclaim {:?} is used by {} pods, no more may use it",
                claim.name.as_str(),
                crate::CONSUMERS_MAX
            ),
            Self::NotShareable(claim) => write!(
                f,
                "node allocatable resource claim {} has a mapped device and cannot be shared across pods",
                claim.name
            ),
            Self::PodLevelTooSmall { resource } => write!(
                f,
                "pod level request for {resource} is insufficient to cover the aggregated container and \
                 node-allocatable DRA requests"
            ),
            Self::BeingFreed(claim) => {
                write!(f, "the devices of resourceclaim {:?} are being given back", claim.name.as_str())
            }
            Self::MayBeBound => f.write_str(
                "it is not known yet whether the pod was bound; it is decided on anew if it was not",
            ),
            Self::NotReady { claim, message } => {
                write!(f, "resourceclaim {:?}: {message}", claim.name.as_str())
            }
            Self::NoClass { claim, class } => write!(
                f,
                "resourceclaim {:?} asks for the device class {:?}, which does not exist",
                claim.name.as_str(),
                class.as_str()
            ),
            Self::Tainted { claim, device, taint, by } => write!(
                f,
                "resourceclaim {:?} holds {device}, which has the untolerated taint {taint} from {by}",
                claim.name.as_str()
            ),
            Self::GivenTwice { claim, device, holder } => write!(
                f,
                "resourceclaim {:?} holds {device}, which resourceclaim {}/{} holds as well",
                claim.name.as_str(),
                holder.namespace,
                holder.name
            ),
        }
    }
}

impl fmt::Display for NoFittingNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.nodes)?;
        let mut reasons: Vec<String> =
            self.refusals.iter().map(|(refusal, nodes)| format!("{nodes} {refusal}")).collect();
        reasons.sort_unstable();
        for (at, reason) in reasons.iter().enumerate() {
            write!(f, "{}{reason}", if at == 0 { " " } else { ", " })?;
        }
        f.write_str(if reasons.is_empty() { " no nodes are known." } else { "." })?;
        for group in self.devices.iter().take(GROUPS_LISTED_MAX) {
            write!(f, " Devices of {} node(s): {}.", group.nodes, group.reason)?;
        }
        let unlisted: usize = self.devices.iter().skip(GROUPS_LISTED_MAX).map(|group| group.nodes).sum();
        if unlisted > 0 {
            write!(f, " Devices of {unlisted} more node(s): other reasons.")?;
        }
        Ok(())
    }
}

impl fmt::Display for PendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Gated(_) => f.write_str("Scheduling is blocked due to non-empty scheduling gates")?,
            Verdict::Claims(problem) => write!(f, "{problem}")?,
            Verdict::Nowhere(nowhere) => write!(f, "{nowhere}")?,
            Verdict::Classic(message) | Verdict::Failed(message) => f.write_str(message)?,
            Verdict::Unfinished { tried, nodes, again_ms } => write!(
                f,
                "the claims are too hard to decide about at once: the budget of an attempt was spent after {tried} of {nodes} nodes; it goes on from there within {} s",
                again_ms / 1_000
            )?,
        }
        match &self.preemption {
            Some(preemption) => write!(f, " preemption: {preemption}"),
            None => Ok(()),
        }
    }
}
