//! Claims as the API has them.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::Api;
use lazaret_node::{ClaimId, ClaimView, HeldDevice, Outcome};

/// Reads claims by name. One that is not there is left out.
pub(crate) async fn read(client: &kube::Client, namespace: &str, names: Vec<String>) -> Outcome {
    let api: Api<ResourceClaim> = Api::namespaced(client.clone(), namespace);
    let mut found = BTreeMap::new();
    for (name, claim) in join_all(names.into_iter().map(|name| async {
        let claim = api.get_opt(&name).await;
        (name, claim)
    }))
    .await
    {
        match claim {
            Ok(Some(claim)) => drop(found.insert(name, view(claim))),
            Ok(None) => {}
            Err(error) => return Outcome::Failed(format!("read ResourceClaim {name}: {error}")),
        }
    }
    Outcome::Claims(found)
}

fn view(claim: ResourceClaim) -> ClaimView {
    let metadata = claim.metadata;
    let controller = metadata.owner_references.unwrap_or_default();
    let controller = controller.into_iter().find(|owner| owner.controller == Some(true));
    let status = claim.status.unwrap_or_default();
    let reserved = status.reserved_for.unwrap_or_default().into_iter();
    let of_pods = reserved
        .filter(|user| user.resource == "pods" && user.api_group.as_deref().is_none_or(str::is_empty));
    let results = status
        .allocation
        .map(|allocation| allocation.devices.and_then(|devices| devices.results).unwrap_or_default());
    ClaimView {
        id: ClaimId {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
        },
        controller: controller.map(|owner| owner.uid),
        reserved_for: of_pods.map(|user| user.uid).collect(),
        drivers: results.as_ref().map(|results| results.iter().map(|result| result.driver.clone()).collect()),
        devices: results
            .unwrap_or_default()
            .into_iter()
            .map(|result| HeldDevice {
                driver: result.driver,
                pool: result.pool,
                device: result.device,
                share: result.share_id,
                is_admin: result.admin_access == Some(true),
            })
            .collect(),
    }
}
