//! When a node is short of memory, disk or process ids.

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use crate::Millis;

const MILLIONTHS: u64 = 1_000_000;

/// The eviction signals of a node, in kubelet's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Memory that can be had without swapping, in bytes.
    MemoryAvailable,
    /// Free bytes of the file system of the node's root.
    NodefsAvailable,
    /// Its free inodes.
    NodefsInodesFree,
    /// Process ids that are left.
    PidAvailable,
}

/// A condition of the Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureKind {
    /// `MemoryPressure`.
    Memory,
    /// `DiskPressure`.
    Disk,
    /// `PIDPressure`.
    Pids,
}

impl PressureKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pids];

    /// As the API has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pids => "PIDPressure",
        }
    }
}

impl Signal {
    /// All of them, in the order in which pods are evicted for them.
    pub const ALL: [Self; 4] =
        [Self::MemoryAvailable, Self::NodefsAvailable, Self::NodefsInodesFree, Self::PidAvailable];

    /// As `--eviction-hard` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::NodefsAvailable => "nodefs.available",
            Self::NodefsInodesFree => "nodefs.inodesFree",
            Self::PidAvailable => "pid.available",
        }
    }

    /// The resource that pods use up, as messages name it.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory",
            Self::NodefsAvailable => "ephemeral-storage",
            Self::NodefsInodesFree => "inodes",
            Self::PidAvailable => "pids",
        }
    }

    /// The condition of the Node that says it.
    #[must_use]
    pub fn pressure(self) -> PressureKind {
        match self {
            Self::MemoryAvailable => PressureKind::Memory,
            Self::NodefsAvailable | Self::NodefsInodesFree => PressureKind::Disk,
            Self::PidAvailable => PressureKind::Pids,
        }
    }

    /// An amount of it, as Kubernetes writes quantities.
    #[must_use]
    pub fn text(self, amount: u64) -> String {
        match self {
            Self::MemoryAvailable | Self::NodefsAvailable => binary(amount),
            Self::NodefsInodesFree | Self::PidAvailable => decimal(amount),
        }
    }
}

/// How much there is of something, and how much of it is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Bytes, inodes or processes that are left.
    pub available: u64,
    /// The total.
    pub capacity: u64,
}

/// Measured levels. A signal that could not be measured is absent.
pub type Levels = BTreeMap<Signal, Level>;

/// With less than this a node is short of something. Where both are given, with less than both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Threshold {
    /// Bytes, inodes or process ids.
    pub amount: Option<u64>,
    /// A share of the capacity.
    pub millionths: Option<u32>,
}

impl Threshold {
    /// An amount.
    #[must_use]
    pub fn amount(amount: u64) -> Self {
        Self { amount: Some(amount), millionths: None }
    }

    /// A share of the capacity.
    #[must_use]
    pub fn millionths(millionths: u32) -> Self {
        Self { amount: None, millionths: Some(millionths) }
    }

    fn percent(percent: u32) -> Self {
        Self::millionths(percent * 10_000)
    }

    /// The threshold as an amount of `capacity`.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        let share = self.millionths.map(|millionths| {
            let share = u128::from(capacity) * u128::from(millionths) / u128::from(MILLIONTHS);
            u64::try_from(share).unwrap_or(u64::MAX)
        });
        [self.amount, share].into_iter().flatten().min().unwrap_or(0)
    }

    /// Whether less than this is left. A file system that has none of something is not short of it.
    pub(crate) fn crossed(self, signal: Signal, levels: &Levels, is_soft: bool) -> Option<CrossedThreshold> {
        let level = *levels.get(&signal)?;
        let threshold = self.of(level.capacity);
        let is_crossed = level.capacity > 0 && level.available < threshold;
        is_crossed.then_some(CrossedThreshold { signal, level, threshold, is_soft })
    }
}

/// A threshold that has to be crossed for a while before pods go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftThreshold {
    /// With less than this.
    pub threshold: Threshold,
    /// For this long.
    pub grace_ms: Millis,
}

/// Thresholds of a node. Signals that have none are not looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thresholds(pub BTreeMap<Signal, Threshold>);

/// Memory of kubelet's own default.
const MEMORY_AVAILABLE_BYTES: u64 = 100 << 20;
/// DEVIATION(disk-pressure): less than a tenth of the disk, and also less than this many bytes. A tenth of a large disk is room
/// enough for pods.
const NODEFS_AVAILABLE_BYTES: u64 = 5 << 30;

impl Default for Thresholds {
    fn default() -> Self {
        let disk = Threshold { amount: Some(NODEFS_AVAILABLE_BYTES), ..Threshold::percent(10) };
        Self(BTreeMap::from([
            (Signal::MemoryAvailable, Threshold::amount(MEMORY_AVAILABLE_BYTES)),
            (Signal::NodefsAvailable, disk),
            (Signal::NodefsInodesFree, Threshold::percent(5)),
            (Signal::PidAvailable, Threshold::percent(10)),
        ]))
    }
}

/// Something of which too little is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossedThreshold {
    /// Of what.
    pub signal: Signal,
    /// How much is left.
    pub level: Level,
    /// How much should be.
    pub threshold: u64,
    /// Whether it is a soft threshold, which leaves pods time to end.
    pub is_soft: bool,
}

impl CrossedThreshold {
    /// The figures, for a message.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { signal, level, threshold, is_soft: _ } = self;
        let amount = |amount| signal.text(amount);
        format!(
            "{} is {} of {}, below the threshold {}",
            signal.name(),
            amount(level.available),
            amount(level.capacity),
            amount(*threshold)
        )
    }
}

impl Thresholds {
    /// The thresholds that these levels cross.
    #[must_use]
    pub fn crossed(&self, levels: &Levels) -> Vec<CrossedThreshold> {
        let crossed =
            Signal::ALL.into_iter().filter_map(|signal| self.0.get(&signal)?.crossed(signal, levels, false));
        crossed.collect()
    }
}

/// Bytes, as a canonical quantity: `100Mi`, and `1025` where no suffix is exact.
pub(crate) fn binary(amount: u64) -> String {
    with_suffix(amount, 1_024, &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])
}

/// A count, likewise: `5k`.
fn decimal(amount: u64) -> String {
    with_suffix(amount, 1_000, &["", "k", "M", "G", "T", "P", "E"])
}

fn with_suffix(mut amount: u64, unit: u64, suffixes: &[&str]) -> String {
    let mut suffix = 0;
    while amount > 0 && amount.is_multiple_of(unit) && suffix + 1 < suffixes.len() {
        amount /= unit;
        suffix += 1;
    }
    format!("{amount}{}", suffixes[suffix])
}
