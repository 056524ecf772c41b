//! Names: `vendor/class=device`.

use std::{fmt, str::FromStr};

use thiserror::Error;

/// A device by its full name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QualifiedName {
    vendor: String,
    class: String,
    device: String,
}

/// Why a name is not one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// A part is missing.
    #[error("{name:?} is not vendor/class=device")]
    Unqualified {
        /// The given text.
        name: String,
    },
    /// A part is there, and is not allowed.
    #[error("{part} {name:?}: {why}")]
    Part {
        /// Which part.
        part: &'static str,
        /// The given text.
        name: String,
        /// Why it is not allowed.
        why: &'static str,
    },
}

impl QualifiedName {
    /// A name of these parts.
    ///
    /// # Errors
    /// When a part is not allowed.
    pub fn new(vendor: &str, class: &str, device: &str) -> Result<Self, NameError> {
        validate_vendor(vendor)?;
        validate_class(class)?;
        validate_device_name(device)?;
        Ok(Self { vendor: vendor.to_owned(), class: class.to_owned(), device: device.to_owned() })
    }

    /// The vendor of the device, `gpu.example.com`.
    #[must_use]
    pub fn vendor(&self) -> &str {
        &self.vendor
    }

    /// The class of the device, `gpu`.
    #[must_use]
    pub fn class(&self) -> &str {
        &self.class
    }

    /// Which one.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }
}

impl FromStr for QualifiedName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let unqualified = || NameError::Unqualified { name: name.to_owned() };
        let (kind, device) = name.split_once('=').ok_or_else(unqualified)?;
        let (vendor, class) = split_kind(kind).ok_or_else(unqualified)?;
        if device.is_empty() { Err(unqualified()) } else { Self::new(vendor, class, device) }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}={}", self.vendor, self.class, self.device)
    }
}

/// The vendor and the class of a kind.
#[must_use]
pub fn split_kind(kind: &str) -> Option<(&str, &str)> {
    kind.split_once('/').filter(|(vendor, class)| !vendor.is_empty() && !class.is_empty())
}

/// Checks the name of a vendor.
///
/// # Errors
/// When it is not allowed.
pub fn validate_vendor(name: &str) -> Result<(), NameError> {
    check("vendor", name, u8::is_ascii_alphabetic, b"._-")
}

/// Checks the name of a class.
///
/// # Errors
/// When it is not allowed.
pub fn validate_class(name: &str) -> Result<(), NameError> {
    check("class", name, u8::is_ascii_alphabetic, b"._-")
}

/// Checks the name of a device.
///
/// # Errors
/// When it is not allowed.
pub fn validate_device_name(name: &str) -> Result<(), NameError> {
    check("device", name, u8::is_ascii_alphanumeric, b"._-:")
}

fn check(part: &'static str, name: &str, first: fn(&u8) -> bool, inside: &[u8]) -> Result<(), NameError> {
    let wrong = |why| NameError::Part { part, name: name.to_owned(), why };
    let [start, rest @ ..] = name.as_bytes() else { return Err(wrong("is empty")) };
    if !first(start) {
        return Err(wrong("starts with a character that is not allowed there"));
    }
    let Some((end, middle)) = rest.split_last() else { return Ok(()) };
    if middle.iter().any(|byte| !byte.is_ascii_alphanumeric() && !inside.contains(byte)) {
        return Err(wrong("has a character that is not allowed"));
    }
    if end.is_ascii_alphanumeric() { Ok(()) } else { Err(wrong("does not end with a letter or digit")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a.b/c=d", "vendor.com/gpu=0", "v/c.x=8f1e-gpu:0", "V1/c_d=a.b"] {
            assert_eq!(name.parse::<QualifiedName>().unwrap().to_string(), name);
        }
        for (name, part) in [
            ("", "not vendor"),
            ("gpu-0", "not vendor"),
            ("/dev/null", "not vendor"),
            ("vendor=x", "not vendor"),
            ("v/=x", "not vendor"),
            ("/c=x", "not vendor"),
            ("v/c=", "not vendor"),
            ("1v/c=x", "vendor"),
            ("v/1c=x", "class"),
            ("v./c=x", "vendor"),
            ("v/c/d=x", "class"),
            ("v:w/c=x", "vendor"),
            ("v/c=-x", "device"),
            ("v/c=x-", "device"),
            ("v/c=x y", "device"),
            ("v/c=ä1", "device"),
            ("v/c=../x", "device"),
        ] {
            let error = name.parse::<QualifiedName>().unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
