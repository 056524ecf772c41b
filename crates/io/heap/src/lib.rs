//! The allocator of the `lazaret` command.
//!
//! **Invariant.** One option is set, before there is a second thread; nothing else of the allocator is touched.

use std::ffi::c_long;

use libmimalloc_sys::{mi_option_eager_commit_delay, mi_option_set_default, mi_option_t};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay`, which the binding does not name: it comes right after this one.
const PURGE_DELAY: mi_option_t = mi_option_eager_commit_delay + 1;

/// By itself mimalloc gives memory back 10 ms after it became free, and a control plane asks for it again at once.
/// A second takes a fourteenth off the CPU time of `lazaret bench evict`, for a twentieth more memory.
const KEPT_MS: c_long = 1_000;

/// Keeps memory that became free for a second. `MIMALLOC_PURGE_DELAY` in the environment is stronger.
/// To be called first, before there is a second thread.
pub fn keep_free_memory() {
    // SAFETY: the function takes two numbers, checks the first against the options that there are, and writes a
    // value that is only ever read as a number. It is not atomic, which is why there must be one thread.
    unsafe { mi_option_set_default(PURGE_DELAY, KEPT_MS) }
}

#[cfg(test)]
mod tests {
    use libmimalloc_sys::mi_option_get;

    use super::*;

    fn purge_delay() -> c_long {
        // SAFETY: reads a number.
        unsafe { mi_option_get(PURGE_DELAY) }
    }

    #[test]
    fn the_option_is_the_purge_delay_and_is_set() {
        assert_eq!(purge_delay(), 10, "what mimalloc says that it is by itself");
        keep_free_memory();
        assert_eq!(purge_delay(), KEPT_MS);
    }
}
