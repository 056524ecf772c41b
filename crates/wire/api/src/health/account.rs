//! The service account as which a controller creates what a policy describes.

use lazaret_model::{validate_dns_label, validate_dns_subdomain};

use crate::{FieldError, field::Path, wire::HealthServiceAccount};

/// The namespace of such accounts, unless an installation allows others.
pub const REPAIR_NAMESPACE: &str = "lazaret-repair";

/// The service account that a policy names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccount {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ServiceAccount {
    /// The user that it is to an API server.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

pub(super) fn read(wire: HealthServiceAccount, path: &Path<'_>) -> Result<ServiceAccount, FieldError> {
    let HealthServiceAccount { namespace, name } = wire;
    validate_dns_label(&namespace).map_err(|error| path.field("namespace").error(error.to_string()))?;
    validate_dns_subdomain(&name).map_err(|error| path.field("name").error(error.to_string()))?;
    Ok(ServiceAccount { namespace, name })
}

/// Why the objects that a policy describes may not be created as the service account that it names, where installations allow accounts of these
/// namespaces.
#[must_use]
pub fn account_refusal(account: Option<&ServiceAccount>, allowed: &[String]) -> Option<String> {
    let places = allowed.join(", ");
    match account {
        None => Some(format!(
            "spec.serviceAccount: name the service account as which repairs and validations are created, in one of these namespaces (--repair-namespaces): {places}"
        )),
        Some(account) if !allowed.contains(&account.namespace) => Some(format!(
            "spec.serviceAccount.namespace: {} is not a namespace of such accounts: use one of these (--repair-namespaces): {places}",
            account.namespace
        )),
        Some(_) => None,
    }
}
