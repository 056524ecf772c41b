//! The life of pods on a node: which container runs when, and what the status of the pod says.
//!
//! **Invariant.** No container of a pod is started before everything that it waits for is there, and none after the pod is to end. It must
//! never know how a container is run, or where the API is.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;
