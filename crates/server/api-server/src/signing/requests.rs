//! Requests for certificates, one by one: approved if the requester may have what it asks for, signed when approved, deleted when old.

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt;
use lazaret_json::{Value, json};
use lazaret_kinds::{
    Access, User,
    certificates::{Approval, CertificateRequest, CertificateStep, is_garbage, lifetime_seconds, next_step},
};
use lazaret_storage::{Item, RangeOptions, Watch};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, sleep_until};

use super::Signer;
use crate::{Server, ServerAddress, Validity, auth::bootstrap_tokens, clock, object};

const GROUP: &str = "certificates.k8s.io";
const PLURAL: &str = "certificatesigningrequests";
/// The prefix of the names of bootstrap tokens.
const TOKEN_PREFIX: &str = "bootstrap-token-";
/// Old requests are looked for this often, as in Kubernetes.
const CLEAN_EVERY: Duration = Duration::from_secs(3_600);
/// After a write failed or the watch fell behind, everything is looked at again after this, and later and later up to the other.
const RETRY_MIN: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Whether everything was done that could be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    TryAgain,
}

impl Server {
    /// Approves requests for client certificates of nodes if the requester may have them, signs what is approved, and deletes old requests.
    /// Never ends.
    pub async fn serve_certificate_requests(&self, signer: Signer) {
        let Some(kind) = lazaret_kinds::find(GROUP, PLURAL) else { return std::future::pending().await };
        let prefix = object::key(kind, "", "");
        let (mut clean_at, mut pause) = (Instant::now(), RETRY_MIN);
        loop {
            let Ok(range) = self.store().range(prefix.as_bytes(), &RangeOptions::default()) else {
                sleep_until(Instant::now() + RETRY_MAX).await;
                continue;
            };
            let cleaning = clean_at <= Instant::now();
            let mut outcome = Outcome::Done;
            for item in &range.items {
                let found = self.read(item);
                if cleaning && self.is_old(&found) {
                    outcome = worse(outcome, self.delete_request(&found).await);
                } else {
                    outcome = worse(outcome, self.handle_request(&signer, &found).await);
                }
            }
            if cleaning {
                outcome = worse(outcome, self.delete_expired_tokens().await);
                clean_at = Instant::now() + CLEAN_EVERY;
            }
            if outcome == Outcome::Done {
                pause = RETRY_MIN;
                outcome = match self.store().watch(prefix.as_str().into(), range.revision) {
                    Ok(watch) => self.follow(&signer, watch, clean_at).await,
                    Err(_) => Outcome::TryAgain,
                };
            }
            if outcome == Outcome::TryAgain {
                sleep_until(Instant::now() + pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }

    /// Handles what changes until old requests are to be looked for.
    async fn follow(&self, signer: &Signer, mut watch: Watch, clean_at: Instant) -> Outcome {
        loop {
            let event = tokio::select! {
                event = watch.next() => event,
                () = sleep_until(clean_at) => return Outcome::Done,
            };
            let Ok(event) = event else { return Outcome::TryAgain };
            let Some(item) = &event.new else { continue };
            if self.handle_request(signer, &self.read(item)).await == Outcome::TryAgain {
                return Outcome::TryAgain;
            }
        }
    }

    fn read(&self, item: &Arc<Item>) -> Value {
        let mut found = self.object_cache().get(item);
        object::meta_mut(&mut found).insert("resourceVersion", item.modified.to_string().into());
        found
    }

    fn is_old(&self, found: &Value) -> bool {
        let now = clock::now();
        is_garbage(found, now, |pem| {
            let validity = std::str::from_utf8(pem).ok().and_then(Validity::of_pem);
            validity.is_some_and(|validity| validity.not_after < now)
        })
    }

    async fn handle_request(&self, signer: &Signer, found: &Value) -> Outcome {
        match next_step(found) {
            CertificateStep::Wait => Outcome::Done,
            CertificateStep::Ask(approvals) => {
                let requester = requester(&found["spec"]);
                let may = |subresource| {
                    let verb = "create";
                    let access =
                        Access { verb, subresource, group: GROUP, resource: PLURAL, ..Access::default() };
                    self.may(&requester, access).is_ok()
                };
                let is_fine = |approval: &&Approval| {
                    may(approval.subresource) && !(approval.is_serving() && self.is_own_name(&requester))
                };
                let Some(approval) = approvals.iter().find(is_fine) else {
                    return Outcome::Done;
                };
                let condition = json!({
                    "type": "Approved", "status": "True", "reason": "AutoApproved", "message": approval.message,
                });
                self.patch_request(found, "approval", json!({"conditions": with(found, condition)})).await
            }
            CertificateStep::Refuse(why) => {
                let condition = json!({
                    "type": "Failed", "status": "True", "reason": "SignerValidationFailure", "message": why,
                });
                self.patch_request(found, "status", json!({"conditions": with(found, condition)})).await
            }
            CertificateStep::Sign(request) => self.sign_request(signer, found, &request).await,
        }
    }

    /// Whether a node is called as this server is: a certificate for that name would be one for the server.
    fn is_own_name(&self, requester: &User) -> bool {
        let names = self.address().map(ServerAddress::certificate_names).unwrap_or_default();
        requester.name.strip_prefix("system:node:").is_some_and(|node| names.iter().any(|name| name == node))
    }

    async fn sign_request(&self, signer: &Signer, found: &Value, request: &CertificateRequest) -> Outcome {
        let usages = found["spec"]["usages"].as_array().into_iter().flatten();
        let usages: Vec<&str> = usages.filter_map(Value::as_str).collect();
        match signer.sign(request, &usages, lifetime_seconds(found), clock::now()) {
            Ok(certificate) => {
                let status = json!({"certificate": STANDARD.encode(certificate)});
                self.patch_request(found, "status", status).await
            }
            Err(error) => {
                tracing::error!(error, request = object::meta(found, "name"), "sign a certificate");
                Outcome::Done
            }
        }
    }

    /// Changes the status of this very version of a request.
    async fn patch_request(&self, found: &Value, subresource: &str, status: Value) -> Outcome {
        let version = object::meta(found, "resourceVersion");
        let body = json!({"metadata": {"resourceVersion": version}, "status": status});
        let path = format!("{}/{subresource}", path(found));
        self.send_own("PATCH", &path, "application/merge-patch+json", &body).await
    }

    async fn delete_request(&self, found: &Value) -> Outcome {
        self.delete_own(&path(found), found).await
    }

    /// Deletes this very version of an object.
    async fn delete_own(&self, path: &str, found: &Value) -> Outcome {
        let (uid, version) = (object::meta(found, "uid"), object::meta(found, "resourceVersion"));
        let body = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
        self.send_own("DELETE", path, "application/json", &body).await
    }

    /// Deletes bootstrap tokens that are good for nothing any more.
    async fn delete_expired_tokens(&self) -> Outcome {
        let Some(secrets) = lazaret_kinds::find("", "secrets") else { return Outcome::Done };
        let prefix = object::key(secrets, bootstrap_tokens::NAMESPACE, TOKEN_PREFIX);
        let Ok(range) = self.store().range(prefix.as_bytes(), &RangeOptions::default()) else {
            return Outcome::TryAgain;
        };
        let mut outcome = Outcome::Done;
        for item in &range.items {
            let found = self.read(item);
            if bootstrap_tokens::is_expired(&found, clock::now()) {
                let name = utf8_percent_encode(object::meta(&found, "name"), NON_ALPHANUMERIC);
                let path = format!("/api/v1/namespaces/{}/secrets/{name}", bootstrap_tokens::NAMESPACE);
                outcome = worse(outcome, self.delete_own(&path, &found).await);
            }
        }
        outcome
    }

    async fn send_own(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Outcome {
        let user = User {
            name: "system:serviceaccount:kube-system:certificate-controller".into(),
            groups: vec!["system:masters".into()],
            ..User::default()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, content_type)
            .header(header::USER_AGENT, "certificate-controller")
            .body(Bytes::from(body.to_string()));
        let Ok(request) = request else { return Outcome::Done };
        let response = self.handle(&user, request).await;
        let code = response.status().as_u16();
        match code {
            // Another client changed or deleted it: the watch shows that.
            200..=299 | 404 | 409 => Outcome::Done,
            // A request that is refused once is refused again.
            400..=499 if code != 429 => {
                let text =
                    response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
                tracing::warn!(path, code, answer = %String::from_utf8_lossy(&text), "change a certificate request");
                Outcome::Done
            }
            _ => Outcome::TryAgain,
        }
    }
}

fn worse(a: Outcome, b: Outcome) -> Outcome {
    if a == Outcome::TryAgain { a } else { b }
}

fn path(found: &Value) -> String {
    let name = utf8_percent_encode(object::meta(found, "name"), NON_ALPHANUMERIC);
    format!("/apis/{GROUP}/v1/{PLURAL}/{name}")
}

/// The conditions of a request and one more.
fn with(found: &Value, condition: Value) -> Value {
    let known = found["status"]["conditions"].as_array().into_iter().flatten().cloned();
    known.chain([condition]).collect()
}

fn requester(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text("username"),
        uid: text("uid"),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.to_string(), texts(values))).collect(),
    }
}
