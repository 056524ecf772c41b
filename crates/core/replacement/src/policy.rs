//! A policy as the machine knows it, and what can be wrong with one.

use alloc::{format, sync::Arc, vec::Vec};
use core::fmt;

use lazaret_machine::LabelSelector;
use lazaret_model::{ObjectKey, Text, Uid, named};

use crate::status::Status;

/// The key that stands for every key without an entry of its own.
pub(crate) const WILDCARD: &str = "*";

/// A `TaintReplacementPolicy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// Its version: a precondition of every write.
    pub version: Text,
    /// Which spec this is.
    pub generation: i64,
    /// It is being deleted: nothing new is begun for it.
    pub deleting: bool,
    /// Its spec, or why it is invalid.
    pub spec: Result<Arc<Spec>, Vec<Problem>>,
    /// Its status as last written, by this machine or one before.
    pub status: Arc<Status>,
}

/// The spec of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Which pods of its namespace it looks after.
    pub selector: LabelSelector,
    /// Whether anything is done at all.
    pub enabled: bool,
    /// How many replacements may be in flight at once; in each fault domain, if those are named.
    pub max_concurrent: u32,
    /// Rules for taints of nodes. Empty: taints of nodes are ignored.
    pub node_options: Vec<TaintOption>,
    /// Rules for taints of devices. Empty: taints of devices are ignored.
    pub device_options: Vec<TaintOption>,
    /// How long a pod stays marked before it is replaced.
    pub replacement_secs: i64,
    /// How long a node may fail before its pods are replaced.
    pub failure_secs: i64,
    /// Whether failing nodes matter.
    pub node_failures: bool,
    /// The node label that names a fault domain. `None`: each node is one.
    pub fault_domain_key: Option<Text>,
    /// How many fault domains may be tainted before new replacements are held.
    pub max_domains_tainted: Option<Share>,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// How long a new pod may take to become Ready before it is reported.
    pub ready_secs: i64,
}

/// The rule for one taint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaintOption {
    /// The taint's key, or `*`.
    pub key: Text,
    /// Only with this value.
    pub value: Option<Text>,
    /// Only with this effect.
    pub effect: Option<Text>,
    /// How long it may be there.
    pub secs: i64,
}

/// A number, or a part of all there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// A number.
    Count(u32),
    /// A percentage; at least one, unless it is 0 %.
    Percent(u32),
}

impl Share {
    /// How many of `all`.
    #[must_use]
    pub fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(0) => 0,
            Self::Percent(percent) => (all.saturating_mul(percent as usize) / 100).max(1),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

named! {
    /// How pods are replaced.
    #[derive(Default)]
    pub enum Strategy {
        /// The new one first, wherever there can be two.
        #[default]
        ReplaceFirst,
        /// The old one goes first, as disruption budgets permit.
        Recreate,
    }
}

/// A field that cannot be meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which.
    pub field: Text,
    /// Why, and what to do.
    pub message: Text,
}

impl Problem {
    /// A problem with a field.
    pub fn new(field: impl Into<Text>, message: impl Into<Text>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Where the options are, for messages.
const OPTIONS: &str = "spec.automaticReplacementOptions";

impl Spec {
    /// Everything in it that cannot be meant, and that the limits of single fields do not show.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        check_options(&mut problems, "taintReplacementOptions", &self.node_options);
        check_options(&mut problems, "deviceTaintReplacementOptions", &self.device_options);
        problems
    }
}

fn check_options(problems: &mut Vec<Problem>, list: &str, options: &[TaintOption]) {
    let field = format!("{OPTIONS}.{list}");
    for (at, option) in options.iter().enumerate() {
        let earlier = options[..at].iter();
        if option.key == WILDCARD {
            if earlier.clone().any(|other| other.key == WILDCARD) {
                problems.push(Problem::new(
                    format!("{field}[{at}].key"),
                    "there must be only one * entry: remove this one or the one before it",
                ));
            }
        } else if earlier.clone().any(|other| {
            (&other.key, &other.value, &other.effect) == (&option.key, &option.value, &option.effect)
        }) {
            problems.push(Problem::new(
                format!("{field}[{at}]"),
                format!("the same key, value and effect as an entry before it: {}", option.key),
            ));
        }
    }
}
