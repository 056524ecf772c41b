//! The inputs of a fleet.

use alloc::sync::Arc;

use lazaret_model::{
    DeviceClass, DeviceTaintRule, Node, ObjectKey, Pod, ResourceClaim, ResourceSlice, ResourceSlicePatch,
    Text,
};

/// An object as it is now, or the news that it is gone.
#[derive(Clone, Debug)]
pub enum Input {
    /// A slice.
    Slice(Arc<ResourceSlice>),
    /// No slice of this name.
    SliceGone(Text),
    /// A taint rule.
    Rule(Arc<DeviceTaintRule>),
    /// No rule of this name.
    RuleGone(Text),
    /// A patch.
    Patch(Arc<ResourceSlicePatch>),
    /// No patch of this name.
    PatchGone(Text),
    /// A class.
    Class(Arc<DeviceClass>),
    /// No class of this name.
    ClassGone(Text),
    /// A claim.
    Claim(Arc<ResourceClaim>),
    /// No such claim.
    ClaimGone(ObjectKey),
    /// A pod.
    Pod(Arc<Pod>),
    /// No such pod.
    PodGone(ObjectKey),
    /// A node.
    Node(Arc<Node>),
    /// No node of this name.
    NodeGone(Text),
}

/// The kinds of object that a fleet takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Slices.
    Slice,
    /// Taint rules.
    Rule,
    /// Patches.
    Patch,
    /// Classes.
    Class,
    /// Claims.
    Claim,
    /// Pods.
    Pod,
    /// Nodes.
    Node,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Slice, Self::Rule, Self::Patch, Self::Class, Self::Claim, Self::Pod, Self::Node];
}

impl Input {
    /// The kind of the object.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Slice(_) | Self::SliceGone(_) => Kind::Slice,
            Self::Rule(_) | Self::RuleGone(_) => Kind::Rule,
            Self::Patch(_) | Self::PatchGone(_) => Kind::Patch,
            Self::Class(_) | Self::ClassGone(_) => Kind::Class,
            Self::Claim(_) | Self::ClaimGone(_) => Kind::Claim,
            Self::Pod(_) | Self::PodGone(_) => Kind::Pod,
            Self::Node(_) | Self::NodeGone(_) => Kind::Node,
        }
    }

    /// The input for the deletion of the object.
    #[must_use]
    pub fn gone(&self) -> Self {
        match self {
            Self::Slice(slice) => Self::SliceGone(slice.name.clone()),
            Self::Rule(rule) => Self::RuleGone(rule.name.clone()),
            Self::Patch(patch) => Self::PatchGone(patch.name.clone()),
            Self::Class(class) => Self::ClassGone(class.name.clone()),
            Self::Claim(claim) => Self::ClaimGone(claim.key.clone()),
            Self::Pod(pod) => Self::PodGone(pod.key.clone()),
            Self::Node(node) => Self::NodeGone(node.name.clone()),
            Self::SliceGone(_)
            | Self::RuleGone(_)
            | Self::PatchGone(_)
            | Self::ClassGone(_)
            | Self::ClaimGone(_)
            | Self::PodGone(_)
            | Self::NodeGone(_) => self.clone(),
        }
    }

    /// The name of an object that has no namespace.
    pub(crate) fn name(&self) -> Option<&Text> {
        match self {
            Self::Slice(slice) => Some(&slice.name),
            Self::Rule(rule) => Some(&rule.name),
            Self::Patch(patch) => Some(&patch.name),
            Self::Class(class) => Some(&class.name),
            Self::Node(node) => Some(&node.name),
            Self::SliceGone(name)
            | Self::RuleGone(name)
            | Self::PatchGone(name)
            | Self::ClassGone(name)
            | Self::NodeGone(name) => Some(name),
            Self::Claim(_) | Self::ClaimGone(_) | Self::Pod(_) | Self::PodGone(_) => None,
        }
    }

    /// The news that an object that has no namespace is gone.
    pub(crate) fn gone_by_name(kind: Kind, name: Text) -> Option<Self> {
        match kind {
            Kind::Slice => Some(Self::SliceGone(name)),
            Kind::Rule => Some(Self::RuleGone(name)),
            Kind::Patch => Some(Self::PatchGone(name)),
            Kind::Class => Some(Self::ClassGone(name)),
            Kind::Node => Some(Self::NodeGone(name)),
            Kind::Claim | Kind::Pod => None,
        }
    }

    /// Namespace (empty for objects of the cluster) and name.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        match self.gone() {
            Self::ClaimGone(key) | Self::PodGone(key) => key,
            Self::SliceGone(name)
            | Self::RuleGone(name)
            | Self::PatchGone(name)
            | Self::ClassGone(name)
            | Self::NodeGone(name) => ObjectKey { namespace: Text::default(), name },
            Self::Slice(_)
            | Self::Rule(_)
            | Self::Patch(_)
            | Self::Class(_)
            | Self::Claim(_)
            | Self::Pod(_)
            | Self::Node(_) => ObjectKey::default(),
        }
    }
}
