//! The authority that a node's certificate must come from, and the name in it.

use std::{fmt, sync::Arc};

use lazaret_trust::{AnyServer, Rule, Verifier};
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier, verify_server_cert_signed_by_trust_anchor},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, SignatureVerificationAlgorithm, UnixTime, pem::PemObject,
    },
    server::ParsedCertificate,
};

use crate::{Pem, auth::identity::of_certificate};

const NODE_GROUP: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// The authority that a node's serving certificate must come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeTrust {
    /// The cluster's own authority; it must name the node.
    Cluster,
    /// These authorities (PEM); it must be for the address that is connected to.
    Authority(String),
    /// Anybody. Then no address of this machine itself is connected to.
    Nobody,
}

/// The TLS configuration of connections to a node: the client certificate, and the certificates to trust.
///
/// # Errors
/// When a certificate is damaged.
pub(super) fn config(
    client: &Pem,
    authority: &str,
    trust: &NodeTrust,
    node: &str,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        NodeTrust::Cluster => {
            let roots = roots(authority)?;
            let common_name = format!("{NODE_PREFIX}{node}");
            let algorithms = provider.signature_verification_algorithms.all;
            Arc::new(Verifier::new(NodeIdentity { roots, common_name, algorithms }, &provider))
        }
        NodeTrust::Authority(bundle) => {
            let roots = Arc::new(roots(bundle)?);
            WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .build()
                .map_err(|error| error.to_string())?
        }
        // As kube-apiserver does without `--kubelet-certificate-authority`.
        NodeTrust::Nobody => Arc::new(Verifier::new(AnyServer, &provider)),
    };
    let damaged = |error: &dyn fmt::Display| format!("the server's certificate for nodes: {error}");
    let certificate =
        CertificateDer::from_pem_slice(client.certificate.as_bytes()).map_err(|error| damaged(&error))?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(|error| damaged(&error))?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_auth_cert(vec![certificate], key)
        .map_err(|error| damaged(&error))?;
    // Streams are upgrades of HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is resumed has not shown a certificate.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

fn roots(bundle: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("no certificate in the bundle".to_owned()) } else { Ok(roots) }
}

// DEVIATION(node-identity)
/// A certificate of the cluster's authority that names the node itself, as the signer `kubernetes.io/kubelet-serving` makes it. Which
/// address it has does not matter: a node may say of itself that it has any, this server's own included.
#[derive(Debug)]
struct NodeIdentity {
    roots: RootCertStore,
    common_name: String,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

impl Rule for NodeIdentity {
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let parsed = ParsedCertificate::try_from(leaf)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, self.algorithms)?;
        let named = of_certificate(leaf).is_some_and(|user| {
            user.name == self.common_name && user.groups.iter().any(|group| group == NODE_GROUP)
        });
        if named { Ok(()) } else { Err(CertificateError::ApplicationVerificationFailure.into()) }
    }
}
