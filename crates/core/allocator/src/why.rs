//! Why claims do not fit on a node: complete for a program, short for a person.

use alloc::{collections::BTreeMap, string::String, vec::Vec};
use core::fmt;

use lazaret_model::{ObjectKey, PoolId, Taint, Text};

/// Why claims do not fit on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WhyNot {
    /// The node.
    pub node: Text,
    /// Each request, or each alternative of one, alone: what is there for it. Empty unless it was asked for.
    pub requests: Vec<RequestWhy>,
    /// Pools that were left out.
    pub pools: Vec<PoolWhy>,
    /// The conflict when every request alone could be served.
    pub conflict: Option<Conflict>,
    /// How many steps the search took.
    pub steps: u64,
}

/// The devices available to one request, and the reasons against the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestWhy {
    /// The claim.
    pub claim: ObjectKey,
    /// `r` or `r/s`.
    pub request: Text,
    /// How many devices it wants; for all devices: how many those are.
    pub wanted: usize,
    /// How many devices the node can reach.
    pub considered: usize,
    /// How many of these could be given to the request if it were alone.
    pub suitable: usize,
    /// Why the others could not, most frequent first.
    pub unsuitable: Vec<Group>,
}

/// Devices that fell out for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The reason.
    pub reason: Reason,
    /// How many.
    pub devices: usize,
}

/// Why a device cannot be given to a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A selector of the class says no.
    ClassSelector {
        /// The class.
        class: Text,
        /// Its place in the list.
        index: usize,
    },
    /// A selector of the request says no.
    RequestSelector {
        /// Its place in the list.
        index: usize,
    },
    /// A selector cannot be evaluated on it.
    SelectorError(String),
    /// Another claim has it.
    InUse,
    /// A claim that is about to be allocated has it.
    InFlight,
    /// It has a taint that is not tolerated.
    Tainted {
        /// `key=value:effect`.
        taint: String,
        /// The source of the taint.
        by: TaintSource,
    },
    /// It cannot be reached from the node.
    OtherNode,
    /// It needs a feature that is off here.
    FeatureOff(&'static str),
    /// It needs a feature that the node does not declare.
    NodeLacks(&'static str),
    /// A shared counter has too little left.
    Counter {
        /// The counter set.
        set: Text,
        /// The counter.
        counter: Text,
    },
    /// The devices that hold a counter set are of other groups.
    Group {
        /// The counter set.
        set: Text,
    },
    /// Too little is left of a capacity.
    Capacity(Text),
    /// It does not have the capacity.
    NoCapacity(Text),
    /// The amount asked for is none that the device gives.
    Policy(Text),
    /// It lacks the attribute of a constraint.
    NoAttribute(Text),
    /// The budget was spent before its selectors were asked.
    NotAsked,
}

/// The object that holds a taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaintSource {
    /// The driver, on the device in this slice.
    Device(Text),
    /// The driver, in this slice of taints.
    Slice(Text),
    /// This ResourceSlicePatch.
    Patch(Text),
    /// This DeviceTaintRule.
    Rule(Text),
}

/// A pool that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolWhy {
    /// The pool.
    pub pool: PoolId,
    /// `None`: its slices are not all there. Otherwise what is wrong with them.
    pub invalid: Option<String>,
}

/// The reason why requests that could each be served cannot be served together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// Together these want more devices than there are for them.
    Shortage {
        /// How many they want.
        wanted: usize,
        /// How many there are.
        available: usize,
    },
    /// No value of the attribute is common to enough devices.
    Match {
        /// The claim.
        claim: ObjectKey,
        /// The attribute.
        attribute: Text,
        /// How many devices must share it.
        wanted: usize,
        /// How many share one at most.
        available: usize,
    },
    /// Too few different values of the attribute.
    Distinct {
        /// The claim.
        claim: ObjectKey,
        /// The attribute.
        attribute: Text,
        /// How many are needed.
        wanted: usize,
        /// How many there are.
        available: usize,
    },
    /// Constraints, counters and capacities allow no combination.
    Combination,
}

impl WhyNot {
    pub(crate) fn at(node: &Text) -> Self {
        Self { node: node.clone(), ..Self::default() }
    }

    /// The requests that could not be served even alone.
    pub fn short(&self) -> impl Iterator<Item = &RequestWhy> {
        self.requests.iter().filter(|request| !request.enough())
    }
}

impl RequestWhy {
    /// Whether the request alone could be served.
    #[must_use]
    pub fn enough(&self) -> bool {
        self.suitable >= self.wanted.max(1)
    }
}

/// Counts devices by reason.
#[derive(Default)]
pub(crate) struct Tally(BTreeMap<Reason, usize>);

impl Tally {
    pub(crate) fn add(&mut self, reason: Reason) {
        *self.0.entry(reason).or_default() += 1;
    }

    /// Most frequent first, then by reason.
    pub(crate) fn groups(self) -> Vec<Group> {
        let mut groups: Vec<Group> =
            self.0.into_iter().map(|(reason, devices)| Group { reason, devices }).collect();
        groups.sort_by_key(|group| core::cmp::Reverse(group.devices));
        groups
    }
}

pub(crate) fn tainted(taint: &Taint, by: TaintSource) -> Reason {
    Reason::Tainted { taint: alloc::format!("{taint}"), by }
}

impl fmt::Display for TaintSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(slice) | Self::Slice(slice) => write!(f, "slice {slice}"),
            Self::Patch(name) => write!(f, "patch {name}"),
            Self::Rule(name) => write!(f, "rule {name}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClassSelector { class, index: 0 } => write!(f, "not of class {class}"),
            Self::ClassSelector { class, index } => write!(f, "not of class {class} (selector #{index})"),
            Self::RequestSelector { index } => write!(f, "not matched by selector #{index}"),
            Self::SelectorError(message) => write!(f, "selector failed: {message}"),
            Self::InUse => f.write_str("in use"),
            Self::InFlight => f.write_str("about to be used"),
            Self::Tainted { taint, by } => write!(f, "tainted {taint} by {by}"),
            Self::OtherNode => f.write_str("on other nodes"),
            Self::FeatureOff(gate) => write!(f, "need {gate}, which is off"),
            Self::NodeLacks(feature) => write!(f, "need {feature}, which the node lacks"),
            Self::Counter { set, counter } => write!(f, "short of {set}/{counter}"),
            Self::Group { set } => write!(f, "incompatible with what holds {set}"),
            Self::Capacity(name) => write!(f, "short of {name}"),
            Self::NoCapacity(name) => write!(f, "without capacity {name}"),
            Self::Policy(name) => write!(f, "do not give such an amount of {name}"),
            Self::NoAttribute(name) => write!(f, "without attribute {name}"),
            Self::NotAsked => f.write_str("not looked at, for the budget was spent"),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shortage { wanted, available } => {
                write!(f, "the requests together want {wanted} devices, {available} are suitable")
            }
            Self::Match { attribute, wanted, available, .. } => {
                write!(f, "{wanted} devices must share {attribute}, at most {available} do")
            }
            Self::Distinct { attribute, wanted, available, .. } => {
                write!(f, "{wanted} devices must differ in {attribute}, there are {available} values")
            }
            Self::Combination => f.write_str("no combination satisfies constraints, counters and capacities"),
        }
    }
}

impl fmt::Display for RequestWhy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "request {} wants {}, {} of {} devices suitable",
            self.request, self.wanted, self.suitable, self.considered
        )?;
        for (at, group) in self.unsuitable.iter().enumerate() {
            write!(f, "{}{} {}", if at == 0 { " (" } else { ", " }, group.devices, group.reason)?;
        }
        if self.unsuitable.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// One line for a pod's condition.
impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut separate = |f: &mut fmt::Formatter<'_>| {
            let text = if first { "" } else { "; " };
            first = false;
            f.write_str(text)
        };
        for request in self.short() {
            separate(f)?;
            write!(f, "{request}")?;
        }
        if let Some(conflict) = &self.conflict {
            separate(f)?;
            write!(f, "{conflict}")?;
        }
        for pool in &self.pools {
            separate(f)?;
            match &pool.invalid {
                None => write!(f, "pool {} is incomplete", pool.pool)?,
                Some(reason) => write!(f, "pool {} is invalid: {reason}", pool.pool)?,
            }
        }
        if first { f.write_str("cannot allocate all claims") } else { Ok(()) }
    }
}
