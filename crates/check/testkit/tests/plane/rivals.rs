//! Processes that compete for the lease of the controllers.

use lazaret_controllers::{Options, Parts, Plane as Controllers, Rivals};
use lazaret_runtime::{Client, LeaseOptions, Metrics};
use lazaret_testkit::{Cluster, Plane};
use serde_json::Value;

use crate::stage::Stage;

/// A cluster that has a scheduler and leaves everything else to rivals.
pub(crate) fn stage() -> Stage {
    stage_with(4, 8)
}

/// The same with this number of nodes, and of devices on each.
pub(crate) fn stage_with(nodes: usize, devices: usize) -> Stage {
    let scheduler = Options { parts: parts(false), ..Options::default() };
    Stage::of(Cluster::options().plane(Plane::simulated(nodes, devices).options(scheduler)), nodes)
}

/// A lease that is lost soon.
pub(crate) const SHORT: LeaseOptions =
    LeaseOptions { duration_ms: 1_500, renew_deadline_ms: 1_000, retry_ms: 200 };
/// A lease that a slow holder does not lose.
pub(crate) const LONG: LeaseOptions =
    LeaseOptions { duration_ms: 10_000, renew_deadline_ms: 9_000, retry_ms: 200 };

/// One more who wants to lead.
pub(crate) fn start(stage: &Stage, identity: &str, lease: LeaseOptions, client: kube::Client) -> Controllers {
    let options = Options {
        parts: parts(true),
        rivals: Some(Rivals { identity: identity.into(), lease }),
        ..Options::default()
    };
    stage.cluster.block_on(async move {
        Controllers::start(Client::new(client), Metrics::default(), &options).await.unwrap()
    })
}

/// Waits until this one has the lease.
pub(crate) fn until_held_by(stage: &Stage, identity: &str) {
    stage.until(&format!("{identity} has the lease"), || {
        let lease = stage.try_request(
            "GET",
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/lazaret-controllers",
            "application/json",
            &Value::Null,
        )?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        if holder == identity { Ok(()) } else { Err(holder) }
    });
}

fn parts(controllers: bool) -> Parts {
    Parts { scheduler: !controllers, controllers, workloads: controllers }
}
