//! Devices that have to be made ready before a pod is bound.

use alloc::{format, string::String};

use lazaret_model::{Allocation, DeviceResult, Timestamp};

use crate::Claim;

/// How far the devices of a claim are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Nothing to wait for.
    Ready,
    /// They may take until then.
    Waiting { until: Timestamp },
    /// They will not get ready, for this reason.
    Failed(String),
}

/// How far the devices of a claim are at `now`. Device statuses are matched by device, whatever the share.
pub(crate) fn readiness(claim: &Claim, allocation: &Allocation, now: Timestamp, timeout_s: i64) -> Readiness {
    let mut ready = true;
    for result in allocation.results.iter().filter(|result| !result.binding_conditions.is_empty()) {
        if let Some(condition) = result.binding_failure_conditions.iter().find(|c| is_true(claim, result, c))
        {
            let device = &result.device;
            return Readiness::Failed(format!("device {device} could not be made ready: {condition}"));
        }
        ready &= result.binding_conditions.iter().all(|condition| is_true(claim, result, condition));
    }
    if ready {
        return Readiness::Ready;
    }
    let until = allocation.timestamp.unwrap_or(now).plus_secs(timeout_s);
    if until <= now {
        return Readiness::Failed(format!(
            "device binding timeout: its devices were not ready after {timeout_s} s"
        ));
    }
    Readiness::Waiting { until }
}

fn is_true(claim: &Claim, result: &DeviceResult, condition: &str) -> bool {
    let mut statuses = claim.devices.iter().filter(|status| status.device == result.device);
    statuses.any(|status| status.is_true.iter().any(|known| *known == *condition))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use lazaret_model::{DeviceId, Text};

    use super::*;
    use crate::DeviceStatus;

    #[test]
    fn conditions_decide_until_time_is_over() {
        let device = DeviceId::new("d", "p", "x");
        let allocation = |set: Option<i64>| Allocation {
            results: vec![DeviceResult {
                request: "r".into(),
                device: device.clone(),
                admin_access: false,
                tolerations: vec![],
                binding_conditions: vec!["Ready".into(), "Attached".into()],
                binding_failure_conditions: vec!["Broken".into()],
                share_id: None,
                consumed_capacity: vec![],
                skip_node_operations: vec![],
            }],
            timestamp: set.map(Timestamp::from_secs),
            ..Allocation::default()
        };
        let now = Timestamp::from_secs(1_000);
        let waiting = |until| Readiness::Waiting { until: Timestamp::from_secs(until) };
        for (is_true, set, expected) in [
            (vec![], Some(900), waiting(1_500)),
            (vec![], None, waiting(1_600)),
            (vec!["Ready"], Some(900), waiting(1_500)),
            (vec!["Ready", "Attached"], Some(0), Readiness::Ready),
            (
                vec!["Ready"],
                Some(400),
                Readiness::Failed("device binding timeout: its devices were not ready after 600 s".into()),
            ),
            (
                vec!["Ready", "Attached", "Broken"],
                Some(900),
                Readiness::Failed("device d/p/x could not be made ready: Broken".into()),
            ),
        ] {
            let status = DeviceStatus {
                device: device.clone(),
                is_true: is_true.iter().map(|name| Text::from(*name)).collect(),
            };
            let claim = Claim { devices: vec![status], ..Claim::default() };
            assert_eq!(readiness(&claim, &allocation(set), now, 600), expected, "{is_true:?} {set:?}");
        }
    }
}
