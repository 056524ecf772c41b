//! The world of a seed as plain data, so that a regression file can state all of it.

use core::fmt;

/// The size and temper of a world. Plain numbers, so that a regression file can state them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Everything else random comes from this.
    pub seed: u64,
    /// The seed of the initial state.
    pub population: u64,
    /// Pods at the start.
    pub pods: u32,
    /// Nodes.
    pub nodes: u32,
    /// Slices of a pool that carry devices.
    pub slices: u32,
    /// Devices of a slice.
    pub devices: u32,
    /// Whether each pool has a slice of taints.
    pub taint_slices: u32,
    /// The longest a watch is behind, in ms.
    pub lag_ms: u32,
    /// The longest that a write takes, in ms.
    pub latency_ms: u32,
    /// The longest that a pod takes to end, in ms.
    pub grace_ms: u32,
    /// The clock of controller 0 is ahead by this, in ms, minus 5,000.
    pub skew_0: u32,
    /// The same of controller 1.
    pub skew_1: u32,
    /// Evictions a second for taints that state none; 0: unpaced.
    pub default_pace: u32,
    /// Evictions a second in all; 0: no ceiling.
    pub global_pace: u32,
    /// How many may leave at once.
    pub burst: u32,
    /// When faults end and the world comes to rest, in ms.
    pub horizon_ms: u32,
    /// Whether slices that vanished come back at the end.
    pub restore: u32,
    /// Whether there is more to it: devices given out in shares by a pool that every node reaches, capacities, and
    /// patches that override attributes and capacities.
    pub wide: u32,
    /// Whether rules say how pods leave, and disruption budgets keep some.
    pub protected: u32,
    /// Whether a health policy acts on what drivers say of devices; 2: and on pools that stay incomplete, while others meddle with it.
    pub healed: u32,
    /// Whether a stricter policy acts on the same devices; 2: and one observes from the start.
    pub beside: u32,
    /// The seconds within which devices have to be made ready for a pod; 0: all are ready.
    pub binding: u32,
    /// Whether pods take room of their node; 2: and some make others leave.
    pub crowded: u32,
    /// Whether replacement policies replace pods on tainted nodes and devices.
    pub replaced: u32,
    /// Whether the slices of a Node go with it.
    pub collected: u32,
    /// Whether the server looks at the devices of an allocation, and refuses one that another claim has.
    pub once: u32,
}

/// Worlds of more pods are large: what costs in proportion to their size is done less often there.
pub(super) const SMALL_PODS_MAX: u32 = 100;

impl Config {
    pub(crate) fn is_large(&self) -> bool {
        self.pods > SMALL_PODS_MAX
    }
}

/// A clock is off by at most so much.
pub const SKEW_MS_MAX: u32 = 5_000;

/// Something done to the world from outside. Its three numbers are read modulo what there is, so that every
/// operation means something in every state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When, in ms.
    pub at: u32,
    /// The operation.
    pub op: Op,
    /// The number of its object, mostly.
    pub a: u32,
    /// How.
    pub b: u32,
    /// How much, or how long in ms.
    pub c: u32,
}

macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident = $name:literal,)*) => {
        /// An operation on a world.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Op { $($(#[$doc])* $op,)* }
        impl Op {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$op,)*];
            /// As it is written in a regression file.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$op => $name,)* }
            }
        }
    };
}
ops! {
    /// A driver taints device `a` with taint `b`.
    TaintDevice = "taint-device",
    /// A driver clears the taints of device `a`.
    ClearDevice = "clear-device",
    /// A driver taints device `b` of pool `a` through the pool's slice of taints, with taint `c`.
    TaintBySlice = "taint-by-slice",
    /// A driver empties the slice of taints of pool `a`.
    ClearSlice = "clear-slice",
    /// A driver moves pool `a` to the next generation, slice by slice, `c` ms apart.
    RollPool = "roll-pool",
    /// Slice `a` is deleted.
    VanishSlice = "vanish-slice",
    /// Slice `a` is published again.
    RestoreSlice = "restore-slice",
    /// An administrator makes rule `a` with selector `b` and taint `c`, or edits both if it exists.
    WriteRule = "write-rule",
    /// Rule `a` gets effect `b`.
    EditEffect = "edit-effect",
    /// Rule `a` gets pace `b`.
    EditPace = "edit-pace",
    /// Rule `a` gets selector `b`.
    EditSelector = "edit-selector",
    /// Rule `a` is deleted.
    DeleteRule = "delete-rule",
    /// An administrator makes patch `a` with selector `b` and taint `c`.
    WritePatch = "write-patch",
    /// Patch `a` is deleted.
    DeletePatch = "delete-patch",
    /// Class `a` gets selectors `b`.
    EditClass = "edit-class",
    /// Class `a` is deleted.
    DeleteClass = "delete-class",
    /// A user deletes pod `a`.
    DeletePod = "delete-pod",
    /// Pod `a` ends, well or badly.
    FinishPod = "finish-pod",
    /// A person removes the allocation of claim `a` while it is in use.
    Deallocate = "deallocate",
    /// The watch of client `a` for kind `b` breaks and lists again.
    Relist = "relist",
    /// The watch of client `a` for kind `b` says nothing for `c` ms.
    Stall = "stall",
    /// The watch of client `a` for kind `b` repeats its last event.
    Repeat = "repeat",
    /// Controller `a` ends and starts again `c` ms later; `b` even: it is asked to, says
    /// what it knows and gives its lease back if it can.
    Crash = "crash",
    /// The leader is asked to end, and starts again `c` ms later.
    HandOver = "hand-over",
    /// The clock of controller `a` jumps forward (`b` even) or back by `c` ms.
    ClockJump = "clock-jump",
    /// Controller `a` cannot reach its lease for `c` ms.
    CutLease = "cut-lease",
    /// For `c` ms, `b` in a thousand writes of controllers fail in manner `a`.
    Errors = "errors",
    /// The process of controller `a` is stopped for `c` ms and goes on as if nothing had happened.
    Freeze = "freeze",
    /// The eviction agent of controller `a` panics (`b` even), or another one.
    Panic = "panic",
    /// The kubelet of node `a` is slow for the rest of the world.
    SlowKubelet = "slow-kubelet",
    /// The process of the kubelets ends, and starts again `c` ms later.
    RestartKubelets = "restart-kubelets",
    /// The machine of node `a` goes off, and the process of the kubelets starts again `c` ms later.
    PowerOff = "power-off",
    /// The machine of node `a` starts.
    PowerOn = "power-on",
    /// A person removes claim `a`, its finalizer first.
    RemoveClaim = "remove-claim",
    /// Rule `a` says anew how pods leave, `b`.
    EditEviction = "edit-eviction",
    /// In namespace `a` the eviction API permits that `b` pods are terminating at a time; more than a few: any number.
    SetBudget = "set-budget",
    /// Guard `a` is written as `b` says, for `c` seconds if that matters, or taken away.
    WriteGuard = "write-guard",
    /// A person approves rule `a` for its reach now, or for less, as `b` says.
    Approve = "approve",
    /// A person does `b` about incident `a`.
    Person = "person",
    /// A person reports trouble `b` of device `a`, `c` times in a row.
    Report = "report",
    /// The health policy observes from now on (`b` even) or enforces.
    SetMode = "set-mode",
    /// A policy that only observes stands beside the others from now on (`b` even), or is gone.
    Observe = "observe",
    /// The health policy gets form `b`, or is deleted.
    WritePolicy = "write-policy",
    /// Somebody takes object `a` away that was made for an incident, or the effect of its taint, as `b` says.
    TakeAway = "take-away",
    /// A person wants `b` pods of owner `a`.
    Scale = "scale",
    /// A person deletes owner `a`, with its pods before or after it, or without them, as `b` says.
    DeleteOwner = "delete-owner",
    /// Node `a` is cordoned.
    Cordon = "cordon",
    /// Node `a` is uncordoned.
    Uncordon = "uncordon",
    /// A driver reports that the devices of claim `a` are ready (`b` even) or broken.
    ReportDevices = "report-devices",
    /// Replacement policy `a` is written with spec `b`, and durations by `c`.
    WriteReplacement = "write-replacement",
    /// Replacement policy `a` is deleted.
    DeleteReplacement = "delete-replacement",
    /// Node `a` gets taint `b`, or loses it if it has it.
    TaintNode = "taint-node",
    /// The Node of machine `a` is deleted. As `b` says the machine runs, goes off, and then the process of the kubelets starts again `c` ms later, or
    /// goes off for good.
    DeleteNode = "delete-node",
    /// Person `a` makes a pod with a claim of its own (`b` even), or deletes the pod and leaves the claim.
    Hesitate = "hesitate",
    /// The tenant of pod `a` writes into it what is not so, `b` and `c` say what.
    Lie = "lie",
    /// Node `b` publishes a slice in pool `a` of another node.
    ForgeSlice = "forge-slice",
    /// Somebody approves rule `a` in the name of another, as `b` says.
    ForgeApproval = "forge-approval",
}

impl Op {
    /// The operation of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|op| op.name() == name)
    }
}

/// One line, as in a regression file.
impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.at, self.op.name(), self.a, self.b, self.c)
    }
}

/// A world to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The world.
    pub config: Config,
    /// The operations on it, in order of time.
    pub transitions: Vec<Transition>,
}

/// How worlds are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most pods at the start; sizes vary below it, small ones being the most frequent.
    pub pods: u32,
    /// Exactly that number instead.
    pub exact: bool,
    /// The most transitions.
    pub steps: u32,
}

/// A population is shared by one more seed for this many of its pods: the larger, the more it costs to make.
const PODS_PER_SIBLING: u32 = 25;

impl Limits {
    /// Neighbouring seeds that are given the same population.
    #[must_use]
    pub fn siblings(self) -> u64 {
        u64::from(self.pods / PODS_PER_SIBLING).max(1)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { pods: 1000, exact: false, steps: 40 }
    }
}
