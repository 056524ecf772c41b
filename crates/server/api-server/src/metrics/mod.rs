//! The metrics of the server, under the names of Kubernetes where it has such numbers.
//!
//! Labels come from tables of kinds, verbs and paths, never from the text of a request: an invalid request makes no series.

mod custom;
mod flow;
mod labels;
mod store;
mod webhooks;

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use http::Method;
use lazaret_kinds::Features;
use lazaret_storage::Storage;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{access_log::WatchEntry, clock, object_cache::ObjectCache};
use custom::CustomSeries;
pub(crate) use flow::FlowMetrics;
use labels::{Answered, Feature, InFlight, ResourceLabels};
pub(crate) use labels::{RequestLabels, RequestMode};
use webhooks::WebhookMetrics;

/// The content type of [`Metrics::text`].
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// How the text ends.
pub(crate) const END: &str = "# EOF\n";

/// From 5 ms to a minute, finer where objectives are set.
const REQUEST_SECONDS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// From a write to memory to a disk that is in trouble.
const COMMIT_SECONDS: [f64; 12] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0];

type Histograms = Family<RequestLabels, Histogram, fn() -> Histogram>;

/// Feature gates by name and stage, as Kubernetes tells them: a client learns from these which fields count.
fn enabled(features: &Features) -> Family<Feature, Gauge> {
    let family = Family::<Feature, Gauge>::default();
    for (name, stage, on) in features.gates() {
        family.get_or_create(&Feature { name, stage }).set(i64::from(on));
    }
    family
}

/// Counters of one server.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Histograms,
    in_flight: [Gauge; 2],
    long_running: Family<RequestLabels, Gauge>,
    watch_events: Family<ResourceLabels, Counter>,
    custom: CustomSeries,
    commits: Histogram,
    handshakes_failed: Counter,
    requests_panicked: Counter,
    events_not_forgotten: Counter,
    flow: FlowMetrics,
    webhooks: WebhookMetrics,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

impl Metrics {
    /// Counters that begin at zero, numbers of a store, and the feature gates as they are.
    pub(crate) fn new(store: Arc<dyn Storage>, object_cache: Arc<ObjectCache>, features: &Features) -> Self {
        let requests = Family::default();
        let seconds: Histograms = Family::new_with_constructor(|| Histogram::new(REQUEST_SECONDS));
        let in_flight: Family<InFlight, Gauge> = Family::default();
        let by_kind = ["mutating", "readOnly"]
            .map(|request_kind| in_flight.get_or_create(&InFlight { request_kind }).clone());
        let long_running = Family::default();
        let watch_events = Family::default();
        let commits = Histogram::new(COMMIT_SECONDS);
        let handshakes_failed = Counter::default();
        let requests_panicked = Counter::default();
        let events_not_forgotten = Counter::default();
        let mut registry = Registry::default();
        registry.register("apiserver_request", "Requests answered", requests.clone());
        registry.register("apiserver_request_duration_seconds", "Time to answer", seconds.clone());
        registry.register("apiserver_current_inflight_requests", "Requests being worked on", in_flight);
        registry.register("apiserver_longrunning_requests", "Watches that are open", long_running.clone());
        registry.register("apiserver_watch_events", "Events sent to watches", watch_events.clone());
        registry.register(
            "apiserver_tls_handshake_errors",
            "Connections given up before the first request",
            handshakes_failed.clone(),
        );
        registry.register(
            "lazaret_request_panics",
            "Requests that panicked and were answered with 500",
            requests_panicked.clone(),
        );
        registry.register(
            "lazaret_event_expiry_errors",
            "Times that old events could not be deleted",
            events_not_forgotten.clone(),
        );
        registry.register(
            "lazaret_store_commit_duration_seconds",
            "Time from handing a write to the store until it is durable",
            commits.clone(),
        );
        registry.register("kubernetes_feature_enabled", "1 where a feature gate is on", enabled(features));
        let flow = FlowMetrics::new(&mut registry);
        let webhooks = WebhookMetrics::new(&mut registry);
        registry.register_collector(Box::new(store::Numbers::new(store, object_cache)));
        Self {
            registry,
            requests,
            seconds,
            in_flight: by_kind,
            long_running,
            watch_events,
            custom: CustomSeries::default(),
            commits,
            handshakes_failed,
            requests_panicked,
            events_not_forgotten,
            flow,
            webhooks,
        }
    }

    /// Everything, as text. `is_served`: whether a definition of this group and plural is there; the series of others go.
    pub(crate) fn text(&self, is_served: impl Fn(&str, &str) -> bool) -> Result<String, fmt::Error> {
        for gone in self.custom.take_gone(is_served) {
            for labels in &gone.answered {
                self.requests.remove(labels);
            }
            for labels in &gone.resources {
                self.watch_events.remove(labels);
            }
            for labels in &gone.subjects {
                self.seconds.remove(labels);
                self.long_running.remove(labels);
            }
        }
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Counts a request in; it is counted out when the guard goes.
    pub(crate) fn begin(&self, method: &Method) -> Measured<'_> {
        let mutating = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        let gauge = &self.in_flight[usize::from(!mutating)];
        gauge.inc();
        Measured { metrics: self, gauge, started: clock::instant(), subject: None }
    }

    /// Counts a watch of this user in; it is counted out when the guard goes.
    pub(crate) fn begin_watch(&self, user: &str, subject: &RequestLabels) -> OpenWatch {
        let counted = self.custom.count(subject.clone(), |series, subject| {
            series.subjects.insert(subject.clone());
            series.resources.insert(ResourceLabels::of(subject));
        });
        let gauge = self.long_running.get_or_create(&counted).clone();
        gauge.inc();
        let resource = ResourceLabels::of(&counted);
        let events = self.watch_events.get_or_create(&resource).clone();
        OpenWatch { gauge, events, entry: WatchEntry::begin(user, subject.resource()) }
    }

    /// Numbers of priority and fairness.
    pub(crate) fn flow(&self) -> &FlowMetrics {
        &self.flow
    }

    /// Numbers of calls of webhooks.
    pub(crate) fn webhooks(&self) -> &WebhookMetrics {
        &self.webhooks
    }

    /// A connection ended before its first request.
    pub(crate) fn handshake_failed(&self) {
        self.handshakes_failed.inc();
    }

    /// A request panicked.
    pub(crate) fn request_panicked(&self) {
        self.requests_panicked.inc();
    }

    /// Events that are old enough are still there.
    pub(crate) fn events_not_forgotten(&self) {
        self.events_not_forgotten.inc();
    }

    /// A write took this time to become durable.
    pub(crate) fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }
}

/// A request that is being worked on.
#[derive(Debug)]
pub(crate) struct Measured<'a> {
    metrics: &'a Metrics,
    gauge: &'a Gauge,
    started: std::time::Instant,
    /// The labels, once they are known.
    pub(crate) subject: Option<RequestLabels>,
}

impl Measured<'_> {
    /// The answer is there. Returns how long it took.
    pub(crate) fn end(mut self, code: u16) -> Duration {
        let subject = self.subject.take().unwrap_or_default();
        let took = clock::instant().saturating_duration_since(self.started);
        let code = match code {
            200 => Cow::Borrowed("200"),
            201 => Cow::Borrowed("201"),
            404 => Cow::Borrowed("404"),
            409 => Cow::Borrowed("409"),
            other => Cow::Owned(other.to_string()),
        };
        let subject = self.metrics.custom.count(subject, |series, subject| {
            series.subjects.insert(subject.clone());
            series.answered.insert(Answered { subject: subject.clone(), code: code.clone() });
        });
        if !subject.is_watch() {
            self.metrics.seconds.get_or_create(&subject).observe(took.as_secs_f64());
        }
        self.metrics.requests.get_or_create(&Answered { subject, code }).inc();
        took
    }
}

impl Drop for Measured<'_> {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// A watch that is open.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    gauge: Gauge,
    events: Counter,
    entry: Option<Box<WatchEntry>>,
}

impl OpenWatch {
    /// An event goes out.
    pub(crate) fn event(&mut self) {
        self.events.inc();
        if let Some(entry) = &mut self.entry {
            entry.event();
        }
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}
