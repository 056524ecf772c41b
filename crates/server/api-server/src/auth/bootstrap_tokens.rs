//! Bootstrap tokens: what a node that has no certificate yet shows to ask for one. Each is a secret in `kube-system`.

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use lazaret_json::Value;
use lazaret_kinds::User;

use crate::{ObjectStore, object};

pub(crate) const NAMESPACE: &str = "kube-system";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;
/// Of the part of a group after `system:bootstrappers:`.
const GROUP_NAME_BYTES_MAX: usize = 256;

/// The user of a token; `None` if it does not have the form of a bootstrap token, or its secret does not permit it now.
pub(crate) fn authenticate(kept: &ObjectStore, token: &str, now: Timestamp) -> Option<User> {
    let (id, secret) = parse(token)?;
    let secrets = lazaret_kinds::find("", "secrets")?;
    let stored = kept.get(secrets, NAMESPACE, &format!("bootstrap-token-{id}"))?;
    user(&stored, id, secret, now)
}

/// `id.secret`, of lower-case letters and digits.
fn parse(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_part = |part: &str, bytes: usize| {
        part.len() == bytes && part.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    };
    (is_part(id, ID_BYTES) && is_part(secret, SECRET_BYTES)).then_some((id, secret))
}

fn user(stored: &Value, id: &str, secret: &str, now: Timestamp) -> Option<User> {
    let data = |key: &str| data(stored, key);
    if object::is_deleting(stored) || stored["type"] != SECRET_TYPE {
        return None;
    }
    let matches = equal(&data("token-secret"), secret.as_bytes());
    if !matches || data("token-id") != id.as_bytes() || is_expired(stored, now) {
        return None;
    }
    if data("usage-bootstrap-authentication") != b"true" {
        return None;
    }
    let groups = groups(&String::from_utf8(data("auth-extra-groups")).ok()?)?;
    Some(User { name: format!("system:bootstrap:{id}"), groups, ..User::default() })
}

/// Whether a secret is a bootstrap token whose time has passed, or cannot be read.
pub(crate) fn is_expired(stored: &Value, now: Timestamp) -> bool {
    let end = data(stored, "expiration");
    let passed = || {
        let end = std::str::from_utf8(&end).ok().and_then(|end| end.parse::<Timestamp>().ok());
        end.is_none_or(|end| end <= now)
    };
    stored["type"] == SECRET_TYPE && !end.is_empty() && passed()
}

fn data(stored: &Value, key: &str) -> Vec<u8> {
    let text = stored["data"].get(key).and_then(Value::as_str).unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

/// Takes as long whatever differs.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// The groups that a token lists, sorted, with the one that every token has; none if one of them is not permitted.
fn groups(listed: &str) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([GROUP.to_owned()]);
    for group in listed.split(',').filter(|_| !listed.is_empty()) {
        let name = group.strip_prefix(GROUP)?.strip_prefix(':')?;
        let is_known =
            |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || matches!(byte, b':' | b'-');
        let ends_well = name.bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if name.len() > GROUP_NAME_BYTES_MAX || !ends_well || !name.bytes().all(is_known) {
            return None;
        }
        groups.insert(group.to_owned());
    }
    Some(groups.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    fn secret(changes: &[(&str, &str)]) -> Value {
        let mut data = json!({
            "token-id": STANDARD.encode("abcdef"),
            "token-secret": STANDARD.encode("0123456789abcdef"),
            "usage-bootstrap-authentication": STANDARD.encode("true"),
        });
        for (key, value) in changes {
            data[*key] = STANDARD.encode(value).into();
        }
        json!({"metadata": {"name": "bootstrap-token-abcdef"}, "type": SECRET_TYPE, "data": data})
    }

    fn groups_of(stored: &Value, token: &str) -> Option<Vec<String>> {
        let (id, secret) = parse(token)?;
        user(stored, id, secret, "2026-01-01T00:00:00Z".parse().unwrap()).map(|user| user.groups)
    }

    #[test]
    fn a_token_is_what_its_secret_says_and_nothing_else() {
        const TOKEN: &str = "abcdef.0123456789abcdef";
        let plain = Some(vec![GROUP.to_owned()]);
        let more = "system:bootstrappers:b:x,system:bootstrappers:a";
        for (changes, token, expected) in [
            (&[][..], TOKEN, plain.clone()),
            (&[], "abcdef.0123456789abcdee", None),
            (&[], "abcdef.0123456789abcde", None),
            (&[], "ABCDEF.0123456789abcdef", None),
            (&[], "abcdef.0123456789abcdef.", None),
            (&[("token-id", "abcdeg")], TOKEN, None),
            (&[("token-secret", "")], TOKEN, None),
            (&[("expiration", "2026-01-01T00:00:01Z")], TOKEN, plain.clone()),
            (&[("expiration", "2026-01-01T00:00:00Z")], TOKEN, None),
            (&[("expiration", "soon")], TOKEN, None),
            (&[("usage-bootstrap-authentication", "yes")], TOKEN, None),
            (
                &[("auth-extra-groups", more)],
                TOKEN,
                Some(vec![GROUP.into(), "system:bootstrappers:a".into(), "system:bootstrappers:b:x".into()]),
            ),
            (&[("auth-extra-groups", "system:masters")], TOKEN, None),
            (&[("auth-extra-groups", "system:bootstrappers:a,system:masters")], TOKEN, None),
            (&[("auth-extra-groups", "system:bootstrappers:")], TOKEN, None),
            (&[("auth-extra-groups", "system:bootstrappers:a,")], TOKEN, None),
            (&[("auth-extra-groups", "system:bootstrappers:A")], TOKEN, None),
        ] {
            assert_eq!(groups_of(&secret(changes), token), expected, "{changes:?} {token}");
        }
        let mut other = secret(&[]);
        other["type"] = "Opaque".into();
        assert_eq!(groups_of(&other, TOKEN), None);
        let mut leaving = secret(&[]);
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        assert_eq!(groups_of(&leaving, TOKEN), None);
    }
}
