//! TLS: a serving certificate that can be replaced while the server runs, and the identity of a client's certificate.

use std::{
    fmt, io,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{
        ClientHello, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
};
use tokio_rustls::TlsAcceptor;

use crate::{
    Pem,
    auth::{Peer, identity::of_certificate},
    certificates::Validity,
    clock,
};

/// The server's certificate and the authority that client certificates must come from.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's own.
    pub server: Pem,
    /// The authority's certificate.
    pub authority: String,
}

/// The TLS configuration of a server. Cheap to clone; clones share the certificate.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    serving: Arc<Serving>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// From certificates.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn new(files: &TlsFiles) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(files.authority.as_bytes())
            .map_err(|error| damaged("authority", error))?;
        roots.add(authority).map_err(|error| damaged("authority", error))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| damaged("authority", error))?;
        Self::with(&files.server, provider, Arc::new(AcceptsExpired(verifier.clone())), verifier)
    }

    /// For clients that are not asked who they are.
    ///
    /// # Errors
    /// When the certificate is damaged.
    pub fn serving_only(server: &Pem) -> io::Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let nobody = WebPkiClientVerifier::no_client_auth();
        Self::with(server, provider, nobody.clone(), nobody)
    }

    fn with(
        server: &Pem,
        provider: Arc<CryptoProvider>,
        at_handshake: Arc<dyn ClientCertVerifier>,
        verifier: Arc<dyn ClientCertVerifier>,
    ) -> io::Result<Self> {
        let serving = Arc::new(Serving { current: RwLock::new(certified(server, &provider)?) });
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| damaged("protocol versions", error))?
            .with_client_cert_verifier(at_handshake)
            .with_cert_resolver(serving.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), serving, verifier })
    }

    /// Replaces the serving certificate for new connections.
    ///
    /// # Errors
    /// When it is damaged; the previous certificate stays.
    pub fn replace(&self, server: &Pem) -> io::Result<()> {
        let new = certified(server, self.config.crypto_provider())?;
        *self.serving.current.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// The acceptor for TLS on a connection.
    #[must_use]
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.config.clone())
    }

    /// The identity of the client. The certificate is verified here, after the handshake: [`AcceptsExpired`] lets expired ones through, and
    /// a resumed session carries a certificate that was verified earlier.
    pub(crate) fn peer(&self, connection: &ServerConnection) -> Peer {
        let Some([leaf, intermediates @ ..]) = connection.peer_certificates() else { return Peer::Nobody };
        let seconds = u64::try_from(clock::now().as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if self.verifier.verify_client_cert(leaf, intermediates, now).is_err() {
            return Peer::Refused;
        }
        match (of_certificate(leaf), Validity::of_der(leaf)) {
            (Some(user), Some(validity)) => {
                Peer::Certified { user: Arc::new(user), not_after: validity.not_after }
            }
            _ => Peer::Nobody,
        }
    }
}

fn certified(pem: &Pem, provider: &CryptoProvider) -> io::Result<Arc<CertifiedKey>> {
    let certificate = CertificateDer::from_pem_slice(pem.certificate.as_bytes())
        .map_err(|error| damaged("server certificate", error))?;
    let key =
        PrivateKeyDer::from_pem_slice(pem.key.as_bytes()).map_err(|error| damaged("server key", error))?;
    CertifiedKey::from_der(vec![certificate], key, provider)
        .map(Arc::new)
        .map_err(|error| damaged("server certificate", error))
}

fn damaged(what: &str, error: impl fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {error}"))
}

/// The current serving certificate.
#[derive(Debug)]
struct Serving {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Accepts a handshake with an expired or not yet valid certificate, so that the client gets 401 and not a connection error. The identity
/// is decided in [`Tls::peer`], which refuses such a certificate.
#[derive(Debug)]
struct AcceptsExpired(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AcceptsExpired {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.0.verify_client_cert(leaf, intermediates, now) {
            Err(Error::InvalidCertificate(
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. },
            )) => Ok(ClientCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::{
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        pki_types::ServerName,
    };

    use super::*;
    use crate::{
        Identity,
        certificates::{certificate_authority, client_certificate, renewed_authority, server_certificate},
    };

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    /// Clients and servers may switch to a renewed authority in any order.
    #[test]
    fn a_renewed_authority_and_the_one_before_trust_each_others_certificates() {
        let year = 365 * 24 * 3_600;
        let at = |years: i64| jiff::Timestamp::from_second(1_800_000_000 + years * year).unwrap();
        let before = certificate_authority(at(0)).unwrap();
        let after = renewed_authority(&before, at(7)).unwrap();
        assert_ne!(before.certificate, after.certificate);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000 + 7 * 365 * 24 * 3_600 + 60));
        let hosts = ["localhost".to_owned()];
        for (trusted, signer) in [(&before, &after), (&after, &before)] {
            let server = server_certificate(signer, &hosts, at(7)).unwrap();
            let client = client_certificate(signer, Identity { name: "a", group: "b" }, at(7)).unwrap();
            let files = TlsFiles { server: server.clone(), authority: trusted.certificate.clone() };
            let verifier = Tls::new(&files).unwrap().verifier;
            verifier.verify_client_cert(&der(&client.certificate), &[], now).unwrap();
            let mut roots = RootCertStore::empty();
            roots.add(der(&trusted.certificate)).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier =
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            let name = ServerName::try_from("localhost").unwrap();
            verifier.verify_server_cert(&der(&server.certificate), &[], &name, &[], now).unwrap();
        }
    }
}
