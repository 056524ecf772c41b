//! Projected volumes: files of several sources in one folder.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::{validate_dns_subdomain, validate_label_name};

use super::volumes::{downward_file, key_to_path, local_path, mode};
use crate::{
    Errors, FieldProblem,
    certificates::signer_name,
    check::{label_selector, name, not_supported},
    path::Path,
    value::{entries, has, list, number, some, text},
};

const PARTS: &[&str] =
    &["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_SECONDS_MIN: i64 = 3600;
const CERTIFICATE_SECONDS_MAX: i64 = 91 * 24 * 60 * 60;
/// The same of signers that Kubernetes defines.
const KUBERNETES_CERTIFICATE_SECONDS_MAX: i64 = 24 * 60 * 60;
const ANNOTATIONS_BYTES_MAX: usize = 256 << 10;

/// The paths of files that a volume has by now.
type Files<'v> = BTreeSet<&'v str>;

/// The sources of a projected volume, at the path of the volume.
pub(super) fn check(errors: &mut Errors, volume: &Path<'_>, source: &Value) {
    mode(errors, volume, source, "defaultMode");
    let mut files = Files::new();
    for (at, part) in list(source, "sources").iter().enumerate() {
        let path = volume.field("sources");
        let path = path.index(at);
        let found: Vec<&str> = PARTS.iter().copied().filter(|kind| has(part, kind)).collect();
        for kind in &found {
            projection(errors, volume, &path.field(kind), kind, &part[*kind], &mut files);
        }
        if found.len() > 1 {
            errors.forbidden(path, "may not specify more than 1 volume type per source");
        }
    }
}

/// A pod without an account, as a node makes it for itself, has no token.
pub(super) fn tokens_have_an_account(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(at);
        let path = path.field("projected");
        let path = path.field("sources");
        for (at, _) in list(&volume["projected"], "sources")
            .iter()
            .enumerate()
            .filter(|(_, part)| has(part, "serviceAccountToken"))
        {
            let why = "must not be specified when serviceAccountName is not set";
            errors.forbidden(path.index(at).field("serviceAccountToken"), why);
        }
    }
}

fn projection<'v>(
    errors: &mut Errors,
    volume: &Path<'_>,
    path: &Path<'_>,
    kind: &str,
    part: &'v Value,
    files: &mut Files<'v>,
) {
    match kind {
        "secret" | "configMap" => {
            if text(part, "name").is_empty() {
                errors.required(path.field("name"), "");
            }
            for (at, item) in list(part, "items").iter().enumerate() {
                key_to_path(errors, &path.field("items").index(at), item);
                file(errors, volume, text(item, "path"), files);
            }
        }
        "downwardAPI" => {
            for item in list(part, "items") {
                downward_file(errors, path, item);
                file(errors, volume, text(item, "path"), files);
            }
        }
        "serviceAccountToken" => token(errors, volume, path, part),
        "clusterTrustBundle" => {
            trust_bundle(errors, path, part);
            file(errors, volume, text(part, "path"), files);
        }
        _ => {
            certificate(errors, path, part);
            for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
                file(errors, volume, text(part, field), files);
            }
        }
    }
}

/// Kubernetes names the volume when two of its files have one path.
fn file<'v>(errors: &mut Errors, volume: &Path<'_>, path: &'v str, files: &mut Files<'v>) {
    if !path.is_empty() && !files.insert(path) {
        errors.invalid(volume, path, "conflicting duplicate paths");
    }
}

/// Kubernetes names the file as if it were one of the volume's own fields.
fn token(errors: &mut Errors, volume: &Path<'_>, path: &Path<'_>, token: &Value) {
    let seconds = number(token, "expirationSeconds");
    if seconds < TOKEN_SECONDS_MIN {
        errors.invalid(path.field("expirationSeconds"), seconds, "must be at least 10 minutes");
    } else if seconds > TOKEN_SECONDS_MAX {
        errors.invalid(path.field("expirationSeconds"), seconds, "must be at most 2^32 seconds");
    }
    match text(token, "path") {
        "" => errors.required(volume.field("path"), ""),
        file => local_path(errors, &volume.field("path"), file),
    }
}

/// Certificates of authorities: those of one bundle, or those of a signer that labels select.
fn trust_bundle(errors: &mut Errors, path: &Path<'_>, bundle: &Value) {
    let said = |field: &str| some(bundle, field).and_then(Value::as_str);
    match (said("name"), said("signerName")) {
        (Some(_), Some(_)) => {
            errors.invalid(path, bundle.clone(), "only one of name and signerName may be used");
        }
        (Some(bundle_name), None) => {
            if bundle_name.is_empty() {
                errors.required(path.field("name"), "must be a valid object name");
            }
            // The name of a signer's bundle begins with the signer, with colons for slashes.
            let (signer, own) = bundle_name.rsplit_once(':').unwrap_or(("-", bundle_name));
            let own = if signer.is_empty() { bundle_name } else { own };
            name(errors, &path.field("name"), own, validate_dns_subdomain);
            if let Some(selector) = some(bundle, "labelSelector") {
                let why = "labelSelector must be unset if name is specified";
                errors.invalid(path.field("labelSelector"), selector.clone(), why);
            }
        }
        (None, Some(signer)) => {
            signer_name(errors, &path.field("signerName"), signer);
            label_selector(errors, &path.field("labelSelector"), &bundle["labelSelector"]);
        }
        (None, None) => errors.required(path, "either name or signerName must be specified"),
    }
    match text(bundle, "path") {
        "" => errors.required(path.field("path"), ""),
        file => local_path(errors, &path.field("path"), file),
    }
}

/// A certificate of the pod's own.
fn certificate(errors: &mut Errors, path: &Path<'_>, certificate: &Value) {
    let signer = text(certificate, "signerName");
    signer_name(errors, &path.field("signerName"), signer);
    let mut bytes = 0;
    for (key, value) in entries(certificate, "userAnnotations") {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        annotation(errors, &path.field("userAnnotations"), &key.to_ascii_lowercase());
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(path.field("userAnnotations"), FieldProblem::TooLong(ANNOTATIONS_BYTES_MAX));
    }
    let kind = text(certificate, "keyType");
    if !KEY_TYPES.contains(&kind) {
        errors.push(path.field("keyType"), not_supported(kind, KEY_TYPES));
    }
    if let Some(seconds) = some(certificate, "maxExpirationSeconds").and_then(Value::as_i64) {
        let domain = signer.split('/').next().unwrap_or_default();
        let reserved = domain == "kubernetes.io" || domain.ends_with(".kubernetes.io");
        let most = if reserved { KUBERNETES_CERTIFICATE_SECONDS_MAX } else { CERTIFICATE_SECONDS_MAX };
        if !(CERTIFICATE_SECONDS_MIN..=most).contains(&seconds) {
            let why = format!("must be between {CERTIFICATE_SECONDS_MIN} and {most}, inclusive");
            errors.invalid(path.field("maxExpirationSeconds"), seconds, why);
        }
    }
    let mut any = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let file = text(certificate, field);
        any |= !file.is_empty();
        local_path(errors, &path.field(field), file);
    }
    if !any {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.required(path, why);
    }
}

/// The key of an annotation for a signer: after a domain.
fn annotation(errors: &mut Errors, path: &Path<'_>, key: &str) {
    if let Err(why) = validate_label_name(key) {
        errors.invalid(path, key, why.to_string());
    } else if !key.contains('/') {
        errors.invalid(path, key, "must be a domain-prefixed key (such as \"acme.io/foo\")");
    }
}
