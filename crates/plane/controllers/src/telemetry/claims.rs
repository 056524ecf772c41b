//! The metrics that Kubernetes' claim controller has, under the same names.

use lazaret_claims::{Census, Counters, Source};
use lazaret_runtime::Metrics;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
};

/// Counts of claims. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct ClaimsMetrics {
    creates: Family<Created, Counter>,
    claims: Family<Kept, Gauge>,
    awaiting: Gauge,
    reported: Counters,
    /// The claims that the gauges show; `None` before the first report.
    shown: Option<Census>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Created {
    status: &'static str,
    admin_access: &'static str,
    owner_api_group: &'static str,
    owner_api_kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kept {
    allocated: &'static str,
    admin_access: &'static str,
    source: &'static str,
}

impl ClaimsMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let this = Self {
            creates: Family::default(),
            claims: Family::default(),
            awaiting: Gauge::default(),
            reported: Counters::default(),
            shown: None,
        };
        metrics.register(|registry| {
            let prefix = "dynamic_resource_allocation";
            // The library writes `_total` behind a counter's name.
            registry.register(
                format!("{prefix}_resourceclaim_creates"),
                "Claims made from templates, and attempts that failed",
                this.creates.clone(),
            );
            registry.register(format!("{prefix}_resource_claims"), "Claims there are", this.claims.clone());
            registry.register(
                "lazaret_claims_awaiting_unprepare",
                "Claims whose pods were removed before they ended and that a node has not unprepared yet",
                this.awaiting.clone(),
            );
        });
        this
    }

    /// How many claims wait for a node to unprepare them.
    pub(crate) fn report_awaiting(&self, claims: usize) {
        self.awaiting.set(i64::try_from(claims).unwrap_or(i64::MAX));
    }

    /// Brings the metrics up to what the core has counted.
    pub(crate) fn report(&mut self, now: Counters, census: Census) {
        let before = std::mem::replace(&mut self.reported, now);
        let admin =
            (now.created_admin - before.created_admin, now.create_failed_admin - before.create_failed_admin);
        let all = (now.created - before.created, now.create_failed - before.create_failed);
        for (status, access, count) in [
            ("success", "true", admin.0),
            ("failure", "true", admin.1),
            ("success", "false", all.0 - admin.0),
            ("failure", "false", all.1 - admin.1),
        ] {
            if count > 0 {
                let labels =
                    Created { status, admin_access: access, owner_api_group: "", owner_api_kind: "Pod" };
                self.creates.get_or_create(&labels).inc_by(count);
            }
        }
        self.show(census);
    }

    /// Sets the gauges that changed: this is called after each batch of news.
    fn show(&mut self, census: Census) {
        let before = self.shown.replace(census);
        if before == Some(census) {
            return;
        }
        for (allocated, admin) in [(false, false), (false, true), (true, false), (true, true)] {
            for source in Source::ALL {
                let count = census.count(allocated, admin, source);
                if before.is_some_and(|before| before.count(allocated, admin, source) == count) {
                    continue;
                }
                let labels =
                    Kept { allocated: word(allocated), admin_access: word(admin), source: source.label() };
                self.claims.get_or_create(&labels).set(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }
}

fn word(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}
