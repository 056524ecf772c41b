//! A guard of the API becomes one of the core.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_eviction::SetGuardStatus;
use lazaret_model::{
    Approvers, Breaker, BreakerStatus, BreakerUnit, ConfirmAbove, DeviceSelector, DisruptionGuard, Pause,
    Share, Text, Timestamp,
};
use lazaret_runtime::{Call, CallError, DISRUPTION_GUARDS, News, Object, PatchKind};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::warn;

/// Since when a breaker that was tripped is not, by a person's word.
pub(crate) const RESET: &str = "lazaret.dev/breaker-reset";
/// A breaker is reset after this unless its guard says otherwise; as in the definition.
const RESET_AFTER_SECONDS_DEFAULT: i64 = 300;
/// Why nothing begins where a guard cannot be understood.
const NOT_UNDERSTOOD: &str = "it cannot be understood";
/// Why nothing begins where guards cannot be read.
const NOT_READABLE: &str = "DisruptionGuards cannot be read; get, list and watch them must be permitted";

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

/// All guards that were heard of.
#[derive(Debug, Default)]
pub(crate) struct GuardBook {
    guards: BTreeMap<Text, Arc<DisruptionGuard>>,
    /// The core has not been told.
    pub(crate) is_news: bool,
}

impl GuardBook {
    /// Takes note. Whether it was about guards.
    pub(crate) fn hear(&mut self, news: &News) -> bool {
        match news {
            News::Listed(resource, objects, _) if *resource == DISRUPTION_GUARDS => {
                self.guards = objects.iter().map(|object| (object.key.name.clone(), read(object))).collect();
            }
            News::Set(resource, object) if *resource == DISRUPTION_GUARDS => {
                self.guards.insert(object.key.name.clone(), read(object));
            }
            News::Gone(resource, object) if *resource == DISRUPTION_GUARDS => {
                self.guards.remove(&object.key.name);
            }
            News::Barred(resource, why) if *resource == DISRUPTION_GUARDS => {
                self.guards.clear();
                // Where the kind is not installed there are none. Where they may not be read there may be some.
                if !matches!(**why, CallError::NotFound(_)) {
                    warn!(%why, "DisruptionGuards cannot be read: no eviction begins");
                    let guard = stop_everything("unknown".into(), NOT_READABLE);
                    self.guards.insert(guard.name.clone(), guard);
                }
            }
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => return false,
        }
        self.is_news = true;
        true
    }

    pub(crate) fn all(&self) -> Vec<Arc<DisruptionGuard>> {
        self.guards.values().cloned().collect()
    }
}

/// A guard. One that cannot be understood keeps every eviction from beginning: somebody meant to keep some.
fn read(object: &Object) -> Arc<DisruptionGuard> {
    let guard = serde_json::from_slice::<Wire>(object.json()).ok().and_then(guard);
    guard.map_or_else(
        || {
            warn!(guard = %object.key.name, "a DisruptionGuard cannot be understood: no eviction begins");
            stop_everything(object.key.name.clone(), NOT_UNDERSTOOD)
        },
        Arc::new,
    )
}

/// A guard that keeps every eviction from beginning.
fn stop_everything(name: Text, why: &str) -> Arc<DisruptionGuard> {
    let paused = Some(Pause { reason: why.into(), until: None });
    Arc::new(DisruptionGuard { name, paused, ..DisruptionGuard::default() })
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
        reset_at: metadata.annotations.get(RESET).and_then(|text| lazaret_api::parse_time(text).ok()),
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
    text.map(|text| lazaret_api::parse_time(text).ok()).map_or(Some(None), |time| time.map(Some))
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

/// The call that writes where a breaker stands.
pub(crate) fn status_call(write: &SetGuardStatus, manager: &'static str, now: Timestamp) -> Call {
    let BreakerStatus { tripped, exceeded_since, below_since, out_of_service, permitted, total } =
        write.status;
    let (status, reason) = if tripped { ("True", "TooManyOutOfService") } else { ("False", "Permitted") };
    let since = exceeded_since.filter(|_| tripped).unwrap_or(now);
    let mut body = json!({
        "apiVersion": DISRUPTION_GUARDS.api_version(),
        "kind": DISRUPTION_GUARDS.kind,
        "metadata": {"name": &*write.guard, "uid": &*write.uid},
        "status": {
            "breaker": {
                "tripped": tripped, "outOfService": out_of_service, "permitted": permitted, "total": total,
            },
            "conditions": [{
                "type": "BreakerTripped", "status": status, "reason": reason,
                "message": format!("{out_of_service} of {total} out of service, {permitted} permitted"),
                "observedGeneration": write.generation,
                "lastTransitionTime": lazaret_api::format_time(since),
            }],
        },
    });
    for (field, time) in [("exceededSince", exceeded_since), ("belowSince", below_since)] {
        if let Some(time) = time {
            body["status"]["breaker"][field] = lazaret_api::format_time_precise(time).into();
        }
    }
    let kind = PatchKind::Apply { manager };
    Call::patch(&DISRUPTION_GUARDS, "", &write.guard, "status", kind, body.to_string())
}
