//! Classic dynamic resource allocation: claims whose devices a vendor's controller allocates, while the scheduler negotiates
//! with it about the node through the claim's status.
//!
//! Three state machines, each for a process of its own: [`ClaimController`] makes the claims of pods with templates and
//! removes reservations of pods that are gone; [`Negotiator`] is the scheduler's part; [`DriverController`] is the vendor's part. They
//! share nothing but the API objects, which are in this crate too, with the rules that an API server checks on them. Each is a [`Machine`](lazaret_machine::Machine).
//!
//! **Invariant.** No claim is reserved for more users than its limit. No device is deallocated while its claim is reserved. No
//! pod is placed before all of its claims are allocated and reserved for it. A claim has the driver's finalizer whenever devices may be held for it. Every
//! write names the UID and the version that it is meant for, so each machine may stop at any point and start again from the objects alone.
//!
//! It must never know what parameters or attributes mean, what the API looks like on the wire, how a write or a vendor's call is
//! done, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;

mod change;
mod claims;
mod driver;
mod field_error;
mod model;
mod negotiation;
mod news;
mod objects;
mod queue;
mod validate;
mod write;

pub use change::{ChangeClaim, Step};
pub use claims::{
    AskNode, ClaimController, ClaimCounters, ClaimEffectKind, ClaimInput, CreateClaim, DeleteClaim,
    FOREIGN_CLAIM_REASON, PodEvent,
};
pub use driver::{
    Allocate, Allocation, Deallocate, DriverController, DriverCounters, DriverEffectKind, DriverInput,
    DriverOptions, ExamineNodes, Refusal, Suitability,
};
pub use field_error::{FieldError, FieldProblem};
pub use model::{
    AllocationMode, ClaimSpec, ClaimStatus, ClaimUse, ContainerClaims, DriverScheduling, Phase, Pod,
    PodClaim, PodClaimSource, RESERVED_MAX, Reference, ResourceClaim, ResourceClass, SchedulerScheduling,
    Template, USERS_UNLIMITED, claim_name,
};
pub use negotiation::{
    NegotiationCounters, NegotiationEffectKind, NegotiationInput, NegotiationOptions, Negotiator, Place,
    Waiting,
};
pub use news::News;
pub use queue::{QueueCounts, WakeReason};
pub use validate::{
    ATTRIBUTES_BYTES_MAX, NODES_MAX, PARAMETERS_BYTES_MAX, POD_CLAIMS_MAX, validate_claim,
    validate_claim_status, validate_claim_status_update, validate_claim_update, validate_class,
    validate_finalizers, validate_pod_claims,
};
