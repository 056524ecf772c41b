//! Semantic versions as DRA compares them.

use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use crate::Text;

/// A semantic version 2.0.0. Order, equality and hash leave build metadata out, as the standard says.
#[derive(Clone, Debug)]
pub struct Version {
    major: u64,
    minor: u64,
    patch: u64,
    pre: Vec<Identifier>,
    build: Vec<Text>,
}

/// One dot-separated part of a pre-release. The order of the variants is theirs: numbers come before words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Identifier {
    Number(u64),
    Word(Text),
}

/// Why a text is not a semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionError {
    /// Not three numbers with dots between them.
    Parts,
    /// A number that is empty, too large, or not a number.
    Number(String),
    /// A number that starts with a zero.
    LeadingZero(String),
    /// A part of the pre-release or build metadata that is empty or has other than letters, digits and hyphens.
    Identifier(String),
    /// A version without all three numbers cannot carry a pre-release or build metadata.
    ShortWithSuffix,
}

impl Version {
    /// Reads a version that obeys the standard to the letter.
    ///
    /// # Errors
    /// When it does not.
    pub fn parse(text: &str) -> Result<Self, VersionError> {
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VersionError::Parts);
        };
        let (rest, build) = split_suffix(rest, '+');
        let (patch, pre) = split_suffix(rest, '-');
        Ok(Self {
            major: number(major)?,
            minor: number(minor)?,
            patch: number(patch)?,
            pre: pre.map_or(Ok(Vec::new()), |pre| pre.split('.').map(Identifier::parse).collect())?,
            build: build.map_or(Ok(Vec::new()), |build| build.split('.').map(word).collect())?,
        })
    }

    /// Reads a version as people write them: one leading `v` is dropped, absent minor and patch numbers are zero,
    /// and leading zeros do not matter.
    ///
    /// # Errors
    /// When what comes of it does not obey the standard.
    pub fn parse_normalized(text: &str) -> Result<Self, VersionError> {
        let mut parts: Vec<_> =
            text.strip_prefix('v').unwrap_or(text).splitn(3, '.').map(without_leading_zeros).collect();
        if parts.len() < 3 {
            if parts.last().is_some_and(|last| last.contains(['+', '-'])) {
                return Err(VersionError::ShortWithSuffix);
            }
            parts.resize(3, "0".into());
        }
        Self::parse(&parts.join("."))
    }

    /// The first number.
    #[must_use]
    pub fn major(&self) -> u64 {
        self.major
    }

    /// The second number.
    #[must_use]
    pub fn minor(&self) -> u64 {
        self.minor
    }

    /// The third number.
    #[must_use]
    pub fn patch(&self) -> u64 {
        self.patch
    }

    fn numbers(&self) -> (u64, u64, u64) {
        (self.major, self.minor, self.patch)
    }
}

impl Identifier {
    fn parse(text: &str) -> Result<Self, VersionError> {
        if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
            return number(text).map(Self::Number);
        }
        word(text).map(Self::Word)
    }
}

fn split_suffix(text: &str, mark: char) -> (&str, Option<&str>) {
    text.split_once(mark).map_or((text, None), |(head, tail)| (head, Some(tail)))
}

fn number(text: &str) -> Result<u64, VersionError> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(VersionError::Number(text.into()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(VersionError::LeadingZero(text.into()));
    }
    text.parse().map_err(|_| VersionError::Number(text.into()))
}

fn word(text: &str) -> Result<Text, VersionError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(VersionError::Identifier(text.into()));
    }
    Ok(text.into())
}

/// A part of one byte stays as it is; a longer one gets a zero back where it has no other digit in front.
fn without_leading_zeros(part: &str) -> Cow<'_, str> {
    if part.len() < 2 {
        return part.into();
    }
    let trimmed = part.trim_start_matches('0');
    if trimmed.starts_with(|c: char| c.is_ascii_digit()) {
        trimmed.into()
    } else {
        format!("0{trimmed}").into()
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.numbers().cmp(&other.numbers()).then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
            // A release comes after all its pre-releases.
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (true, true) | (false, false) => self.pre.cmp(&other.pre),
        })
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Hash for Version {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.numbers().hash(state);
        self.pre.hash(state);
    }
}

impl FromStr for Version {
    type Err = VersionError;
    fn from_str(text: &str) -> Result<Self, VersionError> {
        Self::parse(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (at, part) in self.pre.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match part {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Word(word) => f.write_str(word)?,
            }
        }
        for (at, part) in self.build.iter().enumerate() {
            f.write_str(if at == 0 { "+" } else { "." })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

impl fmt::Display for VersionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts => f.write_str("a version is three numbers with dots between them, as in 1.2.3"),
            Self::Number(text) => write!(f, "{text:?} is not a whole number of at most 64 bits"),
            Self::LeadingZero(text) => write!(f, "the number {text:?} must not start with a zero"),
            Self::Identifier(text) => {
                write!(f, "{text:?} must be letters, digits and hyphens, at least one, between dots")
            }
            Self::ShortWithSuffix => {
                f.write_str("a version needs all three numbers before a pre-release or build metadata")
            }
        }
    }
}

impl core::error::Error for VersionError {}

#[cfg(test)]
mod tests;
