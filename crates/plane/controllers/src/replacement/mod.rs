//! Replacement of pods on tainted nodes and devices: runs [`lazaret_replacement`] and does what it decides.

mod copy;
mod executor;
mod mark;
mod metrics;
mod pods;
mod policy;
mod record;
mod shell;
mod status;

use std::sync::Arc;

use lazaret_runtime::{
    AgentOptions, Call, DISRUPTION_GUARDS, Object, PODS, Precedence, REPLACEMENT_POLICIES, REPLICA_SETS,
};
use serde::Deserialize;
use tracing::warn;

use crate::{Sources, context::PartContext, proof::Proofs, writer::Writer};

pub(crate) const NAME: &str = "taint-replacement";

/// On a released pod and on a copy: the record of the replacement, as an annotation; as a label, to find them by.
pub(crate) const MARK: &str = lazaret_api::REPLACEMENT_MARK;

/// Works as soon as there is something to do. Until there is a policy nothing is kept in memory for it.
/// `namespace` has the leases and the Secret by which marks on pods are known.
pub(crate) async fn serve(
    context: PartContext,
    sources: Sources,
    namespace: String,
    options: lazaret_replacement::Options,
) {
    let writer = context.writer(NAME);
    // A pod may have been marked when there still was a policy.
    let is_work = |policies: &[Arc<Object>]| {
        let (is_empty, writer) = (policies.is_empty(), &writer);
        async move { !is_empty || has_marks(writer).await }
    };
    tokio::select! {
        biased;
        () = context.stopped() => return,
        () = context.first_news(&[REPLACEMENT_POLICIES], "TaintReplacementPolicies", is_work) => {}
    }
    let proofs = tokio::select! {
        biased;
        () = context.stopped() => return,
        proofs = Proofs::load(&writer, &namespace) => proofs,
    };
    let mut optional = sources.resources();
    optional.extend([REPLICA_SETS, DISRUPTION_GUARDS]);
    let inbox = context.listen_if_possible(&[REPLACEMENT_POLICIES], &optional);
    let counts = metrics::ReplacementMetrics::new(context.metrics());
    let agent = AgentOptions { name: NAME, in_flight_max: 64, precedence: Precedence::Urgent };
    let executor = executor::Executor { writer, proofs: proofs.clone() };
    let make = move || {
        shell::ReplacementShell::agent(sources.gates(), counts.clone(), proofs.clone(), options.clone())
    };
    context.run(agent, inbox, make, executor).await;
}

/// Whether there may be pods that are being replaced. A question without an answer is not the answer that there are none.
async fn has_marks(writer: &Writer) -> bool {
    #[derive(Deserialize)]
    struct List {
        items: Vec<serde::de::IgnoredAny>,
    }
    let path = format!("{}?labelSelector={}&limit=1", PODS.path("", "", ""), MARK.replace('/', "%2F"));
    let list = writer.send(Call::get_at(path)).await.map_err(|error| error.to_string());
    let list = list.and_then(|list| serde_json::from_slice::<List>(&list).map_err(|error| error.to_string()));
    match list {
        Ok(list) => !list.items.is_empty(),
        Err(error) => {
            warn!(error, "pods that are being replaced cannot be listed: replacement begins to watch");
            true
        }
    }
}
