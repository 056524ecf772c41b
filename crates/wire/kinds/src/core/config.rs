//! Configuration and secrets.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use lazaret_json::Value;

use crate::{
    Column, Context, Errors, FieldProblem, Rules,
    check::IMMUTABLE,
    kind::age,
    path::Path,
    value::{count, entries, field_mut, fill, is_true, put, same_field, take, text},
};

/// Bound on the bytes of all values together.
const DATA_BYTES_MAX: usize = 1 << 20;
const KEY_BYTES_MAX: usize = 253;

/// Configuration.
#[derive(Debug)]
pub(crate) struct ConfigMap;

/// Secrets.
#[derive(Debug)]
pub(crate) struct Secret;

impl Rules for ConfigMap {
    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        data(errors, object, &[("data", false), ("binaryData", true)]);
        for (key, _) in entries(object, "data").filter(|(key, _)| object["binaryData"].get(*key).is_some()) {
            errors.invalid(
                Path::root("data").key(key),
                key.as_str(),
                "duplicate of key present in binaryData",
            );
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        frozen(errors, new, old, &["data", "binaryData"]);
        self.validate_create(new, context, errors);
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Data"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![(count(object, "data") + count(object, "binaryData")).into(), age(object, context)]
    }
}

impl Rules for Secret {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        fill(object, "type", "Opaque");
        if let Some(Value::Object(texts)) = take(object, "stringData") {
            let data = field_mut(object, "data");
            for (key, value) in texts {
                put(data, &key, BASE64.encode(value.as_str().unwrap_or_default()));
            }
        }
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        data(errors, object, &[("data", true)]);
        of_type(errors, object);
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        if text(new, "type") != text(old, "type") {
            errors.invalid("type", text(new, "type"), IMMUTABLE);
        }
        frozen(errors, new, old, &["data"]);
        self.validate_create(new, context, errors);
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        (field == "type").then(|| text(object, "type").into())
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[Column::text("Type"), Column::text("Data"), Column::AGE];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        vec![text(object, "type").into(), count(object, "data").into(), age(object, context)]
    }
}

/// Each field, and whether its values are bytes in base64.
fn data(errors: &mut Errors, object: &Value, fields: &[(&str, bool)]) {
    let mut total = 0;
    for (field, coded) in fields {
        let path = Path::root(field);
        for (key, value) in entries(object, field) {
            let written = value.as_str().map_or(0, str::len);
            total += if *coded { written / 4 * 3 } else { written };
            let fits = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
                && !key.is_empty()
                && key.len() <= KEY_BYTES_MAX
                && key != "."
                && !key.starts_with("..");
            if !fits {
                let why = "must consist of alphanumeric characters, '-', '_' or '.', as in 'key.name'";
                errors.invalid(path.key(key), key.as_str(), why);
            }
        }
    }
    if total > DATA_BYTES_MAX {
        errors.push("data", FieldProblem::TooLong(DATA_BYTES_MAX));
    }
}

/// Checks the keys that a secret of a known type must have.
fn of_type(errors: &mut Errors, secret: &Value) {
    let path = Path::root("data");
    let value = |key: &str| secret["data"].get(key).and_then(Value::as_str);
    let decoded = |key: &str| value(key).and_then(|text| BASE64.decode(text.replace(['\r', '\n'], "")).ok());
    match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if text(&secret["metadata"]["annotations"], ACCOUNT).is_empty() {
                errors.required(Path::root("metadata").field("annotations").key(ACCOUNT), "");
            }
        }
        kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
            let key = if kind.ends_with("json") { ".dockerconfigjson" } else { ".dockercfg" };
            match decoded(key) {
                None => errors.required(path.key(key), ""),
                Some(bytes) if serde_json::from_slice::<Value>(&bytes).is_err() => {
                    errors.invalid(path.key(key), "<secret contents redacted>", "must be JSON");
                }
                Some(_) => {}
            }
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            errors.required(path.key("username"), "");
            errors.required(path.key("password"), "");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").is_none_or(str::is_empty) => {
            errors.required(path.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| value(key).is_none()) {
                errors.required(path.key(key), "");
            }
        }
        _ => {}
    }
}

/// Once immutable, always, and with all that is in it.
fn frozen(errors: &mut Errors, new: &Value, old: &Value, fields: &[&str]) {
    if !is_true(old, "immutable") {
        return;
    }
    if !is_true(new, "immutable") {
        errors.forbidden("immutable", "field is immutable when `immutable` is set");
    }
    for field in fields.iter().filter(|field| !same_field(new, old, field)) {
        errors.forbidden(*field, "field is immutable when `immutable` is set");
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use crate::testing::{World, kind};

    #[test]
    fn a_secret_of_a_known_type_has_what_the_type_asks_for() {
        let wrong = |secret_type: &str, data: lazaret_json::Value| {
            let secret = json!({"metadata": {"name": "s"}, "type": secret_type, "data": data});
            World::new().create(kind("", "secrets"), secret).wrong()
        };
        let tls = "kubernetes.io/tls";
        assert_eq!(wrong(tls, json!({})), ["data[tls.crt] Required", "data[tls.key] Required"]);
        assert_eq!(wrong(tls, json!({"tls.crt": "YQ=="})), ["data[tls.key] Required"]);
        assert!(
            wrong(tls, json!({"tls.crt": "", "tls.key": ""})).is_empty(),
            "present is enough, as in Kubernetes"
        );
        let docker = "kubernetes.io/dockerconfigjson";
        assert_eq!(wrong(docker, json!({})), ["data[.dockerconfigjson] Required"]);
        assert_eq!(wrong(docker, json!({".dockerconfigjson": "YQ=="})), ["data[.dockerconfigjson] Invalid"]);
        assert!(wrong(docker, json!({".dockerconfigjson": "e30="})).is_empty());
        assert_eq!(wrong("kubernetes.io/dockercfg", json!({})), ["data[.dockercfg] Required"]);
        assert_eq!(
            wrong("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})),
            ["data[ssh-privatekey] Required"]
        );
        assert_eq!(
            wrong("kubernetes.io/basic-auth", json!({})),
            ["data[password] Required", "data[username] Required"]
        );
        assert_eq!(
            wrong("kubernetes.io/service-account-token", json!({})),
            ["metadata.annotations[kubernetes.io/service-account.name] Required"]
        );
        assert!(wrong("example.com/own", json!({})).is_empty());
    }
}
