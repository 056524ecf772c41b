//! Violated invariants of this process: counted by module, each place logged once.

use std::{
    collections::BTreeSet,
    sync::{LazyLock, Mutex, PoisonError},
};

use lazaret_invariant::{Reporter, Violation, report_to};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};
use tracing::error;

/// Violations by module. All cores of a process share them: a place in the code does not know whose core it runs in.
pub(crate) type Violations = Family<Place, Counter>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Place {
    r#where: &'static str,
}

static VIOLATIONS: LazyLock<Violations> = LazyLock::new(Family::default);
/// Places that were logged. There are as many as the program has invariants.
static LOGGED: Mutex<BTreeSet<(&'static str, u32)>> = Mutex::new(BTreeSet::new());
static REPORT: Reporter = report;

/// Counts the violations of this process from now on.
pub(crate) fn counted() -> Violations {
    // A reporter that somebody else has set stays.
    let _ = report_to(&REPORT);
    VIOLATIONS.clone()
}

fn report(violation: &'static Violation) {
    let Violation { module, line, expected } = *violation;
    VIOLATIONS.get_or_create(&Place { r#where: module }).inc();
    let is_new = LOGGED.lock().unwrap_or_else(PoisonError::into_inner).insert((module, line));
    if is_new {
        error!(module, line, expected, "an invariant does not hold; please report this");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;

    static ONE: Violation = Violation { module: "a::b", line: 7, expected: "a pod is known" };
    static OTHER: Violation = Violation { module: "a::b", line: 9, expected: "a node is known" };

    #[test]
    fn violations_are_counted_by_module_in_every_metrics_of_the_process() {
        let before = Metrics::default();
        for violation in [&ONE, &ONE, &OTHER] {
            report(violation);
        }
        for metrics in [before, Metrics::default()] {
            let text = metrics.text();
            assert!(text.contains(r#"lazaret_invariant_violations_total{where="a::b"} 3"#), "{text}");
        }
        assert_eq!(LOGGED.lock().unwrap().len(), 2, "each place once");
    }
}
