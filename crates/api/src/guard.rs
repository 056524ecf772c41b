//! A DisruptionGuard as it is written becomes one of the cores.

use std::collections::BTreeMap;

use lazaret_model::{
    Approvers, Breaker, BreakerStatus, BreakerUnit, ConfirmAbove, DeviceSelector, DisruptionGuard, Pause,
    Share, Text, Timestamp,
};
use serde::Deserialize;
use serde_json::Value;

use crate::time::parse_time;

/// Since when a breaker that was tripped is not, by a person's word.
const RESET: &str = "lazaret.dev/breaker-reset";
/// A breaker is reset after this unless its guard says otherwise; as in the definition.
const RESET_AFTER_SECONDS_DEFAULT: i64 = 300;

/// A guard; `None`: it cannot be understood.
#[must_use]
pub fn read_guard(json: &[u8]) -> Option<DisruptionGuard> {
    serde_json::from_slice::<Wire>(json).ok().and_then(guard)
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Metadata {
    name: String,
    uid: String,
    generation: i64,
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    device_selector: Option<Selector>,
    paused: Option<WirePause>,
    breaker: Option<WireBreaker>,
    confirm_above: Option<WireConfirm>,
    approvers: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Selector {
    device_class_name: Option<String>,
    driver: Option<String>,
    pool: Option<String>,
    device: Option<String>,
    selectors: Vec<Expression>,
}

#[derive(Deserialize)]
struct Expression {
    cel: Cel,
}

#[derive(Deserialize)]
struct Cel {
    expression: String,
}

#[derive(Deserialize)]
struct WirePause {
    reason: String,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBreaker {
    max_out_of_service: Value,
    #[serde(default)]
    of: String,
    reset_after_seconds: Option<i64>,
}

#[derive(Deserialize)]
struct WireConfirm {
    pods: Option<u64>,
    namespaces: Option<u64>,
    devices: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    breaker: WireStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireStatus {
    tripped: bool,
    out_of_service: u64,
    permitted: u64,
    total: u64,
    exceeded_since: Option<String>,
    below_since: Option<String>,
}

fn guard(wire: Wire) -> Option<DisruptionGuard> {
    let Wire { metadata, spec, status } = wire;
    let paused = match spec.paused {
        None => None,
        Some(WirePause { reason, until }) => {
            Some(Pause { reason: reason.into(), until: time(until.as_deref())? })
        }
    };
    let breaker = match spec.breaker {
        None => None,
        Some(breaker) => Some(Breaker {
            max_out_of_service: share(&breaker.max_out_of_service)?,
            of: match breaker.of.as_str() {
                "" | "Devices" => BreakerUnit::Devices,
                "Nodes" => BreakerUnit::Nodes,
                _ => return None,
            },
            reset_after_seconds: breaker.reset_after_seconds.unwrap_or(RESET_AFTER_SECONDS_DEFAULT),
        }),
    };
    let confirm_above = match spec.confirm_above {
        None => None,
        Some(WireConfirm { pods, namespaces, devices }) => {
            let devices = match devices {
                None => None,
                Some(devices) => Some(share(&devices)?),
            };
            Some(ConfirmAbove { pods, namespaces, devices })
        }
    };
    let approvers = match spec.approvers.as_deref() {
        None | Some("" | "Anyone") => Approvers::Anyone,
        Some("Different") => Approvers::Different,
        Some(_) => return None,
    };
    let text = |text: Option<String>| text.map(Text::from);
    Some(DisruptionGuard {
        name: metadata.name.into(),
        uid: metadata.uid.into(),
        generation: metadata.generation,
        selector: spec.device_selector.map(|selector| DeviceSelector {
            class: text(selector.device_class_name),
            driver: text(selector.driver),
            pool: text(selector.pool),
            device: text(selector.device),
            cel: selector.selectors.into_iter().map(|one| one.cel.expression.into()).collect(),
        }),
        paused,
        breaker,
        confirm_above,
        approvers,
        // An annotation that is no instant resets nothing.
        reset_at: metadata.annotations.get(RESET).and_then(|text| parse_time(text).ok()),
        status: BreakerStatus {
            tripped: status.breaker.tripped,
            exceeded_since: time(status.breaker.exceeded_since.as_deref())?,
            below_since: time(status.breaker.below_since.as_deref())?,
            out_of_service: status.breaker.out_of_service,
            permitted: status.breaker.permitted,
            total: status.breaker.total,
        },
    })
}

/// An instant, if there is one; `None`: what is there is none.
fn time(text: Option<&str>) -> Option<Option<Timestamp>> {
    text.map(|text| parse_time(text).ok()).map_or(Some(None), |time| time.map(Some))
}

fn share(value: &Value) -> Option<Share> {
    match value {
        Value::Number(number) => number.as_u64().map(Share::Count),
        Value::String(text) => {
            let percent: u64 = text.strip_suffix('%')?.parse().ok()?;
            (percent <= 100).then_some(Share::Percent(percent))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
