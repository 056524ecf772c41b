//! Requests for certificates: what they may say, who may approve them, what each signer demands, and when they are deleted.

mod request;
mod rules;
mod signers;
#[cfg(test)]
mod tests;

pub use request::CertificateRequest;
pub use signers::{Approval, CertificateStep, is_garbage, lifetime_seconds, next_step};

pub(crate) use rules::{CertificateSigningRequest, signer_name};

use base64::{Engine, engine::general_purpose::STANDARD};
use lazaret_json::Value;

use crate::value::{list, text};

/// Issues client certificates for any user; none is approved automatically.
pub const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Issues client certificates for nodes.
pub const KUBELET_CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// Issues serving certificates for nodes; none is approved automatically.
pub const KUBELET_SERVING_SIGNER: &str = "kubernetes.io/kubelet-serving";

/// Bytes that an object has as base64.
fn decoded(value: &Value, field: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text(value, field)).ok()
}

/// The conditions of one type.
fn conditions<'a>(object: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    list(&object["status"], "conditions").iter().filter(move |condition| text(condition, "type") == kind)
}

fn has_condition(object: &Value, kind: &str) -> bool {
    conditions(object, kind).next().is_some()
}
