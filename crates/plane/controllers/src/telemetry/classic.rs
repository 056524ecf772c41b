//! The metrics that the enhancement names for its claim controller: `workqueue` has the name `resource_claim`, in the families that Kubernetes has
//! for a queue.

use lazaret_classic::ClaimCounters;
use lazaret_runtime::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

/// The name of the queue.
const QUEUE: QueueName = QueueName { name: "resource_claim" };

/// Counts of classic claims. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClassicMetrics {
    created: Counter,
    failed: Counter,
    depth: Family<QueueName, Gauge>,
    adds: Family<QueueName, Counter>,
    retries: Family<QueueName, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueName {
    name: &'static str,
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
            registry.register("workqueue_depth", "Items that are queued", this.depth.clone());
            registry.register("workqueue_adds", "Items that were queued", this.adds.clone());
            registry.register(
                "workqueue_retries",
                "Items that were put off until another attempt",
                this.retries.clone(),
            );
        });
        this.depth.get_or_create(&QUEUE).set(0);
        drop(this.adds.get_or_create(&QUEUE));
        drop(this.retries.get_or_create(&QUEUE));
        this
    }

    pub(crate) fn report(&self, before: ClaimCounters, now: ClaimCounters) {
        self.created.inc_by(now.created.saturating_sub(before.created));
        self.failed.inc_by(now.create_failed.saturating_sub(before.create_failed));
        self.adds.get_or_create(&QUEUE).inc_by(now.queue.adds.saturating_sub(before.queue.adds));
        self.retries.get_or_create(&QUEUE).inc_by(now.queue.retries.saturating_sub(before.queue.retries));
        self.depth.get_or_create(&QUEUE).set(i64::try_from(now.queue.depth).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use lazaret_classic::QueueCounts;

    use super::*;

    #[test]
    fn the_queue_has_the_name_that_the_enhancement_gives_it() {
        let metrics = Metrics::default();
        let counts = ClassicMetrics::new(&metrics);
        let queue = QueueCounts { adds: 3, retries: 1, depth: 2 };
        counts.report(ClaimCounters::default(), ClaimCounters { queue, ..ClaimCounters::default() });
        let text = metrics.text();
        for line in [
            "workqueue_depth{name=\"resource_claim\"} 2",
            "workqueue_adds_total{name=\"resource_claim\"} 3",
            "workqueue_retries_total{name=\"resource_claim\"} 1",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
