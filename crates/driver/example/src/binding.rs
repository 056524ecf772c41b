//! Makes devices ready for claims whose pods wait for it: sets the binding conditions that the devices have.

use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::{
    api::resource::v1::{AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim},
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use tracing::{debug, info};

use crate::{
    clock,
    unit::{NOT_READY, READY},
};

/// After a list or watch that failed.
const PAUSE: Duration = Duration::from_secs(1);
/// Claims of one page of a list.
const PAGE: u32 = 500;
/// A watch is opened anew after this.
const WATCH_SECONDS: u32 = 290;

/// Without a word for longer than a watch lasts, it is lost.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 30);

/// The outcome of making a device ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ready,
    Failed(String),
}

/// Whose devices, and how they are made ready.
pub(crate) struct Binder<F> {
    pub(crate) client: kube::Client,
    pub(crate) driver: String,
    pub(crate) pool: String,
    /// Makes the devices of one claim ready; may take as long as it wants.
    pub(crate) make_ready: F,
}

impl<F, A> Binder<F>
where
    F: Fn() -> A + Send + Sync,
    A: Future<Output = Outcome> + Send,
{
    /// Looks at all claims, again and again. Never ends.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.follow().await {
                debug!(%error, "the watch of claims ended");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow(&self) -> Result<(), kube::Error> {
        let api: Api<ResourceClaim> = Api::all(self.client.clone());
        let mut params = ListParams::default().limit(PAGE);
        let version = loop {
            let page = api.list(&params).await?;
            for claim in &page.items {
                self.look(claim).await?;
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => break page.metadata.resource_version.unwrap_or_default(),
            }
        };
        let events = api.watch(&WatchParams::default().timeout(WATCH_SECONDS), &version).await?;
        tokio::pin!(events);
        while let Ok(Some(event)) = tokio::time::timeout(SILENCE_MAX, events.next()).await {
            match event? {
                WatchEvent::Added(claim) | WatchEvent::Modified(claim) => self.look(&claim).await?,
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(_) => return Ok(()),
            }
        }
        Ok(())
    }

    async fn look(&self, claim: &ResourceClaim) -> Result<(), kube::Error> {
        if waiting(claim, &self.driver, &self.pool).is_empty() {
            return Ok(());
        }
        let outcome = (self.make_ready)().await;
        let (namespace, name) = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let mut answered = claim.clone();
        answer(&mut answered, &self.driver, &self.pool, &outcome);
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &namespace);
        // A claim that has changed meanwhile is read again with all others.
        api.replace_status(&name, &PostParams::default(), &answered).await?;
        info!(namespace, name, ?outcome, "devices of a claim were made ready");
        Ok(())
    }
}

/// The devices of a claim that have to be made ready by this driver, and were not yet.
fn waiting<'a>(claim: &'a ResourceClaim, driver: &str, pool: &str) -> Vec<&'a DeviceRequestAllocationResult> {
    let status = claim.status.as_ref();
    let results = status
        .and_then(|status| status.allocation.as_ref()?.devices.as_ref()?.results.as_deref())
        .unwrap_or_default();
    let known = status.and_then(|status| status.devices.as_deref()).unwrap_or_default();
    let is_answered = |result: &DeviceRequestAllocationResult| {
        known.iter().any(|device| {
            is_same(device, result)
                && device.conditions.iter().flatten().any(|condition| {
                    [READY, NOT_READY].iter().any(|word| condition.type_ == format!("{driver}/{word}"))
                })
        })
    };
    let ours = results.iter().filter(|result| result.driver == driver && result.pool == pool);
    let binding =
        ours.filter(|result| result.binding_conditions.as_ref().is_some_and(|list| !list.is_empty()));
    binding.filter(|result| !is_answered(result)).collect()
}

fn is_same(device: &AllocatedDeviceStatus, result: &DeviceRequestAllocationResult) -> bool {
    device.driver == result.driver
        && device.pool == result.pool
        && device.device == result.device
        && device.share_id == result.share_id
}

/// Adds a condition to each device of a claim that waits for it.
fn answer(claim: &mut ResourceClaim, driver: &str, pool: &str, outcome: &Outcome) {
    let waiting: Vec<DeviceRequestAllocationResult> =
        waiting(claim, driver, pool).into_iter().cloned().collect();
    let (word, message) = match outcome {
        Outcome::Ready => (READY, "the device was programmed"),
        Outcome::Failed(why) => (NOT_READY, why.as_str()),
    };
    let Some(status) = &mut claim.status else { return };
    let devices = status.devices.get_or_insert_default();
    for result in waiting {
        let condition = Condition {
            type_: format!("{driver}/{word}"),
            status: "True".into(),
            reason: "Example".into(),
            message: message.into(),
            last_transition_time: Time(clock::now()),
            observed_generation: None,
        };
        if let Some(device) = devices.iter_mut().find(|device| is_same(device, &result)) {
            device.conditions.get_or_insert_default().push(condition);
            continue;
        }
        devices.push(AllocatedDeviceStatus {
            driver: result.driver,
            pool: result.pool,
            device: result.device,
            share_id: result.share_id,
            conditions: Some(vec![condition]),
            ..AllocatedDeviceStatus::default()
        });
    }
}
