//! Rules say who wrote and who approved them, in the server's words.

use lazaret_json::Value;
use lazaret_kinds::review::{self, Writer};

use crate::{call::Call, object, server::Server};

/// Where incidents and the policies that they are about are stored.
const INCIDENTS: &str = "/lazaret.dev/deviceincidents/";
const HEALTH_POLICIES: &str = "/lazaret.dev/devicehealthpolicies/";

/// Names the author and the approver of a rule or a patch that is written, and who approves the taints that a guard holds.
pub(crate) fn sign(call: &Call<'_>, new: &mut Value, old: Option<&Value>) {
    if review::is_signed(&call.kind) {
        let (user, wanted) = (&call.user.name, call.server.approval_is_wanted());
        let wished_by = if wanted { wished_by(call.server, new, user) } else { None };
        review::sign(new, old, Writer { user, wished_by: wished_by.as_deref() }, wanted);
    }
    if review::approves_taints(&call.kind) {
        review::sign_taint_approvals(new, old, &call.user.name);
    }
}

/// The author of the health policy that an object is made for. If the controller that makes the object were its author, the author of the policy could
/// approve it as a second person. `None` where the incident or the policy is gone: then the controller is named, and no approval counts.
fn wished_by(server: &Server, object: &Value, user: &str) -> Option<String> {
    let stored = |key: String| server.store().get(key.as_bytes()).map(|item| object::decode(&item.value));
    let incident = stored(format!("{INCIDENTS}{}", review::incident_of(object, user)?))?;
    let policy = stored(format!("{HEALTH_POLICIES}{}", review::policy_of(&incident)?))?;
    review::author_of(&policy).map(str::to_owned)
}
