//! Errors that end an allocation, as opposed to devices that do not fit.

use alloc::{boxed::Box, string::String};
use core::fmt;

use lazaret_model::{DeviceId, ObjectKey, PoolId, Text};

use crate::capacity::CapacityError;

/// An allocation that cannot be tried, or cannot be carried on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocateError {
    /// How far it reaches.
    pub reach: ErrorScope,
    /// The error itself.
    pub kind: Box<ErrorKind>,
}

/// How far an error reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorScope {
    /// No other node can succeed: give up on the pod for now.
    Fatal,
    /// Another node may succeed.
    Node,
}

/// Where a selector or an expression stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// In a device class.
    Class(Text),
    /// In a claim.
    Claim(ObjectKey),
}

/// A request of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InRequest {
    /// The claim.
    pub claim: ObjectKey,
    /// `r` or `r/s`.
    pub request: Text,
}

/// The errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request uses a feature that is switched off.
    FeatureOff {
        /// Whose.
        at: InRequest,
        /// The gate.
        gate: &'static str,
        /// The feature that was used.
        what: &'static str,
    },
    /// The request is of a kind this version does not know.
    /// DEVIATION(allocator-errors).
    UnsupportedRequest(InRequest),
    /// A selector without an expression.
    UnsupportedSelector {
        /// Whose.
        at: Written,
        /// Its place in the list.
        index: usize,
    },
    /// No class is named.
    MissingClass(InRequest),
    /// The class does not exist.
    UnknownClass {
        /// Whose.
        at: InRequest,
        /// Its name.
        class: Text,
    },
    /// The allocation mode is neither `ExactCount` nor `All`.
    UnsupportedMode {
        /// Whose.
        at: InRequest,
        /// The mode.
        mode: Text,
    },
    /// All devices are asked for while a pool's are not all known.
    PoolUpdating {
        /// Whose.
        at: InRequest,
        /// The pool.
        pool: PoolId,
    },
    /// All devices are asked for while a pool contradicts itself.
    PoolInvalid {
        /// Whose.
        at: InRequest,
        /// The pool.
        pool: PoolId,
    },
    /// More devices than a claim can hold.
    TooManyDevices {
        /// The claim.
        claim: ObjectKey,
        /// How many it asks for at least.
        wanted: i64,
    },
    /// A constraint on nothing.
    UnsupportedConstraint {
        /// The claim.
        claim: ObjectKey,
        /// Its place in the list.
        index: usize,
    },
    /// An expression that is no CEL.
    Compile {
        /// Where it stands.
        at: Written,
        /// Its place in the list.
        index: usize,
        /// The compiler's message.
        message: String,
    },
    /// An expression failed on a device.
    Evaluate {
        /// Where it stands.
        at: Written,
        /// Its place in the list.
        index: usize,
        /// The device.
        device: DeviceId,
        /// The evaluator's message.
        message: String,
    },
    /// A derived attribute is no CEL, or failed on a device.
    Derive {
        /// The attribute.
        attribute: Text,
        /// The device.
        device: DeviceId,
        /// The compiler's or evaluator's message.
        message: String,
    },
    /// A slice's or device's node selector cannot be evaluated.
    NodeSelector {
        /// The slice.
        slice: Text,
        /// The reason.
        message: String,
    },
    /// A node selector has several terms, where a claim can only carry one.
    NodeSelectorTerms {
        /// The claim.
        claim: ObjectKey,
        /// How many.
        terms: usize,
    },
    /// All devices are asked for and a constraint forbids one of them.
    ConstraintForbidsAll {
        /// Whose.
        at: InRequest,
        /// The device.
        device: DeviceId,
    },
    /// An amount that makes no sense.
    Capacity {
        /// Whose.
        at: InRequest,
        /// The device.
        device: DeviceId,
        /// The reason.
        error: CapacityError,
    },
    /// Nothing fitted, and some pools contradict themselves.
    InvalidPools(PoolId),
    /// The units for this turn are spent. Results found until then are remembered.
    OutOfWork,
}

impl AllocateError {
    pub(crate) fn fatal(kind: ErrorKind) -> Self {
        Self { reach: ErrorScope::Fatal, kind: Box::new(kind) }
    }

    pub(crate) fn out_of_work() -> Self {
        Self::fatal(ErrorKind::OutOfWork)
    }

    pub(crate) fn is_out_of_work(&self) -> bool {
        matches!(*self.kind, ErrorKind::OutOfWork)
    }

    pub(crate) fn node(kind: ErrorKind) -> Self {
        Self { reach: ErrorScope::Node, kind: Box::new(kind) }
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class(name) => write!(f, "class {name}"),
            Self::Claim(key) => write!(f, "claim {key}"),
        }
    }
}

impl fmt::Display for InRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "claim {}, request {}", self.claim, self.request)
    }
}

impl fmt::Display for AllocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FeatureOff { at, gate, what } => {
                write!(f, "{at}: {what} needs the feature gate {gate}, which is off")
            }
            Self::UnsupportedRequest(at) => {
                write!(f, "{at}: neither exactly nor firstAvailable is set (a newer kind of request?)")
            }
            Self::UnsupportedSelector { at, index } => {
                write!(f, "{at}: selector #{index} has no CEL expression (a newer kind of selector?)")
            }
            Self::MissingClass(at) => write!(f, "{at}: names no device class"),
            Self::UnknownClass { at, class } => write!(f, "{at}: device class {class} does not exist"),
            Self::UnsupportedMode { at, mode } => write!(f, "{at}: unsupported allocation mode {mode:?}"),
            Self::PoolUpdating { at, pool } => {
                write!(f, "{at}: asks for all devices, but pool {pool} is being updated")
            }
            Self::PoolInvalid { at, pool } => {
                write!(f, "{at}: asks for all devices, but pool {pool} is invalid")
            }
            Self::TooManyDevices { claim, wanted } => write!(
                f,
                "claim {claim}: asks for {wanted} devices, a claim holds at most {}",
                crate::RESULTS_MAX
            ),
            Self::UnsupportedConstraint { claim, index } => write!(
                f,
                "claim {claim}: constraint #{index} names no attribute (a newer kind of constraint?)"
            ),
            Self::Compile { at, index, message } => {
                write!(f, "{at}: selector #{index} does not compile: {message}")
            }
            Self::Evaluate { at, index, device, message } => {
                write!(f, "{at}: selector #{index} failed on device {device}: {message}")
            }
            Self::Derive { attribute, device, message } => {
                write!(f, "derived attribute {attribute} failed on device {device}: {message}")
            }
            Self::NodeSelector { slice, message } => write!(f, "slice {slice}: bad node selector: {message}"),
            Self::NodeSelectorTerms { claim, terms } => {
                write!(f, "claim {claim}: a device's node selector has {terms} terms, one is supported")
            }
            Self::ConstraintForbidsAll { at, device } => {
                write!(f, "{at}: asks for all devices, but a constraint of the claim forbids device {device}")
            }
            Self::Capacity { at, device, error } => write!(f, "{at}: device {device}: {error}"),
            Self::InvalidPools(pool) => write!(f, "nothing fits, and there are invalid pools: {pool}"),
            Self::OutOfWork => f.write_str("the budget is spent"),
        }
    }
}

impl core::error::Error for AllocateError {}
