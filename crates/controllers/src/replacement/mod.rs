//! Replacement of pods on tainted nodes and devices: runs [`lazaret_replacement`] and does what it decides.

mod agent;
mod copy;
mod executor;
mod metrics;
mod pods;
mod policy;
mod record;
mod status;

use std::sync::Arc;

use lazaret_runtime::{
    AgentOptions, Call, CallError, Hub, Inbox, Leadership, Metrics, News, PODS, Precedence,
    REPLACEMENT_POLICIES, REPLICA_SETS, run,
};
use serde::Deserialize;
use tokio::sync::watch;
use tracing::warn;

use crate::Sources;

/// What it calls itself.
pub(crate) const NAME: &str = "taint-replacement";

/// On a released pod and on a copy: the record of the replacement, as an annotation; as a label, to find them by.
pub(crate) const MARK: &str = "lazaret.dev/replacement";

/// Works as soon as there is something to do. Until there is a policy nothing is kept in memory for it.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    sources: Sources,
    leadership: Leadership,
    metrics: Metrics,
    mut stop: watch::Receiver<bool>,
) {
    let policies = hub.listen_if_possible(&[], &[REPLACEMENT_POLICIES]);
    tokio::select! {
        biased;
        _ = stop.wait_for(|stop| *stop) => return,
        () = first_work(&hub, policies) => {}
    }
    let mut optional = sources.resources();
    optional.push(REPLICA_SETS);
    let inbox = hub.listen_if_possible(&[REPLACEMENT_POLICIES], &optional);
    let client = hub.client().clone();
    // The watches outlive this task; it must not keep them alive in turn.
    drop(hub);
    let counts = metrics::ReplacementMetrics::new(&metrics);
    run(
        move || agent::ReplacementAgent::new(sources.gates(), counts.clone()),
        executor::Executor::new(client),
        inbox,
        leadership,
        metrics,
        AgentOptions { name: NAME, in_flight_max: 64, precedence: Precedence::Urgent },
        stop,
    )
    .await;
}

/// Waits for a policy, or for a pod that was marked when there still was one.
async fn first_work(hub: &Hub, mut policies: Inbox) {
    loop {
        match policies.next().await {
            News::Set(..) => return,
            News::Listed(_, objects, _) => {
                if !objects.is_empty() || has_marks(hub).await {
                    return;
                }
            }
            News::Gone(..) => {}
            News::Barred(_, why) if matches!(*why, CallError::NotFound(_)) => warn!(
                "there are no TaintReplacementPolicies here; to have them: lazaret install --crds-only | kubectl apply -f -"
            ),
            News::Barred(_, why) => {
                warn!(%why, "TaintReplacementPolicies cannot be read; get, list and watch them must be permitted");
            }
        }
    }
}

async fn has_marks(hub: &Hub) -> bool {
    #[derive(Deserialize)]
    struct List {
        items: Vec<serde::de::IgnoredAny>,
    }
    let path = format!("{}?labelSelector={}&limit=1", PODS.path("", "", ""), MARK.replace('/', "%2F"));
    let list = hub.client().send(Call::get_at(path)).await;
    list.ok()
        .and_then(|list| serde_json::from_slice::<List>(&list).ok())
        .is_some_and(|list| !list.items.is_empty())
}
