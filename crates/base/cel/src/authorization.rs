//! Checks that expressions make with an authorizer.

use lazaret_model::Text;

/// Answers the checks of `authorizer`.
pub trait Authorizer {
    /// Whether what is asked about may be done.
    fn decide(&self, check: &Check) -> Decision;
}

/// A question to the authorizer: whether a user may use a verb on an object or a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The service account that is asked about; nothing for the user of the request.
    pub account: Option<ServiceAccount>,
    /// The objects or path that the check is about.
    pub about: Subject,
    /// The verb of the API, or of HTTP for a path.
    pub verb: Text,
}

/// A service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Where it is.
    pub namespace: Text,
    /// Its name in that namespace.
    pub name: Text,
}

/// The object of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A path that is no object.
    Path(Text),
    /// Objects.
    Resource(ResourceCheck),
}

/// Objects that a check is about. An empty field is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCheck {
    /// The API group.
    pub group: Text,
    /// The plural.
    pub resource: Text,
    /// The part of the object.
    pub subresource: Text,
    /// The namespace; nothing for the cluster.
    pub namespace: Text,
    /// The name of the object.
    pub name: Text,
    /// Which fields a list is restricted to, as written.
    pub field_selector: Text,
    /// Which labels a list is restricted to, as written.
    pub label_selector: Text,
}

/// The answer of an authorizer to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why, or why not.
    pub reason: Text,
    /// The error of the check itself, or empty.
    pub error: Text,
}
