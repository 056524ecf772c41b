//! Conditions that always hold: `invariant!`.
//!
//! A lookup that cannot fail is not skipped in silence when it does. Debug builds, tests and the simulator panic. A release build goes on, counts the
//! violation and hands it to the reporter of the process, which logs it and shows it as a metric: a control plane that stops for
//! a fault in one object harms all others.
//!
//! ```
//! use lazaret_invariant::invariant;
//! fn first(queue: &[u32]) -> u32 {
//!     let Some(first) = invariant!(queue.first(), "a queue that is served is not empty") else { return 0 };
//!     *first
//! }
//! assert_eq!(first(&[7]), 7);
//! ```
//!
//! **Invariant.** A condition that holds costs one branch and has no other effect. Knows no core and no shell; every crate may depend on it.
#![no_std]

use core::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use once_cell::race::OnceRef;

/// A place in the code whose condition did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The module, `lazaret_eviction::dispatch` for instance: the label of the metric.
    pub module: &'static str,
    /// The line in its file.
    pub line: u32,
    /// The condition, in words.
    pub expected: &'static str,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant violated in {}, line {}: {}", self.module, self.line, self.expected)
    }
}

/// A value that shows whether a condition holds: `true`, `Some` or `Ok`.
pub trait Holds {
    /// Whether it does.
    fn holds(&self) -> bool;
}

impl Holds for bool {
    #[inline]
    fn holds(&self) -> bool {
        *self
    }
}

impl<T> Holds for Option<T> {
    #[inline]
    fn holds(&self) -> bool {
        self.is_some()
    }
}

impl<T, E> Holds for Result<T, E> {
    #[inline]
    fn holds(&self) -> bool {
        self.is_ok()
    }
}

impl<T: Holds + ?Sized> Holds for &T {
    #[inline]
    fn holds(&self) -> bool {
        (**self).holds()
    }
}

/// Evaluates to its first argument: a `bool`, an `Option`, a `Result`, or a reference to one. If that is `false`, `None` or `Err`, the violation is reported. The second
/// argument says what should have held, as a sentence.
#[macro_export]
macro_rules! invariant {
    ($value:expr, $expected:literal $(,)?) => {
        $crate::check(
            $value,
            const {
                &$crate::Violation {
                    module: ::core::module_path!(),
                    line: ::core::line!(),
                    expected: $expected,
                }
            },
        )
    };
}

/// The expansion of `invariant!`.
#[inline]
pub fn check<T: Holds>(value: T, violation: &'static Violation) -> T {
    if !value.holds() {
        violated(violation);
    }
    value
}

/// Takes the violations of a process. It is called from within cores: it must be quick and must not call them.
pub type Reporter = fn(&'static Violation);

static REPORTER: OnceRef<'static, Reporter> = OnceRef::new();
static VIOLATIONS: AtomicU64 = AtomicU64::new(0);

/// Hands every violation to `reporter` from now on; false if the process has one already, which stays. Debug builds panic instead.
pub fn report_to(reporter: &'static Reporter) -> bool {
    REPORTER.set(reporter).is_ok()
}

/// A reporter that panics, for a simulator that is built for speed.
pub static PANIC: Reporter = panic_with;

/// Violations in this process so far.
#[must_use]
pub fn violations() -> u64 {
    VIOLATIONS.load(Ordering::Relaxed)
}

#[cold]
#[inline(never)]
fn violated(violation: &'static Violation) {
    if cfg!(debug_assertions) {
        panic_with(violation);
    }
    count(violation, REPORTER.get());
}

fn count(violation: &'static Violation, reporter: Option<&'static Reporter>) {
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
    if let Some(report) = reporter {
        report(violation);
    }
}

#[allow(clippy::panic, reason = "a violation that can be mended is not passed over")]
fn panic_with(violation: &'static Violation) {
    panic!("{violation}");
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{panic::catch_unwind, string::String, sync::Mutex};

    use super::*;

    static VIOLATION: Violation = Violation { module: "a::b", line: 7, expected: "a pod is known" };
    static SEEN: Mutex<std::vec::Vec<&'static Violation>> = Mutex::new(std::vec::Vec::new());
    static COLLECT: Reporter = |violation| SEEN.lock().unwrap().push(violation);

    fn message(run: impl FnOnce() + std::panic::UnwindSafe) -> String {
        *catch_unwind(run).unwrap_err().downcast::<String>().unwrap()
    }

    #[test]
    fn a_condition_that_holds_is_handed_on() {
        assert_eq!(invariant!(Some(3), "there is a number"), Some(3));
        assert_eq!(invariant!(Ok::<_, ()>(3), "there is a number"), Ok(3));
        assert!(invariant!(true, "true is true"));
    }

    #[test]
    #[cfg(debug_assertions)]
    fn a_debug_build_panics_with_the_place_and_the_condition() {
        let text = message(|| {
            let _ = invariant!(None::<u8>, "there is a number");
        });
        assert!(text.starts_with("invariant violated in lazaret_invariant::tests, line "), "{text}");
        assert!(text.ends_with(": there is a number"), "{text}");
        assert!(message(|| assert!(!invariant!(false, "never"))).ends_with(": never"));
        assert!(message(|| assert!(invariant!(Err::<(), _>(1), "fine").is_err())).ends_with(": fine"));
    }

    #[test]
    fn a_release_build_counts_and_reports() {
        let before = violations();
        count(&VIOLATION, None);
        count(&VIOLATION, Some(&COLLECT));
        assert_eq!(violations(), before + 2);
        assert_eq!(*SEEN.lock().unwrap(), [&VIOLATION]);
    }

    #[test]
    fn the_first_reporter_of_a_process_stays() {
        assert!(report_to(&COLLECT));
        assert!(!report_to(&PANIC));
        assert!(message(|| PANIC(&VIOLATION)).contains("a::b, line 7: a pod is known"));
    }
}
