//! How much was done with trees, for tests that hold work against the size of what it is done to.

#[cfg(debug_assertions)]
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(debug_assertions)]
static STEPS: AtomicU64 = AtomicU64::new(0);

/// How often fields were looked up and values compared in this process. Only builds with debug assertions count; others say zero.
#[must_use]
pub fn steps() -> u64 {
    #[cfg(debug_assertions)]
    return STEPS.load(Ordering::Relaxed);
    #[cfg(not(debug_assertions))]
    0
}

#[inline]
pub(crate) fn step() {
    #[cfg(debug_assertions)]
    STEPS.fetch_add(1, Ordering::Relaxed);
}
