//! The caller of a request.

use x509_parser::prelude::{FromDer, X509Certificate};

/// The name that the API server has in its certificate for nodes. Kubernetes' own server has the same.
pub const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// The authenticated sender of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Caller {
    /// The user.
    pub name: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The user's UID, as the API server knows it.
    pub uid: String,
}

impl Caller {
    /// The user that a verified certificate (as DER) names: the common name is the user, the organisations are the groups.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let subject = certificate.subject();
        // The last one, as Kubernetes reads it.
        let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
        let organisations = subject.iter_organization().filter_map(|entry| entry.as_str().ok());
        let groups = organisations.map(str::to_owned).chain(["system:authenticated".to_owned()]).collect();
        Some(Self { name, groups, uid: String::new() })
    }

    pub(crate) fn is_api_server(&self) -> bool {
        self.name == API_SERVER
    }
}
