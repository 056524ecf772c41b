//! Credentials of registries, from pull secrets.

use std::{collections::BTreeMap, fmt};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::Reference;

/// Entries of all pull secrets of a pod together.
const ENTRIES_MAX: usize = 1_000;

/// User names and passwords by registry, as `.dockerconfigjson` has them. They are never shown.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keychain {
    entries: Vec<(String, Credentials)>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Credentials {
    pub(crate) username: String,
    pub(crate) password: String,
}

/// A pull secret that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the pull secret is not valid: {0}")]
pub struct KeychainError(String);

#[derive(Deserialize)]
struct KeychainEntry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

impl Keychain {
    /// Reads the content of a Secret of type `kubernetes.io/dockerconfigjson`, or of the older `kubernetes.io/dockercfg`.
    pub fn parse(content: &[u8]) -> Result<Self, KeychainError> {
        // The texts of serde's errors may have parts of what is secret.
        let wrong = |error: serde_json::Error| {
            KeychainError(format!("line {}, column {}", error.line(), error.column()))
        };
        let mut content: BTreeMap<String, Value> = serde_json::from_slice(content).map_err(wrong)?;
        let entries = content.remove("auths").unwrap_or_else(|| content.into_iter().collect());
        let entries: BTreeMap<String, KeychainEntry> = serde_json::from_value(entries)
            .map_err(|_| KeychainError("an entry is not an object with username, password or auth".into()))?;
        let mut keychain = Self::default();
        for (registry, entry) in entries {
            let credentials = entry.read().ok_or_else(|| {
                KeychainError(format!("the field auth of {registry:?} is not USER:PASSWORD in Base64"))
            })?;
            keychain.entries.push((normalized(&registry), credentials));
        }
        keychain.sort()?;
        Ok(keychain)
    }

    /// One that knows what both know.
    pub fn merge(mut self, other: Self) -> Result<Self, KeychainError> {
        self.entries.extend(other.entries);
        self.sort()?;
        Ok(self)
    }

    /// Whether it has nothing.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn sort(&mut self) -> Result<(), KeychainError> {
        if self.entries.len() > ENTRIES_MAX {
            return Err(KeychainError(format!("more than {ENTRIES_MAX} entries")));
        }
        // The longest path first: it fits best. As a kubelet does.
        self.entries.sort_by(|left, right| right.0.cmp(&left.0));
        Ok(())
    }

    /// User names and passwords that may be tried for an image, the best first.
    pub fn credentials(&self, image: &Reference) -> impl Iterator<Item = (&str, &str)> {
        self.lookup(image).into_iter().map(|credentials| (&*credentials.username, &*credentials.password))
    }

    /// The credentials to try for an image, the best first.
    pub(crate) fn lookup(&self, image: &Reference) -> Vec<&Credentials> {
        let name = image.without_version();
        self.entries
            .iter()
            .filter(|(pattern, _)| fits(pattern, &name))
            .map(|(_, credentials)| credentials)
            .collect()
    }
}

impl KeychainEntry {
    fn read(self) -> Option<Credentials> {
        if self.auth.is_empty() {
            return Some(Credentials { username: self.username, password: self.password });
        }
        let auth = self.auth.trim();
        let bytes = STANDARD.decode(auth).or_else(|_| STANDARD_NO_PAD.decode(auth)).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let (username, password) = text.split_once(':')?;
        Some(Credentials {
            username: username.to_owned(),
            password: password.trim_end_matches('\0').to_owned(),
        })
    }
}

impl fmt::Debug for Keychain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.entries.iter().map(|(registry, _)| registry)).finish()
    }
}

/// `https://index.docker.io/v1/` is `docker.io`.
fn normalized(registry: &str) -> String {
    let registry = registry.trim().trim_start_matches("https://").trim_start_matches("http://");
    let registry = registry.trim_end_matches('/');
    let registry = registry.strip_suffix("/v1").or_else(|| registry.strip_suffix("/v2")).unwrap_or(registry);
    let (host, path) = registry.split_once('/').map_or((registry, None), |(host, path)| (host, Some(path)));
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        other => other,
    };
    path.map_or_else(|| host.to_owned(), |path| format!("{host}/{path}"))
}

/// `*.example.com/team` fits `eu.example.com/team/app`.
fn fits(pattern: &str, name: &str) -> bool {
    let split = |text: &str| {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let (host, port) = match host.rsplit_once(':') {
            Some((left, port)) if !port.contains(']') => (left, port),
            _ => (host, ""),
        };
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let (pattern_host, pattern_port, pattern_path) = split(pattern);
    let (host, port, path) = split(name);
    let labels = |host: &str| host.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (pattern_labels, labels) = (labels(&pattern_host), labels(&host));
    pattern_port == port
        && path.starts_with(&pattern_path)
        && pattern_labels.len() == labels.len()
        && pattern_labels.iter().zip(&labels).all(|(pattern, label)| fits_label(pattern, label))
}

/// At most one `*` in a label.
fn fits_label(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((start, end)) => {
            label.len() >= start.len() + end.len() && label.starts_with(start) && label.ends_with(end)
        }
    }
}
