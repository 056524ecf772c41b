//! Numbers of priority and fairness, and of connections.

use lazaret_flow::Level;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PriorityLevel {
    priority_level: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Rejected {
    priority_level: &'static str,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Closed {
    reason: &'static str,
}

/// Numbers of one server; clones count the same.
#[derive(Clone, Debug)]
pub(crate) struct FlowMetrics {
    rejected: Family<Rejected, Counter>,
    dispatched: [Counter; Level::ALL.len()],
    executing: [Gauge; Level::ALL.len()],
    waiting: [Gauge; Level::ALL.len()],
    nominal: [Gauge; Level::ALL.len()],
    connections: Gauge,
    closed: Family<Closed, Counter>,
}

/// One series for each level, looked up once.
fn each<M: Clone + Default>(family: &Family<PriorityLevel, M>) -> [M; Level::ALL.len()] {
    Level::ALL.map(|level| family.get_or_create(&PriorityLevel { priority_level: level.name() }).clone())
}

impl FlowMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let rejected = Family::default();
        let [executing, waiting, nominal] = [(); 3].map(|()| Family::<PriorityLevel, Gauge>::default());
        let dispatched = Family::<PriorityLevel, Counter>::default();
        let connections = Gauge::default();
        let closed = Family::default();
        let this = Self {
            rejected: rejected.clone(),
            dispatched: each(&dispatched),
            executing: each(&executing),
            waiting: each(&waiting),
            nominal: each(&nominal),
            connections: connections.clone(),
            closed: closed.clone(),
        };
        registry.register("apiserver_flowcontrol_rejected_requests", "Requests answered with 429", rejected);
        registry.register(
            "apiserver_flowcontrol_dispatched_requests",
            "Requests that got their seats",
            dispatched,
        );
        registry.register("apiserver_flowcontrol_current_executing_seats", "Seats that are taken", executing);
        registry.register(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Requests that wait for seats",
            waiting,
        );
        registry.register(
            "apiserver_flowcontrol_nominal_limit_seats",
            "Seats of a level when all want everything",
            nominal,
        );
        registry.register("lazaret_connections", "Connections that are open", connections);
        registry.register(
            "lazaret_connections_closed",
            "Connections that the server closed before the client did",
            closed,
        );
        this
    }

    pub(crate) fn rejected(&self, level: Level, reason: &'static str) {
        self.rejected.get_or_create(&Rejected { priority_level: level.name(), reason }).inc();
    }

    pub(crate) fn dispatched(&self, level: Level) {
        self.dispatched[level.index()].inc();
    }

    pub(crate) fn show(&self, level: Level, executing: u32, waiting: usize) {
        self.executing[level.index()].set(executing.into());
        self.waiting[level.index()].set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    pub(crate) fn nominal(&self, level: Level, seats: u32) {
        self.nominal[level.index()].set(seats.into());
    }

    pub(crate) fn connections(&self, open: usize) {
        self.connections.set(i64::try_from(open).unwrap_or(i64::MAX));
    }

    pub(crate) fn connection_closed(&self, reason: &'static str) {
        self.closed.get_or_create(&Closed { reason }).inc();
    }
}
