//! Metrics of the store, read at each scrape.

use std::{fmt, sync::Arc};

use lazaret_storage::Storage;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use crate::{object, object_cache::ObjectCache};

#[derive(Debug)]
pub(super) struct Numbers {
    store: Arc<dyn Storage>,
    object_cache: Arc<ObjectCache>,
}

impl Numbers {
    pub(super) fn new(store: Arc<dyn Storage>, object_cache: Arc<ObjectCache>) -> Self {
        Self { store, object_cache }
    }
}

/// The numbers of a store never come near the limit of a gauge.
fn gauge(number: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX))
}

impl Collector for Numbers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stats = self.store.stats();
        let read_only = u64::from(stats.read_only.is_some());
        for (name, help, value) in [
            ("lazaret_store_revision", "The newest revision", stats.revision),
            ("lazaret_store_oldest_revision", "The oldest revision that may be named", stats.oldest),
            ("lazaret_store_objects", "Objects held", stats.items as u64),
            ("lazaret_store_objects_bytes", "Bytes of all objects", stats.items_bytes),
            ("lazaret_store_history_events", "Past events held", stats.history_events as u64),
            ("lazaret_store_history_bytes", "Bytes of past events, at most", stats.history_bytes as u64),
            ("lazaret_trees_kept", "Objects that are kept as trees besides", self.object_cache.len() as u64),
            ("lazaret_store_watches", "Watches open", stats.watches as u64),
            ("lazaret_store_queued_writes", "Writes waiting for the writer", stats.queued as u64),
            ("lazaret_store_log_bytes", "Log since the last snapshot", stats.log_bytes),
            ("lazaret_store_read_only", "1 while a failure of the disk stops all writes", read_only),
            ("lazaret_store_tail_cut_bytes", "Bytes of a torn commit cut off at start", stats.tail_bytes_cut),
        ] {
            let gauge = gauge(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in [
            ("lazaret_store_commits", "Groups of writes made durable", stats.groups),
            ("lazaret_store_writes", "Writes acknowledged", stats.txns),
            ("lazaret_store_snapshots", "Snapshots completed", stats.snapshots),
            ("lazaret_store_snapshots_failed", "Snapshots that failed", stats.snapshots_failed),
            ("lazaret_store_failures", "Times that a failure of the disk stopped all writes", stats.failures),
            ("lazaret_store_heals", "Times that the store took writes again", stats.heals),
            ("lazaret_store_syncs_failed", "Syncs of the log that failed", stats.syncs_failed),
            (
                "lazaret_store_watches_dropped",
                "Watches ended because their reader was slow",
                stats.watches_dropped,
            ),
        ] {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        for (name, help, value) in [
            (
                "lazaret_store_last_sync_seconds",
                "How long the last sync of the log took",
                Some(stats.last_sync),
            ),
            (
                "lazaret_store_disk_busy_seconds",
                "How long the writer has waited for the disk",
                stats.disk_busy,
            ),
        ] {
            let gauge = ConstGauge::new(value.unwrap_or_default().as_secs_f64());
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let probe = gauge(0);
        let mut objects = encoder.encode_descriptor(
            "apiserver_resource_objects",
            "Objects of a kind",
            None,
            probe.metric_type(),
        )?;
        for kind in lazaret_kinds::all() {
            let count = self.store.count(object::key(kind, "", "").as_bytes());
            if count > 0 {
                let labels = [("group", &*kind.group), ("resource", &*kind.plural)];
                gauge(count as u64).encode(objects.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
