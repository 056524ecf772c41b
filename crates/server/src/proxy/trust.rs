//! The authority that a node's certificate must come from, and the name in it.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
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
        NodeTrust::Cluster => Arc::new(NodeIdentity {
            roots: Arc::new(roots(authority)?),
            common_name: format!("{NODE_PREFIX}{node}"),
            provider: provider.clone(),
        }),
        NodeTrust::Authority(bundle) => {
            let roots = Arc::new(roots(bundle)?);
            WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
                .build()
                .map_err(|error| error.to_string())?
        }
        NodeTrust::Nobody => Arc::new(AcceptAnyServer(provider.clone())),
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
    roots: Arc<RootCertStore>,
    common_name: String,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for NodeIdentity {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let algorithms = self.provider.signature_verification_algorithms.all;
        let parsed = ParsedCertificate::try_from(leaf)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        let named = of_certificate(leaf).is_some_and(|user| {
            user.name == self.common_name && user.groups.iter().any(|group| group == NODE_GROUP)
        });
        if named {
            return Ok(ServerCertVerified::assertion());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Trusts any server, as kube-apiserver does without `--kubelet-certificate-authority`.
#[derive(Debug)]
struct AcceptAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
