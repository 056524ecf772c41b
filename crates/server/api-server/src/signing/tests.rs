//! Certificates as they are signed, read back by other code than wrote them.

use jiff::Timestamp;
use lazaret_kinds::certificates::CertificateRequest;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};
use x509_parser::{extensions::GeneralName, parse_x509_certificate, pem::parse_x509_pem};

use super::Signer;
use crate::{Pem, Validity, auth::identity::of_certificate, certificate_authority};

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn request(names: Vec<SanType>) -> CertificateRequest {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:a");
    params.subject_alt_names = names;
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    CertificateRequest::parse(pem.as_bytes()).unwrap()
}

fn authority() -> Pem {
    certificate_authority(at(NOW)).unwrap()
}

#[test]
fn a_certificate_says_what_the_request_asked_for_and_nothing_more() {
    let names = vec![
        SanType::DnsName("a.example.com".try_into().unwrap()),
        SanType::IpAddress("192.0.2.1".parse().unwrap()),
        SanType::IpAddress("2001:db8::1".parse().unwrap()),
    ];
    let authority = authority();
    let request = request(names);
    let usages = ["server auth", "digital signature", "key encipherment"];
    let text = Signer::new(authority.clone()).sign(&request, &usages, 30 * 24 * 3_600, at(NOW)).unwrap();
    let (_, block) = parse_x509_pem(text.as_bytes()).unwrap();
    let (rest, certificate) = parse_x509_certificate(&block.contents).unwrap();
    assert!(rest.is_empty());
    let (_, issuer) = parse_x509_pem(authority.certificate.as_bytes()).unwrap();
    let (_, issuer) = parse_x509_certificate(&issuer.contents).unwrap();
    certificate.verify_signature(Some(issuer.public_key())).unwrap();
    assert_eq!(certificate.issuer(), issuer.subject());
    assert_eq!(certificate.subject().as_raw(), request.subject);
    assert_eq!(certificate.public_key().raw, request.public_key);
    assert!(!certificate.is_ca());
    let usage = certificate.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
    let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(purposes.server_auth && !purposes.client_auth && !purposes.any);
    let names = &certificate.subject_alternative_name().unwrap().unwrap().value.general_names;
    assert_eq!(names[0], GeneralName::DNSName("a.example.com"));
    assert_eq!(names[1], GeneralName::IPAddress(&[192, 0, 2, 1]));
    assert_eq!(names.len(), 3);
    let user = of_certificate(&block.contents).unwrap();
    assert_eq!((user.name.as_str(), user.groups[0].as_str()), ("system:node:a", "system:nodes"));
}

#[test]
fn usages_that_no_signer_here_permits_are_refused() {
    let error =
        Signer::new(authority()).sign(&request(Vec::new()), &["cert sign"], 3_600, at(NOW)).unwrap_err();
    assert_eq!(error, r#"unrecognized usage values: ["cert sign"]"#);
}

#[test]
fn a_certificate_ends_with_its_authority_at_the_latest() {
    let authority = authority();
    let end = Validity::of_pem(&authority.certificate).unwrap().not_after.as_second();
    let signer = Signer::new(authority);
    let ends = |lifetime: i64, now: i64| {
        let signed = signer.sign(&request(Vec::new()), &["client auth"], lifetime, at(now));
        let validity = signed.map(|pem| Validity::of_pem(&pem).unwrap());
        validity.map(|validity| (validity.not_before.as_second(), validity.not_after.as_second()))
    };
    let year = 365 * 24 * 3_600;
    assert_eq!(ends(year, NOW), Ok((NOW - 300, NOW + year - 300)));
    assert_eq!(ends(3_600, NOW), Ok((NOW - 300, NOW + 3_600)), "a short one is not cut");
    assert_eq!(ends(year, end - 60), Ok((end - 360, end)));
    assert!(ends(year, end).is_err());
}
