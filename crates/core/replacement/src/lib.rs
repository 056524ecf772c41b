//! Which pods on tainted nodes and devices are replaced, when, how many at a time, how, and how far each is.
//!
//! [`Replacement`] is a state machine. Its inputs are policies, pods, nodes and replica sets; it reads device taints from a
//! [`Fleet`](lazaret_fleet::Fleet), and yields effects: record a replacement in a policy's status, release or copy or
//! evict a pod, delete it when the new one is Ready, write an event. The answer to each effect is an input again.
//!
//! **Invariant.** Nothing is done to a pod before the policy's status says that it is being replaced: the next leader
//! finds every replacement in flight among the objects. Each taint of each pod has a timer of its own. No pod is
//! replaced before one of them has run out, nor while a policy that selects it has no slot or holds because too many
//! fault domains are tainted. Once a replacement exists it is brought to its end.
//!
//! It must never know how the API looks on the wire, how a pod is deleted, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acknowledge;
mod advance;
mod breaker;
mod effect;
mod ending;
mod evaluate;
mod figures;
mod finding;
mod flight;
mod guarded;
mod input;
mod machine;
mod matching;
mod news;
mod objects;
mod options;
mod plan;
mod policy;
mod record;
mod report;
mod selector;
mod start;
mod status;
mod succession;
mod tables;
mod takeover;
mod words;

pub use effect::{Effect, EffectId, EffectKind, Note, Outcome, Reply, Severity, Subject};
pub use figures::Figures;
pub use finding::{Cause, Finding, Origin};
pub use input::{Input, ReadAccess, Source};
pub use machine::Replacement;
pub use objects::{FailingNode, Node, NodeTaint, Pod, ReplicaSet};
pub use options::Options;
pub use policy::{Policy, Problem, Share, Spec, Strategy, TaintOption};
pub use record::{Mark, Plan, Record};
pub use status::{
    BREAKER_TRIPPED, DEGRADED, PODS_LISTED_MAX, PROGRESSING, PodStatus, RecordStatus, Status, Totals,
};
