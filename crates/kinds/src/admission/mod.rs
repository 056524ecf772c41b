//! Admission policies: expressions that say which requests are good.
//!
//! A policy says what is asked, its bindings say where and what follows. What a policy cannot be asked about, because an expression fails or a
//! parameter is missing, is denied unless the policy says that failures are ignored.

mod evaluate;
mod matching;
mod policy;
mod rules;
#[cfg(test)]
mod tests;

use lazaret_json::Value;

use crate::context::User;

pub(crate) use rules::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};

pub use evaluate::{Denial, Verdict};
pub use policy::Policies;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes an object, or posts to a part of one.
    Create,
    /// Changes it.
    Update,
    /// Deletes it.
    Delete,
}

impl Operation {
    /// As in policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A request as policies see it.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// What it does.
    pub operation: Operation,
    /// The group of the resource.
    pub group: &'a str,
    /// The version that was asked for.
    pub version: &'a str,
    /// All versions of the resource that are served: a rule about one of them means all, unless it says otherwise.
    pub versions: &'a [&'a str],
    /// The plural.
    pub resource: &'a str,
    /// The part of the object that is meant, or nothing.
    pub subresource: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The name; empty while it is not known.
    pub name: &'a str,
    /// The namespace, or nothing.
    pub namespace: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// The object as it is to be, or null; what it was before, or null.
    pub objects: Objects<'a>,
}

/// The object and what it was before, in any of its versions.
pub type Objects<'a> = &'a dyn Fn(&str) -> (Value, Value);

impl core::fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}/{} {:?}", self.operation.as_str(), self.resource, self.subresource, self.name)
    }
}

/// What else policies look at.
pub trait Surroundings {
    /// A namespace.
    fn namespace(&self, name: &str) -> Option<Value>;

    /// The objects that a binding takes its parameters from.
    ///
    /// # Errors
    /// When there is no such kind, or it is not in namespaces.
    fn params(&self, wanted: &Params<'_>) -> Result<Vec<Value>, String>;
}

/// Which objects hold parameters.
#[derive(Clone, Copy, Debug)]
pub struct Params<'a> {
    /// Group and version.
    pub api_version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Where to look, if the binding says so.
    pub namespace: &'a str,
    /// The namespace of the request.
    pub request_namespace: &'a str,
    /// By name, or nothing.
    pub name: &'a str,
    /// By labels, or null.
    pub selector: &'a Value,
}

/// Kinds that no policy is asked about: what could undo a policy that locks everybody out, and questions that clients live by.
const EXEMPT: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &["validatingadmissionpolicies", "validatingadmissionpolicybindings"]),
    ("authentication.k8s.io", &["selfsubjectreviews", "tokenreviews"]),
    (
        "authorization.k8s.io",
        &[
            "localsubjectaccessreviews",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
            "subjectaccessreviews",
        ],
    ),
];

fn is_exempt(attributes: &Attributes<'_>) -> bool {
    EXEMPT.iter().any(|(group, plurals)| *group == attributes.group && plurals.contains(&attributes.resource))
}
