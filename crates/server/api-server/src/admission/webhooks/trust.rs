//! The authorities that the certificate of a webhook may come from.

use std::sync::{Arc, OnceLock};

use lazaret_trust::{Rule, Verifier};
use rustls::{
    CertificateError, ClientConfig, Error, RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier, verify_server_name},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};

use crate::certificates::Validity;

/// The TLS configuration for a bundle of PEM; what the machine trusts, if the bundle is empty.
///
/// # Errors
/// Why the bundle cannot be used, as Kubernetes says it.
pub(super) fn config(bundle: &[u8]) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let given = if bundle.is_empty() { Vec::new() } else { certificates(bundle)? };
    let roots = if bundle.is_empty() { of_machine() } else { Arc::new(store(&given)) };
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let mut config = if roots.is_empty() {
        // Without roots no certificate can be valid; the refusal says so.
        builder.with_root_certificates(roots).with_no_client_auth()
    } else {
        let chain = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .map_err(|error| error.to_string())?;
        let verifier = Arc::new(Verifier::new(Bundle { chain, given }, &provider));
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(bundle: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    Ok(found)
}

fn store(certificates: &[CertificateDer<'static>]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    roots
}

/// The root certificates of the machine, loaded once.
fn of_machine() -> Arc<RootCertStore> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    ROOTS.get_or_init(|| Arc::new(store(&rustls_native_certs::load_native_certs().certs))).clone()
}

/// The usual rules, and one more that Go has: a certificate that stands in the bundle itself is trusted, whatever it may be used for. Webhooks
/// often have one certificate that signed itself.
#[derive(Debug)]
struct Bundle {
    chain: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl Rule for Bundle {
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        let by_chain = self.chain.verify_server_cert(leaf, intermediates, name, &[], now).map(|_| ());
        if by_chain.is_ok() || !self.given.iter().any(|given| given.as_ref() == leaf.as_ref()) {
            return by_chain;
        }
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let valid = Validity::of_der(leaf).is_some_and(|validity| {
            (validity.not_before.as_second()..=validity.not_after.as_second()).contains(&seconds)
        });
        if !valid {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        verify_server_name(&ParsedCertificate::try_from(leaf)?, name)
    }
}
