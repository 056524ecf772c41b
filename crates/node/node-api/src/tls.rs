//! TLS: the certificate that the node serves with, and the identity of a client's certificate.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, ServerConnection,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use crate::Caller;

/// Why a node cannot serve.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A certificate or key cannot be read or used.
    #[error("{what}: {why}")]
    Damaged {
        /// Which.
        what: &'static str,
        /// Why.
        why: String,
    },
}

fn damaged(what: &'static str, why: impl fmt::Display) -> TlsError {
    TlsError::Damaged { what, why: why.to_string() }
}

/// The certificate that the node serves with. Clones are the same; it can be replaced while the node serves. Without one, no connection
/// is made.
#[derive(Clone, Default)]
pub struct Certificate(Arc<Current>);

#[derive(Default)]
struct Current(RwLock<Option<Arc<CertifiedKey>>>);

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Certificate")
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Current")
    }
}

impl Certificate {
    /// One that the node signs itself. The API server does not trust it unless configured to.
    ///
    /// # Errors
    /// When a name is none, or the system gives no randomness.
    pub fn self_signed(node: &str, names: &[String]) -> Result<Self, TlsError> {
        let bad = |error: rcgen::Error| damaged("self-signed certificate", error);
        let key = KeyPair::generate().map_err(bad)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(bad)?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, node);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key).map_err(bad)?;
        let made = Self::default();
        made.replace(&certificate.pem(), &key.serialize_pem())?;
        Ok(made)
    }

    /// Serves with this (as PEM, the node's own first) from the next connection on.
    ///
    /// # Errors
    /// When it is damaged; the certificate before stays.
    pub fn replace(&self, certificate: &str, key: &str) -> Result<(), TlsError> {
        let chain = certificates(certificate).map_err(|why| damaged("serving certificate", why))?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|why| damaged("serving key", why))?;
        let certified = CertifiedKey::from_der(chain, key, &provider())
            .map_err(|why| damaged("serving certificate", why))?;
        *self.0.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
        Ok(())
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.0.0.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The TLS configuration of a node. Cheap to clone.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

impl fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tls")
    }
}

impl Tls {
    /// Serves with `certificate`; clients may show one of `authorities` (PEM).
    ///
    /// # Errors
    /// When the authorities are damaged.
    pub fn new(certificate: &Certificate, authorities: &str) -> Result<Self, TlsError> {
        let bad = |why: &dyn fmt::Display| damaged("client authority", why);
        let mut roots = RootCertStore::empty();
        for authority in certificates(authorities).map_err(|why| bad(&why))? {
            roots.add(authority).map_err(|why| bad(&why))?;
        }
        // A certificate that does not hold ends the handshake; without any, a token may do.
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
            .allow_unauthenticated()
            .build()
            .map_err(|why| bad(&why))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| damaged("protocol versions", why))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(certificate.0.clone());
        // Streams are upgrades of HTTP/1.1.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session that is resumed would show a certificate that was verified long ago.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}

/// The client's identity by its certificate, which the handshake verified.
pub(crate) fn caller(connection: &ServerConnection) -> Option<Caller> {
    let leaf = connection.peer_certificates()?.first()?;
    Caller::of_certificate(leaf)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err("there is no certificate in it".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
