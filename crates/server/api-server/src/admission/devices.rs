//! Devices are allocated once: checked right before the write of a claim, and reserved until its outcome is known.

use std::sync::Arc;

use lazaret_holdings::Refusal;
use lazaret_json::Value;
use lazaret_model::ObjectKey;

use super::{
    AdmissionPlugin,
    device_facts::{given, results},
    device_holdings::{Giving, ReservedDevices},
};
use crate::{
    ApiError,
    call::{Call, Write},
};

// DEVIATION(devices-once): kube-apiserver stores any allocation, also of a device that another claim has.
/// Reserves the devices that a write gives to a claim; `None`: it gives none.
pub(super) fn reserve(call: &Call<'_>, write: Write<'_>) -> Result<Option<Arc<ReservedDevices>>, ApiError> {
    let Some(giving) = giving(call, write) else { return Ok(None) };
    let reserved = call.server.device_holdings().reserve(call.server.stored(), giving);
    reserved.map(Some).map_err(|refusal| conflict(call, write, &refusal))
}

/// Whether the devices that a write gives, which is only tried, are free.
pub(super) fn check(call: &Call<'_>, write: Write<'_>) -> Result<(), ApiError> {
    let Some(giving) = giving(call, write) else { return Ok(()) };
    let free = call.server.device_holdings().check(call.server.stored(), &giving);
    free.map_err(|refusal| conflict(call, write, &refusal))
}

/// `None` for almost every write: it gives no device that its claim does not have.
fn giving(call: &Call<'_>, write: Write<'_>) -> Option<Giving> {
    let is_claim = call.kind.is("resource.k8s.io", "resourceclaims");
    if !is_claim || !call.server.runs_plugin(AdmissionPlugin::DevicesOnce) {
        return None;
    }
    let (wanted, before) = (results(write.new?), write.old.map_or(&Value::Null, results));
    if wanted.is_null() || wanted.is(before) || wanted == before {
        return None;
    }
    let (wanted, before) = (given(wanted), given(before));
    let claim = ObjectKey::new(call.target.namespace.as_str(), write.name);
    wanted.iter().any(|one| !before.contains(one)).then_some(Giving { claim, before, wanted })
}

fn conflict(call: &Call<'_>, write: Write<'_>, refusal: &Refusal) -> ApiError {
    ApiError::conflict(&call.kind, write.name, &refusal.to_string())
}
