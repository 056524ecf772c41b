//! Why a pod must leave, and the text of it.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{
    fmt::{self, Write as _},
    hash::{Hash as _, Hasher as _},
};

use lazaret_fleet::Origin;
use lazaret_model::{
    Allocation, CapacityMode, Condition, ConditionStatus, DeviceId, EvictionMode, EvictionSpec, ObjectKey,
    PoolId, ResourceClaim, Taint, Text, Timestamp, Uid,
};

use rustc_hash::FxHasher;

/// The type of the condition that a pod gets before it is deleted.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// The reason in that condition: the same word as Kubernetes' controller uses.
pub const DELETION_BY_TAINT: &str = "DeletionByDeviceTaintManager";
/// The reason that the eviction API puts in its place.
pub const EVICTION_BY_API: &str = "EvictionByEvictionAPI";
/// How many reasons a condition or an event spells out; the rest is a number.
const REASONS_SPELLED_MAX: usize = 16;
/// Of the description of a taint so much is in a condition or an event: it may have 1,024 bytes, and an event no more.
const DESCRIPTION_CHARS_MAX: usize = 256;
/// Room for one reason and what comes before and after it, in most clusters.
const REASON_BYTES_USUAL: usize = 192;

/// Which object carries a taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// A DeviceTaintRule.
    Rule {
        /// Its name.
        name: Text,
        /// Its incarnation.
        uid: Uid,
    },
    /// A device in a ResourceSlice.
    Device {
        /// The slice's name.
        slice: Text,
        /// Which of the device's taints.
        index: u32,
    },
    /// A ResourceSlice of taints.
    TaintSlice {
        /// The slice's name.
        slice: Text,
        /// Which of the slice's taints.
        index: u32,
    },
    /// A ResourceSlicePatch.
    Patch {
        /// Its name.
        name: Text,
        /// Which of its taints.
        index: u32,
    },
}

impl Source {
    /// Whether this is where a taint comes from, without making an owned copy to compare.
    pub(crate) fn is(&self, origin: &Origin<'_>) -> bool {
        match (self, origin) {
            (Self::Rule { uid, .. }, Origin::Rule { uid: other, .. }) => uid == *other,
            (Self::Device { slice, index }, Origin::Device { slice: other, index: at })
            | (Self::TaintSlice { slice, index }, Origin::TaintSlice { slice: other, index: at }) => {
                index == at && slice == *other
            }
            (Self::Patch { name, index }, Origin::Patch { name: other, index: at }) => {
                index == at && name == *other
            }
            (Self::Rule { .. } | Self::Device { .. } | Self::TaintSlice { .. } | Self::Patch { .. }, _) => {
                false
            }
        }
    }
}

impl From<&Origin<'_>> for Source {
    fn from(origin: &Origin<'_>) -> Self {
        match *origin {
            Origin::Rule { name, uid, .. } => Self::Rule { name: name.clone(), uid: uid.clone() },
            Origin::Device { slice, index } => Self::Device { slice: slice.clone(), index },
            Origin::TaintSlice { slice, index } => Self::TaintSlice { slice: slice.clone(), index },
            Origin::Patch { name, index } => Self::Patch { name: name.clone(), index },
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule { name, uid } => {
                f.write_str("DeviceTaintRule ")?;
                f.write_str(name)?;
                f.write_str(" (uid ")?;
                f.write_str(uid)?;
                f.write_str(")")
            }
            Self::Device { slice, index } | Self::TaintSlice { slice, index } => {
                write!(f, "ResourceSlice {slice} taint #{index}")
            }
            Self::Patch { name, index } => write!(f, "ResourceSlicePatch {name} taint #{index}"),
        }
    }
}

/// The key of a pace. A rule and a patch are one taint on many devices. Equal taints by a driver on several devices of one pool are one taint too:
/// otherwise a driver that taints a whole pool at "1 a second" would empty it at once, each device having a burst of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaceKey {
    /// A rule, by its incarnation.
    Rule(Uid),
    /// One taint of a patch.
    Patch {
        /// The patch's name.
        name: Text,
        /// Which of its taints.
        index: u32,
    },
    /// A driver's taint of these words in this pool.
    Pool {
        /// The pool.
        pool: PoolId,
        /// The taint's key.
        key: Text,
        /// The taint's value.
        value: Text,
    },
}

impl PaceKey {
    pub(crate) fn of(source: &Source, taint: &Taint, device: &DeviceId) -> Self {
        match source {
            Source::Rule { uid, .. } => Self::Rule(uid.clone()),
            Source::Patch { name, index } => Self::Patch { name: name.clone(), index: *index },
            Source::Device { .. } | Source::TaintSlice { .. } => {
                Self::Pool { pool: device.pool_id(), key: taint.key.clone(), value: taint.value.clone() }
            }
        }
    }
}

impl fmt::Display for PaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(uid) => write!(f, "rule {uid}"),
            Self::Patch { name, index } => write!(f, "patch {name} taint #{index}"),
            Self::Pool { pool, key, value } => write!(f, "taint {key}={value} in pool {pool}"),
        }
    }
}

/// A taint and the object that carries it; shared by all pods that it makes leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The object that carries the taint.
    pub source: Source,
    /// The taint.
    pub taint: Taint,
}

impl Cause {
    /// How pods leave because of it, if it says so.
    pub(crate) fn eviction(&self) -> Option<&EvictionSpec> {
        self.taint.eviction.as_deref()
    }

    /// Whether pods of a group leave together.
    pub(crate) fn is_together(&self) -> bool {
        self.eviction().is_some_and(EvictionSpec::is_together)
    }

    /// Whether a pod waits until there is room for its replacement.
    pub(crate) fn wants_capacity(&self) -> bool {
        self.eviction().is_some_and(|spec| spec.capacity == CapacityMode::Wait)
    }
}

/// One taint on one device of one claim: enough to make a pod leave at its deadline.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The taint and the object that carries it.
    pub cause: Arc<Cause>,
    /// When patience with this taint ends.
    pub deadline: Timestamp,
    /// The claim, which is shared rather than taken apart: a plan may have a hundred thousand reasons.
    holder: Arc<ResourceClaim>,
    given: Arc<Allocation>,
    /// Which of the results is the device.
    result: u32,
    /// Seconds of the deadline that the pod's owner has asked for.
    granted: u32,
    /// The cause's place among the causes; only the machine that made the reason knows what it means.
    pub(crate) cause_ix: u32,
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
            && (Arc::ptr_eq(&self.holder, &other.holder) || self.claim() == other.claim())
            && (Arc::ptr_eq(&self.given, &other.given) && self.result == other.result
                || self.device() == other.device())
            && (Arc::ptr_eq(&self.cause, &other.cause) || self.cause == other.cause)
    }
}

impl Eq for Reason {}

impl Reason {
    /// The taint on the device that `claim` was given as number `result`; `None` if it was given no such device.
    pub(crate) fn new(
        (cause_ix, cause): (u32, &Arc<Cause>),
        claim: &Arc<ResourceClaim>,
        result: usize,
        deadline: Timestamp,
        granted: u32,
    ) -> Option<Self> {
        let given = claim.allocation.as_ref().filter(|given| result < given.results.len())?;
        Some(Self {
            cause: cause.clone(),
            deadline: if granted == 0 { deadline } else { deadline.plus_secs(i64::from(granted)) },
            granted,
            holder: claim.clone(),
            given: given.clone(),
            result: u32::try_from(result).ok()?,
            cause_ix,
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &DeviceId {
        &self.given.results[self.result as usize].device
    }

    /// The claim that holds the device.
    #[must_use]
    pub fn claim(&self) -> &ObjectKey {
        &self.holder.key
    }

    /// When the pod must be gone whatever a disruption budget says, if the rule says so.
    #[must_use]
    pub fn must_be_gone_by(&self) -> Option<Timestamp> {
        let spec = self.cause.taint.eviction.as_ref()?;
        let seconds = spec.deadline_seconds.filter(|_| spec.mode == EvictionMode::EvictThenDelete)?;
        Some(self.deadline.plus_secs(seconds - i64::from(self.granted)))
    }

    /// How long the pod may stay after this deadline, its owner's wish included, if the reason sets a limit.
    pub(crate) fn deadline_secs(&self) -> Option<i64> {
        let spec = self.cause.taint.eviction.as_ref()?;
        let seconds = spec.deadline_seconds.filter(|_| spec.mode == EvictionMode::EvictThenDelete)?;
        Some((seconds - i64::from(self.granted)).max(0))
    }

    /// When the pod waits for room no longer by the timeout for room; `None`: it waits for as long as there is none.
    pub(crate) fn waits_for_room_until(&self) -> Option<Timestamp> {
        let seconds = self.cause.eviction()?.capacity_timeout_seconds?;
        // Not before its deadline, of which its owner may have asked for a part.
        Some(self.deadline.max(self.deadline.plus_secs(seconds - i64::from(self.granted))))
    }

    /// Tells causes apart across machines: by what the taint is and who carries it.
    pub(crate) fn cause_hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        self.cause.source.hash(&mut hasher);
        self.cause.taint.key.hash(&mut hasher);
        self.cause.taint.value.hash(&mut hasher);
        self.cause.taint.time_added.hash(&mut hasher);
        hasher.finish()
    }

    /// Whether patience has ended.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.deadline <= now
    }

    /// The earliest deadline first, then rules by name before slices and patches, then devices by name.
    pub(crate) fn order(&self, other: &Self) -> core::cmp::Ordering {
        (self.deadline, &self.cause.source, self.device(), self.claim()).cmp(&(
            other.deadline,
            &other.cause.source,
            other.device(),
            other.claim(),
        ))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause.source, f)?;
        f.write_str(": taint ")?;
        fmt::Display::fmt(&self.cause.taint, f)?;
        f.write_str(" on device ")?;
        fmt::Display::fmt(self.device(), f)?;
        match &self.cause.taint.description {
            Some(why) if !why.trim().is_empty() => write!(f, " ({})", Quoted(why)),
            _ => Ok(()),
        }
    }
}

/// Text by others in one line of ours: cut, and without characters that would break the line.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.trim().chars();
        for c in rest.by_ref().take(DESCRIPTION_CHARS_MAX) {
            f.write_char(if c.is_control() { ' ' } else { c })?;
        }
        if rest.next().is_some() { f.write_str("…") } else { Ok(()) }
    }
}

/// The reasons that were due when a decision was made.
/// DEVIATION(due-causes-count): an eviction counts for these alone.
pub(crate) fn due_of(reasons: &[Reason], decided: Timestamp) -> &[Reason] {
    &reasons[..reasons.partition_point(|reason| reason.is_due(decided))]
}

/// Some words, then the reasons in one line, at most sixteen of them; no rule is left out for the sake of another of its
/// devices.
pub(crate) fn spell_out(words: &str, reasons: &[Reason]) -> String {
    let spelled = reasons.len().min(REASONS_SPELLED_MAX);
    let mut text = String::with_capacity(words.len() + spelled * REASON_BYTES_USUAL);
    text.push_str(words);
    if let [only] = reasons {
        // Writing to a string cannot fail.
        let _ = write!(text, "{only}");
        return text;
    }
    let mut first_of_source: Vec<&Reason> = Vec::new();
    let mut repeated: Vec<&Reason> = Vec::new();
    for reason in reasons {
        if first_of_source.iter().any(|seen| Arc::ptr_eq(&seen.cause, &reason.cause)) {
            repeated.push(reason);
        } else {
            first_of_source.push(reason);
        }
    }
    for (i, reason) in first_of_source.iter().chain(&repeated).take(spelled).enumerate() {
        let _ = write!(text, "{}{reason}", if i == 0 { "" } else { "; " });
    }
    if reasons.len() > spelled {
        let _ = write!(text, "; and {} more", reasons.len() - spelled);
    }
    text
}

/// The condition a pod gets before it is deleted for these reasons.
pub(crate) fn pod_condition(reasons: &[Reason], now: Timestamp) -> Condition {
    let mut message = spell_out("Must leave its device. ", reasons);
    message.push('.');
    Condition {
        kind: DISRUPTION_TARGET.into(),
        status: ConditionStatus::True,
        reason: DELETION_BY_TAINT.into(),
        message: message.into(),
        observed_generation: 0,
        last_transition: Some(now),
    }
}
