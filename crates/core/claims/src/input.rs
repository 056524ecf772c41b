//! The inputs of the machine.

use alloc::{sync::Arc, vec::Vec};

use lazaret_model::{NodeReport, ObjectKey, Pod, PodGroup, RequestKind, ResourceClaim, Text, Uid};

use crate::{
    counters::Source,
    effect::{EffectId, FINALIZER, Outcome},
};

/// News. Any may be late, repeated, or come only with the next list of everything.
#[derive(Clone, Debug)]
pub enum Input {
    /// A pod as it is now.
    Pod(Arc<Pod>),
    /// This incarnation of a pod is gone.
    PodGone {
        /// Which pod.
        key: ObjectKey,
        /// Which incarnation of it: another one may have taken the name.
        uid: Uid,
        /// Whether the state in which it went was told before. Otherwise it was missed, and may have been bound meanwhile.
        last_told: bool,
    },
    /// A group of pods as it is now.
    Group(Arc<PodGroup>),
    /// This incarnation of a group is gone.
    GroupGone {
        /// Which group.
        key: ObjectKey,
        /// Which incarnation of it.
        uid: Uid,
    },
    /// A claim as it is now.
    Claim(SeenClaim),
    /// No such claim.
    ClaimGone(ObjectKey),
    /// The report of a node about the claims prepared on it. Nodes without a report may be left out.
    Node(Arc<NodeReport>),
    /// No node of this name, or one without a report.
    NodeGone(Text),
    /// A template as it is now.
    Template(Arc<Template>),
    /// No such template.
    TemplateGone(ObjectKey),
    /// All pods there are; what is not among them is gone.
    PodsListed(Vec<Arc<Pod>>),
    /// All claims there are; what is not among them is gone.
    ClaimsListed(Vec<SeenClaim>),
    /// All templates there are; what is not among them is gone.
    TemplatesListed(Vec<Arc<Template>>),
    /// Everything that exists has been told. Nothing is done before.
    Synced,
    /// The outcome of an effect. Unknown or repeated ids are ignored.
    Acknowledged {
        /// Which effect.
        effect: EffectId,
        /// Its outcome.
        outcome: Outcome,
        /// Why it failed, in the words of the server. Goes into an event.
        why: Option<Text>,
    },
    /// Time has passed. May come early, late, or for nothing.
    Tick,
    /// From now on effects are wanted.
    BecameLeader,
    /// From now on none are.
    LostLeadership,
}

/// A claim, and what only its housekeeping needs to know of it.
#[derive(Clone, Debug)]
pub struct SeenClaim {
    /// The claim.
    pub claim: Arc<ResourceClaim>,
    /// `metadata.resourceVersion`.
    pub version: Text,
    /// `metadata.finalizers`.
    pub finalizers: Vec<Text>,
    /// The entry of the pod or group that it was made for: the annotation
    /// [`CLAIM_NAME_ANNOTATION`](crate::CLAIM_NAME_ANNOTATION).
    pub entry: Option<Text>,
    /// The nodes that it says it waits for: the annotation [`AWAITING_UNPREPARE`](lazaret_model::AWAITING_UNPREPARE).
    pub awaiting: Option<Text>,
}

impl SeenClaim {
    /// Whether an allocation of it has begun: our finalizer is there.
    pub(crate) fn is_protected(&self) -> bool {
        self.finalizers.iter().any(|name| *name == FINALIZER)
    }

    /// Whether a request asks for devices that are in use.
    pub(crate) fn admin_access(&self) -> bool {
        self.claim.spec.requests.iter().any(|request| match &request.kind {
            RequestKind::Exactly(exactly) => exactly.admin_access == Some(true),
            RequestKind::FirstAvailable(_) | RequestKind::Unknown => false,
        })
    }

    pub(crate) fn source(&self) -> Source {
        if self.claim.extended_resource {
            Source::ExtendedResource
        } else if self.entry.as_ref().is_some_and(|entry| !entry.is_empty()) {
            Source::Template
        } else {
            Source::Other
        }
    }
}

/// From what claims are made.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template {
    /// Where it is.
    pub key: ObjectKey,
    /// `spec.metadata.labels`.
    pub labels: Vec<(Text, Text)>,
    /// `spec.metadata.annotations`.
    pub annotations: Vec<(Text, Text)>,
    /// `spec.spec` as it is on the wire: handed on, never read, so that fields unknown here survive.
    pub spec: Text,
    /// Whether a request in it asks for devices that are in use. For the counters alone.
    pub admin_access: bool,
}
