//! Taints, tolerations, and the one function that says whether a toleration covers a taint.

use alloc::sync::Arc;
use core::fmt;

use crate::{EvictionSpec, Text, Timestamp};

/// The effect of a taint on claims that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Effect {
    /// Informational.
    #[default]
    None,
    /// The device is not given to new claims.
    NoSchedule,
    /// Neither given to new claims nor left with pods that use it.
    NoExecute,
    /// Written by a newer server. Behaves as [`Effect::None`], is shown as it is.
    Unknown(Text),
}

impl Effect {
    /// The effect of this name; any other name is kept as unknown.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "None" => Self::None,
            "NoSchedule" => Self::NoSchedule,
            "NoExecute" => Self::NoExecute,
            other => Self::Unknown(other.into()),
        }
    }

    /// The name on the wire.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "None",
            Self::NoSchedule => "NoSchedule",
            Self::NoExecute => "NoExecute",
            Self::Unknown(name) => name,
        }
    }

    /// Keeps new claims away.
    #[must_use]
    pub fn blocks_allocation(&self) -> bool {
        matches!(self, Self::NoSchedule | Self::NoExecute)
    }

    /// Makes running pods leave.
    #[must_use]
    pub fn evicts(&self) -> bool {
        matches!(self, Self::NoExecute)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A mark on a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Taint {
    /// A label name.
    pub key: Text,
    /// A label value, may be empty.
    pub value: Text,
    /// The effect.
    pub effect: Effect,
    /// When it was set; tolerations count from here.
    pub time_added: Option<Timestamp>,
    /// Limit on the pods evicted per second because of this taint. Absent: the controller's setting.
    pub evictions_per_second: Option<i64>,
    /// The reason, from the author of the taint.
    pub description: Option<Text>,
    /// How pods leave because of it. Only the taint of a rule says.
    pub eviction: Option<Arc<EvictionSpec>>,
}

impl Taint {
    /// The pace of a taint of v1alpha3 that names none.
    pub const EVICTIONS_PER_SECOND_DEFAULT: i64 = 10;
}

/// `key=value:effect`, leaving out what is empty, as kubectl writes taints.
impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            f.write_str("=")?;
            f.write_str(&self.value)?;
        }
        if self.effect.name().is_empty() {
            return if self.value.is_empty() { Ok(()) } else { f.write_str(":") };
        }
        f.write_str(":")?;
        f.write_str(self.effect.name())
    }
}

/// How a toleration compares values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum TolerationOperator {
    /// Values must be equal. Also what an absent operator means.
    #[default]
    Equal,
    /// Any value matches.
    Exists,
    /// Written by a newer server. Never matches.
    Unknown(Text),
}

/// The taints that a request tolerates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Toleration {
    /// Empty: any key.
    pub key: Text,
    /// How values compare.
    pub operator: TolerationOperator,
    /// The value for [`TolerationOperator::Equal`].
    pub value: Text,
    /// `None`: any effect.
    pub effect: Option<Effect>,
    /// Seconds for which a NoExecute taint is tolerated, from its `time_added`; `None`: for ever.
    pub seconds: Option<i64>,
}

/// Whether `toleration` covers `taint`, time aside. The scheduler, the eviction and every preview ask this one
/// function. Callers decide which effects matter to them.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if toleration.effect.as_ref().is_some_and(|effect| *effect != taint.effect) {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => toleration.value == taint.value,
        TolerationOperator::Unknown(_) => false,
    }
}

#[cfg(test)]
mod tests;
