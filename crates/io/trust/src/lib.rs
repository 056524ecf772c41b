//! Servers that a TLS client trusts, by a rule of its own.
//!
//! **Invariant.** Whatever a rule says, a server proves that it has the key of the certificate that it shows.

use std::fmt::Debug;

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

/// Whether a certificate is trusted.
pub trait Rule: Debug + Send + Sync {
    /// Looks at a server's certificate, those that are sent with it, and the name that was connected to.
    ///
    /// # Errors
    /// Why the server is not trusted.
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error>;
}

/// Any server is trusted.
#[derive(Debug)]
pub struct AnyServer;

impl Rule for AnyServer {
    fn check(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: UnixTime,
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// Verifies servers by a rule.
#[derive(Debug)]
pub struct Verifier<R> {
    rule: R,
    algorithms: WebPkiSupportedAlgorithms,
}

impl<R: Rule> Verifier<R> {
    /// With the algorithms of a provider.
    #[must_use]
    pub fn new(rule: R, provider: &CryptoProvider) -> Self {
        Self { rule, algorithms: provider.signature_verification_algorithms }
    }
}

impl<R: Rule> ServerCertVerifier for Verifier<R> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.rule.check(leaf, intermediates, name, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
