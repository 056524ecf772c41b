//! A certificate as DER, made from a request. rcgen keeps one organization of a subject and would lose the groups of a user; here the
//! subject and the key are taken over byte by byte.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use lazaret_kinds::certificates::CertificateRequest;
use rcgen::{KeyPair, SigningKey};
use x509_parser::{
    extensions::ParsedExtension, parse_x509_certificate, pem::parse_x509_pem, prelude::X509Certificate,
};

use crate::{Pem, Validity, random};

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
const BIT_STRING: u8 = 0x03;
const INTEGER: u8 = 0x02;
const BOOLEAN_TRUE: &[u8] = &[0x01, 0x01, 0xff];
const VERSION_3: &[u8] = &[0xa0, 0x03, 0x02, 0x01, 0x02];
/// The tag of the list of extensions, explicit.
const EXTENSIONS: u8 = 0xa3;
const PEM_LINE_BYTES: usize = 64;
/// The first second that is written with four digits of the year: 2050.
const GENERALIZED_FROM_SECONDS: i64 = 2_524_608_000;

/// Object identifiers, with tag and length.
mod oid {
    pub(super) const KEY_USAGE: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x0f];
    pub(super) const SUBJECT_NAMES: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x11];
    pub(super) const BASIC_CONSTRAINTS: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x13];
    pub(super) const AUTHORITY_KEY: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x23];
    pub(super) const PURPOSES: &[u8] = &[0x06, 3, 0x55, 0x1d, 0x25];
    pub(super) const SERVER_AUTH: &[u8] = &[0x06, 8, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
    pub(super) const CLIENT_AUTH: &[u8] = &[0x06, 8, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];
    pub(super) const ECDSA_SHA256: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
    pub(super) const ECDSA_SHA384: &[u8] = &[0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
    pub(super) const ED25519: &[u8] = &[0x06, 3, 0x2b, 0x65, 0x70];
    pub(super) const RSA_SHA256: &[u8] =
        &[0x06, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00];
}

/// A certificate for a request, as PEM.
pub(super) fn signed(
    authority: &Pem,
    request: &CertificateRequest,
    usages: &[&str],
    validity: Validity,
) -> Result<String, String> {
    let key =
        KeyPair::from_pem(&authority.key).map_err(|error| format!("read the authority's key: {error}"))?;
    let (_, block) = parse_x509_pem(authority.certificate.as_bytes())
        .map_err(|error| format!("read the authority's certificate: {error}"))?;
    let (_, issuer) = parse_x509_certificate(&block.contents)
        .map_err(|error| format!("read the authority's certificate: {error}"))?;
    let algorithm = tlv(SEQUENCE, &[signature_algorithm(&key)?]);
    let body = tlv(
        SEQUENCE,
        &[
            VERSION_3,
            &tlv(INTEGER, &[&serial_number()]),
            &algorithm,
            issuer.subject().as_raw(),
            &tlv(SEQUENCE, &[&time(validity.not_before), &time(validity.not_after)]),
            &request.subject,
            &request.public_key,
            &tlv(EXTENSIONS, &[&tlv(SEQUENCE, &[&extensions(&issuer, request, usages)?])]),
        ],
    );
    let signature = key.sign(&body).map_err(|error| format!("sign the certificate: {error}"))?;
    Ok(pem(&tlv(SEQUENCE, &[&body, &algorithm, &tlv(BIT_STRING, &[&[0], &signature])])))
}

fn signature_algorithm(key: &KeyPair) -> Result<&'static [u8], String> {
    let known = [
        (&rcgen::PKCS_ECDSA_P256_SHA256, oid::ECDSA_SHA256),
        (&rcgen::PKCS_ECDSA_P384_SHA384, oid::ECDSA_SHA384),
        (&rcgen::PKCS_ED25519, oid::ED25519),
        (&rcgen::PKCS_RSA_SHA256, oid::RSA_SHA256),
    ];
    let found = known.into_iter().find(|(algorithm, _)| *algorithm == key.algorithm());
    found
        .map(|(_, oid)| oid)
        .ok_or_else(|| "the authority's key has an algorithm that is not supported".into())
}

/// Positive, never zero, and never the same twice.
fn serial_number() -> [u8; 16] {
    let mut bytes: [u8; 16] = random::bytes();
    bytes[0] = bytes[0] & 0x7f | 0x40;
    bytes
}

fn extensions(
    issuer: &X509Certificate<'_>,
    request: &CertificateRequest,
    usages: &[&str],
) -> Result<Vec<u8>, String> {
    let (mut bits, mut purposes) = (0_u8, Vec::new());
    for usage in usages {
        match *usage {
            "digital signature" => bits |= 0x80,
            "key encipherment" => bits |= 0x20,
            "server auth" => purposes.push(oid::SERVER_AUTH),
            "client auth" => purposes.push(oid::CLIENT_AUTH),
            other => return Err(format!("unrecognized usage values: [{other:?}]")),
        }
    }
    let mut list = Vec::new();
    if bits != 0 {
        let unused = u8::try_from(bits.trailing_zeros()).unwrap_or(0);
        list.extend(extension(oid::KEY_USAGE, true, &tlv(BIT_STRING, &[&[unused, bits]])));
    }
    if !purposes.is_empty() {
        list.extend(extension(oid::PURPOSES, false, &tlv(SEQUENCE, &purposes)));
    }
    // No authority.
    list.extend(extension(oid::BASIC_CONSTRAINTS, true, &tlv(SEQUENCE, &[])));
    for extension in issuer.extensions() {
        let ParsedExtension::SubjectKeyIdentifier(identifier) = extension.parsed_extension() else {
            continue;
        };
        let content = tlv(SEQUENCE, &[&tlv(0x80, &[identifier.0])]);
        list.extend(self::extension(oid::AUTHORITY_KEY, false, &content));
    }
    let names = subject_names(request);
    if !names.is_empty() {
        list.extend(extension(oid::SUBJECT_NAMES, false, &tlv(SEQUENCE, &[&names])));
    }
    Ok(list)
}

fn subject_names(request: &CertificateRequest) -> Vec<u8> {
    let texts = |tag: u8, names: &[String]| {
        names.iter().flat_map(|name| tlv(tag, &[name.as_bytes()])).collect::<Vec<u8>>()
    };
    let mut names = texts(0x82, &request.dns_names);
    names.extend(texts(0x81, &request.email_addresses));
    names.extend(request.ip_addresses.iter().flat_map(|address| tlv(0x87, &[address])));
    names.extend(texts(0x86, &request.uris));
    names
}

fn extension(oid: &[u8], critical: bool, content: &[u8]) -> Vec<u8> {
    let critical = if critical { BOOLEAN_TRUE } else { &[] };
    tlv(SEQUENCE, &[oid, critical, &tlv(OCTET_STRING, &[content])])
}

fn time(at: Timestamp) -> Vec<u8> {
    let (tag, format) = if at.as_second() < GENERALIZED_FROM_SECONDS {
        (0x17, "%y%m%d%H%M%SZ")
    } else {
        (0x18, "%Y%m%d%H%M%SZ")
    };
    tlv(tag, &[at.strftime(format).to_string().as_bytes()])
}

/// Tag, length and content.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let digits = length.to_be_bytes();
    let mut bytes = vec![tag];
    if let Ok(short @ ..0x80) = u8::try_from(length) {
        bytes.push(short);
    } else {
        let leading = digits.iter().take_while(|digit| **digit == 0).count();
        let digits = &digits[leading..];
        bytes.push(0x80 | u8::try_from(digits.len()).unwrap_or(0));
        bytes.extend_from_slice(digits);
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(PEM_LINE_BYTES.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}
