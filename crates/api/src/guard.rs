//! A DisruptionGuard as it is written becomes one of the cores.

use std::collections::BTreeMap;

use crate::{
    decode::{parse_quietly, read_quietly},
    fields,
    time::parse_time,
    wire::{self, Nullable, Raw},
    zones,
};
use lazaret_model::{
    Approvers, Breaker, BreakerStatus, BreakerUnit, ConfirmAbove, DeviceSelector, DisruptionGuard, Pause,
    Share, Text, Timestamp, WindowStatus, validate_qualified_name,
};

/// Since when a breaker that was tripped is not, by a person's word.
const RESET: &str = "lazaret.dev/breaker-reset";
/// A breaker is reset after this unless its guard says otherwise; as in the definition.
const RESET_AFTER_SECONDS_DEFAULT: i64 = 300;

/// A guard; `None`: it cannot be understood.
#[must_use]
pub fn read_guard(json: &[u8]) -> Option<DisruptionGuard> {
    guard(read_quietly(json)?)
}

fields! {
    struct Wire {
        metadata: Option<Metadata> = "metadata",
        spec: Nullable<Spec> = "spec",
        status: Nullable<Status> = "status",
    }

    struct Metadata {
        name: Nullable<String> = "name",
        uid: Nullable<String> = "uid",
        generation: Nullable<i64> = "generation",
        annotations: Nullable<BTreeMap<String, Nullable<String>>> = "annotations",
    }

    struct Spec {
        device_selector: Option<wire::DeviceSelector> = "deviceSelector",
        paused: Option<WirePause> = "paused",
        breaker: Option<WireBreaker> = "breaker",
        windows: Nullable<Vec<wire::Window>> = "windows",
        confirm_above: Option<WireConfirm> = "confirmAbove",
        approvers: Nullable<String> = "approvers",
    }

    struct WirePause {
        reason: Option<String> = "reason",
        until: Option<String> = "until",
    }

    struct WireBreaker {
        max_out_of_service: Option<Raw> = "maxOutOfService",
        of: Nullable<String> = "of",
        fault_domain_attribute: Option<String> = "faultDomainAttribute",
        window_seconds: Option<i64> = "windowSeconds",
        reset_after_seconds: Option<i64> = "resetAfterSeconds",
    }

    struct WireConfirm {
        pods: Option<u64> = "pods",
        namespaces: Option<u64> = "namespaces",
        devices: Option<Raw> = "devices",
    }

    struct Status {
        breaker: Nullable<WireStatus> = "breaker",
        window: Option<WireWindowStatus> = "window",
    }

    struct WireWindowStatus {
        open: Nullable<bool> = "open",
        opens_at: Option<String> = "opensAt",
    }

    struct WireStatus {
        tripped: Nullable<bool> = "tripped",
        out_of_service: Nullable<u64> = "outOfService",
        permitted: Nullable<u64> = "permitted",
        total: Nullable<u64> = "total",
        exceeded_since: Option<String> = "exceededSince",
        below_since: Option<String> = "belowSince",
        recent: Nullable<u64> = "recent",
        recent_until: Option<String> = "recentUntil",
    }
}

fn guard(wire: Wire) -> Option<DisruptionGuard> {
    let (metadata, spec, status) = (wire.metadata?, wire.spec.0, wire.status.0);
    let (window_status, status) = (window_status(status.window)?, status.breaker.0);
    let paused = match spec.paused {
        None => None,
        Some(WirePause { reason, until }) => {
            Some(Pause { reason: reason?.into(), until: time(until.as_deref())? })
        }
    };
    let breaker = match spec.breaker {
        None => None,
        Some(breaker) => Some(Breaker {
            max_out_of_service: share(&breaker.max_out_of_service?)?,
            of: match (breaker.of.0.as_str(), breaker.fault_domain_attribute) {
                ("" | "Devices", None) => BreakerUnit::Devices,
                ("Nodes", None) => BreakerUnit::Nodes,
                ("FaultDomains", Some(attribute)) if validate_qualified_name(&attribute).is_ok() => {
                    BreakerUnit::FaultDomains { attribute: attribute.into() }
                }
                _ => return None,
            },
            window_seconds: breaker.window_seconds.unwrap_or(0),
            reset_after_seconds: breaker.reset_after_seconds.unwrap_or(RESET_AFTER_SECONDS_DEFAULT),
        }),
    };
    let window = |one: wire::Window| zones::window(&one.start.0, &one.duration.0, &one.time_zone.0).ok();
    let windows = spec.windows.0.into_iter().map(window).collect::<Option<_>>()?;
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
    let approvers = match spec.approvers.0.as_str() {
        "" | "Anyone" => Approvers::Anyone,
        "Different" => Approvers::Different,
        _ => return None,
    };
    let selector = match spec.device_selector {
        None => None,
        Some(wire) => Some(selector(wire)?),
    };
    Some(DisruptionGuard {
        name: metadata.name.0.into(),
        uid: metadata.uid.0.into(),
        generation: metadata.generation.0,
        selector,
        paused,
        breaker,
        windows,
        confirm_above,
        approvers,
        // An annotation that is no instant resets nothing.
        reset_at: metadata.annotations.0.get(RESET).and_then(|text| parse_time(&text.0).ok()),
        status: BreakerStatus {
            tripped: status.tripped.0,
            exceeded_since: time(status.exceeded_since.as_deref())?,
            below_since: time(status.below_since.as_deref())?,
            out_of_service: status.out_of_service.0,
            permitted: status.permitted.0,
            total: status.total.0,
            recent: status.recent.0,
            recent_until: time(status.recent_until.as_deref())?,
        },
        window_status,
    })
}

/// `None`: an expression is missing.
fn selector(wire: wire::DeviceSelector) -> Option<DeviceSelector> {
    let text = |text: Option<String>| text.map(Text::from);
    let expression = |one: wire::Selector| Some(one.cel?.expression.0).filter(|text| !text.is_empty());
    Some(DeviceSelector {
        class: text(wire.device_class_name),
        driver: text(wire.driver),
        pool: text(wire.pool),
        device: text(wire.device),
        cel: wire.selectors.0.into_iter().map(|one| text(expression(one))).collect::<Option<_>>()?,
    })
}

/// Whether a window is open, if the status says so; `None`: it cannot be understood.
fn window_status(said: Option<WireWindowStatus>) -> Option<Option<WindowStatus>> {
    let Some(WireWindowStatus { open, opens_at }) = said else { return Some(None) };
    let opens_at = time(opens_at.as_deref())?;
    let closed = opens_at.filter(|_| !open.0).map(WindowStatus::ClosedUntil);
    Some(closed.or(open.0.then_some(WindowStatus::Open)))
}

/// An instant, if there is one; `None`: what is there is none.
fn time(text: Option<&str>) -> Option<Option<Timestamp>> {
    text.map(|text| parse_time(text).ok()).map_or(Some(None), |time| time.map(Some))
}

/// A number, or a part of the whole as in `20%`.
fn share(value: &Raw) -> Option<Share> {
    let text = value.0.get();
    if !text.starts_with('"') {
        return text.parse().ok().map(Share::Count);
    }
    let percent: u64 = parse_quietly::<String>(text)?.strip_suffix('%')?.parse().ok()?;
    (percent <= 100).then_some(Share::Percent(percent))
}
