//! The limits of a server: the size of an object, the number of objects, and their bytes together.

use lazaret_json::Value as Json;
use lazaret_storage::{Action, Op, Storage, TxnError, TxnInvalid, Value};

use crate::{ApiError, object};

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
    /// Requests for certificates. A node makes one every few months, and they are deleted after a day at most; a client with a bootstrap
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

/// Refuses objects that are too large, whatever their writer: all writes pass here. One that was larger before may shrink.
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
pub(crate) fn stored_bytes(value: &Value) -> usize {
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
