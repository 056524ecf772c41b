//! The node half of the classic protocol, by the first text of the enhancement: a plugin of type `ResourcePlugin`, asked
//! for one claim at a time and by its UID alone. The same [`Driver`] answers.
//!
//! Only calls of kubelet are here. The control-plane half of a classic driver (a controller that allocates and frees
//! claims and says which nodes are unsuitable) has its place beside this module: it would share [`Claims`] and nothing
//! else, as it never runs on the node.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::{Api, api::ListParams};
use tonic::Status;

use crate::{
    ClaimRef, Driver, claim,
    proto::{
        ClassicPrepareRequest, ClassicPrepareResponse, ClassicUnprepareRequest, ClassicUnprepareResponse,
    },
    service::{Plugin, is_uid, text},
};

/// Claims of one page of a list.
const PAGE: u32 = 500;
/// Claims that are looked at to find one by its UID. More than a cluster of Kubernetes' largest size has in use.
const CLAIMS_LISTED_MAX: usize = 200_000;
/// For the whole list. Kubelet waits 45 s for the call.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Claims whose names are remembered. A node runs a few hundred pods.
const CLAIMS_KNOWN_MAX: usize = 4_096;

/// Names of claims by UID: the protocol names them by UID, the API by name.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    known: Mutex<BTreeMap<String, ClaimRef>>,
}

impl Claims {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, ClaimRef>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, id: &ClaimRef) {
        let mut known = self.known();
        if known.len() >= CLAIMS_KNOWN_MAX && !known.contains_key(&id.uid) {
            // Any of them: whoever is forgotten is looked for again.
            known.pop_first();
        }
        known.insert(id.uid.clone(), id.clone());
    }

    /// The name of a claim; none if there is no such claim any more.
    async fn find(&self, client: &kube::Client, uid: &str) -> Result<Option<ClaimRef>, Status> {
        let known = self.known().get(uid).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let found = tokio::time::timeout(LIST_TIMEOUT, search(client, uid)).await;
        let found = found.unwrap_or_else(|_| Err(Status::unavailable("list ResourceClaims: no answer")))?;
        found.iter().for_each(|id| self.remember(id));
        Ok(found)
    }
}

async fn search(client: &kube::Client, uid: &str) -> Result<Option<ClaimRef>, Status> {
    let api: Api<ResourceClaim> = Api::all(client.clone());
    let (mut params, mut seen) = (ListParams::default().limit(PAGE), 0);
    loop {
        let page = api.list_metadata(&params).await;
        let page = page.map_err(|error| claim::api_status(&error, "list ResourceClaims"))?;
        seen += page.items.len();
        let found = page.items.into_iter().find(|claim| claim.metadata.uid.as_deref() == Some(uid));
        if let Some(found) = found {
            let (namespace, name) = (found.metadata.namespace, found.metadata.name);
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            return Ok(Some(ClaimRef { namespace, name, uid: uid.into() }));
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(_) if seen >= CLAIMS_LISTED_MAX => {
                let why = format!("not among the first {CLAIMS_LISTED_MAX} ResourceClaims");
                return Err(Status::resource_exhausted(why));
            }
            Some(token) => params.continue_token = Some(token),
            None => return Ok(None),
        }
    }
}

/// `NodePrepareResource`.
pub(crate) async fn prepare<D: Driver>(
    plugin: Arc<Plugin<D>>,
    request: ClassicPrepareRequest,
) -> Result<ClassicPrepareResponse, Status> {
    let uid = checked(&request.resource_uid)?;
    let Some(claims) = &plugin.classic else { return Err(Status::unimplemented("no classic calls")) };
    let missing = || Status::not_found(format!("there is no ResourceClaim with UID {uid}"));
    let id = claims.find(&plugin.client, uid).await?.ok_or_else(missing)?;
    let claim = claim::read(&plugin.client, &plugin.name, &id).await.inspect_err(|_| {
        // Its name may be another claim's by now, or nobody's.
        claims.known().remove(uid);
    })?;
    let results = plugin.prepare_claims(vec![claim]).await?;
    let mut cdi_device: Vec<String> = Vec::new();
    for result in results {
        let devices = result.map_err(|failure| Status::internal(text(&failure)))?;
        for id in devices.into_iter().flat_map(|device| device.cdi_ids) {
            if !cdi_device.contains(&id) {
                cdi_device.push(id);
            }
        }
    }
    Ok(ClassicPrepareResponse { cdi_device })
}

/// `NodeUnprepareResource`. A claim that is gone is a success, though the text would have it not found: kubelet must be
/// able to repeat a call whose answer it did not hear.
pub(crate) async fn unprepare<D: Driver>(
    plugin: Arc<Plugin<D>>,
    request: ClassicUnprepareRequest,
) -> Result<ClassicUnprepareResponse, Status> {
    let uid = checked(request.resource_id.first().map(String::as_str).unwrap_or_default())?;
    let Some(claims) = &plugin.classic else { return Err(Status::unimplemented("no classic calls")) };
    // Its name is not needed to undo what was done: only the UID is known of a claim that is gone.
    let nameless = ClaimRef { namespace: String::new(), name: String::new(), uid: uid.into() };
    let id = claims.find(&plugin.client, uid).await.ok().flatten().unwrap_or(nameless);
    for result in plugin.unprepare_claims(vec![id]).await? {
        result.map_err(|failure| Status::internal(text(&failure)))?;
    }
    claims.known().remove(uid);
    Ok(ClassicUnprepareResponse {})
}

fn checked(uid: &str) -> Result<&str, Status> {
    if is_uid(uid) {
        Ok(uid)
    } else {
        Err(Status::invalid_argument("the claim has no UID, or not a valid one"))
    }
}
