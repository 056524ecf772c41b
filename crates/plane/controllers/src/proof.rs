//! The proof that this installation wrote something on an object: that the object was made for an incident, or that a pod is being replaced.
//!
//! A name and an owner reference are what anybody may write. The proof is a message authentication code over kind, namespace, name and incident, by a
//! key that only the controllers and who may read their Secret know: an object has it that a leader before this one made and did not record, and no
//! object that somebody else made beforehand.

use std::{sync::Arc, time::Duration};

use lazaret_model::Uid;
use lazaret_runtime::{Call, CallError, SECRETS};
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};
use serde::Deserialize;
use serde_json::json;
use tracing::warn;

use crate::writer::Writer;

/// The annotation with the proof.
pub(crate) const PROOF: &str = "lazaret.dev/proof";
/// The Secret with the key, in the namespace of the leases.
const SECRET: &str = "lazaret-proof";
/// The name of the key in it.
const KEY: &str = "key";
const KEY_BYTES: usize = 32;
/// The Secret cannot be read yet: another look.
const RETRY: Duration = Duration::from_secs(1);

/// Makes and checks proofs.
#[derive(Clone, Debug)]
pub(crate) struct Proofs(Arc<hmac::Key>);

#[derive(Deserialize)]
struct Secret {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    key: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: String,
    namespace: String,
    annotations: std::collections::BTreeMap<String, String>,
}

impl Proofs {
    pub(crate) fn new(key: &[u8]) -> Self {
        Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)))
    }

    /// Those of the installation, whose key is made where there is none. Tries until it can.
    pub(crate) async fn load(writer: &Writer, namespace: &str) -> Self {
        loop {
            match shared_key(writer, namespace).await {
                Ok(key) => return Self::new(key.as_bytes()),
                Err(why) => {
                    warn!(%why, namespace, name = SECRET, "incidents and replacements wait for the Secret by which their objects are known");
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// The proof of the object of this kind, place and incident.
    pub(crate) fn of(&self, kind: &str, namespace: &str, name: &str, incident: &Uid) -> String {
        let tag = hmac::sign(&self.0, &message(kind, namespace, name, incident));
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether this is the proof of the object of this kind and place, and of this text.
    pub(crate) fn holds(&self, proof: &str, kind: &str, place: (&str, &str), text: &Uid) -> bool {
        let Some(proof) = bytes(proof) else { return false };
        hmac::verify(&self.0, &message(kind, place.0, place.1, text), &proof).is_ok()
    }

    /// Whether an object of this kind, as it is stored, was made by this installation for an incident.
    pub(crate) fn has_made(&self, kind: &str, object: &[u8], incident: &Uid) -> bool {
        let Ok(Object { metadata }) = serde_json::from_slice(object) else { return false };
        let Some(proof) = metadata.annotations.get(PROOF) else { return false };
        self.holds(proof, kind, (&metadata.namespace, &metadata.name), incident)
    }
}

/// No part has a line break in it.
fn message(kind: &str, namespace: &str, name: &str, incident: &Uid) -> Vec<u8> {
    format!("{kind}\n{namespace}\n{name}\n{incident}").into_bytes()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The text of the key as it is stored. Of two replicas that make it at the same time the first counts.
async fn shared_key(writer: &Writer, namespace: &str) -> Result<String, CallError> {
    let get = || writer.send(Call::get(&SECRETS, namespace, SECRET));
    let found = match get().await {
        Err(CallError::NotFound(_)) => {
            let mut key = [0; KEY_BYTES];
            let made = SystemRandom::new().fill(&mut key);
            made.map_err(|_| CallError::Unavailable("the system has no random numbers".to_owned()))?;
            let text: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let body = json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": SECRET, "labels": {"app.kubernetes.io/managed-by": "lazaret"}},
                "stringData": {KEY: text},
            });
            match writer.send(Call::create(&SECRETS, namespace, body.to_string())).await {
                Ok(_) | Err(CallError::AlreadyExists(_)) => get().await?,
                Err(error) => return Err(error),
            }
        }
        found => found?,
    };
    let secret = serde_json::from_slice::<Secret>(&found);
    secret.map(|secret| secret.data.key).map_err(|error| CallError::Invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_object_of_one_incident_and_for_one_installation() {
        let proofs = Proofs::new(b"ours");
        let object = |namespace: &str, name: &str, proof: &str| {
            let annotations = json!({PROOF: proof});
            json!({"metadata": {"name": name, "namespace": namespace, "annotations": annotations}})
                .to_string()
        };
        let proof = proofs.of("Job", "n", "a-1", &"u".into());
        let stored = object("n", "a-1", &proof);
        assert!(proofs.has_made("Job", stored.as_bytes(), &"u".into()));
        let theirs = Proofs::new(b"theirs").of("Job", "n", "a-1", &"u".into());
        for (kind, object, incident) in [
            ("Job", object("m", "a-1", &proof), "u"),
            ("Job", object("n", "a-2", &proof), "u"),
            ("Job", stored.clone(), "v"),
            ("ConfigMap", stored, "u"),
            ("Job", object("n", "a-1", &theirs), "u"),
            ("Job", object("n", "a-1", ""), "u"),
            ("Job", object("n", "a-1", "zz"), "u"),
            ("Job", r#"{"metadata":{"name":"a-1","namespace":"n"}}"#.to_owned(), "u"),
        ] {
            assert!(
                !proofs.has_made(kind, object.as_bytes(), &incident.into()),
                "{kind} {object} {incident}"
            );
        }
    }
}
