//! Health policies and incidents: tells [`lazaret_lifecycle`] the signals that [`lazaret_signals`] finds, and does what it decides.

mod acceptance;
mod agent;
mod children;
mod executor;
mod obstacle;
mod rules;
mod task;
mod writes;

use lazaret_lifecycle::History;
use lazaret_runtime::{
    AgentOptions, CLAIMS, CLASSES, DISRUPTION_GUARDS, HEALTH_POLICIES, INCIDENTS, JOBS, NODES, PATCHES, PODS,
    Precedence, SIGNALS, TAINT_POLICIES,
};
use tracing::warn;

use self::executor::Executor;
use crate::{
    Sources,
    context::PartContext,
    proof::Proofs,
    without_effect::{self, say_without_effect},
};

/// How incidents are dealt with.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How long they are kept.
    pub(crate) history: History,
    /// Where leases are, and the Secret by which objects made for incidents are known.
    pub(crate) namespace: String,
    /// Namespaces of the service accounts that policies may name.
    pub(crate) repair_namespaces: Vec<String>,
}

/// The controller's name, in metrics and as a field manager.
pub(crate) const NAME: &str = "device-health";
/// The label of objects that were made for an incident.
pub(crate) const INCIDENT_LABEL: &str = "lazaret.dev/incident";

/// Works as soon as there is a policy or an incident. Until then nothing is kept in memory for it.
pub(crate) async fn serve(context: PartContext, sources: Sources, options: Options) {
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
    let writer = context.writer(NAME);
    let proofs = tokio::select! {
        biased;
        () = context.stopped() => return,
        proofs = Proofs::load(&writer, &options.namespace) => proofs,
    };
    let inbox = context.listen_if_possible(&needed, &[JOBS, DISRUPTION_GUARDS]);
    let writer = Executor { writer, proofs: proofs.clone() };
    let Options { history, repair_namespaces, namespace: _ } = options;
    let options = AgentOptions { name: NAME, in_flight_max: 64, precedence: Precedence::Urgent };
    let make = move || agent::Health::agent(sources, history, proofs.clone(), repair_namespaces.clone());
    context.run(options, inbox, make, writer).await;
}
