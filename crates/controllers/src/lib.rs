//! The cores at work: each module wires one of them to the API.
//!
//! **Invariant.** Decides nothing: news go in, effects come out and are carried out with their preconditions, and what became
//! of them goes back. Must never know which server it talks to.

mod claims;
mod event;
mod eviction;
mod feed;
mod ledger;
mod telemetry;

pub use feed::Sources;

use lazaret_runtime::{AgentOptions, Hub, Leadership, Tasks, run};
use tokio::sync::watch;

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How pods leave tainted devices.
    pub eviction: lazaret_eviction::Options,
    /// How claims are made and given back.
    pub claims: lazaret_claims::Options,
}

/// Starts all controllers; they end after `stop`, or when the tasks are dropped.
#[must_use]
pub fn start(
    hub: &Hub,
    leadership: &Leadership,
    sources: Sources,
    options: &Options,
    stop: &watch::Receiver<bool>,
) -> Tasks {
    let mut tasks = Tasks::default();
    let metrics = hub.metrics().clone();
    tasks.spawn(run(
        eviction::EvictionAgent::new(options.eviction.clone()),
        eviction::Executor::new(hub.client().clone(), sources, telemetry::EvictionMetrics::new(&metrics)),
        hub.listen(&sources.resources()),
        leadership.clone(),
        metrics,
        AgentOptions { name: eviction::NAME, in_flight_max: options.eviction.evictions_in_flight_max },
        stop.clone(),
    ));
    tasks.spawn(run(
        claims::ClaimsAgent::new(options.claims.clone()),
        claims::Executor::new(hub.client().clone()),
        hub.listen(&claims::RESOURCES),
        leadership.clone(),
        hub.metrics().clone(),
        AgentOptions { name: claims::NAME, in_flight_max: options.claims.in_flight_max },
        stop.clone(),
    ));
    tasks
}
