//! Drivers made with the kit, called as kubelet calls them, against an API server in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod calls;
mod classic;
mod election;
mod faulty;
mod files;
mod health;
mod held;
mod hostile;
mod metadata;
mod minimal;
mod raw;
mod registration;
mod slices;
mod world;
