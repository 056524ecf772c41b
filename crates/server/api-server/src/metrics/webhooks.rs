//! Numbers of calls of webhooks, under Kubernetes' names.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Webhooks that are counted by name; further ones are counted as one.
const NAMES_MAX: usize = 200;
const OTHER: &str = "other";
/// Codes beyond this are counted as this, as in Kubernetes.
const CODE_MAX: u16 = 600;
const SECONDS: [f64; 8] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    rejected: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    code: u16,
    rejected: Cow<'static, str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejection {
    name: String,
    r#type: &'static str,
    operation: &'static str,
    error_type: &'static str,
    rejection_code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailOpen {
    name: String,
    r#type: &'static str,
}

/// Numbers of one server; clones count the same.
#[derive(Clone, Debug)]
pub(crate) struct WebhookMetrics {
    seconds: Family<DurationLabels, Histogram, fn() -> Histogram>,
    requests: Family<Request, Counter>,
    // Gauges that only grow: a counter would get another name.
    rejections: Family<Rejection, Gauge>,
    fail_open: Family<FailOpen, Gauge>,
    names: Arc<Mutex<BTreeSet<String>>>,
}

impl WebhookMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let this = Self {
            seconds: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            requests: Family::default(),
            rejections: Family::default(),
            fail_open: Family::default(),
            names: Arc::default(),
        };
        let name = |rest: &str| format!("apiserver_admission_webhook_{rest}");
        registry.register(name("admission_duration_seconds"), "Time a webhook took", this.seconds.clone());
        registry.register(name("request"), "Calls of webhooks", this.requests.clone());
        registry.register(
            name("rejection_count"),
            "Requests refused because of a webhook",
            this.rejections.clone(),
        );
        registry.register(
            name("fail_open_count"),
            "Requests that went on although a webhook failed",
            this.fail_open.clone(),
        );
        this
    }

    /// Numbers of a webhook and an operation.
    pub(crate) fn of(&self, name: &str, stage: &'static str, operation: &'static str) -> Observed<'_> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !names.contains(name) && names.len() < NAMES_MAX {
            names.insert(name.to_owned());
        }
        let name = if names.contains(name) { name } else { OTHER };
        Observed { metrics: self, name: name.to_owned(), stage, operation }
    }
}

/// The measurement of one call.
#[derive(Debug)]
pub(crate) struct Observed<'a> {
    metrics: &'a WebhookMetrics,
    name: String,
    stage: &'static str,
    operation: &'static str,
}

impl Observed<'_> {
    /// The call is over.
    pub(crate) fn answered(&self, took: Duration, rejected: bool, code: u16) {
        let rejected = Cow::Borrowed(if rejected { "true" } else { "false" });
        let (name, r#type, operation) = (self.name.clone(), self.stage, self.operation);
        let labels = DurationLabels { name: name.clone(), r#type, operation, rejected: rejected.clone() };
        self.metrics.seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let code = code.min(CODE_MAX);
        self.metrics.requests.get_or_create(&Request { name, r#type, operation, code, rejected }).inc();
    }

    /// A request was refused for this.
    pub(crate) fn rejected(&self, error_type: &'static str, code: u16) {
        let labels = Rejection {
            name: self.name.clone(),
            r#type: self.stage,
            operation: self.operation,
            error_type,
            rejection_code: code.min(CODE_MAX),
        };
        self.metrics.rejections.get_or_create(&labels).inc();
    }

    /// A failure was ignored.
    pub(crate) fn failed_open(&self) {
        self.metrics.fail_open.get_or_create(&FailOpen { name: self.name.clone(), r#type: self.stage }).inc();
    }
}
