//! Names of images, as Kubernetes and Docker read them.

use std::fmt;

use thiserror::Error;

use crate::Digest;

/// The registry of a name without one.
const DEFAULT_REGISTRY: &str = "docker.io";
/// Another name of it, from the time before.
const LEGACY_REGISTRY: &str = "index.docker.io";
/// Where a name of one word is, in the default registry.
const DEFAULT_FOLDER: &str = "library/";
const DEFAULT_TAG: &str = "latest";
/// As in the distribution specification.
const REPOSITORY_BYTES_MAX: usize = 255;
const TAG_BYTES_MAX: usize = 128;
/// A registry, a repository, a tag and a digest. Longer names are refused before they are looked at.
const NAME_BYTES_MAX: usize = 1_024;

/// The name of an image, complete: `busybox` is `docker.io/library/busybox:latest`.
///
/// With a digest there is no tag: the digest alone says which image it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    registry: String,
    repository: String,
    version: Version,
}

/// Which image of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Version {
    Tag(String),
    Digest(Digest),
}

/// Why a text is not the name of an image: `InvalidImageName` in a pod's status.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("couldn't parse image name {name:?}: {cause}")]
pub struct ParseError {
    name: String,
    cause: String,
}

impl Reference {
    /// Reads a name and completes it.
    pub fn parse(name: &str) -> Result<Self, ParseError> {
        read(name).map_err(|cause| ParseError { name: shortened(name), cause })
    }

    /// `docker.io`, `localhost:5000`, `[::1]:5000`.
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// `library/busybox`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest of the manifest, where the name has one.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.version {
            Version::Digest(digest) => Some(digest),
            Version::Tag(_) => None,
        }
    }

    /// The registry and the repository: `docker.io/library/busybox`.
    pub fn without_version(&self) -> String {
        format!("{}/{}", self.registry, self.repository)
    }

    /// The version in a request to a registry: the tag or the digest.
    pub(crate) fn version(&self) -> String {
        match &self.version {
            Version::Tag(tag) => tag.clone(),
            Version::Digest(digest) => digest.to_string(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, repository, version } = self;
        match version {
            Version::Tag(tag) => write!(formatter, "{registry}/{repository}:{tag}"),
            Version::Digest(digest) => write!(formatter, "{registry}/{repository}@{digest}"),
        }
    }
}

/// The part of a text that is repeated in an error.
fn shortened(name: &str) -> String {
    name.chars().take(NAME_BYTES_MAX).collect()
}

fn read(name: &str) -> Result<Reference, String> {
    const FORMAT: &str = "invalid reference format";
    if name.len() > NAME_BYTES_MAX {
        return Err(FORMAT.to_owned());
    }
    if name.len() == 64 && name.bytes().all(is_hex) {
        return Err(format!("invalid repository name ({name}), cannot specify 64-byte hexadecimal strings"));
    }
    let (registry, rest) = split_registry(name);
    let remote = rest.split(':').next().unwrap_or_default();
    if remote.chars().any(char::is_uppercase) {
        return Err(format!("{FORMAT}: repository name ({remote}) must be lowercase"));
    }
    let (rest, digest) = match rest.split_once('@') {
        Some((rest, digest)) => (rest.to_owned(), Some(digest)),
        None => (rest, None),
    };
    let (repository, tag) = match rest.split_once(':') {
        Some((repository, tag)) => (repository.to_owned(), Some(tag)),
        None => (rest.clone(), None),
    };
    if !is_registry(&registry) || !repository.split('/').all(is_component) || !tag.is_none_or(is_tag) {
        return Err(FORMAT.to_owned());
    }
    if repository.len() > REPOSITORY_BYTES_MAX {
        return Err(format!("repository name must not be more than {REPOSITORY_BYTES_MAX} characters"));
    }
    let version = match (digest, tag) {
        (Some(digest), _) => Version::Digest(read_digest(digest)?),
        (None, Some(tag)) => Version::Tag(tag.to_owned()),
        (None, None) => Version::Tag(DEFAULT_TAG.to_owned()),
    };
    Ok(Reference { registry, repository, version })
}

fn read_digest(text: &str) -> Result<Digest, String> {
    let is_shaped = text.split_once(':').is_some_and(|(algorithm, value)| {
        !algorithm.is_empty()
            && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+._-".contains(&byte))
            && value.len() >= 32
            && value.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    if !is_shaped {
        return Err("invalid reference format".to_owned());
    }
    let value = match text.split_once(':') {
        Some(("sha256", value)) => value,
        _ => return Err("unsupported digest algorithm".to_owned()),
    };
    if value.len() != 64 {
        return Err("invalid checksum digest length".to_owned());
    }
    Digest::parse(text).ok_or_else(|| "invalid checksum digest format".to_owned())
}

/// The registry, and the rest with the folder that Docker puts before a single word.
fn split_registry(name: &str) -> (String, String) {
    let (registry, rest) = match name.split_once('/') {
        Some((first, rest)) if first == LEGACY_REGISTRY => (DEFAULT_REGISTRY, rest),
        Some((first, rest)) if is_like_a_registry(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    if registry == DEFAULT_REGISTRY && !rest.contains('/') {
        return (registry.to_owned(), format!("{DEFAULT_FOLDER}{rest}"));
    }
    (registry.to_owned(), rest.to_owned())
}

fn is_like_a_registry(first: &str) -> bool {
    first == "localhost" || first.contains(['.', ':']) || first.chars().any(char::is_uppercase)
}

fn is_registry(registry: &str) -> bool {
    let (host, port) = match registry.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, rest)) => {
                if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':') {
                    return false;
                }
                (None, rest.strip_prefix(':').map_or((!rest.is_empty()).then_some(""), Some))
            }
            None => return false,
        },
        None => match registry.split_once(':') {
            Some((host, port)) => (Some(host), Some(port)),
            None => (Some(registry), None),
        },
    };
    host.is_none_or(|host| host.split('.').all(is_domain_label))
        && port.is_none_or(|port| {
            !port.is_empty() && port.parse::<u16>().is_ok() && port.bytes().all(|b| b.is_ascii_digit())
        })
}

fn is_domain_label(label: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    ends(label.bytes().next())
        && ends(label.bytes().last())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lowercase letters and digits, separated by one dot, one or two underscores, or any number of dashes.
fn is_component(component: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    if !is_letter(*first) || !is_letter(*last) {
        return false;
    }
    bytes.split(|byte| is_letter(*byte)).filter(|separator| !separator.is_empty()).all(|separator| {
        matches!(separator, b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-')
    })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= TAG_BYTES_MAX
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}
