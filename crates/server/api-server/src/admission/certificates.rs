//! Permissions to approve, sign and request certificates of a signer.

use lazaret_json::Value;
use lazaret_kinds::{
    Access,
    certificates::{CLIENT_SIGNER, CertificateRequest},
};

use crate::{ApiError, call::Call, object};
use base64::{Engine, engine::general_purpose::STANDARD};

const GROUP: &str = "certificates.k8s.io";
const MASTERS: &str = "system:masters";

fn concerns(call: &Call<'_>) -> bool {
    call.kind.is(GROUP, "certificatesigningrequests")
}

/// A request for a client certificate must not make its user an administrator.
pub(crate) fn create(call: &Call<'_>, object: &Value, name: &str) -> Result<(), ApiError> {
    if !concerns(call) || object["spec"]["signerName"] != CLIENT_SIGNER {
        return Ok(());
    }
    let refuse = |why: &str| Err(ApiError::forbidden(&call.kind, name, why));
    match parsed(object) {
        Err(why) => refuse(&format!("failed to parse CSR: {why}")),
        Ok(request) if request.organizations.iter().any(|group| group == MASTERS) => {
            refuse(&format!("use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"))
        }
        Ok(_) => Ok(()),
    }
}

/// Approval needs the verb `approve` on the signer, a certificate or a failure the verb `sign`.
pub(crate) fn update(call: &Call<'_>, new: &Value, old: &Value) -> Result<(), ApiError> {
    if !concerns(call) {
        return Ok(());
    }
    let verb = match call.target.subresource.as_str() {
        "approval" => "approve",
        "status" if new["status"] != old["status"] => "sign",
        _ => return Ok(()),
    };
    let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
    let domain = signer.split('/').next().unwrap_or_default();
    let may = |name: &str| {
        let access = Access { verb, name, group: GROUP, resource: "signers", ..Access::default() };
        call.server.may(call.user, access).is_ok()
    };
    if may(signer) || may(&format!("{domain}/*")) {
        return Ok(());
    }
    let why = format!("user not permitted to {verb} requests with signerName {signer:?}");
    Err(ApiError::forbidden(&call.kind, object::meta(old, "name"), &why))
}

/// The request of an object.
pub(super) fn parsed(object: &Value) -> Result<CertificateRequest, String> {
    let text = object["spec"]["request"].as_str().unwrap_or_default();
    let pem = STANDARD.decode(text).map_err(|_| "PEM block type must be CERTIFICATE REQUEST".to_owned())?;
    CertificateRequest::parse(&pem)
}
