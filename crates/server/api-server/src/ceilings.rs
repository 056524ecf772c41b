//! Whether a write stays below the limits of the server.
//!
//! Counting costs nothing that grows with what is stored. Writes in flight when a limit is reached may still go through.

use lazaret_kinds::Ceiling;
use lazaret_storage::Value;

use crate::{
    ApiError, audit,
    call::Call,
    limits::{Limits, stored_bytes},
};

/// The part of a limit by which writes that keep a cluster going may exceed it.
const RESERVE_DIVISOR: u64 = 8;

const EVENTS: &str = "/core/events/";

// DEVIATION(quota-limits): every write in a namespace is held against all of them.
/// Quotas, and limit ranges, that a namespace has at most.
const NAMESPACE_RULES_MAX: usize = 64;

/// Whether one more object may be made.
pub(crate) fn may_create(call: &Call<'_>, name: &str) -> Result<(), ApiError> {
    let (store, limits) = (call.store(), call.server.limits());
    let refuse = |why: String| Err(ApiError::forbidden(&call.kind, name, &why));
    let totals = store.totals();
    let bytes_max = bytes_max(call, limits);
    if totals.bytes >= bytes_max {
        return refuse(format!(
            "exceeded limit: objects take {} bytes of {bytes_max} (--store-bytes-max)",
            totals.bytes
        ));
    }
    let ceiling = call.kind.rules.ceiling();
    if ceiling == Some(Ceiling::Events) {
        let events = store.count_in(EVENTS.as_bytes());
        if events >= limits.events_max {
            return refuse(format!(
                "exceeded limit: there are {events} events of {} (--events-max)",
                limits.events_max
            ));
        }
        return Ok(());
    }
    let objects_max = with_reserve(call, limits.objects_max as u64);
    // Events and records do not count; how many there are matters only near the limit.
    if totals.items as u64 >= objects_max {
        let others = store.count_in(EVENTS.as_bytes()) + audit::records_in(store);
        let objects = totals.items.saturating_sub(others);
        if objects as u64 >= objects_max {
            return refuse(format!(
                "exceeded limit: there are {objects} objects of {objects_max} (--objects-max)"
            ));
        }
    }
    let (plural, namespace) = (&call.kind.plural, &call.target.namespace);
    let (most, place) = match ceiling {
        Some(Ceiling::CertificateRequests) => {
            (limits.certificate_requests_max, " (--certificate-requests-max)".to_owned())
        }
        Some(Ceiling::NamespaceRules) => (NAMESPACE_RULES_MAX, format!(" in namespace {namespace:?}")),
        Some(Ceiling::NamespacePods) => {
            (limits.namespace_pods_max, format!(" in namespace {namespace:?} (--namespace-pods-max)"))
        }
        Some(Ceiling::Events) | None => return Ok(()),
    };
    let found = store.count_in(call.key("").as_bytes());
    if found >= most {
        return refuse(format!("exceeded limit: there are {found} {plural} of {most}{place}"));
    }
    Ok(())
}

/// Whether an object may grow.
pub(crate) fn may_grow(call: &Call<'_>, name: &str, before: usize, value: &Value) -> Result<(), ApiError> {
    if stored_bytes(value) <= before {
        return Ok(());
    }
    let (bytes, bytes_max) = (call.store().totals().bytes, bytes_max(call, call.server.limits()));
    if bytes >= bytes_max {
        let why = format!("exceeded limit: objects take {bytes} bytes of {bytes_max} (--store-bytes-max)");
        return Err(ApiError::forbidden(&call.kind, name, &why));
    }
    Ok(())
}

fn bytes_max(call: &Call<'_>, limits: &Limits) -> u64 {
    with_reserve(call, limits.store_bytes_max)
}

fn with_reserve(call: &Call<'_>, most: u64) -> u64 {
    let may_exceed = !call.target.subresource.is_empty() || call.kind.rules.may_exceed_limits();
    if may_exceed { most.saturating_add(most / RESERVE_DIVISOR) } else { most }
}
