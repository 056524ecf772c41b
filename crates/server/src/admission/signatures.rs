//! Rules say who wrote and who approved them, in the server's words.

use std::sync::Arc;

use lazaret_json::Value;
use lazaret_kinds::review;
use lazaret_storage::Item;

use crate::{call::Call, object};

/// Where guards are stored.
pub(crate) const GUARDS: &str = "/lazaret.dev/disruptionguards/";

/// Whether one of these guards wants approval of rules that reach far.
pub(crate) fn approval_is_wanted(guards: &[Arc<Item>]) -> bool {
    guards.iter().any(|item| review::wants_approval(&object::decode(&item.value)))
}

/// Names the author and the approver of a rule that is written.
pub(crate) fn sign(call: &Call<'_>, new: &mut Value, old: Option<&Value>) {
    if review::is_signed(&call.kind) {
        review::sign(new, old, &call.user.name, call.server.approval_is_wanted());
    }
}
