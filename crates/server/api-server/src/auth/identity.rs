//! The user that credentials stand for.

use lazaret_kinds::User;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The user in a verified certificate (as DER): the common name is the user, the organisations are the groups.
pub(crate) fn of_certificate(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    // The last one, as Kubernetes reads it.
    let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
    let groups =
        subject.iter_organization().filter_map(|entry| entry.as_str().ok()).map(str::to_owned).collect();
    Some(authenticated(User { name, groups, ..User::default() }))
}

pub(crate) fn authenticated(mut user: User) -> User {
    if !user.groups.iter().any(|group| group == "system:authenticated") {
        user.groups.push("system:authenticated".into());
    }
    user
}
