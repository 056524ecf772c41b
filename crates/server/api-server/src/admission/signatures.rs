//! Rules say who wrote and who approved them, in the server's words.

use lazaret_json::Value;
use lazaret_kinds::review;

use crate::call::Call;

/// Names the author and the approver of a rule or a patch that is written, and who approves the taints that a guard holds.
pub(crate) fn sign(call: &Call<'_>, new: &mut Value, old: Option<&Value>) {
    if review::is_signed(&call.kind) {
        review::sign(new, old, &call.user.name, call.server.approval_is_wanted());
    }
    if review::approves_taints(&call.kind) {
        review::sign_taint_approvals(new, old, &call.user.name);
    }
}
