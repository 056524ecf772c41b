//! What a server holds at most: how large an object is, how many there are, and what they weigh together.
//!
//! Counting costs nothing that grows with what is stored. Writes that were under way when a limit was reached may still go through.

use lazaret_json::Value as Json;
use lazaret_kinds::Ceiling;
use lazaret_storage::{Action, Op, Storage, TxnError, TxnInvalid, Value};

use crate::{ApiError, audit, call::Call, object};

// DEVIATION(ceilings): without a quota there is a limit all the same.
/// Ceilings of what is stored. Deletes always pass; leases, events and every write that is not of a whole object go on a little longer than
/// the rest, so that a cluster at its limit still works and can be cleaned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Objects, events not counted. About 3 KB of memory each without controllers: half a million small ones take 1.5 GB.
    pub objects_max: usize,
    /// Bytes of all objects, events included.
    pub store_bytes_max: u64,
    /// Pods in one namespace. With controllers and a scheduler about 25 KB of memory each.
    pub namespace_pods_max: usize,
    /// Events, which are forgotten after a while and must not fill the store until then.
    pub events_max: usize,
    /// Requests for certificates. A node makes one every few months, and they are deleted after a day at most; whoever holds a bootstrap
    /// token may make any number.
    pub certificate_requests_max: usize,
    /// Bytes of the record of what was decided about devices, of each kind that is recorded. The oldest records go first.
    pub audit_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            objects_max: 500_000,
            store_bytes_max: 2 << 30,
            namespace_pods_max: 60_000,
            events_max: 100_000,
            certificate_requests_max: 10_000,
            audit_bytes_max: 4 << 20,
        }
    }
}

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

/// Refuses objects that are too large, whoever writes them: all that is stored comes by here. One that was larger before may shrink.
pub(crate) fn check_sizes(store: &dyn Storage, ops: &[Op], bytes_max: usize) -> Result<(), TxnError> {
    for op in ops {
        let Action::Put(value) = &op.action else { continue };
        let bytes = stored_bytes(value);
        if bytes > bytes_max && store.get(&op.key).is_none_or(|item| item.value.len() < bytes) {
            return Err(TxnError::Invalid(TxnInvalid::TooLarge { bytes, max: bytes_max }));
        }
    }
    Ok(())
}

/// The stored form of an object. A record of owners that makes an object too large is left out where the server made it, as Kubernetes
/// does; one that a client applied stays, and the object is refused.
pub(crate) fn encode_fitting(object: &mut Json, record_is_ours: bool) -> Result<Value, ApiError> {
    let encoded = object::encode(object);
    let fits = encoded.as_ref().is_ok_and(|value| stored_bytes(value) <= object::OBJECT_BYTES_MAX);
    if fits || !record_is_ours || object::meta_mut(object).remove("managedFields").is_none() {
        return Ok(encoded?);
    }
    Ok(object::encode(object)?)
}

/// How large a value is in the store, but for some digits of its revision.
fn stored_bytes(value: &Value) -> usize {
    match value {
        Value::Plain(bytes) => bytes.len(),
        Value::Stamped { before, after } => before.len() + after.len(),
    }
}

impl From<object::TooLarge> for ApiError {
    fn from(_: object::TooLarge) -> Self {
        object_too_large()
    }
}

/// The answer to an object that the store does not take.
pub(crate) fn object_too_large() -> ApiError {
    ApiError::too_large(format!(
        "Request entity too large: limit is {} bytes for an object with its defaults and managedFields",
        object::OBJECT_BYTES_MAX
    ))
}
