//! Admission: which requests policies and webhooks are asked about, and what policies answer.
//!
//! A policy has the expressions, its bindings say where they apply and what follows. A request is denied if an expression fails or a
//! parameter is missing, unless the policy says that failures are ignored. Webhooks are matched here and called by the server.

mod evaluate;
mod matching;
mod policy;
mod rule_checks;
mod rules;
#[cfg(test)]
mod tests;
mod url;
mod webhook;
mod webhook_rules;
#[cfg(test)]
mod webhook_tests;

use lazaret_json::Value;

use crate::context::User;

pub use lazaret_cel::{Authorizer, Check, Decision, ServiceAccount, Subject};

pub(crate) use rules::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
pub(crate) use webhook_rules::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};

pub use evaluate::{Denial, Verdict};
pub use policy::Policies;
pub use url::Url;
pub use webhook::{Address, Matched, ReviewVersion, Webhook, webhooks};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Makes an object, or posts to a part of one.
    Create,
    /// Changes it.
    Update,
    /// Deletes it.
    Delete,
    /// Connects to a part of it.
    Connect,
}

impl Operation {
    /// As in policies.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request as policies see it.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// Create, update, delete or connect.
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
    /// The kind of the resource.
    pub kind: &'a str,
    /// Group, version and kind of what a part of an object takes, where that is not the object itself.
    pub part: Option<(&'a str, &'a str, &'a str)>,
    /// The name; empty while it is not known.
    pub name: &'a str,
    /// The namespace, or nothing.
    pub namespace: &'a str,
    /// The user of the request.
    pub user: &'a User,
    /// Whether nothing is to be written.
    pub dry_run: bool,
    /// The options of the request, or null.
    pub options: &'a Value,
    /// The object as it is to be, or null; what it was before, or null.
    pub objects: Objects<'a>,
}

/// The object and what it was before, in any of its versions.
pub type Objects<'a> = &'a dyn Fn(&str) -> (Value, Value);

impl Attributes<'_> {
    /// Group, version and kind of the object in a version of the resource.
    fn kind_in<'v>(&'v self, version: &'v str) -> (&'v str, &'v str, &'v str) {
        self.part.unwrap_or((self.group, version, self.kind))
    }
}

impl core::fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}/{} {:?}", self.operation.as_str(), self.resource, self.subresource, self.name)
    }
}

/// The namespaces, parameters and permissions that policies look at.
pub trait ClusterReader: Authorizer {
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

/// Kinds that no policy and no webhook is asked about: what could undo a policy that locks everybody out, and questions that clients live by.
const EXEMPT: &[(&str, &[&str])] = &[
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        ],
    ),
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
    is_exempt_resource(attributes.group, attributes.resource)
}

fn is_exempt_resource(group: &str, resource: &str) -> bool {
    EXEMPT.iter().any(|(exempt, plurals)| *exempt == group && plurals.contains(&resource))
}
