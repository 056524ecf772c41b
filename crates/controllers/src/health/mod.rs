//! Health policies and incidents: tells [`lazaret_lifecycle`] the signals that [`lazaret_signals`] finds, and does what it decides.

mod acceptance;
mod agent;
mod children;
mod executor;
mod rules;
mod task;
mod writes;

use lazaret_lifecycle::History;
use lazaret_runtime::{
    AgentOptions, CLAIMS, CLASSES, DISRUPTION_GUARDS, HEALTH_POLICIES, INCIDENTS, JOBS, NODES, PATCHES, PODS,
    Precedence, SIGNALS, TAINT_POLICIES,
};
use tracing::warn;

use crate::{
    Sources,
    context::PartContext,
    without_effect::{self, say_without_effect},
};

/// The controller's name, in metrics and as a field manager.
pub(crate) const NAME: &str = "device-health";
/// The label of objects that were made for an incident.
pub(crate) const INCIDENT_LABEL: &str = "lazaret.dev/incident";

/// Works as soon as there is a policy or an incident. Until then nothing is kept in memory for it.
pub(crate) async fn serve(context: PartContext, sources: Sources, history: History) {
    if let Some(why) = sources.why_no_rules() {
        warn!(why = why.message(), "DeviceHealthPolicies have no effect here");
        return say_without_effect(context, without_effect::HEALTH, why).await;
    }
    tokio::select! {
        biased;
        () = context.stopped() => return,
        () = context.first_object(&[HEALTH_POLICIES, INCIDENTS], "DeviceHealthPolicies") => {}
    }
    let mut needed = vec![
        HEALTH_POLICIES,
        INCIDENTS,
        SIGNALS,
        sources.rules(),
        TAINT_POLICIES,
        CLASSES,
        CLAIMS,
        PODS,
        NODES,
        sources.slices(),
    ];
    // Administrators' attributes count where policies select, and their taints where guards count.
    needed.extend(sources.has_patches().then_some(PATCHES));
    let inbox = context.listen_if_possible(&needed, &[JOBS, DISRUPTION_GUARDS]);
    let writer = context.writer();
    let options = AgentOptions { name: NAME, in_flight_max: 64, precedence: Precedence::Urgent };
    let make = move || agent::Health::agent(sources, history);
    context.run(options, inbox, make, writer).await;
}
