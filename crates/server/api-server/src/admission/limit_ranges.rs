//! Limit ranges: what pods request where they say nothing, and how much pods and claims for volumes may request.

use lazaret_json::Value;
use lazaret_kinds::limit_range;
use lazaret_storage::RangeOptions;

use crate::{ApiError, call::Call, object};

/// Where limit ranges are stored.
const LIMIT_RANGES: &str = "/core/limitranges/";

/// The limit ranges of the namespace. Almost always there are none, so that nothing else is looked at first.
fn ranges(call: &Call<'_>) -> Vec<Value> {
    let store = call.store();
    if store.count_in(LIMIT_RANGES.as_bytes()) == 0 {
        return Vec::new();
    }
    let prefix = [LIMIT_RANGES, call.target.namespace.as_str(), "/"].concat();
    let items =
        store.range(prefix.as_bytes(), &RangeOptions::default()).map(|range| range.items).unwrap_or_default();
    items.iter().map(|item| call.server.object_cache().get(item)).collect()
}

/// Gives containers of a new pod the requests and limits that they do not have.
pub(super) fn default_pod(call: &Call<'_>, pod: &mut Value) {
    ranges(call).iter().for_each(|range| limit_range::default_pod(range, pod));
}

/// Whether a pod or a claim for a volume keeps to the limits.
pub(super) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let Some(check) = limit_range::check_for(&call.kind, &call.target.subresource, old.is_none()) else {
        return Ok(());
    };
    if old.is_some_and(object::is_deleting) {
        return Ok(());
    }
    ranges(call)
        .iter()
        .try_for_each(|range| check(range, new).map_err(|why| ApiError::forbidden(&call.kind, name, &why)))
}
