//! Looks at the devices again and again, and tells kubelet.

use std::{sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt};
use lazaret_publisher::{DeviceKey, DeviceState, Status as DeviceStatus};
use tokio::sync::watch;
use tonic::Status;
use tracing::warn;

use crate::{
    Driver, HealthReport,
    clock::Clock,
    grpc::closed,
    inventory::{Inventory, Report},
    proto::{DeviceHealth, DeviceIdentifier, HealthStatus, WatchResponse},
    running::{Problem, Problems},
};

/// How long what was seen counts, in intervals: two looks may be missed.
const TIMEOUT_INTERVALS: u32 = 3;
/// The shortest time for which what was seen counts. Kubelet counts in seconds.
const TIMEOUT_MIN: Duration = Duration::from_secs(5);

/// Devices of one message. With the longest names and messages that is a third of what kubelet takes.
const DEVICES_PER_MESSAGE_MAX: usize = 1024;

/// How long kubelet believes a report.
pub(crate) fn timeout(interval: Duration) -> Duration {
    (interval * TIMEOUT_INTERVALS).max(TIMEOUT_MIN)
}

/// Looks, forever. A driver that does not return is reported once, and again once it did.
pub(crate) async fn monitor<D: Driver>(
    driver: Arc<D>,
    inventory: Arc<Inventory>,
    clock: Clock,
    interval: Duration,
    problems: Problems,
) {
    let stale = timeout(interval);
    loop {
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = inventory.look_wanted.notified() => {}
        }
        let number = inventory.begin_look();
        let look = driver.health();
        tokio::pin!(look);
        let report = match tokio::time::timeout(stale, &mut look).await {
            Ok(report) => report,
            Err(_) => {
                warn!(
                    seconds = stale.as_secs(),
                    "health() does not return; kubelet shows the devices as unknown"
                );
                problems.report(Problem::StaleHealth);
                look.await
            }
        };
        if let HealthReport::Observed(observations) = report {
            inventory.observe(clock.now(), number, &observations);
        }
    }
}

/// The stream to kubelet: each report, as it comes.
pub(crate) fn stream(
    reports: watch::Receiver<Option<Report>>,
    closing: watch::Receiver<bool>,
    timeout: Duration,
) -> impl Stream<Item = Result<WatchResponse, Status>> + Send + 'static {
    let changes =
        futures_util::stream::unfold((reports, closing), move |(mut reports, mut closing)| async move {
            loop {
                tokio::select! {
                    changed = reports.changed() => changed.ok()?,
                    () = closed(&mut closing) => return None,
                }
                let report = reports.borrow_and_update().clone();
                if let Some(report) = report {
                    return Some((messages(&report, timeout), (reports, closing)));
                }
            }
        });
    changes.flat_map(|messages| futures_util::stream::iter(messages.into_iter().map(Ok)))
}

/// A report in parts that kubelet takes. It merges what it gets.
fn messages(report: &Report, timeout: Duration) -> Vec<WatchResponse> {
    let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
    let device = |(device, status): &(DeviceKey, DeviceStatus)| DeviceHealth {
        device: Some(DeviceIdentifier { pool_name: device.pool.clone(), device_name: device.device.clone() }),
        health: match status.state {
            DeviceState::Healthy => HealthStatus::Healthy,
            DeviceState::Unhealthy => HealthStatus::Unhealthy,
            DeviceState::Unknown => HealthStatus::Unknown,
        }
        .into(),
        last_updated_time: report.at.as_secs(),
        health_check_timeout_seconds: seconds,
        message: status.message.clone(),
    };
    let parts = report.devices.chunks(DEVICES_PER_MESSAGE_MAX);
    parts.map(|part| WatchResponse { devices: part.iter().map(device).collect() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_model::Timestamp;
    use prost::Message;

    #[test]
    fn the_largest_report_comes_in_parts_that_kubelet_takes() {
        let key = |number: usize| DeviceKey { pool: "p".repeat(253), device: format!("{number:063}") };
        let status = || DeviceStatus { state: DeviceState::Unhealthy, message: "x".repeat(1024) };
        let devices = (0..lazaret_publisher::DEVICES_MAX).map(|number| (key(number), status())).collect();
        let parts = messages(&Report { at: Timestamp::EPOCH, devices }, Duration::from_secs(15));
        assert_eq!(parts.len(), 16);
        assert!(parts.iter().all(|part| part.encoded_len() < crate::grpc::MESSAGE_BYTES_MAX));
    }
}
