//! Keeps the certificate: in a Secret that replicas share, in what is served with, and in what the API server trusts.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lazaret_runtime::{Call, CallError, Client, PatchKind, Resource};
use lazaret_server::Tls;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    certificate::{Certificates, current},
    clock,
    metrics::Metrics,
};

const SECRETS: Resource =
    Resource { group: "", version: "v1", plural: "secrets", kind: "Secret", namespaced: true };
const CONFIGURATIONS: Resource = Resource {
    group: "admissionregistration.k8s.io",
    version: "v1",
    plural: "validatingwebhookconfigurations",
    kind: "ValidatingWebhookConfiguration",
    namespaced: false,
};
/// Secret and configuration are looked at this often. Whatever overwrites the configuration leaves the webhook unreached for as long.
const CHECK_EVERY: Duration = Duration::from_secs(15);
/// After a failure the next try follows after this, and later and later up to [`CHECK_EVERY`].
const RETRY_MIN: Duration = Duration::from_millis(500);
/// Another replica may write at the same time, which is seen at the next try; this often in a row is no accident.
const TRIES_MAX: usize = 5;

/// Under which names a webhook is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The namespace of its Service and of its Secret.
    pub namespace: String,
    /// The name of its Service, of its Secret and of its ValidatingWebhookConfiguration.
    pub name: String,
    /// The names and addresses at which the API server reaches it.
    pub hosts: Vec<String>,
}

/// Looks after the certificate of a webhook.
#[derive(Debug)]
pub struct CertificateManager {
    client: Client,
    identity: Identity,
    metrics: Metrics,
    /// The certificate in use; `None` until there is one.
    tls: watch::Sender<Option<Tls>>,
    /// The certificate that was last in use.
    served: Option<Certificates>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    metadata: Metadata,
    #[serde(default)]
    data: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    resource_version: String,
}

#[derive(Deserialize)]
struct Configuration {
    metadata: Metadata,
    #[serde(default)]
    webhooks: Vec<Hook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hook {
    #[serde(default)]
    client_config: ClientConfig,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClientConfig {
    ca_bundle: String,
}

impl CertificateManager {
    pub(crate) fn new(
        client: Client,
        identity: Identity,
        metrics: Metrics,
        tls: watch::Sender<Option<Tls>>,
    ) -> Self {
        Self { client, identity, metrics, tls, served: None }
    }

    /// Never ends.
    pub(crate) async fn run(mut self) {
        let mut pause = RETRY_MIN;
        let mut reported = String::new();
        loop {
            match self.look().await {
                Ok(()) => {
                    reported.clear();
                    pause = CHECK_EVERY;
                }
                Err(why) => {
                    if reported != why {
                        tracing::warn!(
                            why,
                            name = self.identity.name,
                            "the webhook is not set up; trying again"
                        );
                    }
                    reported = why;
                    pause = if self.served.is_some() { CHECK_EVERY } else { (pause * 2).min(CHECK_EVERY) };
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Brings Secret, service and configuration up to date.
    async fn look(&mut self) -> Result<(), String> {
        let certificates = self.shared().await?;
        self.serve(&certificates)?;
        self.publish_bundle(&certificates).await
    }

    /// The certificate that all replicas serve with: the one of the Secret, made or renewed where that is due.
    async fn shared(&self) -> Result<Certificates, String> {
        for _ in 0..TRIES_MAX {
            let Identity { namespace, name, hosts } = &self.identity;
            let found = match self.client.send(Call::get(&SECRETS, namespace, name)).await {
                Ok(bytes) => Some(
                    serde_json::from_slice::<Secret>(&bytes)
                        .map_err(|error| format!("read Secret {namespace}/{name}: {error}"))?,
                ),
                Err(CallError::NotFound(_)) => None,
                Err(error) => return Err(format!("read Secret {namespace}/{name}: {error}")),
            };
            // After a deletion of the Secret the API server keeps its trust in the served certificate.
            let there = match &found {
                Some(secret) => decoded(&secret.data).and_then(|data| Certificates::of_data(&data)),
                None => self.served.clone(),
            };
            let wanted = current(clock::now(), there.clone(), hosts)
                .map_err(|error| format!("make a certificate: {error}"))?;
            if found.is_some() && there.as_ref() == Some(&wanted) {
                return Ok(wanted);
            }
            match self.client.send(self.write(found.as_ref(), &wanted)).await {
                Ok(_) => {
                    tracing::info!(name, namespace, "the webhook's certificate is in its Secret");
                    return Ok(wanted);
                }
                // Another replica was faster.
                Err(CallError::AlreadyExists(_) | CallError::Conflict(_)) => {}
                Err(error) => return Err(format!("write Secret {namespace}/{name}: {error}")),
            }
        }
        Err(format!(
            "write Secret {}/{}: it changes all the time",
            self.identity.namespace, self.identity.name
        ))
    }

    fn write(&self, found: Option<&Secret>, wanted: &Certificates) -> Call {
        let Identity { namespace, name, .. } = &self.identity;
        let data: BTreeMap<&str, String> =
            wanted.data().into_iter().map(|(key, text)| (key, STANDARD.encode(text))).collect();
        let mut secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
            "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "lazaret"}},
        });
        let Some(found) = found else { return Call::create(&SECRETS, namespace, secret.to_string()) };
        secret["metadata"]["uid"] = found.metadata.uid.as_str().into();
        secret["metadata"]["resourceVersion"] = found.metadata.resource_version.as_str().into();
        // A merge keeps the type that the Secret was made with, which never changes.
        if let Some(fields) = secret.as_object_mut() {
            fields.remove("type");
        }
        Call::patch(&SECRETS, namespace, name, "", PatchKind::Merge, secret.to_string())
    }

    fn serve(&mut self, certificates: &Certificates) -> Result<(), String> {
        if self.served.as_ref() == Some(certificates) {
            return Ok(());
        }
        let tls = Tls::serving_only(&certificates.server).map_err(|error| format!("serve: {error}"))?;
        self.tls.send_replace(Some(tls));
        if let Some(at) = certificates.not_after() {
            self.metrics.valid_until(at);
        }
        self.served = Some(certificates.clone());
        Ok(())
    }

    /// Writes the authority to the API server's configuration, if it differs.
    async fn publish_bundle(&self, certificates: &Certificates) -> Result<(), String> {
        let name = &self.identity.name;
        let bytes = match self.client.send(Call::get(&CONFIGURATIONS, "", name)).await {
            Ok(bytes) => bytes,
            Err(error) => return Err(format!("read ValidatingWebhookConfiguration {name}: {error}")),
        };
        let there: Configuration = serde_json::from_slice(&bytes)
            .map_err(|error| format!("read ValidatingWebhookConfiguration {name}: {error}"))?;
        let Some(patch) = bundle_patch(&there, &STANDARD.encode(&certificates.authority.certificate)) else {
            return Ok(());
        };
        let call = Call::patch(&CONFIGURATIONS, "", name, "", PatchKind::Json, patch.to_string());
        match self.client.send(call).await {
            Ok(_) => {
                tracing::info!(name, "the API server was told whom to trust");
                Ok(())
            }
            Err(error) => Err(format!("write ValidatingWebhookConfiguration {name}: {error}")),
        }
    }
}

/// A patch by which the API server trusts this authority, if it does not yet. Nothing but the bundles is changed, and only in what was read.
fn bundle_patch(there: &Configuration, bundle: &str) -> Option<Value> {
    let old: Vec<usize> = (0..there.webhooks.len())
        .filter(|at| there.webhooks[*at].client_config.ca_bundle != bundle)
        .collect();
    if old.is_empty() {
        return None;
    }
    let mut patch = vec![
        json!({"op": "test", "path": "/metadata/uid", "value": there.metadata.uid}),
        json!({"op": "test", "path": "/metadata/resourceVersion", "value": there.metadata.resource_version}),
    ];
    patch.extend(old.into_iter().map(
        |at| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle}),
    ));
    Some(patch.into())
}

fn decoded(data: &BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    let text = |value: &String| String::from_utf8(STANDARD.decode(value).ok()?).ok();
    data.iter().map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bundles_that_differ_are_written_and_only_in_what_was_read() {
        let there: Configuration = serde_json::from_value(json!({
            "metadata": {"uid": "u", "resourceVersion": "7"},
            "webhooks": [{"clientConfig": {"caBundle": "new"}}, {"clientConfig": {"caBundle": "old"}}, {"clientConfig": {}}],
        }))
        .unwrap();
        let patch = bundle_patch(&there, "new").unwrap();
        assert_eq!(
            patch,
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "u"},
                {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "new"},
                {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "new"},
            ])
        );
        let reported: Configuration = serde_json::from_value(
            json!({"metadata": {}, "webhooks": [{"clientConfig": {"caBundle": "new"}}]}),
        )
        .unwrap();
        assert_eq!(bundle_patch(&reported, "new"), None);
    }
}
