//! Claims as a driver sees them: read, checked, and without what is none of its business.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use kube::Api;
use serde_json::Value;
use tonic::Status;

use crate::api_words::api_words;

/// Reading one claim from the API. Kubelet waits 45 s for the whole call.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Where a configuration comes from, the less important first.
const SOURCES: [&str; 2] = ["FromClass", "FromClaim"];

/// A claim by name. The UID tells it from an earlier claim of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its incarnation.
    pub uid: String,
}

/// A claim that is allocated, with the devices of this driver.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Which.
    pub id: ClaimRef,
    /// The devices of this driver that it was given.
    pub devices: Vec<AllocatedDevice>,
    /// The whole object.
    pub object: Arc<ResourceClaim>,
}

/// A device that a claim was given.
#[derive(Clone, Debug, PartialEq)]
pub struct AllocatedDevice {
    /// The request it is for, without the name of a subrequest.
    pub request: String,
    /// The subrequest that was chosen, if the request has several.
    pub subrequest: Option<String>,
    /// Its pool.
    pub pool: String,
    /// Its name in the pool.
    pub device: String,
    /// Whether it is only looked after, and may be in use by another claim.
    pub admin_access: bool,
    /// Of a device that is shared, which share.
    pub share_id: Option<String>,
    /// Configurations for this driver, the more important last: first those of the class, then those of the claim.
    pub configs: Vec<Value>,
}

impl AllocatedDevice {
    /// The request as the allocation has it: `request`, or `request/subrequest`.
    #[must_use]
    pub fn request_ref(&self) -> String {
        self.subrequest.as_ref().map_or_else(|| self.request.clone(), |sub| format!("{}/{sub}", self.request))
    }
}

/// Reads a claim and checks that it is the one that is meant.
pub(crate) async fn read(client: &kube::Client, driver: &str, id: &ClaimRef) -> Result<Claim, Status> {
    let place = format!("{}/{}", id.namespace, id.name);
    let api: Api<ResourceClaim> = Api::namespaced(client.clone(), &id.namespace);
    let read = tokio::time::timeout(READ_TIMEOUT, api.get_opt(&id.name)).await;
    let object = match read {
        Err(_) => {
            return Err(Status::unavailable(format!("read ResourceClaim {place}: no answer from the API")));
        }
        Ok(Err(error)) => return Err(api_status(&error, &format!("read ResourceClaim {place}"))),
        Ok(Ok(None)) => return Err(Status::not_found(format!("ResourceClaim {place} not found"))),
        Ok(Ok(Some(object))) => object,
    };
    from_object(driver, id, object)
}

/// The status for kubelet of an error of the API. Kubelet retries in any case.
fn api_status(error: &kube::Error, what: &str) -> Status {
    if let kube::Error::Api(status) = error
        && matches!(status.code, 401 | 403)
    {
        return Status::permission_denied(format!("{what}: {}", status.message));
    }
    Status::unavailable(format!("{what}: {}", api_words(error)))
}

fn from_object(driver: &str, id: &ClaimRef, object: ResourceClaim) -> Result<Claim, Status> {
    let place = format!("{}/{}", id.namespace, id.name);
    if object.metadata.uid.as_deref() != Some(&id.uid) {
        return Err(Status::failed_precondition(format!("ResourceClaim {place} got replaced")));
    }
    let allocation = object.status.as_ref().and_then(|status| status.allocation.as_ref());
    let Some(allocation) = allocation else {
        return Err(Status::failed_precondition(format!("ResourceClaim {place} is not allocated")));
    };
    let allocated = allocation.devices.as_ref();
    let results = allocated.and_then(|devices| devices.results.as_deref()).unwrap_or_default();
    let own = results.iter().filter(|result| result.driver == driver);
    let devices = own.map(|result| device(driver, &object, result)).collect();
    Ok(Claim { id: id.clone(), devices, object: Arc::new(object) })
}

fn device(driver: &str, object: &ResourceClaim, result: &DeviceRequestAllocationResult) -> AllocatedDevice {
    let (request, subrequest) = match result.request.split_once('/') {
        Some((request, subrequest)) => (request.to_owned(), Some(subrequest.to_owned())),
        None => (result.request.clone(), None),
    };
    let allocation = object.status.as_ref().and_then(|status| status.allocation.as_ref());
    let configs =
        allocation.and_then(|allocation| allocation.devices.as_ref()).and_then(|all| all.config.as_deref());
    let mut own = Vec::new();
    for source in SOURCES {
        for config in configs.unwrap_or_default().iter().filter(|config| config.source == source) {
            let requests = config.requests.as_deref().unwrap_or_default();
            let applies = requests.is_empty()
                || requests.iter().any(|name| *name == request || *name == result.request);
            let opaque = config.opaque.as_ref().filter(|opaque| applies && opaque.driver == driver);
            own.extend(opaque.map(|opaque| opaque.parameters.0.clone()));
        }
    }
    AllocatedDevice {
        request,
        subrequest,
        pool: result.pool.clone(),
        device: result.device.clone(),
        admin_access: result.admin_access.unwrap_or_default(),
        share_id: result.share_id.clone(),
        configs: own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claim(status: Value) -> ResourceClaim {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
            "spec": {},
            "status": status,
        }))
        .unwrap()
    }

    fn id() -> ClaimRef {
        ClaimRef { namespace: "ns".into(), name: "c".into(), uid: "u".into() }
    }

    #[test]
    fn only_results_and_configs_of_this_driver_count_and_the_last_config_is_the_most_important() {
        let opaque = |driver: &str, text: &str| json!({"driver": driver, "parameters": {"say": text}});
        let object = claim(json!({"allocation": {"devices": {
            "results": [
                {"request": "a/big", "driver": "mine", "pool": "p", "device": "d0", "adminAccess": true},
                {"request": "a", "driver": "other", "pool": "p", "device": "d1"},
                {"request": "b", "driver": "mine", "pool": "p", "device": "d2", "shareID": "s"},
            ],
            "config": [
                {"source": "FromClaim", "requests": ["a"], "opaque": opaque("mine", "claim a")},
                {"source": "FromClaim", "requests": ["a/big"], "opaque": opaque("mine", "claim a/big")},
                {"source": "FromClass", "requests": [], "opaque": opaque("mine", "class")},
                {"source": "FromClass", "requests": [], "opaque": opaque("other", "not mine")},
                {"source": "FromClaim", "requests": ["b"], "opaque": opaque("mine", "claim b")},
            ],
        }}}));
        let claim = from_object("mine", &id(), object).unwrap();
        assert_eq!(claim.devices.len(), 2);
        let says = |device: &AllocatedDevice| -> Vec<String> {
            device.configs.iter().map(|config| config["say"].as_str().unwrap().to_owned()).collect()
        };
        let first = &claim.devices[0];
        assert_eq!(
            (first.request.as_str(), first.subrequest.as_deref(), first.admin_access),
            ("a", Some("big"), true)
        );
        assert_eq!(says(first), ["class", "claim a", "claim a/big"]);
        assert_eq!(claim.devices[1].share_id.as_deref(), Some("s"));
        assert_eq!(says(&claim.devices[1]), ["class", "claim b"]);
    }

    #[test]
    fn another_incarnation_and_a_claim_without_allocation_are_refused() {
        let refused =
            from_object("mine", &ClaimRef { uid: "v".into(), ..id() }, claim(json!({}))).unwrap_err();
        assert!(refused.message().contains("got replaced"));
        let refused = from_object("mine", &id(), claim(json!({}))).unwrap_err();
        assert!(refused.message().contains("not allocated"));
    }
}
