//! DisruptionGuards that want approval.

use std::sync::Arc;

use lazaret_kinds::review;
use lazaret_storage::Item;

use crate::object;

/// Where guards are stored.
pub(crate) const GUARDS: &str = "/lazaret.dev/disruptionguards/";

/// Whether one of these guards wants approval of rules that reach far.
pub(crate) fn approval_is_wanted(guards: &[Arc<Item>]) -> bool {
    guards.iter().any(|item| review::wants_approval(&object::decode(&item.value)))
}
