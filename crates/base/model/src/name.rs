//! Which strings are names.

use core::fmt;

/// Names of objects, drivers, domains.
const SUBDOMAIN_LEN_MAX: usize = 253;
/// Names of devices, label names and values, driver names.
const LABEL_LEN_MAX: usize = 63;
/// Names of attributes and capacities.
const IDENTIFIER_LEN_MAX: usize = 32;

/// Why a string is not a name of the kind that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// There is nothing.
    Empty(NamePart),
    /// Longer than this number of bytes.
    TooLong(NamePart, usize),
    /// Characters that the part does not allow, or not where they stand.
    Characters(NamePart),
    /// More slashes than the kind of name has.
    TooManySlashes,
}

/// The syntax of a name, or of the part of it that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// Lower-case letters, digits, hyphens.
    DnsLabel,
    /// Labels with dots between them.
    DnsSubdomain,
    /// A subdomain in either case.
    DriverName,
    /// Subdomains with slashes between them.
    PoolName,
    /// The domain in front of a label name.
    LabelPrefix,
    /// A label name without its domain.
    LabelName,
    /// A label value.
    LabelValue,
    /// Letters, digits, underscores.
    Identifier,
}

/// A DNS label: a device, a counter, a request.
///
/// # Errors
/// When it is none.
pub fn validate_dns_label(text: &str) -> Result<(), NameError> {
    sized(NamePart::DnsLabel, text, LABEL_LEN_MAX)?;
    conforms(NamePart::DnsLabel, is_dns_label(text))
}

/// A DNS subdomain: most objects, classes.
///
/// # Errors
/// When it is none.
pub fn validate_dns_subdomain(text: &str) -> Result<(), NameError> {
    subdomain(NamePart::DnsSubdomain, text)
}

/// A driver: a subdomain of at most 63 bytes whose case does not matter.
///
/// # Errors
/// When it is none.
pub fn validate_driver_name(text: &str) -> Result<(), NameError> {
    sized(NamePart::DriverName, text, LABEL_LEN_MAX)?;
    conforms(NamePart::DriverName, is_subdomain(&text.to_ascii_lowercase()))
}

/// A pool: subdomains with slashes between them.
///
/// # Errors
/// When it is none.
pub fn validate_pool_name(text: &str) -> Result<(), NameError> {
    sized(NamePart::PoolName, text, SUBDOMAIN_LEN_MAX)?;
    conforms(NamePart::PoolName, text.split('/').all(is_subdomain))
}

/// A label name, which is also what taint keys and condition types are: a name, maybe after a domain and a slash.
///
/// # Errors
/// When it is none.
pub fn validate_label_name(text: &str) -> Result<(), NameError> {
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => return Err(NameError::TooManySlashes),
        Some((prefix, name)) => {
            subdomain(NamePart::LabelPrefix, prefix)?;
            name
        }
    };
    sized(NamePart::LabelName, name, LABEL_LEN_MAX)?;
    conforms(NamePart::LabelName, is_label_word(name))
}

/// A label value, which may be empty.
///
/// # Errors
/// When it is none.
pub fn validate_label_value(text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Ok(());
    }
    sized(NamePart::LabelValue, text, LABEL_LEN_MAX)?;
    conforms(NamePart::LabelValue, is_label_word(text))
}

/// An identifier: an attribute or capacity without its domain.
///
/// # Errors
/// When it is none.
pub fn validate_c_identifier(text: &str) -> Result<(), NameError> {
    sized(NamePart::Identifier, text, IDENTIFIER_LEN_MAX)?;
    let starts = !text.starts_with(|c: char| c.is_ascii_digit());
    conforms(NamePart::Identifier, starts && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// The key of an attribute or capacity: an identifier, maybe after a driver's name and a slash.
///
/// DEVIATION(qualified-name-slashes): Kubernetes lets every name with two or more slashes pass, and means to stop that.
///
/// # Errors
/// When it is none.
pub fn validate_qualified_name(text: &str) -> Result<(), NameError> {
    match text.split_once('/') {
        None => validate_c_identifier(text),
        Some((_, id)) if id.contains('/') => Err(NameError::TooManySlashes),
        Some((domain, id)) => validate_driver_name(domain).and_then(|()| validate_c_identifier(id)),
    }
}

fn subdomain(part: NamePart, text: &str) -> Result<(), NameError> {
    sized(part, text, SUBDOMAIN_LEN_MAX)?;
    conforms(part, is_subdomain(text))
}

fn sized(part: NamePart, text: &str, len_max: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty(part));
    }
    if text.len() > len_max { Err(NameError::TooLong(part, len_max)) } else { Ok(()) }
}

fn conforms(part: NamePart, conforms: bool) -> Result<(), NameError> {
    if conforms { Ok(()) } else { Err(NameError::Characters(part)) }
}

/// A part of a subdomain may be longer than a label that stands alone; only the whole is limited.
fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    has_ends(text, alphanumeric) && text.bytes().all(|b| alphanumeric(b) || b == b'-')
}

fn is_label_word(text: &str) -> bool {
    has_ends(text, |b| b.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn has_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => allowed(*only),
        [first, .., last] => allowed(*first) && allowed(*last),
    }
}

impl NamePart {
    /// Its name in messages, and the characters that it allows.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::DnsLabel => {
                ("a DNS label", "lower-case letters, digits and '-', with a letter or digit at both ends")
            }
            Self::DnsSubdomain => (
                "a DNS subdomain",
                "lower-case letters, digits, '-' and '.', with a letter or digit at both ends and around each dot",
            ),
            Self::DriverName => (
                "a driver name",
                "letters, digits, '-' and '.', with a letter or digit at both ends and around each dot",
            ),
            Self::PoolName => ("a pool name", "one or more DNS subdomains with '/' between them"),
            Self::LabelPrefix => (
                "the part before '/'",
                "lower-case letters, digits, '-' and '.', with a letter or digit at both ends and around each dot",
            ),
            Self::LabelName => {
                ("a label name", "letters, digits, '-', '_' and '.', with a letter or digit at both ends")
            }
            Self::LabelValue => {
                ("a label value", "letters, digits, '-', '_' and '.', with a letter or digit at both ends")
            }
            Self::Identifier => ("an identifier", "letters, digits and '_', and does not start with a digit"),
        }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(part) => write!(f, "{} must not be empty", part.words().0),
            Self::TooLong(part, len_max) => write!(f, "{} has at most {len_max} bytes", part.words().0),
            Self::Characters(part) => {
                let (what, allowed) = part.words();
                write!(f, "{what} consists of {allowed}")
            }
            Self::TooManySlashes => {
                f.write_str("at most one '/' may stand in it, between a domain and a name")
            }
        }
    }
}

impl core::error::Error for NameError {}

#[cfg(test)]
mod tests;
