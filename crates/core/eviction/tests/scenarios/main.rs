//! The machine in small worlds.
#![allow(missing_docs)]
// Helpers of tests may fail a test; tables may be long.
#![allow(clippy::unwrap_used, clippy::panic, clippy::too_many_lines)]

mod admission;
mod brake;
mod breaker_windows;
mod capacity;
mod controller;
mod counts;
mod flow;
mod groups;
mod guard_windows;
mod hard_claims;
mod holds;
mod memory;
mod objects;
mod pace;
mod patience;
mod protection;
mod records;
mod reference;
mod selectors;
mod table;
mod taint_holds;
mod unclear_guards;
mod verified;
mod words;
mod world;
