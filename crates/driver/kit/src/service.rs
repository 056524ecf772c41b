//! The services on the service socket: what a driver does with claims, and how its devices are.

use std::{collections::BTreeSet, future::Future, sync::Arc, time::Duration};

use http::Request;
use hyper::body::Incoming;
use lazaret_cdi::QualifiedName;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};
use tokio::sync::watch;
use tonic::Status;
use tracing::warn;

use crate::{
    Claim, ClaimRef, Driver, Failure, KubeletService, PreparedDevice,
    calls::Calls,
    claim,
    clock::Clock,
    events,
    grpc::{self, Answer, Service},
    health,
    held::{HeldDevices, Note, Refusal},
    inventory::Inventory,
    lock::Serialize,
    metadata::MetadataFiles,
    proto::{
        self, ClaimsRequest, DeviceMessage, PrepareResponse, PreparedClaim, UnprepareResponse,
        UnpreparedClaim, WatchRequest,
    },
};

/// Claims of one call. A pod has a handful.
const CLAIMS_MAX: usize = 256;
/// Of a UID. Kubernetes makes them of 36.
const UID_BYTES_MAX: usize = 128;
/// Devices of one claim. The API allows 32 results; a driver may add parents and the like.
const DEVICES_PER_CLAIM_MAX: usize = 512;

pub(crate) type Prepared = Result<Vec<PreparedDevice>, Failure>;

/// Answers on the service socket.
pub(crate) struct Plugin<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) name: String,
    pub(crate) client: kube::Client,
    pub(crate) serialize: Arc<Serialize>,
    pub(crate) inventory: Arc<Inventory>,
    /// The services offered; all others are unimplemented.
    pub(crate) services: Vec<KubeletService>,
    pub(crate) metadata: Option<Arc<MetadataFiles>>,
    pub(crate) held: Arc<HeldDevices>,
    pub(crate) clock: Clock,
    pub(crate) health_timeout: Duration,
    pub(crate) calls: Arc<Calls>,
    pub(crate) closing: watch::Receiver<bool>,
}

impl<D: Driver> Service for Plugin<D> {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        let Some(service) = self.services.iter().copied().find(|service| service.serves(path)) else {
            return grpc::unimplemented(path);
        };
        match (service, path) {
            (KubeletService::HealthV1 | KubeletService::HealthV1alpha1, _) => {
                grpc::streaming(request, move |_: WatchRequest| {
                    Ok(health::stream(self.inventory.reports(), self.closing.clone(), self.health_timeout))
                })
            }
            (_, proto::UNPREPARE_V1 | proto::UNPREPARE_V1BETA1) => {
                grpc::unary(request, move |claims| self.unprepare(claims))
            }
            (service, _) => {
                let has_shares = service == KubeletService::PluginV1;
                grpc::unary(request, move |claims| self.prepare(claims, has_shares))
            }
        }
    }
}

impl<D: Driver> Plugin<D> {
    async fn prepare(
        self: Arc<Self>,
        request: ClaimsRequest,
        has_shares: bool,
    ) -> Result<PrepareResponse, Status> {
        let ids = ids(request)?;
        let mut claims: Vec<Claim> = Vec::with_capacity(ids.len());
        for id in &ids {
            claims.push(claim::read(&self.client, &self.name, id).await?);
        }
        let results = self.prepare_claims(claims).await?;
        let entry = |(id, result): (ClaimRef, Prepared)| {
            let entry = match result.and_then(|devices| messages(devices, has_shares)) {
                Ok(devices) => PreparedClaim { devices, error: String::new() },
                Err(failure) => {
                    PreparedClaim { devices: Vec::new(), error: report_failure("prepare", &id, &failure) }
                }
            };
            (id.uid, entry)
        };
        Ok(PrepareResponse { claims: ids.into_iter().zip(results).map(entry).collect() })
    }

    async fn unprepare(self: Arc<Self>, request: ClaimsRequest) -> Result<UnprepareResponse, Status> {
        let ids = ids(request)?;
        let results = self.unprepare_claims(ids.clone()).await?;
        let entry = |(id, result): (ClaimRef, Result<(), Failure>)| {
            let error =
                result.err().map(|failure| report_failure("unprepare", &id, &failure)).unwrap_or_default();
            (id.uid, UnpreparedClaim { error })
        };
        Ok(UnprepareResponse { claims: ids.into_iter().zip(results).map(entry).collect() })
    }

    /// Prepares claims in their turn: one result for each. Claims whose devices others hold do not reach the driver.
    pub(crate) async fn prepare_claims(&self, claims: Vec<Claim>) -> Result<Vec<Prepared>, Status> {
        let (metadata, held) = (self.metadata.clone(), Arc::clone(&self.held));
        let ids: Vec<ClaimRef> = claims.iter().map(|claim| claim.id.clone()).collect();
        let answers = self.run(claims.len(), move |driver: Arc<D>| async move {
            let notes = match held.note(&claims).await {
                Ok(notes) => notes,
                Err(failure) => return Ok(claims.iter().map(|_| (Err(failure.clone()), None)).collect()),
            };
            let is_taken =
                |(claim, note): (Claim, &Note)| matches!(note, Note::Taken { .. }).then_some(claim);
            let taken: Vec<Claim> = claims.into_iter().zip(&notes).filter_map(is_taken).collect();
            let mut results = if taken.is_empty() { Vec::new() } else { driver.prepare(&taken).await };
            expect_count(results.len(), taken.len())?;
            for (claim, result) in taken.iter().zip(&mut results) {
                if let (Some(files), Ok(devices)) = (&metadata, result) {
                    files.write_claim(claim, devices);
                }
            }
            Ok(answers(&held, notes, taken, results).await)
        });
        let mut results = Vec::new();
        for (id, (result, refusal)) in ids.iter().zip(answers.await?) {
            if let Some(refusal) = refusal {
                events::tell_holders(&self.client, &self.name, self.clock.now(), id, &refusal).await;
            }
            results.push(result);
        }
        Ok(results)
    }

    /// Unprepares claims in their turn: one result for each.
    pub(crate) async fn unprepare_claims(
        &self,
        ids: Vec<ClaimRef>,
    ) -> Result<Vec<Result<(), Failure>>, Status> {
        let (count, metadata, held) = (ids.len(), self.metadata.clone(), Arc::clone(&self.held));
        self.run(count, move |driver: Arc<D>| async move {
            if let Err(failure) = held.check() {
                return Ok(ids.iter().map(|_| Err(failure.clone())).collect());
            }
            let mut results = driver.unprepare(&ids).await;
            expect_count(results.len(), ids.len())?;
            for (id, result) in ids.iter().zip(&mut results) {
                if let (Some(files), Ok(())) = (&metadata, &result) {
                    *result = files
                        .remove_claim(id)
                        .map_err(|error| Failure::new(format_args!("remove the device metadata: {error}")));
                }
            }
            let done = ids.iter().zip(&results).filter(|(_, result)| result.is_ok());
            if let Err(failure) = held.forget(done.map(|(id, _)| id.uid.as_str())).await {
                results
                    .iter_mut()
                    .filter(|result| result.is_ok())
                    .for_each(|result| *result = Err(failure.clone()));
            }
            Ok(results)
        })
        .await
    }

    /// Calls the driver in its turn, to the end whatever becomes of the caller. A call without claims is a question
    /// whether the driver runs, and is answered at once. A driver that answers for more or fewer claims than it was
    /// asked about is wrong about all of them.
    async fn run<R, F, A>(&self, count: usize, call: F) -> Result<Vec<R>, Status>
    where
        R: Send + 'static,
        F: FnOnce(Arc<D>) -> A + Send + 'static,
        A: Future<Output = Result<Vec<R>, Status>> + Send + 'static,
    {
        if count == 0 {
            return Ok(Vec::new());
        }
        let (driver, serialize) = (Arc::clone(&self.driver), Arc::clone(&self.serialize));
        let called = self.calls.run(async move {
            let turn = serialize.turn().await?;
            let results = call(driver).await;
            drop(turn);
            results
        });
        called.await
    }
}

fn expect_count(results: usize, claims: usize) -> Result<(), Status> {
    if results == claims {
        return Ok(());
    }
    Err(Status::internal(format!("the driver gave {results} results for {claims} claims")))
}

/// One answer for each claim that was noted or refused: those of the driver for the former. A claim that the driver refused because of another one is noted
/// no more, unless it was before.
async fn answers(
    held: &HeldDevices,
    notes: Vec<Note>,
    taken: Vec<Claim>,
    results: Vec<Prepared>,
) -> Vec<(Prepared, Option<Refusal>)> {
    let (mut answers, mut undone) = (Vec::with_capacity(notes.len()), Vec::new());
    let mut prepared = taken.into_iter().zip(results);
    for note in notes {
        let (is_new, claim, result) = match note {
            Note::Refused(refusal) => {
                answers.push((Err(refusal.failure()), Some(refusal)));
                continue;
            }
            Note::Taken { is_new } => {
                // The caller has counted them.
                let Some((claim, result)) = prepared.next() else { continue };
                (is_new, claim, result)
            }
        };
        let holder = result.as_ref().err().and_then(|failure| failure.holder.clone());
        let refusal = holder.as_ref().and_then(|holder| held.resolve(holder));
        if holder.is_some() && is_new {
            undone.push(claim.id.uid);
        }
        answers.push((refusal.as_ref().map_or(result, |refusal| Err(refusal.failure())), refusal));
    }
    if !undone.is_empty()
        && let Err(failure) = held.forget(undone.iter().map(String::as_str)).await
    {
        warn!(%failure, "a claim that the driver refused stays noted until it is unprepared");
    }
    answers
}

fn ids(request: ClaimsRequest) -> Result<Vec<ClaimRef>, Status> {
    if request.claims.len() > CLAIMS_MAX {
        return Err(Status::invalid_argument(format!("more than {CLAIMS_MAX} claims")));
    }
    let mut seen = BTreeSet::new();
    let claims = request.claims.into_iter().map(|claim| {
        // They become parts of paths: to the API here, to files in a driver.
        if validate_dns_label(&claim.namespace).is_err()
            || validate_dns_subdomain(&claim.name).is_err()
            || !is_uid(&claim.uid)
        {
            return Err(Status::invalid_argument(
                "a claim has no namespace, name or UID, or not a valid one",
            ));
        }
        if !seen.insert(claim.uid.clone()) {
            return Err(Status::invalid_argument(format!("claim {} is there twice", claim.uid)));
        }
        Ok(ClaimRef { namespace: claim.namespace, name: claim.name, uid: claim.uid })
    });
    claims.collect()
}

pub(crate) fn is_uid(uid: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !uid.is_empty() && uid.len() <= UID_BYTES_MAX && !uid.starts_with('.') && uid.bytes().all(allowed)
}

fn messages(devices: Vec<PreparedDevice>, has_shares: bool) -> Result<Vec<DeviceMessage>, Failure> {
    if devices.len() > DEVICES_PER_CLAIM_MAX {
        return Err(Failure::new(format_args!("more than {DEVICES_PER_CLAIM_MAX} devices for a claim")));
    }
    devices.into_iter().map(|device| message(device, has_shares)).collect()
}

fn message(device: PreparedDevice, has_shares: bool) -> Result<DeviceMessage, Failure> {
    if device.pool.is_empty() || device.device.is_empty() {
        return Err(Failure::new("a prepared device has no pool or no name"));
    }
    for id in &device.cdi_ids {
        id.parse::<QualifiedName>()?;
    }
    Ok(DeviceMessage {
        request_names: device.requests.iter().map(|name| base(name).to_owned()).collect(),
        pool_name: device.pool,
        device_name: device.device,
        cdi_device_ids: device.cdi_ids,
        share_id: device.share_id.filter(|_| has_shares),
    })
}

fn base(request: &str) -> &str {
    request.split('/').next().unwrap_or(request)
}

/// Logs a failure, and returns its text for kubelet.
fn report_failure(call: &str, id: &ClaimRef, failure: &Failure) -> String {
    warn!(claim = id.name, namespace = id.namespace, %failure, "{call} failed");
    text(failure)
}

/// An empty text would be a success.
pub(crate) fn text(failure: &Failure) -> String {
    let text = failure.to_string();
    if text.is_empty() { "failed for no stated reason".into() } else { text }
}
