//! Metrics under kubelet's names.

use std::collections::BTreeMap;

use lazaret_node::{Call, ClaimState};
use lazaret_runtime::Metrics as Registry;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets_range},
    },
};

/// As kubelet has them: .1 s to 40 s in 15 steps.
const BUCKETS: (f64, f64, u16) = (0.1, 40.0, 15);
/// The label of all claims, whatever their drivers.
const ANY_DRIVER: &str = "<any>";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    operation_name: &'static str,
    is_error: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Grpc {
    driver_name: String,
    method_name: &'static str,
    grpc_status_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Driver {
    driver_name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// The agent's metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    operations: Family<Operation, Histogram, fn() -> Histogram>,
    grpc: Family<Grpc, Histogram, fn() -> Histogram>,
    in_use: Family<Driver, Gauge>,
    kept: Family<Kind, Gauge>,
}

fn seconds() -> Histogram {
    let (least, most, steps) = BUCKETS;
    Histogram::new(exponential_buckets_range(least, most, steps))
}

impl Metrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let metrics = Self {
            operations: Family::new_with_constructor(seconds as fn() -> Histogram),
            grpc: Family::new_with_constructor(seconds as fn() -> Histogram),
            in_use: Family::default(),
            kept: Family::default(),
        };
        registry.register(|registry| {
            registry.register(
                "dra_operations_duration_seconds",
                "Time to prepare or unprepare all ResourceClaims of a pod",
                metrics.operations.clone(),
            );
            registry.register(
                "dra_grpc_operations_duration_seconds",
                "Time of calls to plugins",
                metrics.grpc.clone(),
            );
            registry.register(
                "dra_resource_claims_in_use",
                "ResourceClaims in use on the node, by driver; <any>: all of them",
                metrics.in_use.clone(),
            );
            registry.register(
                "lazaret_node_kept",
                "Entries that the node keeps in memory for its pods, by kind",
                metrics.kept.clone(),
            );
            // No driver can leave its calls out yet: the feature gate is alpha, and off.
            for (name, help) in [
                ("dra_node_prepare_skips", "Calls of NodePrepareResources that were skipped"),
                ("dra_node_unprepare_skips", "Calls of NodeUnprepareResources that were skipped"),
            ] {
                registry.register(name, help, Family::<Driver, Counter>::default());
            }
        });
        metrics
    }

    pub(crate) fn operation(&self, call: Call, is_error: bool, seconds: f64) {
        let operation_name = match call {
            Call::Prepare => "PrepareResources",
            Call::Unprepare => "UnprepareResources",
        };
        let labels = Operation { operation_name, is_error: if is_error { "true" } else { "false" } };
        self.operations.get_or_create(&labels).observe(seconds);
    }

    pub(crate) fn grpc(&self, driver: &str, method: &'static str, code: tonic::Code, seconds: f64) {
        // Names as Go has them.
        let grpc_status_code = match format!("{code:?}").as_str() {
            "Ok" => "OK".to_owned(),
            "Cancelled" => "Canceled".to_owned(),
            other => other.to_owned(),
        };
        let labels = Grpc { driver_name: driver.to_owned(), method_name: method, grpc_status_code };
        self.grpc.get_or_create(&labels).observe(seconds);
    }

    pub(crate) fn kept(&self, counts: &[(&'static str, usize)]) {
        for (kind, count) in counts {
            self.kept.get_or_create(&Kind { kind }).set(i64::try_from(*count).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn in_use(&self, claims: &[ClaimState]) {
        let mut counts = BTreeMap::from([(ANY_DRIVER.to_owned(), claims.len())]);
        for driver in claims.iter().flat_map(|claim| claim.drivers.keys()) {
            *counts.entry(driver.clone()).or_default() += 1;
        }
        self.in_use.clear();
        for (driver_name, count) in counts {
            self.in_use.get_or_create(&Driver { driver_name }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
}
