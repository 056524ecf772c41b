//! The interface of every core: its inputs, its effects, and when it is to be called again.
//!
//! A core is a [`Machine`]. It gives each [`Effect`] an [`EffectId`], keeps the data for the answer in [`Flights`], receives the
//! [`Outcome`], and says by a [`Wake`] when and why it wants to be called again. [`Backoff`] is the pause after failures, [`Recent`] a set that
//! forgets its oldest members, [`Contents`] what logs of effects leave out, [`Correlator`] which events are written, counted or left out.
//!
//! **Invariant.** An id names one effect of one machine and is never used again. Every queue and set here has a limit, or is bounded by what its
//! machine lets be in flight. Nothing here knows what an effect does, how it is carried out, or what time it is: `now` comes in. Depends on
//! `model` alone.
#![no_std]

extern crate alloc;

mod backoff;
mod contents;
mod correlate;
mod effect;
mod flights;
mod machine;
mod recent;
mod resource;
mod wake;

pub use backoff::{Backoff, Retry};
pub use contents::Contents;
pub use correlate::{CorrelatedEvent, Correlator, EventText};
pub use effect::{Effect, EffectId, Outcome, Reply, Written};
pub use flights::Flights;
pub use lazaret_model::{LabelSelector, Labels};
pub use machine::{Machine, Turn};
pub use recent::Recent;
pub use resource::Resource;
pub use wake::Wake;
