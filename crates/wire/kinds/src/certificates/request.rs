//! A certificate signing request (PKCS#10), parsed.

use x509_parser::{
    certification_request::X509CertificationRequest,
    error::X509Error,
    extensions::{GeneralName, ParsedExtension},
    pem::parse_x509_pem,
    prelude::FromDer,
    x509::{AttributeTypeAndValue, X509Name},
};

const PEM_LABEL: &str = "CERTIFICATE REQUEST";
const LABEL_ERROR: &str = "PEM block type must be CERTIFICATE REQUEST";

/// The subject, names and key that a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The common name of the subject, the last one if there are several, as Kubernetes reads it; empty if there is none.
    pub common_name: String,
    /// The organizations of the subject.
    pub organizations: Vec<String>,
    /// Subject alternative names.
    pub dns_names: Vec<String>,
    /// Subject alternative names: 4 or 16 bytes each.
    pub ip_addresses: Vec<Vec<u8>>,
    /// Subject alternative names.
    pub email_addresses: Vec<String>,
    /// Subject alternative names.
    pub uris: Vec<String>,
    /// The subject as DER.
    pub subject: Vec<u8>,
    /// The public key with its algorithm, as DER.
    pub public_key: Vec<u8>,
}

impl CertificateRequest {
    /// Reads a request as PEM and checks that it is signed with the key that it names.
    ///
    /// # Errors
    /// The reason why it is invalid.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        let (_, block) = parse_x509_pem(pem).map_err(|_| LABEL_ERROR.to_owned())?;
        if block.label != PEM_LABEL {
            return Err(LABEL_ERROR.into());
        }
        let (rest, request) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|error| format!("x509: malformed certificate request: {error}"))?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".into());
        }
        let parsed = Self::of(&request)?;
        request.verify_signature().map_err(|error| {
            let unknown = matches!(error, X509Error::SignatureUnsupportedAlgorithm);
            let why = if unknown {
                "x509: cannot verify signature: algorithm unimplemented"
            } else {
                "x509: the signature of the request does not match its public key"
            };
            why.to_owned()
        })?;
        Ok(parsed)
    }

    fn of(request: &X509CertificationRequest<'_>) -> Result<Self, String> {
        let info = &request.certification_request_info;
        let mut parsed = Self {
            common_name: texts(info.subject.iter_common_name())?.pop().unwrap_or_default(),
            organizations: texts(info.subject.iter_organization())?,
            subject: raw(&info.subject),
            public_key: info.subject_pki.raw.to_vec(),
            ..Self::default()
        };
        for extension in request.requested_extensions().into_iter().flatten() {
            // The signer decides about every other extension.
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names.general_names.iter().try_for_each(|name| parsed.add(name))?;
            } else if let ParsedExtension::ParseError { .. } = extension {
                return Err("x509: malformed extension in certificate request".into());
            }
        }
        Ok(parsed)
    }

    fn add(&mut self, name: &GeneralName<'_>) -> Result<(), String> {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::RFC822Name(name) => self.email_addresses.push((*name).to_owned()),
            GeneralName::URI(name) => self.uris.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) if matches!(bytes.len(), 4 | 16) => {
                self.ip_addresses.push(bytes.to_vec());
            }
            GeneralName::IPAddress(bytes) => {
                return Err(format!("x509: cannot parse IP address of length {}", bytes.len()));
            }
            GeneralName::Invalid(..) => {
                return Err("x509: malformed subjectAltName in certificate request".into());
            }
            // Not copied into certificates.
            GeneralName::OtherName(..)
            | GeneralName::X400Address(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EDIPartyName(_)
            | GeneralName::RegisteredID(_) => {}
        }
        Ok(())
    }
}

fn raw(name: &X509Name<'_>) -> Vec<u8> {
    name.as_raw().to_vec()
}

fn texts<'a>(values: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Result<Vec<String>, String> {
    values
        .map(|value| value.as_str().map(str::to_owned))
        .collect::<Result<_, _>>()
        .map_err(|_| "x509: the subject has a name that is no text".to_owned())
}
