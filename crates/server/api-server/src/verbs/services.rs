//! Cluster IPs and node ports of Services that are written.

use lazaret_json::Value;
use lazaret_kinds::{ServiceRefusal, allocate_service};

use crate::{ApiError, call::Call, object, service_pool::Reservation};

/// Gives a Service that is to be written what it needs. The reservation must live until the write has ended.
pub(super) fn allocate<'a>(
    call: &Call<'a>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<Option<Reservation<'a>>, ApiError> {
    if !call.kind.is("", "services") || !call.target.subresource.is_empty() {
        return Ok(None);
    }
    let server = call.server;
    let mut reservation = server
        .service_pool()
        .reserve(server.store(), server.service_ranges())
        .ok_or_else(|| ApiError::internal("the stored Services cannot be read"))?;
    allocate_service(object, old, &mut reservation).map_err(|refusal| match refusal {
        ServiceRefusal::Invalid(errors) => {
            ApiError::invalid(&call.kind, object::meta(object, "name"), &errors)
        }
        ServiceRefusal::Internal(why) => ApiError::internal(why),
    })?;
    Ok(Some(reservation))
}
