//! Tokens of service accounts: signed, bound, and good only while what they are bound to exists.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use lazaret_json::{Value, json};
use lazaret_kinds::User;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
    },
};

use crate::{Server, clock, object, random};

/// Who gives tokens out, and for whom unless they say otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const SECONDS_DEFAULT: i64 = 3_600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 365 * 24 * 3_600;

/// The key that tokens are signed with.
pub struct TokenKeys {
    pair: EcdsaKeyPair,
}

impl fmt::Debug for TokenKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKeys")
    }
}

impl TokenKeys {
    /// A new key, as PKCS#8 bytes to keep.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate() -> Result<Vec<u8>, String> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|document| document.as_ref().to_vec())
            .map_err(|_| "make a key for tokens".to_owned())
    }

    /// From what [`TokenKeys::generate`] gave.
    ///
    /// # Errors
    /// When the bytes are no such key.
    pub fn load(pkcs8: &[u8]) -> Result<Self, String> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new())
            .map(|pair| Self { pair })
            .map_err(|error| format!("read the key for tokens: {error}"))
    }

    fn sign(&self, claims: &Value) -> Option<String> {
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": "lazaret"});
        let text = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header.to_string()),
            URL_SAFE_NO_PAD.encode(claims.to_string())
        );
        let signature = self.pair.sign(&SystemRandom::new(), text.as_bytes()).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The claims of a token that this key signed.
    fn verify(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if header["alg"] != "ES256" {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// The status of a TokenRequest.
pub(crate) fn issue(
    server: &Server,
    keys: &TokenKeys,
    account: &Value,
    spec: &Value,
) -> Result<Value, String> {
    let (namespace, name) = (object::meta(account, "namespace"), object::meta(account, "name"));
    let asked = spec["expirationSeconds"].as_i64().unwrap_or(SECONDS_DEFAULT);
    if asked < SECONDS_MIN {
        return Err(format!(
            "spec.expirationSeconds: may not specify a duration less than {SECONDS_MIN} seconds"
        ));
    }
    let now = clock::now().as_second();
    let expires = now + asked.min(SECONDS_MAX);
    let audiences = spec["audiences"]
        .as_array()
        .filter(|list| !list.is_empty())
        .cloned()
        .unwrap_or_else(|| vec![ISSUER.into()]);
    let mut bound = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": object::meta(account, "uid")}});
    bind(server, account, &spec["boundObjectRef"], &mut bound)?;
    let claims = json!({
        "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences, "iat": now, "nbf": now, "exp": expires,
        "jti": random::uid(), "kubernetes.io": bound,
    });
    let token = keys.sign(&claims).ok_or("sign the token")?;
    let until = jiff::Timestamp::from_second(expires).map_err(|error| error.to_string())?;
    Ok(json!({"token": token, "expirationTimestamp": until.to_string()}))
}

/// Binds a token to a pod, with the node that the pod runs on, or to a node.
fn bind(server: &Server, account: &Value, reference: &Value, bound: &mut Value) -> Result<(), String> {
    let Some(kind) = reference["kind"].as_str() else { return Ok(()) };
    let name = reference["name"].as_str().unwrap_or_default();
    let (plural, namespace) = match kind {
        "Pod" => ("pods", object::meta(account, "namespace")),
        "Node" => ("nodes", ""),
        "Secret" => ("secrets", object::meta(account, "namespace")),
        other => return Err(format!("spec.boundObjectRef.kind: cannot bind a token to a {other}")),
    };
    let found = lazaret_kinds::find("", plural).and_then(|kind| server.get(kind, namespace, name));
    let target = found.ok_or_else(|| format!("spec.boundObjectRef: {kind} {name:?} does not exist"))?;
    if let Some(uid) =
        reference["uid"].as_str().filter(|uid| !uid.is_empty() && *uid != object::meta(&target, "uid"))
    {
        return Err(format!("spec.boundObjectRef.uid: {kind} {name:?} has another uid than {uid}"));
    }
    let entry = json!({"name": name, "uid": object::meta(&target, "uid")});
    if kind == "Pod" {
        let runs_as = target["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        if runs_as != object::meta(account, "name") {
            return Err(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name {runs_as:?}",
                object::meta(account, "name")
            ));
        }
        if let Some(node) = target["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
            let uid = lazaret_kinds::find("", "nodes")
                .and_then(|kind| server.get(kind, "", node))
                .map(|node| object::meta(&node, "uid").to_owned());
            bound["node"] = json!({"name": node, "uid": uid.unwrap_or_default()});
        }
    }
    bound[kind.to_ascii_lowercase().as_str()] = entry;
    Ok(())
}

/// Whose token this is, if it is good now for the API server itself.
pub(crate) fn user(server: &Server, keys: &TokenKeys, token: &str) -> Option<User> {
    let claims = keys.verify(token)?;
    let now = clock::now().as_second();
    let in_time = claims["exp"].as_i64()? > now && claims["nbf"].as_i64()? <= now;
    let for_us = claims["aud"].as_array()?.iter().any(|audience| audience == ISSUER);
    if claims["iss"] != ISSUER || !in_time || !for_us {
        return None;
    }
    let bound = &claims["kubernetes.io"];
    let namespace = bound["namespace"].as_str()?;
    let name = bound["serviceaccount"]["name"].as_str()?;
    let alive = |plural: &str, namespace: &str, entry: &Value| {
        let found = lazaret_kinds::find("", plural)
            .and_then(|kind| server.get(kind, namespace, entry["name"].as_str()?));
        found.is_some_and(|found| entry["uid"] == object::meta(&found, "uid"))
    };
    let bound_ok = ["pod", "secret"]
        .iter()
        .all(|kind| bound[*kind].is_null() || alive(&format!("{kind}s"), namespace, &bound[*kind]));
    if !alive("serviceaccounts", namespace, &bound["serviceaccount"]) || !bound_ok {
        return None;
    }
    let mut user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: bound["serviceaccount"]["uid"].as_str().unwrap_or_default().to_owned(),
        groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
        ..User::default()
    };
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".into(),
        vec![format!("JTI={}", claims["jti"].as_str().unwrap_or_default())],
    );
    for kind in ["pod", "node"] {
        for field in ["name", "uid"] {
            if let Some(value) = bound[kind][field].as_str() {
                user.extra
                    .insert(format!("authentication.kubernetes.io/{kind}-{field}"), vec![value.to_owned()]);
            }
        }
    }
    Some(user)
}
