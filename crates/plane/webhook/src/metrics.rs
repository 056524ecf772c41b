//! Metrics of the webhook.

use std::sync::atomic::AtomicU64;

use lazaret_runtime::Metrics as Process;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

/// Counts of reviews, and until when the certificate is valid. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    reviews: Family<Answered, Counter>,
    not_after: Gauge<f64, AtomicU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    answer: &'static str,
}

impl Metrics {
    pub(crate) fn new(process: &Process) -> Self {
        let this = Self::default();
        process.register(|registry| {
            // The library writes `_total` behind a counter's name.
            registry.register(
                "lazaret_webhook_reviews",
                "Admission reviews, by answer",
                this.reviews.clone(),
            );
            registry.register(
                "lazaret_webhook_certificate_not_after_seconds",
                "Until when the certificate that is served with is valid, in seconds since 1970",
                this.not_after.clone(),
            );
        });
        this
    }

    pub(crate) fn answered(&self, answer: &'static str) {
        self.reviews.get_or_create(&Answered { answer }).inc();
    }

    #[allow(clippy::cast_precision_loss, reason = "seconds of this millennium are exact")]
    pub(crate) fn valid_until(&self, at: jiff::Timestamp) {
        self.not_after.set(at.as_second() as f64);
    }
}
