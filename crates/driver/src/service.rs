//! The services of a driver: who it is, and what it does with claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::Request;
use hyper::body::Incoming;
use lazaret_cdi::QualifiedName;
use lazaret_model::{validate_dns_label, validate_dns_subdomain};
use tokio::sync::{Semaphore, TryAcquireError, oneshot, watch};
use tonic::Status;
use tracing::{info, warn};

use crate::{
    Claim, ClaimRef, Driver, Failure, PreparedDevice, Registration, claim,
    grpc::{self, Answer, Service},
    health,
    inventory::Inventory,
    lock::Serialize,
    proto::{
        self, ClaimsRequest, DeviceMessage, InfoRequest, PluginInfo, PrepareResponse, PreparedClaim,
        RegistrationStatus, RegistrationStatusResponse, UnprepareResponse, UnpreparedClaim, WatchRequest,
    },
    tasks::Tasks,
};

/// Claims of one call. A pod has a handful.
const CLAIMS_MAX: usize = 256;
/// Of a UID. Kubernetes makes them of 36.
const UID_BYTES_MAX: usize = 128;
/// Calls that run or wait for their turn. Kubelet tries again every 90 s; a driver that hangs must not pile them up.
const CALLS_MAX: usize = 64;
/// Devices of one claim. The API allows 32 results; a driver may add parents and the like.
const DEVICES_PER_CLAIM_MAX: usize = 512;

/// Answers on the registration socket.
pub(crate) struct Registrar {
    pub(crate) driver: String,
    pub(crate) endpoint: PathBuf,
    pub(crate) services: Vec<String>,
    pub(crate) status: watch::Sender<Registration>,
}

impl Service for Registrar {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        match request.uri().path() {
            proto::GET_INFO => grpc::unary(request, move |_: InfoRequest| async move {
                Ok(PluginInfo {
                    r#type: proto::PLUGIN_TYPE.into(),
                    name: self.driver.clone(),
                    endpoint: self.endpoint.to_string_lossy().into_owned(),
                    supported_versions: self.services.clone(),
                })
            }),
            proto::NOTIFY => {
                grpc::unary(request, move |status: RegistrationStatus| async move { self.notify(status) })
            }
            path => grpc::unimplemented(path),
        }
    }
}

impl Registrar {
    fn notify(&self, status: RegistrationStatus) -> Result<RegistrationStatusResponse, Status> {
        if status.plugin_registered {
            info!(driver = self.driver, "kubelet registered the driver");
            self.status.send_replace(Registration::Registered);
            return Ok(RegistrationStatusResponse {});
        }
        warn!(driver = self.driver, error = status.error, "kubelet refused the driver");
        self.status.send_replace(Registration::Refused(status.error.clone()));
        Err(Status::failed_precondition(format!("registration failed: {}", status.error)))
    }
}

/// Answers on the service socket.
pub(crate) struct Plugin<D> {
    pub(crate) driver: Arc<D>,
    pub(crate) name: String,
    pub(crate) client: kube::Client,
    pub(crate) serialize: Arc<Serialize>,
    pub(crate) inventory: Arc<Inventory>,
    pub(crate) is_monitored: bool,
    pub(crate) health_timeout: Duration,
    pub(crate) calls: Arc<Calls>,
    pub(crate) closing: watch::Receiver<bool>,
}

impl<D: Driver> Service for Plugin<D> {
    fn call(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        match request.uri().path() {
            proto::PREPARE_V1 => grpc::unary(request, move |claims| self.prepare(claims, true)),
            proto::PREPARE_V1BETA1 => grpc::unary(request, move |claims| self.prepare(claims, false)),
            proto::UNPREPARE_V1 | proto::UNPREPARE_V1BETA1 => {
                grpc::unary(request, move |claims| self.unprepare(claims))
            }
            proto::WATCH_V1 | proto::WATCH_V1ALPHA1 if self.is_monitored => {
                grpc::streaming(request, move |_: WatchRequest| {
                    Ok(health::stream(self.inventory.reports(), self.closing.clone(), self.health_timeout))
                })
            }
            path => grpc::unimplemented(path),
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
        let results =
            self.run(move |driver| async move { driver.prepare(&claims).await }, ids.is_empty()).await?;
        let claims = answers(&ids, results)?
            .map(|(id, result)| {
                let entry = match result.and_then(|devices| messages(devices, has_shares)) {
                    Ok(devices) => PreparedClaim { devices, error: String::new() },
                    Err(failure) => {
                        warn!(claim = id.name, namespace = id.namespace, %failure, "prepare failed");
                        PreparedClaim { devices: Vec::new(), error: text(&failure) }
                    }
                };
                (id.uid.clone(), entry)
            })
            .collect();
        Ok(PrepareResponse { claims })
    }

    async fn unprepare(self: Arc<Self>, request: ClaimsRequest) -> Result<UnprepareResponse, Status> {
        let ids = ids(request)?;
        let named = ids.clone();
        let results =
            self.run(move |driver| async move { driver.unprepare(&named).await }, ids.is_empty()).await?;
        let claims = answers(&ids, results)?
            .map(|(id, result)| {
                let error = result.err().map(|failure| {
                    warn!(claim = id.name, namespace = id.namespace, %failure, "unprepare failed");
                    text(&failure)
                });
                (id.uid.clone(), UnpreparedClaim { error: error.unwrap_or_default() })
            })
            .collect::<BTreeMap<_, _>>();
        Ok(UnprepareResponse { claims })
    }

    /// Calls the driver in its turn, to the end whatever becomes of the caller. A call without claims is a question
    /// whether somebody is there: it takes its turn, and asks the driver nothing.
    async fn run<R, F, A>(&self, call: F, is_empty: bool) -> Result<Vec<R>, Status>
    where
        R: Send + 'static,
        F: FnOnce(Arc<D>) -> A + Send + 'static,
        A: Future<Output = Vec<R>> + Send + 'static,
    {
        let (driver, serialize) = (Arc::clone(&self.driver), Arc::clone(&self.serialize));
        if is_empty {
            return Ok(Vec::new());
        }
        self.calls
            .run(async move {
                let turn = serialize.turn().await?;
                let results = call(driver).await;
                drop(turn);
                Ok(results)
            })
            .await
    }
}

/// Calls of the driver under way.
#[derive(Debug)]
pub(crate) struct Calls {
    places: Arc<Semaphore>,
    tasks: Mutex<Tasks>,
}

impl Default for Calls {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(CALLS_MAX)), tasks: Mutex::default() }
    }
}

impl Calls {
    async fn run<R: Send + 'static>(
        &self,
        call: impl Future<Output = Result<R, Status>> + Send + 'static,
    ) -> Result<R, Status> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|error| match error {
            TryAcquireError::NoPermits => Status::resource_exhausted("too many calls wait for the driver"),
            TryAcquireError::Closed => Status::unavailable("the driver ends"),
        })?;
        let (sender, answer) = oneshot::channel();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(async move {
            let result = call.await;
            drop(place);
            // Kubelet may have stopped waiting.
            let _ = sender.send(result);
        });
        // The task ends without an answer when the driver panics.
        answer.await.unwrap_or_else(|_| Err(Status::internal("the driver panicked")))
    }

    /// Waits for calls under way; no more are begun.
    pub(crate) async fn drain(&self) {
        self.places.close();
        let mut tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.join().await;
    }
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

fn is_uid(uid: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !uid.is_empty() && uid.len() <= UID_BYTES_MAX && !uid.starts_with('.') && uid.bytes().all(allowed)
}

/// Each claim with its result. A driver that answers for more or fewer claims than it was asked about is wrong about all of them.
fn answers<R>(ids: &[ClaimRef], results: Vec<R>) -> Result<impl Iterator<Item = (&ClaimRef, R)>, Status> {
    if results.len() != ids.len() {
        let why = format!("the driver gave {} results for {} claims", results.len(), ids.len());
        return Err(Status::internal(why));
    }
    Ok(ids.iter().zip(results))
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

/// An empty text would be a success.
fn text(failure: &Failure) -> String {
    let text = failure.to_string();
    if text.is_empty() { "failed for no stated reason".into() } else { text }
}
