//! Claims for devices, and the classes they name.

use alloc::{sync::Arc, vec::Vec};

use crate::{
    DeviceId, LastPublished, NodeSelector, ObjectKey, Owner, Quantity, Text, Timestamp, Toleration, Uid,
};

/// A claim with what is known of its allocation.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceClaim {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Its controller, if it has one.
    pub owner: Option<Owner>,
    /// Being deleted.
    pub deleting: bool,
    /// Made by the scheduler for a pod's extended resources.
    pub extended_resource: bool,
    /// Requests, constraints and configuration; shared, because it never changes.
    pub spec: Arc<ClaimSpec>,
    /// The allocation, once there is one.
    pub allocation: Option<Arc<Allocation>>,
    /// The consumers that reserve it, at most 256.
    pub reserved_for: Vec<Consumer>,
    /// The last published attributes of its devices that no slice has any more.
    pub last_published: Vec<LastPublished>,
}

/// The devices and constraints that a claim requests.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClaimSpec {
    /// At most 32.
    pub requests: Vec<Request>,
    /// At most 32.
    pub constraints: Vec<Constraint>,
    /// At most 32.
    pub config: Vec<ClaimConfig>,
}

/// One request of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Unique in the claim.
    pub name: Text,
    /// Exact, or a list of alternatives.
    pub kind: RequestKind,
}

/// The two ways to ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// Just this.
    Exactly(DeviceRequest),
    /// The first of these that can be had; each has a name, unique in the request.
    FirstAvailable(Vec<DeviceRequest>),
    /// In a way this version does not know.
    Unknown,
}

/// The properties of the devices requested.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceRequest {
    /// The alternative's name; empty in [`RequestKind::Exactly`].
    pub name: Text,
    /// The class; may be empty in hostile input.
    pub class: Text,
    /// CEL expressions that must all match. `None`: a selector of a kind this version does not know.
    pub selectors: Vec<Option<Text>>,
    /// How many.
    pub mode: AllocationMode,
    /// `Some` when the field is set at all.
    pub admin_access: Option<bool>,
    /// The taints that it tolerates.
    pub tolerations: Vec<Toleration>,
    /// Amounts by capacity key, compared literally, in key order. `None` when the field is absent.
    pub capacity: Option<Vec<(Text, Quantity)>>,
    /// Attributes computed for constraints.
    pub derived_attributes: Vec<DerivedAttribute>,
}

/// How many devices a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllocationMode {
    /// This number of devices.
    Exact(i64),
    /// All that match.
    All,
    /// Not known.
    Unknown(Text),
}

impl Default for AllocationMode {
    fn default() -> Self {
        Self::Exact(1)
    }
}

/// A virtual attribute, seen by constraints alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedAttribute {
    /// Fully qualified.
    pub name: Text,
    /// The CEL expression that gives its value.
    pub expression: Text,
}

/// An attribute that several devices must have in common, or must not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Names of requests (`r`) or alternatives (`r/s`); empty: all.
    pub requests: Vec<Text>,
    /// The attribute.
    pub kind: ConstraintKind,
}

/// The kinds of constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintKind {
    /// The same value of this fully qualified attribute.
    Match(Text),
    /// Different values of it.
    Distinct(Text),
    /// Not known.
    Unknown,
}

/// Opaque parameters of a driver: JSON text, kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opaque {
    /// The driver that the parameters are for.
    pub driver: Text,
    /// A JSON object, at most 10 KiB.
    pub parameters: Text,
}

/// Configuration in a claim or a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimConfig {
    /// For which requests; empty: all.
    pub requests: Vec<Text>,
    /// `None`: of a kind this version does not know.
    pub opaque: Option<Opaque>,
}

/// The devices allocated to a claim.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Allocation {
    /// At most 32.
    pub results: Vec<DeviceResult>,
    /// At most 64.
    pub config: Vec<ResultConfig>,
    /// Where it is usable; `None`: everywhere.
    pub node_selector: Option<NodeSelector>,
    /// When, if that was recorded.
    pub timestamp: Option<Timestamp>,
}

/// One device given to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceResult {
    /// `r` or `r/s`.
    pub request: Text,
    /// Which device.
    pub device: DeviceId,
    /// Given for monitoring only: does not make the device used.
    pub admin_access: bool,
    /// Copied from the request.
    pub tolerations: Vec<Toleration>,
    /// Copied from the device.
    pub binding_conditions: Vec<Text>,
    /// Copied from the device.
    pub binding_failure_conditions: Vec<Text>,
    /// Which share of a device that is shared.
    pub share_id: Option<Text>,
    /// How much of it, by capacity key, in order.
    pub consumed_capacity: Vec<(Text, Quantity)>,
    /// Copied from the slice.
    pub skip_node_operations: Vec<Text>,
}

/// Configuration that goes with an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultConfig {
    /// The object that it comes from.
    pub source: ConfigSource,
    /// For which requests; empty: all.
    pub requests: Vec<Text>,
    /// The parameters.
    pub opaque: Option<Opaque>,
}

/// The source of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// The device class.
    Class,
    /// The claim.
    Claim,
}

/// A user of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Consumer {
    /// Empty for pods.
    pub api_group: Text,
    /// Plural, lower case: `pods`.
    pub resource: Text,
    /// Its name in the claim's namespace.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
}

/// A class of devices.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceClass {
    /// Its name.
    pub name: Text,
    /// CEL expressions that must all match. `None`: a selector of a kind this version does not know.
    pub selectors: Vec<Option<Text>>,
    /// Opaque configuration for claims with a device of the class.
    pub config: Vec<Option<Opaque>>,
    /// The extended resource that it backs.
    pub extended_resource_name: Option<Text>,
    /// When it was made.
    pub created: Option<Timestamp>,
}
