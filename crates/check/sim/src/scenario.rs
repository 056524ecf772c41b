//! A seed's world: its size and temper, and the list of events from outside. The list is drawn up front, so that a failing world can be run again
//! with some of them left out.

mod binding;
mod draw;
mod forgers;
mod incidents;
mod people;

use core::fmt;

use crate::{actors::guards::counting_domains, mutant::Mutant, rng::Rng};
use draw::{draw_config, draw_transitions};

/// How far watches may be behind, at least, where a mutant is looked for that grants views that are too old.
const HUNT_LAG_MS: u32 = 8_000;

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

macro_rules! fields {
    ($config:expr, $each:expr) => {{
        let (config, mut each) = ($config, $each);
        each("pods", &mut config.pods);
        each("nodes", &mut config.nodes);
        each("slices", &mut config.slices);
        each("devices", &mut config.devices);
        each("taint_slices", &mut config.taint_slices);
        each("lag_ms", &mut config.lag_ms);
        each("latency_ms", &mut config.latency_ms);
        each("grace_ms", &mut config.grace_ms);
        each("skew_0", &mut config.skew_0);
        each("skew_1", &mut config.skew_1);
        each("default_pace", &mut config.default_pace);
        each("global_pace", &mut config.global_pace);
        each("burst", &mut config.burst);
        each("horizon_ms", &mut config.horizon_ms);
        each("restore", &mut config.restore);
        each("wide", &mut config.wide);
        each("protected", &mut config.protected);
        each("healed", &mut config.healed);
        each("beside", &mut config.beside);
        each("binding", &mut config.binding);
        each("crowded", &mut config.crowded);
        each("replaced", &mut config.replaced);
        each("collected", &mut config.collected);
        each("once", &mut config.once);
    }};
}

/// Worlds of more pods are large: what costs in proportion to their size is done less often there.
const SMALL_PODS_MAX: u32 = 100;

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

impl Scenario {
    /// The world of a seed.
    #[must_use]
    pub fn draw(seed: u64, limits: Limits) -> Self {
        let mut rng = Rng::new(seed, 0);
        let config = draw_config(seed, limits, &mut rng);
        let transitions = draw_transitions(&config, limits, &mut rng);
        Self { config, transitions }
    }

    /// The world of a seed in which a mutant is looked for. A view that is too old shows only where watches are far behind, devices that are counted
    /// in place of fault domains only where a breaker counts these, and so on.
    #[must_use]
    pub fn hunt(seed: u64, limits: Limits, mutant: Mutant) -> Self {
        let mut scenario = Self::draw(seed, limits);
        if mutant == Mutant::StaleView {
            scenario.config.lag_ms = scenario.config.lag_ms.max(HUNT_LAG_MS);
        }
        if mutant == Mutant::UncheckedDevices {
            scenario.config.once = 1;
            people::hold_up_allocations(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::UnprovenMarks {
            scenario.forge_marks();
        }
        if mutant == Mutant::BelieveForgedSlices {
            scenario.config.once = 0;
            forgers::forge_slices(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::UnsignedApprovals {
            scenario.config.protected = 1;
            forgers::forge_approvals(&scenario.config, &mut scenario.transitions);
        }
        if mutant == Mutant::DevicesForDomains {
            let guards = scenario.transitions.iter_mut().filter(|one| one.op == Op::WriteGuard);
            guards.for_each(|guard| (guard.b, guard.c) = counting_domains(guard.b, guard.c));
        }
        if mutant == Mutant::NoFlightWait {
            people::hand_over_in_flight(&scenario.config, &mut scenario.transitions);
        }
        scenario
    }

    /// A server that lets tenants write marks of replacements, pods that are replaced, and tenants who write such marks.
    fn forge_marks(&mut self) {
        if self.config.is_large() {
            return;
        }
        self.config.once = 0;
        if core::mem::replace(&mut self.config.replaced, 1) == 0 {
            draw::draw_replacement(&self.config, &mut self.transitions);
        }
        people::forge_marks(&self.config, &mut self.transitions);
    }

    /// As a regression file.
    #[must_use]
    pub fn to_text(&self) -> String {
        use fmt::Write as _;
        let mut text = format!("seed {}\npopulation {}\n", self.config.seed, self.config.population);
        fields!(&mut self.config.clone(), |name: &str, value: &mut u32| {
            let _infallible = writeln!(text, "{name} {value}");
        });
        for transition in &self.transitions {
            let _infallible = writeln!(text, "{transition}");
        }
        text
    }

    /// From a regression file. Lines that start with `#` are comments.
    ///
    /// # Errors
    /// The line that is not understood.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let mut scenario =
            Self { config: draw_config(0, Limits::default(), &mut Rng::new(0, 0)), transitions: Vec::new() };
        // A file that says nothing of them is from before there were such worlds.
        let Config { wide, protected, healed, beside, binding, crowded, replaced, once, .. } =
            &mut scenario.config;
        let fields = [wide, protected, healed, beside, binding, crowded, replaced, once];
        fields.into_iter().for_each(|field| *field = 0);
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            scenario.read_line(line).ok_or_else(|| format!("cannot read line {line:?}"))?;
        }
        Ok(scenario)
    }

    fn read_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            // A file that says nothing of its population is from before they were shared.
            ["seed", value] => {
                self.config.seed = value.parse().ok()?;
                self.config.population = self.config.seed;
            }
            ["population", value] => self.config.population = value.parse().ok()?,
            [name, value] => {
                let value: u32 = value.parse().ok()?;
                let mut found = false;
                fields!(&mut self.config, |field: &str, target: &mut u32| {
                    if field == *name {
                        (*target, found) = (value, true);
                    }
                });
                return found.then_some(());
            }
            [at, op, a, b, c] => {
                let [at, a, b, c] = [at, a, b, c].map(|word| word.parse().ok());
                self.transitions.push(Transition { at: at?, op: Op::named(op)?, a: a?, b: b?, c: c? });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Scenario};

    #[test]
    fn a_seed_means_one_world_and_text_keeps_it() {
        for seed in 0..50 {
            let drawn = Scenario::draw(seed, Limits::default());
            assert_eq!(drawn, Scenario::draw(seed, Limits::default()));
            assert_eq!(Scenario::from_text(&drawn.to_text()), Ok(drawn));
        }
        assert!(Scenario::from_text("12 taint-moon 1 2 3").is_err());
    }

    #[test]
    fn sizes_vary_up_to_the_limit() {
        let sizes: Vec<u32> =
            (0..200).map(|seed| Scenario::draw(seed, Limits::default()).config.pods).collect();
        assert!(sizes.iter().all(|pods| *pods <= 1000));
        assert!(sizes.iter().any(|pods| *pods > 500) && sizes.iter().any(|pods| *pods < 10));
    }
}
