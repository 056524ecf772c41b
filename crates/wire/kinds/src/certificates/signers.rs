//! The way of a request: the permission that approves it, the demands of each signer, the lifetime of the certificate, and when the
//! request is deleted.

use std::collections::BTreeSet;

use jiff::Timestamp;
use lazaret_json::Value;

use super::{
    CLIENT_SIGNER, CertificateRequest, KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, conditions, decoded,
    has_condition,
};
use crate::value::{text, texts};

/// The longest validity of a certificate, as kube-controller-manager's `--cluster-signing-duration` has it by default.
const LIFETIME_SECONDS_MAX: i64 = 365 * 24 * 3_600;
/// The shortest one.
const LIFETIME_SECONDS_MIN: i64 = 600;
/// A request is deleted this long after it was denied, failed, or approved and issued.
const FINISHED_SECONDS_MAX: i64 = 3_600;
/// A request is deleted this long after it was created without a decision, or after it was approved without a signature.
const PENDING_SECONDS_MAX: i64 = 24 * 3_600;

const NODE_GROUP: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
const ENCIPHERMENT: &str = "key encipherment";

/// The next step of a controller for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateStep {
    /// Nothing, or nothing before another party decides.
    Wait,
    /// Approve it if the requester has one of these permissions.
    Ask(Vec<Approval>),
    /// Sign it.
    Sign(Box<CertificateRequest>),
    /// The signer refuses it: why.
    Refuse(String),
}

/// A permission that approves a request: `create` on `certificatesigningrequests/SUBRESOURCE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The subresource.
    pub subresource: &'static str,
    /// The message of the condition.
    pub message: &'static str,
}

impl Approval {
    /// Whether it is for a certificate to serve with.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        *self == SELF_SERVING
    }
}

const SELF_NODE: Approval = Approval {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const NODE: Approval = Approval {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};
const SELF_SERVING: Approval = Approval {
    subresource: "selfnodeserver",
    message: "Auto approving kubelet serving certificate for the node's own name after SubjectAccessReview.",
};

/// Whether the cluster's own signer signs for this name.
fn signs(signer: &str) -> bool {
    matches!(signer, CLIENT_SIGNER | KUBELET_CLIENT_SIGNER | KUBELET_SERVING_SIGNER)
}

/// The next step for a request.
#[must_use]
pub fn next_step(object: &Value) -> CertificateStep {
    let spec = &object["spec"];
    let signer = text(spec, "signerName");
    let (approved, denied) = (has_condition(object, "Approved"), has_condition(object, "Denied"));
    let issued = !text(&object["status"], "certificate").is_empty();
    let failed = conditions(object, "Failed").any(|condition| text(condition, "status") == "True");
    // Only requests of nodes are approved here; to parse any other before it is approved is work for nothing.
    let of_node = matches!(signer, KUBELET_CLIENT_SIGNER | KUBELET_SERVING_SIGNER);
    let concerned = if approved { signs(signer) } else { of_node };
    if issued || denied || failed || !concerned {
        return CertificateStep::Wait;
    }
    let parsed = decoded(spec, "request")
        .ok_or_else(|| "spec.request is not base64".to_owned())
        .and_then(|pem| CertificateRequest::parse(&pem));
    let usages: BTreeSet<&str> = texts(spec, "usages").collect();
    match parsed {
        // Requests are parsed when they are created: one that cannot be parsed now is left to administrators.
        Err(_) if !approved => CertificateStep::Wait,
        Err(why) => CertificateStep::Refuse(why),
        Ok(request) if approved => match check(signer, &request, &usages) {
            Ok(()) => CertificateStep::Sign(Box::new(request)),
            Err(why) => CertificateStep::Refuse(why),
        },
        Ok(request) if signer == KUBELET_SERVING_SIGNER => {
            serving_approvals(text(spec, "username"), &request, &usages)
        }
        Ok(request) => approvals(text(spec, "username"), &request, &usages),
    }
}

// DEVIATION(serving-approval)
/// The permission that approves a serving certificate automatically: for the node's own name alone. The addresses that a node may
/// serve are not known, and a node's own report of them may be untrue, so any other name is left to administrators.
fn serving_approvals(
    username: &str,
    request: &CertificateRequest,
    usages: &BTreeSet<&str>,
) -> CertificateStep {
    // A node that joins a cluster chooses its name: the name of a Service is not its own.
    let is_service = |node: &str| node.split('.').any(|label| label == "svc");
    let own = request.common_name.strip_prefix(NODE_PREFIX);
    let own = own.filter(|node| !node.is_empty() && !is_service(node));
    let asks_for_own = own.is_some_and(|node| request.dns_names == [node]) && request.ip_addresses.is_empty();
    if username != request.common_name || !asks_for_own || kubelet_serving(request, usages).is_err() {
        return CertificateStep::Wait;
    }
    CertificateStep::Ask(vec![SELF_SERVING])
}

/// The permissions that approve a request for a client certificate automatically.
fn approvals(username: &str, request: &CertificateRequest, usages: &BTreeSet<&str>) -> CertificateStep {
    if kubelet_client(request, usages).is_err() {
        return CertificateStep::Wait;
    }
    let own = (username == request.common_name).then_some(SELF_NODE);
    CertificateStep::Ask(own.into_iter().chain([NODE]).collect())
}

/// Checks a request against the demands of its signer.
fn check(signer: &str, request: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    match signer {
        CLIENT_SIGNER => client_usages(usages),
        KUBELET_CLIENT_SIGNER => kubelet_client(request, usages),
        _ => kubelet_serving(request, usages),
    }
}

fn client_usages(usages: &BTreeSet<&str>) -> Result<(), String> {
    let known = ["client auth", "digital signature", ENCIPHERMENT];
    if let Some(other) = usages.iter().find(|usage| !known.contains(*usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    if !usages.contains("client auth") {
        return Err("missing required usage for client certificate: client auth".into());
    }
    Ok(())
}

fn kubelet_client(request: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    node_organization(request)?;
    let none = |names: usize, what: &str| match names {
        0 => Ok(()),
        _ => Err(format!("{what} subjectAltNames are not allowed")),
    };
    none(request.dns_names.len(), "DNS")?;
    none(request.email_addresses.len(), "Email")?;
    none(request.ip_addresses.len(), "IP")?;
    none(request.uris.len(), "URI")?;
    node_name(request)?;
    node_usages(usages, "client auth")
}

fn kubelet_serving(request: &CertificateRequest, usages: &BTreeSet<&str>) -> Result<(), String> {
    node_organization(request)?;
    if request.dns_names.is_empty() && request.ip_addresses.is_empty() {
        return Err("DNS or IP subjectAltName is required".into());
    }
    if !request.email_addresses.is_empty() {
        return Err("Email subjectAltNames are not allowed".into());
    }
    if !request.uris.is_empty() {
        return Err("URI subjectAltNames are not allowed".into());
    }
    node_usages(usages, "server auth")?;
    node_name(request)
}

fn node_organization(request: &CertificateRequest) -> Result<(), String> {
    if request.organizations == [NODE_GROUP] {
        return Ok(());
    }
    Err("subject organization is not system:nodes".into())
}

fn node_name(request: &CertificateRequest) -> Result<(), String> {
    if request.common_name.starts_with(NODE_PREFIX) {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".into())
}

/// A signature and `purpose`; keys other than RSA encipher nothing, so that usage may be left out.
fn node_usages(usages: &BTreeSet<&str>, purpose: &str) -> Result<(), String> {
    let with = BTreeSet::from([purpose, "digital signature", ENCIPHERMENT]);
    let without = BTreeSet::from([purpose, "digital signature"]);
    if *usages == with || *usages == without {
        return Ok(());
    }
    Err(format!("usages did not match [{}]", with.into_iter().collect::<Vec<_>>().join(" ")))
}

/// How long the certificate for a request is valid.
#[must_use]
pub fn lifetime_seconds(object: &Value) -> i64 {
    let asked = object["spec"]["expirationSeconds"].as_i64();
    asked.map_or(LIFETIME_SECONDS_MAX, |asked| asked.clamp(LIFETIME_SECONDS_MIN, LIFETIME_SECONDS_MAX))
}

/// Whether a request is to be deleted. `certificate_expired` tells whether the certificate that was issued (PEM) is no longer valid.
#[must_use]
pub fn is_garbage(object: &Value, now: Timestamp, certificate_expired: impl Fn(&[u8]) -> bool) -> bool {
    let older = |time: &Value, seconds: i64| {
        let at = time.as_str().and_then(|time| time.parse::<Timestamp>().ok());
        at.is_some_and(|at| now.as_second().saturating_sub(at.as_second()) > seconds)
    };
    let decided = |kind: &str, seconds: i64| {
        conditions(object, kind).any(|condition| older(&condition["lastUpdateTime"], seconds))
    };
    let certificate = decoded(&object["status"], "certificate").filter(|bytes| !bytes.is_empty());
    let undecided = object["status"]["conditions"].as_array().is_none_or(|list| list.is_empty());
    let approved = match &certificate {
        Some(certificate) => {
            decided("Approved", FINISHED_SECONDS_MAX)
                || has_condition(object, "Approved") && certificate_expired(certificate)
        }
        None => decided("Approved", PENDING_SECONDS_MAX),
    };
    approved
        || decided("Denied", FINISHED_SECONDS_MAX)
        || decided("Failed", FINISHED_SECONDS_MAX)
        || undecided && older(&object["metadata"]["creationTimestamp"], PENDING_SECONDS_MAX)
}
