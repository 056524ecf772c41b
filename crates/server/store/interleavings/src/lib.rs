//! The hand-over between writer, readers and watches, in every order of its steps.
//!
//! The files of the store are compiled here once more, with loom's locks and atomics instead of the standard
//! library's: loom runs each scenario in every order that the memory model permits, up to a number of preemptions.
//! A thread that waits for ever in one of them has lost a wake-up, which loom reports as a deadlock.
//!
//! A package of its own: loom would change the features of libraries that the whole workspace uses.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    missing_docs,
    reason = "files of the crate, of which a part is used"
)]

#[path = "../../src/clock.rs"]
mod clock;
#[path = "../../src/counters.rs"]
mod counters;
#[path = "../../src/draft.rs"]
mod draft;
#[path = "../../src/history.rs"]
mod history;
#[path = "../../src/index.rs"]
mod index;
#[path = "../../src/keys.rs"]
mod keys;
#[path = "../../src/notice.rs"]
mod notice;
#[path = "../../src/options.rs"]
mod options;
#[path = "../../src/range.rs"]
mod range;
#[path = "../../src/shared.rs"]
mod shared;
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64};
    pub(crate) use loom::sync::{Mutex, MutexGuard, RwLock};
}
#[path = "../../src/usage.rs"]
mod usage;
#[path = "../../src/watch.rs"]
mod watch;

#[cfg(test)]
mod rig;
#[cfg(test)]
mod scenarios;
