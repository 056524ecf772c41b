//! Which names and paths of a pod may become names and paths on disk.

/// The longest name of a file, in bytes: `NAME_MAX` of Linux.
pub(crate) const FILE_NAME_BYTES_MAX: usize = 255;
/// The longest path, in bytes: `PATH_MAX` of Linux.
pub(crate) const PATH_BYTES_MAX: usize = 4096;
/// The longest name of a namespace, pod or node: a DNS subdomain.
const SUBDOMAIN_BYTES_MAX: usize = 253;
/// The longest label of a DNS name.
const LABEL_BYTES_MAX: usize = 63;
/// A UID is 36 characters, and 32 for a static pod; a file name takes more.
const UID_BYTES_MAX: usize = 128;

/// Whether this is a UID that can name a directory: letters, digits and `-`, as Kubernetes makes them.
pub(crate) fn is_uid(text: &str) -> bool {
    (1..=UID_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether this is a DNS label: `a-z`, `0-9` and `-`, neither first nor last a `-`.
pub(crate) fn is_label(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=LABEL_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
        && text.bytes().next().is_some_and(is_letter)
        && text.bytes().last().is_some_and(is_letter)
}

/// Whether this is DNS labels with dots between them.
pub(crate) fn is_subdomain(text: &str) -> bool {
    text.len() <= SUBDOMAIN_BYTES_MAX
        && text.split('.').all(|part| {
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !part.is_empty()
                && part.bytes().all(|byte| is_letter(byte) || byte == b'-')
                && part.bytes().next().is_some_and(is_letter)
                && part.bytes().last().is_some_and(is_letter)
        })
}

/// Checks a path below a volume that is written as one, and cleans it: no `.`, no doubled `/`.
pub(crate) fn payload_path(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err(format!("invalid path: must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return Err(format!("invalid path: must be relative path: {path}"));
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(format!("invalid path: must be less than or equal to {PATH_BYTES_MAX} characters"));
    }
    if path.contains('\0') {
        return Err("invalid path: must not contain a NUL byte".to_owned());
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        if part == ".." {
            return Err(format!("invalid path: must not contain '..': {path}"));
        }
        if part.len() > FILE_NAME_BYTES_MAX {
            return Err(format!(
                "invalid path: filenames must be less than or equal to {FILE_NAME_BYTES_MAX} characters"
            ));
        }
        if !part.is_empty() && part != "." {
            parts.push(part);
        }
    }
    // Names that begin with two dots are those of the writer itself.
    match parts.first() {
        None => Err(format!("invalid path: must not be empty: {path:?}")),
        Some(first) if first.starts_with("..") => {
            Err(format!("invalid path: must not start with '..': {path}"))
        }
        Some(_) => Ok(parts.join("/")),
    }
}

/// Whether one of the parts of a path is `..`.
pub(crate) fn has_backsteps(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert!(is_uid("0b6a2b62-3b0a-4f1c-9a27-5b5c3a1d2e3f"));
        for wrong in ["", ".", "..", "a/b", "a.b", "a b", "ä"] {
            assert!(!is_uid(wrong), "{wrong}");
        }
        assert!(is_label("a-1"));
        for wrong in ["", "-a", "a-", "A", "a.b", "..", "a/b"] {
            assert!(!is_label(wrong), "{wrong}");
        }
        assert!(is_subdomain("a.b-c.d"));
        for wrong in ["", ".", "a..b", "a.", "../x"] {
            assert!(!is_subdomain(wrong), "{wrong}");
        }
    }
}
