//! The words that every part of Lazaret shares: devices, taints, tolerations, rules, claims, pods, and the
//! exact numbers, versions, names and times they are made of.
//!
//! **Invariant.** Plain data and total functions. This crate knows nothing of JSON, of the Kubernetes API's wire
//! forms, of I/O, of clocks or of randomness: it is `no_std`, so the compiler forbids them. Time is a number that
//! comes from outside. Everybody may depend on it; it depends on none of ours.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod amounts;
mod attribute;
mod claim;
mod clock;
mod confirm;
mod cron;
mod device;
mod eviction_spec;
mod group;
mod guard;
mod impact;
mod intern;
mod labels;
mod last_published;
mod name;
mod named;
mod node;
mod node_allocatable;
mod patience;
mod pod;
mod pod_spec;
mod quantity;
mod recently_out;
mod rule;
mod slab;
mod slice;
mod taint;
mod taint_hold;
mod text;
mod time;
mod unprepare;
mod version;
mod window;

pub use amounts::{Amounts, whole_units};
pub use attribute::{AttrId, AttrNames, AttrValue, QualifiedName, VersionValue};
pub use claim::{
    Allocation, AllocationMode, ClaimConfig, ClaimSpec, ConfigSource, Constraint, ConstraintKind, Consumer,
    DerivedAttribute, DeviceClass, DeviceRequest, DeviceResult, Opaque, Request, RequestKind, ResourceClaim,
    ResultConfig,
};
pub use clock::{Clock, Reading, STEP_MS_MIN, SetBack};
pub use confirm::{
    APPROVAL, APPROVED_BY, Approval, ApproverRefusal, Approvers, Author, ConfirmAbove, REQUEST, Review,
    RuleRequest, WRITTEN_BY,
};
pub use cron::Schedule;
pub use device::{
    CapacityValue, CounterConsumption, Device, DeviceId, NodeAllocatable, NodeMapping, PoolId, RequestPolicy,
    ValidRange,
};
pub use eviction_spec::{CapacityMode, EvictionMode, EvictionPreference, EvictionSpec, GroupMode};
pub use group::{POD_GROUP_API, PodGroup};
pub use guard::{
    Breaker, BreakerStatus, BreakerUnit, Counted, DisruptionGuard, GuardPreview, Pause, Share, Stop, Unit,
    WindowStatus, within,
};
pub use impact::Impact;
pub use intern::{Interner, Symbol};
pub use labels::{LabelSelector, Labels};
pub use last_published::LastPublished;
pub use name::{
    NameError, NamePart, validate_c_identifier, validate_dns_label, validate_dns_subdomain,
    validate_driver_name, validate_label_name, validate_label_value, validate_pool_name,
    validate_qualified_name,
};
pub use named::Named;
pub use node::{Node, NodeSelector, NodeSelectorTerm, Operator, Requirement, SelectorError, SelectorProblem};
pub use node_allocatable::{NodeAllocatableStatus, Overhead};
pub use patience::{Patience, patience};
pub use pod::{
    ClaimSource, Condition, ConditionStatus, DeviceHealth, EvictionMark, NodeRequirements, Owner, Pod,
    PodClaim, PodPhase, RarePodFields,
};
pub use pod_spec::{
    CPU_MILLI_ASSUMED, Container, DEFAULT_SCHEDULER, Extended, HostPort, MEMORY_ASSUMED, PodLevel, PodSpec,
    PodTerm, Role, ScoredAmounts, Spread,
};
pub use quantity::{Format, Quantity, QuantityError};
pub use recently_out::RecentlyOut;
pub use rule::{
    DevicePatch, DeviceSelector, DeviceTaintRule, EvictionCount, ResourceSlicePatch,
    V1ALPHA3_FIELDS_ANNOTATION, V1ALPHA3_ONLY_DRIVER,
};
pub use slab::Slab;
pub use slice::{CounterSet, NodeScope, PoolSpec, ResourceSlice, SliceTaint};
pub use taint::{Effect, Taint, Toleration, TolerationOperator, tolerates};
pub use taint_hold::{TAINT_APPROVALS, TAINT_APPROVALS_MAX, TaintApproval, TaintHold, TaintedBy};
pub use text::{ObjectKey, Text, Uid};
pub use time::{Timestamp, human_duration};
pub use unprepare::{
    AWAITED_BYTES_PER_NODE_MAX, AWAITED_PER_NODE_MAX, AWAITING_CLASSIC_UNPREPARE, AWAITING_UNPREPARE,
    Awaited, NodeReport, OUT_OF_SERVICE, REPORTS_UNPREPARED, UNPREPARED,
};
pub use version::{Version, VersionError};
pub use window::{Window, WindowError, Zone};
