//! The certificate that a node serves with, asked for and renewed: a CertificateSigningRequest for the signer of kubelets.

use std::{future::Future, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Request;
use jiff::Timestamp;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::sleep;
use x509_parser::pem::parse_x509_pem;

use crate::{Certificate, clock, tls::TlsError};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// A request that was not approved yet is read again after this long, and later and later up to the other.
const LOOK_MIN: Duration = Duration::from_millis(100);
const LOOK_MAX: Duration = Duration::from_secs(5);
/// A request that was not approved for this long is given up for a new one.
const REQUEST_HOLDS: Duration = Duration::from_secs(15 * 60);
/// After a failure the next try follows after this, and later and later up to the other.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(300);
/// A certificate is looked at this often for whether it is to be renewed.
const CHECK_EVERY: Duration = Duration::from_secs(3_600);

/// Why there is no certificate yet.
#[derive(Debug, Error)]
pub enum ServingError {
    /// The API server refused, or cannot be reached.
    #[error("ask the API server: {0}")]
    Api(#[from] kube::Error),
    /// A key or request cannot be made.
    #[error("make a request for a certificate: {0}")]
    Request(#[from] rcgen::Error),
    /// The answer is not one.
    #[error("{0}")]
    Answer(String),
    /// The certificate cannot be used.
    #[error(transparent)]
    Unusable(#[from] TlsError),
}

/// Gets a certificate for a node, keeps it in `certificate`, and renews it when a third of its life is left. Never ends.
pub async fn keep_certificate(
    client: kube::Client,
    node: String,
    names: Vec<String>,
    certificate: Certificate,
) {
    let mut retry = RETRY_MIN;
    loop {
        match obtain(&client, &node, &names, &certificate).await {
            Ok(due) => {
                tracing::info!(node, "the node's API has a certificate");
                retry = RETRY_MIN;
                while clock::now() < due {
                    sleep(CHECK_EVERY).await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, node, "get a certificate for the node's API");
                sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Gets a certificate; says when it is to be renewed.
async fn obtain(
    client: &kube::Client,
    node: &str,
    names: &[String],
    certificate: &Certificate,
) -> Result<Timestamp, ServingError> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{node}"));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let request = params.serialize_request(&key)?.pem()?;
    let made = send(
        client,
        Request::post(REQUESTS),
        &json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": STANDARD.encode(request), "signerName": SIGNER,
                "usages": ["digital signature", "server auth"],
            },
        }),
    )
    .await?;
    let name = made["metadata"]["name"].as_str().ok_or_else(|| answer("the request has no name"))?;
    let pem = signed(client, name).await?;
    certificate.replace(&pem, &key.serialize_pem())?;
    renew_at(&pem).ok_or_else(|| answer("the certificate's times cannot be read"))
}

fn answer(why: &str) -> ServingError {
    ServingError::Answer(why.to_owned())
}

fn send(
    client: &kube::Client,
    request: http::request::Builder,
    body: &Value,
) -> impl Future<Output = Result<Value, ServingError>> {
    let bytes = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = request.header(http::header::CONTENT_TYPE, "application/json").body(bytes);
    async move {
        let request = request.map_err(|error| answer(&error.to_string()))?;
        Ok(client.request::<Value>(request).await?)
    }
}

/// Waits until a request is signed.
async fn signed(client: &kube::Client, name: &str) -> Result<String, ServingError> {
    let (mut waited, mut wait) = (Duration::ZERO, LOOK_MIN);
    while waited < REQUEST_HOLDS {
        let found = send(client, Request::get(format!("{REQUESTS}/{name}")), &Value::Null).await?;
        let status = &found["status"];
        if let Some(encoded) = status["certificate"].as_str().filter(|text| !text.is_empty()) {
            let bytes = STANDARD.decode(encoded).map_err(|error| answer(&error.to_string()))?;
            return String::from_utf8(bytes).map_err(|error| answer(&error.to_string()));
        }
        let refused = status["conditions"].as_array().into_iter().flatten();
        if let Some(refused) =
            refused.into_iter().find(|one| one["type"] == "Denied" || one["type"] == "Failed")
        {
            return Err(answer(&format!("request {name} was refused: {}", refused["message"])));
        }
        if waited.is_zero() {
            tracing::info!(name, "waiting for approval: kubectl certificate approve {name}");
        }
        sleep(wait).await;
        waited += wait;
        wait = (wait * 2).min(LOOK_MAX);
    }
    Err(answer(&format!("request {name} was not approved in time")))
}

/// When a third of a certificate's life is left.
fn renew_at(pem: &str) -> Option<Timestamp> {
    let (_, pem) = parse_x509_pem(pem.as_bytes()).ok()?;
    let certificate = pem.parse_x509().ok()?;
    let (begin, end) =
        (certificate.validity().not_before.timestamp(), certificate.validity().not_after.timestamp());
    Timestamp::from_second(end.saturating_sub(end.saturating_sub(begin) / 3)).ok()
}
