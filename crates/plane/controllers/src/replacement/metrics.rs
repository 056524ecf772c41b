//! Counts of replacements, by outcome.

use std::sync::Mutex;

use lazaret_replacement::Figures;
use lazaret_runtime::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

#[derive(Debug)]
pub(crate) struct ReplacementMetrics {
    by_outcome: Family<ByOutcome, Counter>,
    tainted: Gauge,
    in_flight: Gauge,
    tripped: Gauge,
    shown: Mutex<Figures>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    outcome: &'static str,
}

/// The same counts, for a core that has counted nothing yet.
impl Clone for ReplacementMetrics {
    fn clone(&self) -> Self {
        Self {
            by_outcome: self.by_outcome.clone(),
            tainted: self.tainted.clone(),
            in_flight: self.in_flight.clone(),
            tripped: self.tripped.clone(),
            shown: Mutex::default(),
        }
    }
}

impl ReplacementMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let this = Self {
            by_outcome: Family::default(),
            tainted: Gauge::default(),
            in_flight: Gauge::default(),
            tripped: Gauge::default(),
            shown: Mutex::default(),
        };
        metrics.register(|registry| {
            let by_outcome = this.by_outcome.clone();
            registry.register(
                "lazaret_replacements",
                "Replacements of pods on taints, by outcome",
                by_outcome,
            );
            let tainted = this.tainted.clone();
            registry.register(
                "lazaret_replacement_tainted_pods",
                "Pods with a taint that a policy counts",
                tainted,
            );
            let in_flight = this.in_flight.clone();
            registry.register("lazaret_replacements_in_flight", "Replacements under way", in_flight);
            let tripped = this.tripped.clone();
            registry.register(
                "lazaret_replacement_breakers_tripped",
                "Policies that begin nothing new",
                tripped,
            );
        });
        this
    }

    /// Shows what the core counted since the last time.
    pub(crate) fn show(&self, now: &Figures) {
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *shown == *now {
            return;
        }
        let outcomes = [
            ("started", now.started, shown.started),
            ("replaced", now.replaced, shown.replaced),
            ("cancelled", now.cancelled, shown.cancelled),
            ("overdue", now.overdue, shown.overdue),
            ("unreplaced", now.unreplaced, shown.unreplaced),
            ("held", now.held, shown.held),
            ("refused", now.refused, shown.refused),
        ];
        for (outcome, now, before) in outcomes {
            self.by_outcome.get_or_create(&ByOutcome { outcome }).inc_by(now.saturating_sub(before));
        }
        for (gauge, value) in
            [(&self.tainted, now.tainted), (&self.in_flight, now.in_flight), (&self.tripped, now.tripped)]
        {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
        *shown = *now;
    }
}
