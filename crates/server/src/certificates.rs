//! Certificates that a server makes for itself and its users on first start.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};

/// A certificate and its key, as PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate.
    pub certificate: String,
    /// The private key: for its owner only.
    pub key: String,
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pem")
    }
}

/// Who a client certificate is for.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The user.
    pub name: &'a str,
    /// The group.
    pub group: &'a str,
}

/// A new authority. It signs what is made below and is good as long as the data directory.
///
/// # Errors
/// When no key can be made.
pub fn certificate_authority() -> Result<Pem, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name("lazaret", "");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok(Pem { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate for a server at these names and addresses.
///
/// # Errors
/// When the authority's PEM is damaged or a name is none.
pub fn server_certificate(authority: &Pem, hosts: &[String]) -> Result<Pem, rcgen::Error> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    params.distinguished_name = name("kube-apiserver", "");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    signed(authority, params)
}

/// A certificate that says who a client is.
///
/// # Errors
/// When the authority's PEM is damaged.
pub fn client_certificate(authority: &Pem, identity: Identity<'_>) -> Result<Pem, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name(identity.name, identity.group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    signed(authority, params)
}

fn signed(authority: &Pem, mut params: CertificateParams) -> Result<Pem, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, KeyPair::from_pem(&authority.key)?)?;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Pem { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn name(common: &str, organisation: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if !organisation.is_empty() {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}
