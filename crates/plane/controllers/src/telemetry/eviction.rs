//! The metrics that Kubernetes' eviction controller has, under the same names, and the same by cause.

use lazaret_eviction::{Block, BlockCounts, Evict, Source};
use lazaret_model::Timestamp;
use lazaret_runtime::{Metrics, News, PATCHES, Resource};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

use super::{
    causes::{CauseCounts, SLICES},
    devices::{DeviceCounts, DeviceMetrics},
};

/// Counts of evictions. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct EvictionMetrics {
    deletions: Counter,
    latency: Histogram,
    by_cause: CauseCounts,
    held: Counter,
    blocked: Family<Blocked, Gauge>,
    devices: DeviceMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Blocked {
    reason: &'static str,
}

impl EvictionMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let this = Self {
            deletions: Counter::default(),
            latency: Histogram::new([
                0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0,
            ]),
            by_cause: CauseCounts::default(),
            held: Counter::default(),
            blocked: Family::default(),
            devices: DeviceMetrics::new(metrics),
        };
        for why in Block::ALL {
            drop(this.blocked.get_or_create(&Blocked { reason: why.name() }));
        }
        metrics.register(|registry| {
            let prefix = "device_taint_eviction_controller";
            // The library writes `_total` behind a counter's name.
            registry.register(
                format!("{prefix}_pod_deletions"),
                "Pods deleted because of device taints",
                this.deletions.clone(),
            );
            registry.register(
                format!("{prefix}_pod_deletion_duration_seconds"),
                "Between the moment a pod had to go and its deletion",
                this.latency.clone(),
            );
            registry.register(
                "lazaret_evictions",
                "Pods deleted because of device taints, by what set the taint",
                this.by_cause.family(),
            );
            registry.register(
                "lazaret_evictions_held",
                "Evictions held because pods of the same owner were evicted from the same device for the same taint before",
                this.held.clone(),
            );
            registry.register(
                "lazaret_evictions_blocked",
                "Pods whose eviction is due and does not begin, by what keeps them",
                this.blocked.clone(),
            );
        });
        this
    }

    /// For one controller that counts devices.
    pub(crate) fn device_counts(&self) -> DeviceCounts {
        DeviceCounts::new(self.devices.clone())
    }

    /// A pod is back where others of its owner had to leave, and is held there.
    pub(crate) fn held(&self) {
        self.held.inc();
    }

    /// Adds the change of one controller's counts of blocked pods.
    pub(crate) fn blocked(&self, before: BlockCounts, now: BlockCounts) {
        for (why, (before, now)) in Block::ALL.into_iter().zip(before.into_iter().zip(now)) {
            let change = now.cast_signed() - before.cast_signed();
            if change != 0 {
                self.blocked.get_or_create(&Blocked { reason: why.name() }).inc_by(change);
            }
        }
    }

    /// News of objects that set taints: the series of those that are gone go.
    pub(crate) fn sources_changed(&self, news: &News) {
        match news {
            News::Gone(resource, source) => self.by_cause.forget(resource.plural, &source.key.name),
            News::Listed(resource, listed, _) => {
                self.by_cause.keep(resource.plural, listed.iter().map(|source| &*source.key.name));
            }
            News::Set(..) | News::Barred(..) => {}
        }
    }

    pub(crate) fn evicted(&self, now: Timestamp, rules: Resource, evict: &Evict) {
        self.deletions.inc();
        let late =
            u32::try_from(now.as_millis().saturating_sub(evict.due.as_millis()).max(0)).unwrap_or(u32::MAX);
        self.latency.observe(f64::from(late) / 1_000.0);
        if let Some(reason) = evict.due_reasons().first() {
            let (of, source) = match &reason.cause.source {
                Source::Rule { name, .. } => (rules.plural, name.as_str()),
                Source::Patch { name, .. } => (PATCHES.plural, name.as_str()),
                // There are as many slices as nodes: too many for a label.
                Source::Device { .. } | Source::TaintSlice { .. } => (SLICES, SLICES),
            };
            self.by_cause.inc(of, source, &reason.cause.taint.key);
        }
    }
}
