//! A connection to an endpoint of a plugin: kept while the plugin is registered, shared by calls and health.

use std::{collections::BTreeMap, path::Path, time::Duration};

use futures_util::StreamExt;
use lazaret_driver::{
    Client,
    proto::{
        self, ClaimMessage, ClaimsRequest, HealthStatus, PrepareResponse, UnprepareResponse, WatchRequest,
        WatchResponse,
    },
};
use lazaret_node::{
    Answer, Call, ClaimAnswer, ClaimId, ClaimKind, DEVICES_PER_DRIVER_MAX, DeviceHealth, DeviceState,
    HealthReport, Input,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};
use tracing::{debug, info};

use crate::registration::{cut, status_text};

/// For one call: half of the time after which a kubelet tries a pod again.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(45);
/// A call that comes just after a registration waits this long for the connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between attempts to connect: the first, doubled with each failure, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Between the end of a health stream and the next.
const HEALTH_AGAIN: Duration = Duration::from_secs(5);
/// Between two messages of a health stream: a plugin cannot keep the agent busy.
const HEALTH_PAUSE: Duration = Duration::from_millis(20);

/// An endpoint of a driver.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) kind: ClaimKind,
    pub(crate) driver: String,
    pub(crate) path: String,
    pub(crate) health: Option<&'static str>,
}

/// Where the current connection is found.
pub(crate) type Current = watch::Receiver<Option<Client>>;

/// Keeps a connection, for as long as this is polled.
pub(crate) async fn keep(
    endpoint: Endpoint,
    current: watch::Sender<Option<Client>>,
    news: mpsc::Sender<Input>,
) {
    let mut pause = PAUSE_MIN;
    let mut has_health = endpoint.health.is_some();
    loop {
        match timeout(DIAL_TIMEOUT, Client::connect(Path::new(&endpoint.path))).await {
            Ok(Ok(client)) => {
                let began = Instant::now();
                current.send_replace(Some(client.clone()));
                if news.send(endpoint.connected(true)).await.is_err() {
                    return;
                }
                tokio::select! {
                    () = client.closed() => {}
                    () = listen(&endpoint, client.clone(), &news, &mut has_health) => {}
                }
                // One that accepts and closes, again and again, is not called in a hurry.
                if began.elapsed() >= PAUSE_MAX {
                    pause = PAUSE_MIN;
                }
                current.send_replace(None);
                info!(driver = endpoint.driver, endpoint = endpoint.path, "the connection ended");
                let ended =
                    Input::HealthEnded { driver: endpoint.driver.clone(), endpoint: endpoint.path.clone() };
                if news.send(endpoint.connected(false)).await.is_err() {
                    return;
                }
                // The health of a driver's devices comes from its other plugin.
                if endpoint.kind == ClaimKind::Structured && news.send(ended).await.is_err() {
                    return;
                }
            }
            Ok(Err(error)) => debug!(%error, endpoint = endpoint.path, "connect"),
            Err(_) => debug!(endpoint = endpoint.path, "connect: no answer"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Endpoint {
    fn connected(&self, is_connected: bool) -> Input {
        let (kind, driver, endpoint) = (self.kind, self.driver.clone(), self.path.clone());
        Input::Connected { kind, driver, endpoint, is_connected }
    }
}

/// Listens to the health service, again and again; waits for ever if there is none.
async fn listen(endpoint: &Endpoint, mut client: Client, news: &mpsc::Sender<Input>, has_health: &mut bool) {
    while *has_health {
        let path = match endpoint.health {
            Some("v1.DRAResourceHealth") => proto::WATCH_V1,
            _ => proto::WATCH_V1ALPHA1,
        };
        let status = match client.watch::<WatchRequest, WatchResponse>(path, WatchRequest {}).await {
            Ok(stream) => read(endpoint, stream, news).await,
            Err(status) => Some(status),
        };
        let (driver, at) = (endpoint.driver.clone(), endpoint.path.clone());
        let _ = news.send(Input::HealthEnded { driver, endpoint: at }).await;
        if let Some(status) = status {
            info!(driver = endpoint.driver, status = status_text(&status), "the health stream ended");
            // Until it registers again.
            *has_health = status.code() != tonic::Code::Unimplemented;
        }
        tokio::time::sleep(HEALTH_AGAIN).await;
    }
    std::future::pending().await
}

async fn read(
    endpoint: &Endpoint,
    mut stream: tonic::Streaming<WatchResponse>,
    news: &mpsc::Sender<Input>,
) -> Option<tonic::Status> {
    while let Some(message) = stream.next().await {
        let message = match message {
            Ok(message) => message,
            Err(status) => return Some(status),
        };
        let reports = message.devices.into_iter().take(DEVICES_PER_DRIVER_MAX + 1).map(report).collect();
        let (driver, at) = (endpoint.driver.clone(), endpoint.path.clone());
        if news.send(Input::Health { driver, endpoint: at, reports }).await.is_err() {
            return None;
        }
        tokio::time::sleep(HEALTH_PAUSE).await;
    }
    None
}

fn report(device: proto::DeviceHealth) -> HealthReport {
    let health = match device.health() {
        HealthStatus::Healthy => DeviceHealth::Healthy,
        HealthStatus::Unhealthy => DeviceHealth::Unhealthy,
        HealthStatus::Unknown => DeviceHealth::Unknown,
    };
    let id = device.device.unwrap_or_default();
    HealthReport {
        pool: id.pool_name,
        device: id.device_name,
        health,
        message: device.message,
        timeout_s: device.health_check_timeout_seconds,
    }
}

/// Calls a plugin. Gives the answer, and the status as metrics have it.
pub(crate) async fn call(
    current: Option<Current>,
    method: &'static str,
    call: Call,
    claims: Vec<ClaimId>,
) -> (Answer, tonic::Code) {
    let claim = |id: ClaimId| ClaimMessage { namespace: id.namespace, name: id.name, uid: id.uid };
    let request = ClaimsRequest { claims: claims.into_iter().map(claim).collect() };
    let called = timeout(CALL_TIMEOUT, async {
        let mut client = connected(current).await?;
        match call {
            Call::Prepare => client.call(method, request).await.map(prepared),
            Call::Unprepare => client.call(method, request).await.map(unprepared),
        }
    });
    match called.await.unwrap_or_else(|_| Err(late())) {
        Ok(answer) => (answer, tonic::Code::Ok),
        Err(status) => (Answer::Failed(status_text(&status)), status.code()),
    }
}

pub(crate) fn late() -> tonic::Status {
    tonic::Status::deadline_exceeded(format!("no answer within {} s", CALL_TIMEOUT.as_secs()))
}

pub(crate) async fn connected(current: Option<Current>) -> Result<Client, tonic::Status> {
    let missing = || tonic::Status::unavailable("the plugin is not connected");
    let mut current = current.ok_or_else(missing)?;
    let found = timeout(CONNECT_PATIENCE, current.wait_for(Option::is_some)).await;
    let found = found.map_err(|_| missing())?.map_err(|_| missing())?;
    found.clone().ok_or_else(missing)
}

fn prepared(answer: PrepareResponse) -> Answer {
    let device = |device: proto::DeviceMessage| DeviceState {
        pool: device.pool_name,
        device: device.device_name,
        share: device.share_id,
        requests: device.request_names,
        cdi_ids: device.cdi_device_ids,
    };
    let claims = answer.claims.into_iter().map(|(uid, claim)| {
        let devices = claim.devices.into_iter().map(device).collect();
        (uid, if claim.error.is_empty() { Ok(devices) } else { Err(cut(&claim.error).to_owned()) })
    });
    Answer::Claims(claims.collect())
}

fn unprepared(answer: UnprepareResponse) -> Answer {
    let ended = |error: String| {
        if error.is_empty() { Ok(Vec::new()) } else { Err(cut(&error).to_owned()) }
    };
    let claims: BTreeMap<String, ClaimAnswer> =
        answer.claims.into_iter().map(|(uid, claim)| (uid, ended(claim.error))).collect();
    Answer::Claims(claims)
}

/// The method of a call to a service.
pub(crate) fn method(service: &str, call: Call) -> &'static str {
    match (service, call) {
        ("v1.DRAPlugin", Call::Prepare) => proto::PREPARE_V1,
        ("v1.DRAPlugin", Call::Unprepare) => proto::UNPREPARE_V1,
        (_, Call::Prepare) => proto::PREPARE_V1BETA1,
        (_, Call::Unprepare) => proto::UNPREPARE_V1BETA1,
    }
}
