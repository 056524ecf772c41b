//! Resizes: a pod is not given more than its node has, or what its node cannot do.

use lazaret_json::Value;
use lazaret_kinds::{ResizeRefusal, check_resize};

use crate::{ApiError, call::Call};

/// Whether the node of a pod can do what a resize asks for.
pub(super) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let is_resize = call.target.subresource == "resize" && call.kind.is("", "pods");
    let Some(old) = old.filter(|old| is_resize && old["spec"] != new["spec"]) else { return Ok(()) };
    let on = new["spec"]["nodeName"].as_str().unwrap_or_default();
    if on.is_empty() {
        return Ok(());
    }
    let node = lazaret_kinds::find("", "nodes").and_then(|nodes| call.server.get(nodes, "", on));
    let checked = match &node {
        Some(node) => check_resize(new, old, node),
        None => Err(ResizeRefusal::no_node(on)),
    };
    checked.map_err(|ResizeRefusal { why, cause }| {
        let refusal = ApiError::forbidden(&call.kind, name, &why);
        match cause {
            Some(cause) => refusal.with_cause(cause, "", ""),
            None => refusal,
        }
    })
}
