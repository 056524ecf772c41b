//! The metrics that the enhancement names for its claim controller.

use lazaret_classic::ClaimCounters;
use lazaret_runtime::Metrics;
use prometheus_client::metrics::counter::Counter;

/// Counts of classic claims. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassicMetrics {
    created: Counter,
    failed: Counter,
}

impl ClassicMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let this = Self::default();
        metrics.register(|registry| {
            // The library writes `_total` behind a counter's name.
            registry.register(
                "resource_controller_create",
                "Classic claims made from templates",
                this.created.clone(),
            );
            registry.register(
                "resource_controller_create_failures",
                "Attempts to make a classic claim that failed",
                this.failed.clone(),
            );
        });
        this
    }

    pub(crate) fn report(&self, before: ClaimCounters, now: ClaimCounters) {
        self.created.inc_by(now.created.saturating_sub(before.created));
        self.failed.inc_by(now.create_failed.saturating_sub(before.create_failed));
    }
}
