//! Names that objects, labels and annotations may have.

use lazaret_model::{validate_dns_label, validate_dns_subdomain, validate_label_name, validate_label_value};

use crate::Kind;

/// Whether `name` may be the name of an object of this kind.
///
/// # Errors
/// The rule that it breaks.
pub fn check_name(kind: &Kind, name: &str) -> Result<(), String> {
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") => validate_dns_label(name).map_err(|error| error.to_string()),
        ("rbac.authorization.k8s.io", _) | ("certificates.k8s.io", "certificatesigningrequests") => {
            path_segment(name)
        }
        _ => validate_dns_subdomain(name).map_err(|error| error.to_string()),
    }
}

/// Whether `key` may be the key of a label, or in lower case of an annotation.
///
/// # Errors
/// The rule that it breaks.
pub fn check_label_name(key: &str) -> Result<(), String> {
    validate_label_name(key).map_err(|error| error.to_string())
}

/// Whether `value` may be the value of a label.
///
/// # Errors
/// The rule that it breaks.
pub fn check_label_value(value: &str) -> Result<(), String> {
    validate_label_value(value).map_err(|error| error.to_string())
}

pub(crate) fn path_segment(name: &str) -> Result<(), String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return Err("may be neither empty nor '.' nor '..', and may contain neither '/' nor '%'".into());
    }
    Ok(())
}
