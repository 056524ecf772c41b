//! A guard of the API becomes one of the core.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_eviction::SetGuardStatus;
use lazaret_model::{
    BreakerStatus, DisruptionGuard, Impact, TaintHold, TaintedBy, Text, Timestamp, WindowStatus,
};
use lazaret_runtime::{CallError, DISRUPTION_GUARDS, News, Object};
use serde_json::{Value, json};
use tracing::warn;

/// Why nothing begins where guards cannot be read.
const NOT_READABLE: &str = "DisruptionGuards cannot be read; get, list and watch them must be permitted";

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
                    let guard =
                        Arc::new(lazaret_api::guard_that_stops_everything("unknown".into(), NOT_READABLE));
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
    let guard = lazaret_api::read_guard(object.text());
    guard.map_or_else(
        |why| {
            object.cannot_be_read(
                &why,
                "every device and every pod: no eviction begins while a guard cannot be read",
            );
            let why = format!("it cannot be understood: {why}");
            Arc::new(lazaret_api::guard_that_stops_everything(object.key.name.clone(), &why))
        },
        Arc::new,
    )
}

/// Whether the status of a guard may be written on this one: no other leader has counted a trip since it was decided.
pub(crate) fn may_follow(write: &SetGuardStatus, found: &[u8]) -> bool {
    let Some(breaker) = &write.breaker else { return true };
    let found = core::str::from_utf8(found).ok().map(lazaret_api::read_guard);
    // A status that cannot be read says nothing of a count: it is written over.
    found.and_then(Result::ok).is_none_or(|found| breaker.may_follow(&write.known, &found.status))
}

/// The devices that a guard selects, where its breaker stands, and whether a window is open, as its status. Parts that a guard has not are gone from it.
pub(crate) fn status_body(write: &SetGuardStatus, now: Timestamp) -> Value {
    let preview = &write.preview;
    let mut conditions = vec![understood(write, now)];
    let mut selected = json!({"generation": preview.generation, "devices": preview.devices});
    if let Some(problem) = &preview.problem {
        selected["problem"] = (&**problem).into();
    }
    let mut body = json!({
        "apiVersion": DISRUPTION_GUARDS.api_version(),
        "kind": DISRUPTION_GUARDS.kind,
        "metadata": {"name": &*write.guard, "uid": &*write.uid},
        "status": {"selected": selected},
    });
    if let Some(breaker) = &write.breaker {
        let (breaker, condition) = breaker_status(breaker, write.generation, now);
        body["status"]["breaker"] = breaker;
        conditions.push(condition);
    }
    if let Some(held) = &write.held {
        body["status"]["held"] = held.iter().map(held_taint).collect();
        conditions.push(held_condition(held, write.generation, now));
    }
    body["status"]["conditions"] = conditions.into();
    match write.window {
        None => {}
        Some(WindowStatus::Open) => body["status"]["window"] = json!({"open": true}),
        Some(WindowStatus::ClosedUntil(at)) => {
            body["status"]["window"] = json!({"open": false, "opensAt": lazaret_api::format_time(at)});
        }
    }
    body
}

/// The condition that says whether a guard is understood.
fn understood(write: &SetGuardStatus, now: Timestamp) -> Value {
    let (status, reason, message) = match &write.preview.problem {
        None => ("True", "Understood", format!("{} devices selected", write.preview.devices)),
        Some(problem) => {
            let message = format!(
                "nothing begins on the devices that it may be about: {problem}; correct spec.deviceSelector"
            );
            ("False", "SelectorError", message)
        }
    };
    json!({
        "type": "Understood", "status": status, "reason": reason, "message": message,
        "observedGeneration": write.generation,
        "lastTransitionTime": lazaret_api::format_time(now),
    })
}

/// A taint that is held, or was approved.
fn held_taint(hold: &TaintHold) -> Value {
    let Impact { pods, namespaces, devices } = hold.impact;
    let mut entry = json!({
        "since": lazaret_api::format_time_precise(hold.since),
        "pods": pods, "namespaces": namespaces, "devices": devices,
        "reason": &*hold.reason, "message": &*hold.message,
    });
    match &hold.taint {
        TaintedBy::Patch { name } => entry["patch"] = (&**name).into(),
        TaintedBy::Driver { driver, key, value } => {
            entry["driver"] = (&**driver).into();
            entry["key"] = (&**key).into();
            entry["value"] = (&**value).into();
        }
    }
    entry
}

/// The condition that says which taints evict nobody.
fn held_condition(held: &[TaintHold], generation: i64, now: Timestamp) -> Value {
    let (reason, message) = TaintHold::summary(held);
    let status = if reason == TaintHold::NOT_HELD { "False" } else { "True" };
    json!({
        "type": "Held", "status": status, "reason": reason, "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": lazaret_api::format_time(now),
    })
}

/// Where a breaker stands, and the condition that says so.
fn breaker_status(breaker: &BreakerStatus, generation: i64, now: Timestamp) -> (Value, Value) {
    let BreakerStatus { tripped, exceeded_since, below_since, recent_until, .. } = *breaker;
    let BreakerStatus { out_of_service, permitted, total, recent, trips, .. } = *breaker;
    let (status, reason) = if tripped { ("True", "TooManyOutOfService") } else { ("False", "Permitted") };
    let mut breaker = json!({
        "tripped": tripped, "trips": trips, "outOfService": out_of_service, "permitted": permitted, "total": total,
    });
    if recent > 0 {
        breaker["recent"] = recent.into();
    }
    let times =
        [("exceededSince", exceeded_since), ("belowSince", below_since), ("recentUntil", recent_until)];
    for (field, time) in times {
        if let Some(time) = time {
            breaker[field] = lazaret_api::format_time_precise(time).into();
        }
    }
    let condition = json!({
        "type": "BreakerTripped", "status": status, "reason": reason,
        "message": format!("{out_of_service} of {total} out of service, {permitted} permitted"),
        "observedGeneration": generation,
        "lastTransitionTime": lazaret_api::format_time(now),
    });
    (breaker, condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other leader counted its trip after this one was decided, or it is the same trip.
    #[test]
    fn a_trip_is_written_only_on_the_count_that_it_was_decided_on() {
        let breaker = |trips, tripped| BreakerStatus { trips, tripped, ..BreakerStatus::default() };
        let write = SetGuardStatus {
            guard: "g".into(),
            uid: "u".into(),
            generation: 1,
            breaker: Some(breaker(5, true)),
            known: breaker(4, false),
            window: None,
            preview: lazaret_model::GuardPreview::default(),
            held: None,
        };
        for (trips, tripped, expected) in
            [(4, false, true), (5, true, true), (4, true, false), (5, false, false), (6, true, false)]
        {
            let found = json!({
                "apiVersion": DISRUPTION_GUARDS.api_version(), "kind": DISRUPTION_GUARDS.kind,
                "metadata": {"name": "g", "uid": "u"}, "spec": {},
                "status": {"breaker": {"trips": trips, "tripped": tripped}},
            });
            assert_eq!(may_follow(&write, found.to_string().as_bytes()), expected, "{found}");
        }
    }
}
