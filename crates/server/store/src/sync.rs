//! The locks and atomics of what the writer shares with readers and watches, in one place: the test `interleavings`
//! compiles the same files with loom's, which try every order of steps.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock};
