//! The objects as they are written, field by field.
//!
//! Every field may be absent or null, as in the API; what is required is checked on the way to the model, where the
//! path is known. Fields that the model does not need are left out and ignored.

mod claim;
mod core;
mod meta;
mod own;
mod pod;
mod read;
mod rule;
mod scalar;
mod slice;

pub(crate) use self::{
    claim::{
        Allocation, AllocationConfig, AllocationDevices, ClaimSpec, Constraint, Consumer, DerivedAttribute,
        DeviceClass, DeviceResult, Opaque, Request, ResourceClaim, ResourceClaimTemplate, Selector,
        Toleration,
    },
    core::{Node, PodGroup},
    meta::{Condition, NodeSelector, NodeSelectorTerm, ObjectMeta, OwnerReference, Requirement},
    own::{
        Act, AnyDeviceSelector, CELExpression, DeviceExpression, DeviceHealthPolicySpec,
        DeviceHealthPolicyStatus, DeviceIdentity, DeviceIncidentSpec, DeviceIncidentStatus, DeviceSignalSpec,
        DisruptionGuardSpec, DisruptionGuardStatus, GuardBreaker, GuardBreakerStatus, GuardConfirmAbove,
        GuardHeldTaint, GuardPause, GuardSelected, GuardWindowStatus, HealthCount, HealthFlaps, HealthJob,
        HealthLasting, HealthRecovery, HealthRepair, HealthRequest, HealthRule, HealthServiceAccount,
        HealthStep, HealthTaint, HealthTally, HealthValidation, IncidentDemand, IncidentEntry,
        IncidentHandled, IncidentHeld, IncidentTask, IncidentTimes, ReplacementOptions, TaintOption,
        TaintReplacementPolicySpec,
    },
    pod::{
        Affinity, Amounts, Container, ContainerStatus, LabelSelector, NodeAllocatableStatus, Pod, PodClaim,
        PodClaimStatus, PodSpec, PodStatus, PodTerm, SpreadConstraint,
    },
    rule::{
        DeviceSelector, DeviceTaintRule, Eviction, ResourceSlicePatch, RuleEvictions, RuleSpec, Taint, Window,
    },
    slice::{
        Attribute, Capacity, Counter, CounterConsumption, CounterSet, Device, NodeAllocatable, RequestPolicy,
        ResourceSlice, SliceSpec, SliceTaint,
    },
};

pub use self::{
    read::{Fields, Inner, List, Map, Place, Read, Shape, Step, Trail, read},
    scalar::{Amount, Instant, Nullable, Raw},
};
