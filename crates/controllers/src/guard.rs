//! A guard of the API becomes one of the core.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_eviction::SetGuardStatus;
use lazaret_model::{BreakerStatus, DisruptionGuard, Pause, Text, Timestamp};
use lazaret_runtime::{Call, CallError, DISRUPTION_GUARDS, News, Object, PatchKind};
use serde_json::json;
use tracing::warn;

/// Why nothing begins where a guard cannot be understood.
const NOT_UNDERSTOOD: &str = "it cannot be understood";
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
    let guard = lazaret_api::read_guard(object.json());
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
