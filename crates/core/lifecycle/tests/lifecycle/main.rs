//! Devices that fall ill and get well, by the rules of policies.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on has failed; it looks at one effect of many"
)]

mod alerts;
mod calm;
mod clocks;
mod cluster;
mod counts;
mod demands;
mod doubles;
mod edited;
mod ends;
mod flaps;
mod gone;
mod govern;
mod guards;
mod handover;
mod identity;
mod idle;
mod policies;
mod pools;
mod proof;
mod random;
mod stages;
mod taints;
mod withdrawn;
mod world;
