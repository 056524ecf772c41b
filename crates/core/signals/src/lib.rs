//! Signals about devices that last: taints, attributes, conditions of nodes, health in pods, devices that are not published any more, and pools that stay
//! incomplete. Beside them the usage of devices with incidents, and the limits that guards set.
//!
//! [`Levels`] takes slices, nodes, pods and health policies as they change, and yields the inputs of a
//! [`Lifecycle`](lazaret_lifecycle::Lifecycle) for the changes since the last call. Health policies stand in the place of rules in its
//! [`Fleet`](lazaret_fleet::Fleet), which keeps up to date which devices they select ([`selection`]). [`Usage`] and [`GuardLimits`] look at the same fleet.
//!
//! **Invariant.** A machine that gets all inputs knows of each device that a policy selects the signals that hold now, in whatever order the objects came. A
//! device that a claim holds, or that has an open incident, is missed when it is not published though its node is there, by the process that leads and by
//! each that comes after it.
//!
//! It must never know what policies do about signals, what the API looks like on the wire, or what time it is: `now` comes in.
#![no_std]

extern crate alloc;

mod absent;
mod devices;
mod levels;
mod limits;
mod news;
mod pods;
mod policies;
mod pools;
mod presence;
mod tell;
mod usage;
mod vanished;

pub use lazaret_lifecycle::PUBLISHED_KEY;
pub use levels::{Condition, Levels};
pub use limits::GuardLimits;
pub use policies::{beside_policies, rule_name, selection};
pub use pools::POOL_COMPLETE_KEY;
pub use usage::Usage;
pub use vanished::VANISHED_MAX;
