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

use super::rule::quoted;
use crate::{ObjectStore, clock, object, random};

/// The issuer of tokens, and their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const SECONDS_DEFAULT: i64 = 3_600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 365 * 24 * 3_600;
/// As Kubernetes limits it.
const SECONDS_ASKED_MAX: i64 = 1 << 32;
/// Tolerated clock skew, as in Kubernetes. A bound object counts as deleted this long after its deletion timestamp.
const LEEWAY_SECONDS: i64 = 60;
/// Tokens have about a kilobyte, more with many audiences. A longer token is refused before it is decoded, and never issued.
pub(super) const TOKEN_BYTES_MAX: usize = 16 << 10;
/// The name of the only key.
const KEY_ID: &str = "lazaret";

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
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": KEY_ID});
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
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (text, signature) = token.rsplit_once('.')?;
        let (header, claims) = text.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        // Only one algorithm and key are accepted, and no critical extension.
        let named = header.get("kid").is_none_or(|name| *name == KEY_ID);
        if header["alg"] != "ES256" || !named || header.get("crit").is_some() {
            return None;
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref());
        key.verify(text.as_bytes(), &URL_SAFE_NO_PAD.decode(signature).ok()?).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }
}

/// The status of a TokenRequest.
pub(crate) fn issue(
    stored: &ObjectStore,
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
    if asked > SECONDS_ASKED_MAX {
        return Err("spec.expirationSeconds: may not specify a duration larger than 2^32 seconds".into());
    }
    let now = clock::now().as_second();
    let expires = now + asked.min(SECONDS_MAX);
    let audiences = spec["audiences"]
        .as_array()
        .filter(|list| !list.is_empty())
        .cloned()
        .unwrap_or_else(|| vec![ISSUER.into()]);
    let mut bound = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": object::meta(account, "uid")}});
    bind(stored, account, &spec["boundObjectRef"], &mut bound)?;
    let claims = json!({
        "iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": audiences, "iat": now, "nbf": now, "exp": expires,
        "jti": random::uid(), "kubernetes.io": bound,
    });
    let token = keys.sign(&claims).ok_or("sign the token")?;
    if token.len() > TOKEN_BYTES_MAX {
        return Err(format!("spec.audiences: the token would be longer than {TOKEN_BYTES_MAX} bytes"));
    }
    let until = jiff::Timestamp::from_second(expires).map_err(|error| error.to_string())?;
    Ok(json!({"token": token, "expirationTimestamp": until.to_string()}))
}

/// Binds a token to a pod, with the node that the pod runs on, or to a node.
fn bind(stored: &ObjectStore, account: &Value, reference: &Value, bound: &mut Value) -> Result<(), String> {
    let Some(kind) = reference["kind"].as_str() else { return Ok(()) };
    let name = reference["name"].as_str().unwrap_or_default();
    let (plural, namespace) = match kind {
        "Pod" => ("pods", object::meta(account, "namespace")),
        "Node" => ("nodes", ""),
        "Secret" => ("secrets", object::meta(account, "namespace")),
        other => return Err(format!("spec.boundObjectRef.kind: cannot bind a token to a {other}")),
    };
    let found = lazaret_kinds::find("", plural).and_then(|kind| stored.get(kind, namespace, name));
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
                .and_then(|kind| stored.get(kind, "", node))
                .map(|node| object::meta(&node, "uid").to_owned());
            bound["node"] = json!({"name": node, "uid": uid.unwrap_or_default()});
        }
    }
    bound[kind.to_ascii_lowercase().as_str()] = entry;
    Ok(())
}

/// An accepted token.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) user: User,
    /// The requested audiences that the token names; at least one.
    pub(crate) audiences: Vec<String>,
}

/// Authenticates a token for at least one of the audiences.
pub(crate) fn authenticate(
    stored: &ObjectStore,
    keys: &TokenKeys,
    token: &str,
    audiences: &[&str],
) -> Result<Accepted, String> {
    let claims = keys.verify(token).filter(|claims| claims["iss"] == ISSUER).ok_or("invalid bearer token")?;
    let refused = |why: String| format!("[invalid bearer token, {why}]");
    let audiences = common_audiences(&claims, audiences).map_err(refused)?;
    let now = clock::now().as_second();
    check_times(&claims, now).map_err(|why| refused(why.to_owned()))?;
    let bound = &claims["kubernetes.io"];
    check_bound(stored, bound, now).map_err(refused)?;
    Ok(Accepted { user: user(&claims, bound), audiences })
}

fn common_audiences(claims: &Value, wanted: &[&str]) -> Result<Vec<String>, String> {
    let meant = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let meant: Vec<String> = meant.map(str::to_owned).collect();
    let common: Vec<String> =
        meant.iter().filter(|audience| wanted.contains(&audience.as_str())).cloned().collect();
    if common.is_empty() {
        let wanted: Vec<String> = wanted.iter().map(|&audience| audience.to_owned()).collect();
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            quoted(&meant),
            quoted(&wanted)
        ));
    }
    Ok(common)
}

fn check_times(claims: &Value, now: i64) -> Result<(), &'static str> {
    let time = |name: &str| claims[name].as_i64();
    if time("exp").is_none_or(|expires| now.saturating_sub(LEEWAY_SECONDS) > expires) {
        return Err("service account token has expired");
    }
    let soon = now.saturating_add(LEEWAY_SECONDS);
    if time("nbf").is_none_or(|begins| soon < begins) {
        return Err("service account token is not valid yet");
    }
    if time("iat").is_some_and(|issued| soon < issued) {
        return Err("service account token is issued in the future");
    }
    Ok(())
}

/// Checks that the account and the bound object exist. For a token bound to a pod, the node is information only, as in Kubernetes.
fn check_bound(stored: &ObjectStore, bound: &Value, now: i64) -> Result<(), String> {
    let namespace = bound["namespace"].as_str().unwrap_or_default();
    let account = check_exists(stored, "serviceaccounts", namespace, &bound["serviceaccount"], now);
    account.map_err(|why| why.unwrap_or_else(|| "service account has been deleted".to_owned()))?;
    for (claim, plural, namespace) in
        [("secret", "secrets", namespace), ("pod", "pods", namespace), ("node", "nodes", "")]
    {
        if bound[claim].is_null() || claim == "node" && !bound["pod"].is_null() {
            continue;
        }
        check_exists(stored, plural, namespace, &bound[claim], now)
            .map_err(|why| why.unwrap_or_else(|| "service account token has been invalidated".to_owned()))?;
    }
    Ok(())
}

/// Checks that the object of a claim exists with the same UID and is not deleted. `Err(None)`: it does not exist.
fn check_exists(
    stored: &ObjectStore,
    plural: &str,
    namespace: &str,
    claim: &Value,
    now: i64,
) -> Result<(), Option<String>> {
    let kind = lazaret_kinds::find("", plural).ok_or(None)?;
    let found = stored.get(kind, namespace, claim["name"].as_str().ok_or(None)?).ok_or(None)?;
    let (uid, claimed) = (object::meta(&found, "uid"), claim["uid"].as_str().unwrap_or_default());
    if uid != claimed {
        return Err(Some(format!("{} UID ({uid}) does not match claim ({claimed})", kind.singular)));
    }
    let deleted = object::meta(&found, "deletionTimestamp");
    let long_ago = |at: jiff::Timestamp| at.as_second() < now.saturating_sub(LEEWAY_SECONDS);
    if !deleted.is_empty() && deleted.parse().map_or(true, long_ago) {
        return Err(None);
    }
    Ok(())
}

fn user(claims: &Value, bound: &Value) -> User {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&bound["namespace"]), text(&bound["serviceaccount"]["name"]));
    let mut user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: text(&bound["serviceaccount"]["uid"]),
        groups: vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")],
        ..User::default()
    };
    user.extra.insert(
        "authentication.kubernetes.io/credential-id".into(),
        vec![format!("JTI={}", text(&claims["jti"]))],
    );
    for kind in ["pod", "node"] {
        for field in ["name", "uid"] {
            if let Some(value) = bound[kind][field].as_str() {
                user.extra
                    .insert(format!("authentication.kubernetes.io/{kind}-{field}"), vec![value.to_owned()]);
            }
        }
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> TokenKeys {
        TokenKeys::load(&TokenKeys::generate().unwrap()).unwrap()
    }

    /// A token with this header, signed as it should be.
    fn with_header(keys: &TokenKeys, header: &Value, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let signature = keys.pair.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    #[test]
    fn times_have_a_leeway_of_a_minute() {
        let claims = json!({"iat": 1_000, "nbf": 1_000, "exp": 2_000});
        for (now, expected) in [
            (939, Some("service account token is not valid yet")),
            (940, None),
            (1_500, None),
            (2_060, None),
            (2_061, Some("service account token has expired")),
        ] {
            assert_eq!(check_times(&claims, now).err(), expected, "{now}");
        }
        assert!(check_times(&json!({"iat": 1_000, "nbf": 1_000}), 1_500).is_err(), "no end");
        assert!(check_times(&json!({"exp": 2_000}), 1_500).is_err(), "no beginning");
        let future = json!({"iat": 1_700, "nbf": 1_000, "exp": 2_000});
        assert_eq!(check_times(&future, 1_500), Err("service account token is issued in the future"));
    }

    #[test]
    fn audiences_are_those_in_common() {
        let claims = json!({"aud": ["a", "b", "c"]});
        assert_eq!(common_audiences(&claims, &["c", "a", "x"]).unwrap(), ["a", "c"]);
        assert_eq!(
            common_audiences(&claims, &["x", "y"]).unwrap_err(),
            r#"token audiences ["a" "b" "c"] is invalid for the target audiences ["x" "y"]"#
        );
        assert!(common_audiences(&json!({}), &["x"]).is_err());
    }

    #[test]
    fn a_signature_holds_for_one_algorithm_one_key_and_a_bounded_length() {
        let (ours, other) = (keys(), keys());
        let claims = json!({"iss": ISSUER});
        let good = json!({"alg": "ES256", "kid": KEY_ID});
        assert_eq!(ours.verify(&with_header(&ours, &good, &claims)), Some(claims.clone()));
        assert_eq!(other.verify(&with_header(&ours, &good, &claims)), None, "another key");
        for header in [
            json!({"alg": "none", "kid": KEY_ID}),
            json!({"alg": "HS256", "kid": KEY_ID}),
            json!({"alg": "ES256", "kid": "other"}),
            json!({"alg": "ES256", "kid": KEY_ID, "crit": ["exp"]}),
            json!({"kid": KEY_ID}),
            json!([]),
        ] {
            assert_eq!(ours.verify(&with_header(&ours, &header, &claims)), None, "{header}");
        }
        let token = with_header(&ours, &good, &claims);
        let unsigned = token.rsplit_once('.').unwrap().0;
        assert_eq!(ours.verify(&format!("{unsigned}.")), None);
        let long = json!({"iss": ISSUER, "x": "x".repeat(TOKEN_BYTES_MAX)});
        assert_eq!(ours.verify(&with_header(&ours, &good, &long)), None, "too long");
    }
}
