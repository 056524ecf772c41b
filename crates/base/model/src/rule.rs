//! An administrator's changes of devices: taint rules and patches.

use alloc::{boxed::Box, format, vec::Vec};

use crate::{
    AttrValue, CapacityValue, Condition, ConditionStatus, DeviceId, Review, Taint, Text, Timestamp, Uid,
};

/// The annotation in which an object shows the fields that only v1alpha3 has, as JSON, to clients of other versions. A write in those versions
/// that carries it brings the fields back; it is never stored.
/// DEVIATION(rules-beyond-v1).
pub const V1ALPHA3_FIELDS_ANNOTATION: &str = "lazaret.dev/v1alpha3-fields";

/// The driver that other versions than v1alpha3 show for a rule that selects by class or expression. Without it the rule would read as one
/// that selects every device, and a client that only knows v1 would taint them all; no driver has a name under `invalid`.
pub const V1ALPHA3_ONLY_DRIVER: &str = "selected-in-v1alpha3.invalid";

/// A taint for every device that is selected.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceTaintRule {
    /// Its name: rules apply in this order.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
    /// Grows with each change of the spec.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// `None` selects nothing; an empty selector selects everything.
    pub selector: Option<DeviceSelector>,
    /// The taint.
    pub taint: Taint,
    /// The conditions of its status.
    pub conditions: Vec<Condition>,
    /// How many pods were evicted because of it, as its status says.
    pub evictions: Option<EvictionCount>,
    /// Pods whose eviction may have begun and that are not in that number, as its status says.
    pub evicting: Vec<Uid>,
    /// Since when it is in force, as its status says, if something held it or it had expired.
    pub effective_since: Option<Timestamp>,
    /// Its author and its approval, where known.
    pub review: Option<Box<Review>>,
    /// A DeviceTaintPolicy controls it.
    pub is_compiled: bool,
}

impl DeviceTaintRule {
    /// The type of the condition that says that a rule applies no more.
    pub const EXPIRED: &'static str = "Expired";
    /// The type of the condition that says that a rule has no effect before it is approved.
    pub const HELD: &'static str = "Held";

    /// The subject of a rule that selects by names alone and does not set how pods leave: its devices and the taint's key and value. `None`
    /// for other rules.
    #[must_use]
    pub fn subject(&self) -> Option<Text> {
        let selector = self.selector.as_ref().filter(|selector| selector.by_names_only())?;
        if self.taint.eviction.is_some() {
            return None;
        }
        let name = |name: &Option<Text>| name.clone().unwrap_or_else(|| Text::from("*"));
        let (driver, pool, device) = (name(&selector.driver), name(&selector.pool), name(&selector.device));
        // None of these has a blank in it.
        Some(format!("{driver} {pool} {device} {} {}", self.taint.key, self.taint.value).into())
    }

    /// Whether its status says that it has expired. A condition for another generation does not count.
    #[must_use]
    pub fn is_said_to_be_expired(&self) -> bool {
        self.conditions.iter().any(|condition| {
            condition.kind == Self::EXPIRED
                && condition.status == ConditionStatus::True
                && condition.observed_generation == self.generation
        })
    }

    /// Whether it has no effect because it is held: its status says so, or it needs a decision that its status does not have yet. A condition for
    /// another generation counts only if it is True.
    #[must_use]
    pub fn is_held(&self) -> bool {
        let is_required = self.review.as_ref().is_some_and(|review| review.is_required);
        match self.conditions.iter().find(|condition| condition.kind == Self::HELD) {
            Some(said) if said.observed_generation == self.generation => {
                said.status != ConditionStatus::False
            }
            Some(said) => is_required || said.status == ConditionStatus::True,
            None => is_required,
        }
    }

    /// Whether its status says whether this spec is held.
    #[must_use]
    pub fn says_whether_held(&self) -> bool {
        let of_this_spec = |said: &&Condition| said.observed_generation == self.generation;
        self.conditions.iter().filter(of_this_spec).any(|said| said.kind == Self::HELD)
    }

    /// Which devices it taints: those that it selects, and none while it is held or once its status says that it has expired.
    #[must_use]
    pub fn active_selector(&self) -> Option<&DeviceSelector> {
        self.selector.as_ref().filter(|_| !self.is_said_to_be_expired() && !self.is_held())
    }
}

/// How many pods were evicted because of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EvictionCount {
    /// Pods.
    pub pods: u64,
    /// There may have been more: an earlier controller may have ended before it wrote its last count.
    pub at_least: bool,
    /// Evictions up to this instant are in the number.
    pub until: Option<Timestamp>,
    /// Each eviction that is not in the number is of a pod that the status names.
    pub complete: bool,
}

/// Selects devices. An absent field is no restriction; all present ones must match.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeviceSelector {
    /// Devices of this class (by its CEL expressions).
    pub class: Option<Text>,
    /// Devices of this driver.
    pub driver: Option<Text>,
    /// Devices in pools of this name.
    pub pool: Option<Text>,
    /// Devices of this name.
    pub device: Option<Text>,
    /// Devices that all these CEL expressions match.
    pub cel: Vec<Text>,
}

impl DeviceSelector {
    /// Whether driver, pool and device have the names asked for. Class and CEL need the device's attributes and
    /// are the fleet's to decide.
    #[must_use]
    pub fn names_match(&self, id: &DeviceId) -> bool {
        self.driver.as_ref().is_none_or(|d| *d == id.driver)
            && self.pool.as_ref().is_none_or(|p| *p == id.pool)
            && self.device.as_ref().is_none_or(|d| *d == id.device)
    }

    /// Whether names alone decide.
    #[must_use]
    pub fn by_names_only(&self) -> bool {
        self.class.is_none() && self.cel.is_empty()
    }

    /// Whether it restricts nothing: every device of the cluster.
    #[must_use]
    pub fn selects_everything(&self) -> bool {
        self.by_names_only() && self.driver.is_none() && self.pool.is_none() && self.device.is_none()
    }
}

/// Overrides for every device that is selected.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResourceSlicePatch {
    /// Its name.
    pub name: Text,
    /// The incarnation.
    pub uid: Uid,
    /// Grows with each change of the spec.
    pub generation: i64,
    /// Which devices; `None` selects nothing, empty selects everything.
    pub selector: Option<DeviceSelector>,
    /// Its author and its approval, if there are any.
    pub review: Option<Box<Review>>,
    /// The changes.
    pub patch: DevicePatch,
}

/// The fields that a patch overrides or adds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DevicePatch {
    /// The higher wins where two patches say different things; then the name that sorts first.
    pub priority: i64,
    /// By key, in order; `None` removes the attribute.
    pub attributes: Vec<(Text, Option<AttrValue>)>,
    /// By key, in order; `None` removes the capacity.
    pub capacity: Vec<(Text, Option<CapacityValue>)>,
    /// At most 16. Same key and effect as another taint of the device: the higher priority wins.
    pub taints: Vec<Taint>,
}
