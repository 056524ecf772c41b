//! Whether a version of an object is the newest, and whether it counts as unreadable: for as long as it is the newest.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, Ordering},
};

use prometheus_client::metrics::gauge::Gauge;

/// Shared by a version of an object and by who hands versions on.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    outdated: AtomicBool,
    unreadable: OnceLock<Counted>,
}

/// One in a count, until it is dropped.
#[derive(Debug)]
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Standing {
    /// There is a newer version, or it is gone, and whoever hears of this one will hear of that.
    pub(crate) fn outdate(&self) {
        self.outdated.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// It cannot be read. Whether that is new.
    pub(crate) fn count_as_unreadable(&self, count: Gauge) -> bool {
        let mut is_new = false;
        self.unreadable.get_or_init(|| {
            is_new = true;
            count.inc();
            Counted(count)
        });
        is_new
    }
}
