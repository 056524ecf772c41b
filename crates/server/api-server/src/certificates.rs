//! Certificates that a server makes for itself and its users, and when they are renewed.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SerialNumber,
};
use x509_parser::{parse_x509_certificate, pem::parse_x509_pem};

const DAY_SECONDS: i64 = 24 * 3_600;
/// Lifetime of an authority.
const AUTHORITY_DAYS: i64 = 10 * 365;
/// Lifetime of a certificate of a server or client.
const LEAF_DAYS: i64 = 365;
/// Certificates are valid from this long before they are made, for clients with slow clocks.
const BACKDATE_SECONDS: i64 = 300;
const AUTHORITY_NAME: &str = "lazaret";

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

/// The subject of a client certificate.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// The user.
    pub name: &'a str,
    /// The group.
    pub group: &'a str,
}

/// The period in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: Timestamp,
    /// The last second.
    pub not_after: Timestamp,
}

impl Validity {
    /// Of a certificate as PEM; `None` when it is none.
    #[must_use]
    pub fn of_pem(certificate: &str) -> Option<Self> {
        let (_, pem) = parse_x509_pem(certificate.as_bytes()).ok()?;
        Self::of_der(&pem.contents)
    }

    /// Of a certificate as DER; `None` when it is none.
    #[must_use]
    pub fn of_der(certificate: &[u8]) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let validity = certificate.validity();
        Some(Self {
            not_before: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            // A certificate may have no end.
            not_after: Timestamp::from_second(validity.not_after.timestamp()).unwrap_or(Timestamp::MAX),
        })
    }

    fn days_from(now: Timestamp, days: i64) -> Self {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        let now = now.as_second();
        Self { not_before: at(now - BACKDATE_SECONDS), not_after: at(now + days * DAY_SECONDS) }
    }

    fn set(self, params: &mut CertificateParams) {
        let date = |at: Timestamp| {
            let seconds = u64::try_from(at.as_second()).unwrap_or(0);
            rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
        };
        params.not_before = date(self.not_before);
        params.not_after = date(self.not_after);
    }
}

/// Whether a certificate is due for renewal: at most a third of its lifetime is left, or it is not valid yet.
#[must_use]
pub fn needs_renewal(now: Timestamp, not_before: Timestamp, not_after: Timestamp) -> bool {
    let left = not_after.as_second().saturating_sub(now.as_second());
    let life = not_after.as_second().saturating_sub(not_before.as_second());
    now < not_before || left.saturating_mul(3) <= life
}

/// Whether an authority is due for renewal, or has a longer lifetime than ten years: older versions made it valid until 4096. An authority
/// with another name was supplied by the administrator and is never renewed.
#[must_use]
pub fn authority_needs_renewal(authority: &Pem, now: Timestamp) -> bool {
    let Some(validity) = Validity::of_pem(&authority.certificate) else { return false };
    let life = validity.not_after.as_second().saturating_sub(validity.not_before.as_second());
    let too_long = life > AUTHORITY_DAYS * DAY_SECONDS + BACKDATE_SECONDS;
    is_own_authority(&authority.certificate)
        && (too_long || needs_renewal(now, validity.not_before, validity.not_after))
}

fn is_own_authority(certificate: &str) -> bool {
    let Ok((_, pem)) = parse_x509_pem(certificate.as_bytes()) else { return false };
    parse_x509_certificate(&pem.contents).is_ok_and(|(_, certificate)| {
        let own = format!("CN={AUTHORITY_NAME}");
        certificate.subject().to_string() == own && certificate.issuer().to_string() == own
    })
}

/// A new authority, which signs what is made below.
///
/// # Errors
/// When no key can be made.
pub fn certificate_authority(now: Timestamp) -> Result<Pem, rcgen::Error> {
    authority_of(&KeyPair::generate()?, now)
}

/// The authority with the same name and key and a new lifetime. Certificates that it signed stay valid, and a client that trusts the old
/// certificate trusts what the new one signs.
///
/// # Errors
/// When its key is damaged.
pub fn renewed_authority(authority: &Pem, now: Timestamp) -> Result<Pem, rcgen::Error> {
    authority_of(&KeyPair::from_pem(&authority.key)?, now)
}

fn authority_of(key: &KeyPair, now: Timestamp) -> Result<Pem, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name(AUTHORITY_NAME, "");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    // Two certificates of one issuer must not have one number.
    params.serial_number = Some(SerialNumber::from(u64::try_from(now.as_second()).unwrap_or(0)));
    Validity::days_from(now, AUTHORITY_DAYS).set(&mut params);
    let certificate = params.self_signed(key)?;
    Ok(Pem { certificate: certificate.pem(), key: key.serialize_pem() })
}

/// A certificate for a server at these names and addresses.
///
/// # Errors
/// When the authority's PEM is damaged or a name is none.
pub fn server_certificate(authority: &Pem, hosts: &[String], now: Timestamp) -> Result<Pem, rcgen::Error> {
    serving_certificate(authority, "kube-apiserver", hosts, now)
}

/// The same with another common name.
///
/// # Errors
/// When the authority's PEM is damaged or a name is none.
pub fn serving_certificate(
    authority: &Pem,
    common_name: &str,
    hosts: &[String],
    now: Timestamp,
) -> Result<Pem, rcgen::Error> {
    let mut params = CertificateParams::new(hosts.to_vec())?;
    params.distinguished_name = name(common_name, "");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    signed(authority, params, now)
}

/// A certificate that says who a client is.
///
/// # Errors
/// When the authority's PEM is damaged.
pub fn client_certificate(
    authority: &Pem,
    identity: Identity<'_>,
    now: Timestamp,
) -> Result<Pem, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = name(identity.name, identity.group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    signed(authority, params, now)
}

fn signed(authority: &Pem, mut params: CertificateParams, now: Timestamp) -> Result<Pem, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Validity::days_from(now, LEAF_DAYS).set(&mut params);
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

/// An authority as older versions made it: valid until the year 4096.
#[cfg(test)]
pub(crate) fn authority_of_old(common: &str) -> Pem {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = name(common, "");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Pem { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(days: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + days * DAY_SECONDS).unwrap()
    }

    #[test]
    fn a_certificate_is_due_when_a_third_of_its_life_is_left() {
        for (now, expected) in
            [(-1, true), (0, false), (199, false), (200, true), (299, true), (300, true), (10_000, true)]
        {
            assert_eq!(needs_renewal(day(now), day(0), day(300)), expected, "day {now}");
        }
        assert!(needs_renewal(day(0), Timestamp::MIN, Timestamp::MIN));
        assert!(!needs_renewal(day(0), day(0), Timestamp::MAX));
    }

    #[test]
    fn an_authority_is_valid_for_ten_years_and_other_certificates_for_one() {
        let authority = certificate_authority(day(0)).unwrap();
        let server = server_certificate(&authority, &["localhost".to_owned()], day(1)).unwrap();
        let client = client_certificate(&authority, Identity { name: "a", group: "b" }, day(2)).unwrap();
        for (pem, made, days) in [(&authority, 0, AUTHORITY_DAYS), (&server, 1, 365), (&client, 2, 365)] {
            let validity = Validity::of_pem(&pem.certificate).unwrap();
            let begins = day(made).as_second() - BACKDATE_SECONDS;
            assert_eq!((validity.not_before.as_second(), validity.not_after), (begins, day(made + days)));
        }
    }

    #[test]
    fn an_authority_is_renewed_when_due_or_too_long_and_never_if_it_is_not_ours() {
        let authority = certificate_authority(day(0)).unwrap();
        let two_thirds = AUTHORITY_DAYS * 2 / 3;
        assert!(!authority_needs_renewal(&authority, day(two_thirds - 1)));
        assert!(authority_needs_renewal(&authority, day(two_thirds + 1)));
        assert!(authority_needs_renewal(&authority_of_old(AUTHORITY_NAME), day(0)));
        assert!(!authority_needs_renewal(&authority_of_old("somebody else's"), day(0)));
    }
}
