//! Claims as the API has them.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::join_all;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, api::GetParams, core::Request};
use lazaret_api::read_classic_claim;
use lazaret_node::{ClaimId, ClaimKind, ClaimName, ClaimView, HeldDevice, Outcome};
use lazaret_runtime::CLASSIC_CLAIMS;

use crate::api_words::api_words;

/// Reads claims by name. One that is not there is left out.
pub(crate) async fn read(client: &kube::Client, namespace: &str, names: Vec<ClaimName>) -> Outcome {
    let mut found = BTreeMap::new();
    for (name, claim) in join_all(names.into_iter().map(|name| async {
        let claim = match name.0 {
            ClaimKind::Structured => read_structured(client, namespace, &name.1).await,
            ClaimKind::Classic => read_classic(client, namespace, &name.1).await,
        };
        (name, claim)
    }))
    .await
    {
        match claim {
            Ok(Some(claim)) => drop(found.insert(name, claim)),
            Ok(None) => {}
            Err(error) => return Outcome::Failed(format!("read ResourceClaim {}: {error}", name.1)),
        }
    }
    Outcome::Claims(found)
}

type Read = Result<Option<ClaimView>, String>;

async fn read_structured(client: &kube::Client, namespace: &str, name: &str) -> Read {
    let api: Api<ResourceClaim> = Api::namespaced(client.clone(), namespace);
    let claim = api.get_opt(name).await;
    claim.map(|claim| claim.map(view)).map_err(|error| api_words(&error))
}

/// A server that does not serve classic claims has none.
async fn read_classic(client: &kube::Client, namespace: &str, name: &str) -> Read {
    let (version, plural) = (CLASSIC_CLAIMS.api_version(), CLASSIC_CLAIMS.plural);
    let request = Request::new(format!("/apis/{version}/namespaces/{namespace}/{plural}"));
    let request = request.get(name, &GetParams::default()).map_err(|error| error.to_string())?;
    match client.request_text(request).await {
        Ok(text) => {
            let view = classic_view(text.as_bytes());
            view.map(Some).ok_or_else(|| "the object cannot be understood".to_owned())
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(api_words(&error)),
    }
}

fn classic_view(json: &[u8]) -> Option<ClaimView> {
    let claim = read_classic_claim(json)?;
    let text = |text: &str| text.to_owned();
    let driver = text(&claim.status.driver_name);
    let users = claim.status.reserved_for.iter().filter(|user| user.is_pod());
    Some(ClaimView {
        id: ClaimId {
            kind: ClaimKind::Classic,
            namespace: text(&claim.key.namespace),
            name: text(&claim.key.name),
            uid: text(&claim.uid),
        },
        owners: claim.owners.iter().map(|owner| text(&owner.uid)).collect(),
        reserved_for: users.map(|user| text(&user.uid)).collect(),
        drivers: claim.is_allocated().then(|| BTreeSet::from([driver])),
        // Whether two claims may have one device is for its driver to say.
        devices: Vec::new(),
        attributes: claim.status.attributes.iter().map(|(name, value)| (text(name), text(value))).collect(),
    })
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
            kind: ClaimKind::Structured,
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
        },
        owners: controller.map(|owner| owner.uid).into_iter().collect(),
        attributes: BTreeMap::new(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn classic(status: serde_json::Value) -> ClaimView {
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"});
        let metadata = json!({"name": "c", "namespace": "n", "uid": "u", "ownerReferences": [owner]});
        let claim = json!({"metadata": metadata, "spec": {"resourceClassName": "x"}, "status": status});
        classic_view(claim.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_classic_claim_has_a_driver_only_while_it_is_allocated() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid"});
        let other = json!({"apiVersion": "example.com/v1", "kind": "Job", "name": "j", "uid": "j-uid"});
        let allocated = classic(json!({
            "phase": "Allocated", "driverName": "d", "attributes": {"device": "fabric-3"},
            "reservedFor": [pod, other],
        }));
        assert_eq!(allocated.drivers, Some(["d".to_owned()].into()));
        assert_eq!(allocated.reserved_for, ["p-uid".to_owned()].into());
        assert_eq!(allocated.owners, ["p-uid".to_owned()].into());
        assert_eq!(allocated.attributes["device"], "fabric-3");
        for phase in ["Pending", "Reallocate"] {
            assert_eq!(classic(json!({"phase": phase, "driverName": "d"})).drivers, None, "{phase}");
        }
        assert!(classic_view(b"{").is_none());
    }
}
