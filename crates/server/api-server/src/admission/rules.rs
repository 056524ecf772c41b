//! Policies and webhooks that are stored, ready to be asked.

use std::sync::Arc;

use lazaret_kinds::{
    User,
    admission::{Policies, webhooks},
};
use lazaret_storage::Item;

use super::webhooks::client::Hook;
use crate::object;

/// Where policies, bindings and configurations of webhooks are stored.
pub(crate) const ADMISSION_RULES: &str = "/admissionregistration.k8s.io/";
/// The user of the server's own writes that set up its cluster. A policy or webhook that locked it out could not be taken back.
// DEVIATION(own-writes): nobody is asked about them.
const OWN_USER: &str = "system:apiserver";

/// The policies and webhooks of the cluster, besides the built-in plugins.
#[derive(Debug)]
pub(crate) struct AdmissionRules {
    pub(super) policies: Policies,
    pub(super) mutating: Vec<Arc<Hook>>,
    pub(super) validating: Vec<Arc<Hook>>,
}

/// Compiles what is stored.
pub(crate) fn compile_rules(items: &[Arc<Item>]) -> AdmissionRules {
    let stored = |plural: &str| {
        let prefix = format!("{ADMISSION_RULES}{plural}/");
        let found = items.iter().filter(|item| item.key.starts_with(prefix.as_bytes()));
        found.map(|item| object::decode(&item.value)).collect::<Vec<_>>()
    };
    let hooks = |plural: &str| webhooks(&stored(plural)).into_iter().map(|hook| Arc::new(Hook::new(hook)));
    AdmissionRules {
        policies: Policies::compile(
            &stored("validatingadmissionpolicies"),
            &stored("validatingadmissionpolicybindings"),
        ),
        mutating: hooks("mutatingwebhookconfigurations").collect(),
        validating: hooks("validatingwebhookconfigurations").collect(),
    }
}

impl AdmissionRules {
    /// Whether a policy or webhook may apply to requests of this user.
    pub(crate) fn may_apply_to(&self, user: &User) -> bool {
        let empty = self.policies.is_empty() && self.mutating.is_empty() && self.validating.is_empty();
        !empty && user.name != OWN_USER
    }
}
