//! Which runtimes apply CDI names. Older ones ignore them without a word.

use lazaret_containers::RuntimeError;

use crate::proto::VersionResponse;

/// The first versions that read `CDI_devices`.
const FIRST: &[(&str, (u32, u32))] = &[("containerd", (1, 7)), ("cri-o", (1, 28))];

/// Bytes of a runtime's name. It is part of every container's id.
const NAME_BYTES_MAX: usize = 32;

/// Refuses a runtime that is known to ignore CDI names. One that is not known is probed when a container needs a device.
pub(crate) fn check(version: &VersionResponse) -> Result<(), RuntimeError> {
    let name = version.runtime_name.as_str();
    let Some((_, first)) = FIRST.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        return Ok(());
    };
    let (major, minor) = first;
    match parse(&version.runtime_version) {
        Some(own) if own >= *first => Ok(()),
        Some(_) => Err(RuntimeError::NotPossible(format!(
            "{name} {} ignores CDI devices: {major}.{minor} or later is needed",
            version.runtime_version
        ))),
        None => Err(RuntimeError::NotPossible(format!(
            "{name} says that its version is {:?}: {major}.{minor} or later is needed",
            version.runtime_version
        ))),
    }
}

/// The runtime's own name, for ids of containers: `containerd://…`.
pub(crate) fn name(version: &VersionResponse) -> String {
    let name = version.runtime_name.to_ascii_lowercase();
    let is_plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_plain { name } else { "cri".to_owned() }
}

/// `v1.7.24`, `2.1.9+unknown`, `1.30.0-dev`.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|char: char| !char.is_ascii_digit()).unwrap_or(minor.len());
    Some((major, minor[..digits].parse().ok()?))
}
