//! Decides what users may do.

use lazaret_json::Value;
use lazaret_kinds::{Access, User};

use crate::ObjectStore;

/// Decides whether a user may do something.
pub trait Authorizer: Send + Sync {
    /// Whether `user` may do this to objects.
    ///
    /// # Errors
    /// Why not.
    fn access(&self, stored: &ObjectStore, user: &User, access: Access<'_>) -> Result<(), String>;

    /// Whether `user` may do `verb` to a path that is no object.
    ///
    /// # Errors
    /// Why not.
    fn path(&self, stored: &ObjectStore, user: &User, verb: &str, path: &str) -> Result<(), String>;

    /// All that `user` may do in a namespace, as rules of roles; `None` when that cannot be listed.
    fn rules(&self, _stored: &ObjectStore, _user: &User, _namespace: &str) -> Option<Vec<Value>> {
        None
    }

    /// All that the role allows which a binding refers to, in a namespace or in the cluster; `None` when there is no such role.
    fn role_rules(&self, _stored: &ObjectStore, _reference: &Value, _namespace: &str) -> Option<Vec<Value>> {
        None
    }
}
