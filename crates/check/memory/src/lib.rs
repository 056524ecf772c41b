//! A store in memory: the model that other stores are compared with.
//!
//! It knows [`Storage`] and nothing besides: every version of every key, and every event in order. Each answer is a
//! loop over one of the two, so it is plain that the answer is right; it is slower than `store` and keeps nothing.
//!
//! **Invariant.** For a given sequence of calls its answers follow from [`Storage`] alone.
//!
//! [`linear`] judges what many clients saw at once: whether any order of their operations explains it.
//!
//! It must never know a disk, a thread or a clock. Tests of `store` and `server` depend on it.

mod compare;
pub mod linear;
mod memory;
mod versions;
mod watch;

#[cfg(test)]
mod tests;

pub use compare::{Session, Step, steps};
pub use memory::Memory;
