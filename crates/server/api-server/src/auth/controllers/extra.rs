//! Permissions of controllers that no role can list beforehand: for kinds that definitions bring, and in namespaces that a flag names.

use lazaret_kinds::{Access, User, controller_name};
use lazaret_storage::Storage;

use super::table::{ControllerRole, controller_roles};
use crate::{auth::rule::Rule, definitions};

/// Whether a controller may do what the lines `custom` and `repairs` of its table permit.
pub(crate) fn may(
    store: &dyn Storage,
    repair_namespaces: &[String],
    user: &User,
    access: Access<'_>,
) -> bool {
    let Some(name) = controller_name(&user.name) else { return false };
    let permits = |role: &ControllerRole| {
        let custom = role.custom.iter().any(|(verbs, subresource)| {
            access.subresource == subresource && verbs.iter().any(|verb| verb == access.verb)
        });
        let repairs = role.repairs.iter().any(|rule| Rule::parse(rule).allows(access));
        custom && is_defined(store, access)
            || repairs && repair_namespaces.iter().any(|known| known == access.namespace)
    };
    controller_roles().iter().filter(|role| role.name == name).any(permits)
}

/// Whether a definition brings the kind; those that are built in have their lines in the table.
fn is_defined(store: &dyn Storage, access: Access<'_>) -> bool {
    let key = format!("{}{}.{}", definitions::PREFIX, access.resource, access.group);
    lazaret_kinds::find(access.group, access.resource).is_none() && store.get(key.as_bytes()).is_some()
}
