//! From a signal to a healthy device: which signals matter, what becomes of the device, and when it is well again.
//!
//! [`Lifecycle`] is a machine: it hears of policies, devices, signals, pods that have left, repairs and people, and yields effects: taint this
//! device, run this repair, run this validation, write this incident. Nothing is read from a clock: `now` comes in.
//!
//! **Invariant.** A device has one open incident at most. A stage is left backwards only from probation, or by a person. Only a policy that
//! enforces has effects on devices. All progress is in the incidents: a machine that is given them goes on where the one before
//! ended. Every list that signals make grow has a limit. It must never know how a taint is written or how a repair is run.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adopt;
mod calm;
mod demands;
mod doubles;
mod effect;
mod govern;
mod identity;
mod incident;
mod limits;
mod machine;
mod policy;
mod pool_watch;
mod probation;
mod reconcile;
mod record;
mod rule_index;
mod signal;
mod small_map;
mod stages;
mod tallies;
mod task;
mod texts;
mod wakes;
mod wanted;
mod watcher;

pub use effect::{Act, Effect, Input, JobResult, Repair};
pub use identity::Presence;
pub use incident::{
    Cost, DEMANDS_MAX, Demand, Entry, GONE_MS, Handled, Held, HeldReason, Incident, NAMESPACES_MAX, Stage,
    TIMELINE_MAX, TaskObject, Times, incident_name,
};
pub use limits::{Limit, Selected};
pub use machine::Lifecycle;
pub use policy::{
    COUNT_MAX, Count, DoneWhen, Flaps, Mode, Policy, PolicyError, Recovery, Rule, Step, TaintKeyValue,
    Target, VALIDATION_TIMEOUT_MS, When,
};
pub use pool_watch::{INCOMPLETE_MS, PoolState, PoolWatch};
pub use reconcile::{
    Acts, Child, ChildKind, Effect as Write, History, Input as Notice, Owner, PersonAct, Reconciler, Report,
    Stored, Target as ChildTarget, ViewKind, ViewRequest, WriteKind,
};
pub use signal::{PUBLISHED_KEY, Signal, Source};
pub use tallies::{TALLIES_MAX, Tally};
pub use wanted::{Task, Wanted};
