//! Objects that exist once for each node: its lease, its CSINode, the slices of its devices.

use lazaret_json::Value;
use lazaret_kinds::certificates::{KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER};

use super::attempt::{Attempt, AttemptContext, Operation, Refusal, Verdict};
use crate::{admission::certificates::parsed, auth::node::LEASE_NAMESPACE};

pub(super) fn lease(attempt: &Attempt<'_>) -> Verdict {
    if attempt.namespace != LEASE_NAMESPACE {
        let why = format!("can only access leases in the {LEASE_NAMESPACE:?} system namespace");
        return Err(Refusal::Forbidden(why));
    }
    if attempt.name != attempt.node {
        return Err(Refusal::from("can only access node lease with the same name as the requesting node"));
    }
    Ok(())
}

/// A node asks for certificates of its own name only.
pub(super) fn certificate_request(attempt: &Attempt<'_>) -> Verdict {
    let signer = attempt.object["spec"]["signerName"].as_str().unwrap_or_default();
    let of_nodes = [KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER].contains(&signer);
    if attempt.operation != Operation::Create || !of_nodes {
        return Ok(());
    }
    let request =
        parsed(attempt.object).map_err(|why| Refusal::Forbidden(format!("unable to parse csr: {why}")))?;
    let name = format!("system:node:{}", attempt.node);
    if request.common_name == name {
        return Ok(());
    }
    Err(Refusal::Forbidden(format!("can only create a node CSR with CN={name}")))
}

pub(super) fn csi_node(attempt: &Attempt<'_>) -> Verdict {
    if attempt.name != attempt.node {
        return Err(Refusal::from("can only access CSINode with the same name as the requesting node"));
    }
    if attempt.subresource == "status" {
        return Err(Refusal::from("CSIVolumeHealth feature gate is disabled"));
    }
    Ok(())
}

/// Kubernetes leaves updates to the authorizer. Here the slice that is changed is looked at as well: it may be another one by now than the
/// one that the authorizer knew under this name.
pub(super) fn slice(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    let is_own = |slice: &Value| slice["spec"]["nodeName"] == attempt.node;
    let (own, verb) = match attempt.operation {
        Operation::Create => (is_own(attempt.object), "create"),
        Operation::Update => (is_own(attempt.old), "update"),
        Operation::Delete => (is_own(attempt.old), "delete"),
    };
    if own {
        return pool_of_slice(attempt, context);
    }
    let why = format!("can only {verb} ResourceSlice with the same NodeName as the requesting node");
    Err(Refusal::Forbidden(why))
}

// DEVIATION(pools-of-nodes): Kubernetes lets a node publish slices in the pools of other nodes, and claims name devices by pool.
/// A pool that has slices of another node is that node's: its devices are known by driver, pool and name alone.
fn pool_of_slice(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    let pool = |slice: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&slice["spec"]["driver"]), text(&slice["spec"]["pool"]["name"]))
    };
    let (driver, name) = pool(attempt.object);
    let is_new = match attempt.operation {
        Operation::Create => true,
        Operation::Update => pool(attempt.old) != (driver.clone(), name.clone()),
        Operation::Delete => false,
    };
    let other = if is_new {
        (context.other_node_of_pool)((driver.as_str(), name.as_str()), attempt.node)
    } else {
        None
    };
    let Some(other) = other else { return Ok(()) };
    let why = format!(
        "pool {name:?} of driver {driver:?} has ResourceSlices of node {other:?}: publish in another pool"
    );
    Err(Refusal::Forbidden(why))
}
