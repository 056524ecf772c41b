//! The DeviceTaintRules that this command makes: what they are called and what they tell of themselves.

use std::fmt::Write as _;

use lazaret_api::rule_request_to_text;
use lazaret_model::{
    DeviceSelector, Effect, Impact, REQUEST, RuleRequest, Taint, Timestamp, validate_label_value,
};
use serde_json::{Map, Value, json};

use super::cluster::Meta;

/// Says who looks after a rule.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Its value for rules of this command.
pub const MANAGED_BY: &str = "kubectl-device";
/// Why the taint was set, as the user wrote it.
pub const REASON_ANNOTATION: &str = "lazaret.dev/reason";
/// The user that set it, as the server knew that user. Written by the command: the audit log of the server is the proof.
pub const SET_BY_ANNOTATION: &str = "lazaret.dev/set-by";
/// The taint key of a drain.
pub const DRAIN_KEY: &str = "lazaret.dev/drain";

const SET_BY_LABEL: &str = "lazaret.dev/set-by";
const DRIVER_LABEL: &str = "lazaret.dev/driver";
const POOL_LABEL: &str = "lazaret.dev/pool";
const DEVICE_LABEL: &str = "lazaret.dev/device";
/// The longest name of an object.
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// A rule to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDraft {
    /// Its name.
    pub name: String,
    /// Which devices.
    pub selector: DeviceSelector,
    /// The taint.
    pub taint: Taint,
    /// Why.
    pub reason: Option<String>,
    /// The user that sets it.
    pub set_by: Option<String>,
    /// The request that it is a part of.
    pub request: Option<RuleRequest>,
}

/// The name of the rule for these devices and this taint: the same every time, so that saying it again changes the rule and does not make a
/// second one. A rule whose effect changes on its way, as in a drain, has a name without one.
#[must_use]
pub fn rule_name(selector: &DeviceSelector, key: &str, effect: Option<&Effect>) -> String {
    let part = |part: &Option<lazaret_model::Text>| part.as_ref().map_or("*".to_owned(), ToString::to_string);
    let (driver, pool, device) = (part(&selector.driver), part(&selector.pool), part(&selector.device));
    let effect = effect.map(|effect| effect.name().to_ascii_lowercase());
    let mut whole = [&driver, &pool, &device, key, effect.as_deref().unwrap_or("")].join("\n");
    for more in selector.class.iter().chain(&selector.cel) {
        let _ = write!(whole, "\n{more}");
    }
    let short_key = key.rsplit_once('/').map_or(key, |(_, name)| name);
    let wide = if device == "*" && pool == "*" { driver.as_str() } else { "" };
    let class = selector.class.as_deref().unwrap_or_default();
    let words = [wide, class, &pool, &device, short_key, effect.as_deref().unwrap_or("")];
    let words: Vec<String> = words.iter().map(|word| plain(word)).filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    // Room for a hyphen and eight digits: they tell apart what the words do not.
    name.truncate(NAME_BYTES_MAX - 9);
    let _ = write!(name, "-{:08x}", fingerprint(&whole));
    name
}

/// The request that several rules are made by; one rule is no part of anything.
#[must_use]
pub fn request(
    targets: &[DeviceSelector],
    evicts: bool,
    declared: Impact,
    user: Option<&str>,
    now: Timestamp,
) -> Option<RuleRequest> {
    if targets.len() < 2 {
        return None;
    }
    let words = format!("{targets:?} {user:?}");
    let id = format!("{:08x}-{}", fingerprint(&words), now.as_millis()).into();
    Some(RuleRequest { id, evicts, declared })
}

/// Lower-case letters, digits and single hyphens.
fn plain(word: &str) -> String {
    let mut plain = String::with_capacity(word.len());
    for c in word.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_alphanumeric() {
            plain.push(c);
        } else if !plain.is_empty() && !plain.ends_with('-') {
            plain.push('-');
        }
    }
    plain.trim_end_matches('-').to_owned()
}

/// FNV-1a, folded to 32 bits: the same in every build, for names.
#[must_use]
pub fn fingerprint(text: &str) -> u32 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    u32::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).unwrap_or(u32::MAX)
}

impl RuleDraft {
    /// The object to create.
    #[must_use]
    pub fn object(&self, api_version: &str, kind: &str) -> Value {
        let names = [
            ("driver", DRIVER_LABEL, &self.selector.driver),
            ("pool", POOL_LABEL, &self.selector.pool),
            ("device", DEVICE_LABEL, &self.selector.device),
        ];
        let mut labels = Map::from_iter([(MANAGED_BY_LABEL.to_owned(), json!(MANAGED_BY))]);
        let mut selector = Map::new();
        for (field, label, name) in names {
            let Some(name) = name else { continue };
            selector.insert(field.to_owned(), json!(&**name));
            if validate_label_value(name).is_ok() {
                labels.insert(label.to_owned(), json!(&**name));
            }
        }
        if let Some(class) = &self.selector.class {
            selector.insert("deviceClassName".to_owned(), json!(&**class));
        }
        if !self.selector.cel.is_empty() {
            let all = self.selector.cel.iter().map(|text| json!({"cel": {"expression": &**text}}));
            selector.insert("selectors".to_owned(), all.collect());
        }
        if let Some(user) = self.set_by.as_deref().and_then(label_of) {
            labels.insert(SET_BY_LABEL.to_owned(), json!(user));
        }
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": {"name": self.name, "labels": labels, "annotations": self.annotations()},
            "spec": {"deviceSelector": selector, "taint": self.taint()},
        })
    }

    /// The patch from the rule as it was read to this one. Without a resource version in `meta`, its UID is the precondition.
    #[must_use]
    pub fn patch(&self, meta: &Meta) -> Value {
        let mut metadata = json!({"uid": meta.uid, "annotations": self.annotations()});
        if !meta.resource_version.is_empty() {
            metadata["resourceVersion"] = json!(meta.resource_version);
        }
        json!({"metadata": metadata, "spec": {"taint": self.taint()}})
    }

    fn taint(&self) -> Value {
        let mut taint = Map::from_iter([
            ("key".to_owned(), json!(&*self.taint.key)),
            ("effect".to_owned(), json!(self.taint.effect.name())),
        ]);
        if !self.taint.value.is_empty() {
            taint.insert("value".into(), json!(&*self.taint.value));
        }
        if let Some(pace) = self.taint.evictions_per_second {
            taint.insert("evictionsPerSecond".into(), json!(pace));
        }
        Value::Object(taint)
    }

    fn annotations(&self) -> Value {
        let mut annotations = Map::new();
        for (key, value) in [(REASON_ANNOTATION, &self.reason), (SET_BY_ANNOTATION, &self.set_by)] {
            if let Some(value) = value {
                annotations.insert(key.to_owned(), json!(value));
            }
        }
        if let Some(request) = &self.request {
            annotations.insert(REQUEST.to_owned(), json!(rule_request_to_text(request)));
        }
        Value::Object(annotations)
    }
}

/// A user's name as far as a label can hold it, for `-l`.
fn label_of(user: &str) -> Option<String> {
    let mut label: String = user
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .take(LABEL_BYTES_MAX)
        .collect();
    label = label.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned();
    (!label.is_empty()).then_some(label)
}

impl Meta {
    /// Whether this command made the object.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.labels.get(MANAGED_BY_LABEL).is_some_and(|by| by == MANAGED_BY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(driver: Option<&str>, pool: Option<&str>, device: Option<&str>) -> DeviceSelector {
        let text = |name: Option<&str>| name.map(Into::into);
        DeviceSelector {
            driver: text(driver),
            pool: text(pool),
            device: text(device),
            ..DeviceSelector::default()
        }
    }

    #[test]
    fn names_are_readable_and_differ_where_rules_differ() {
        let one = selector(Some("gpu.example.com"), Some("node-1"), Some("gpu-3"));
        let name = rule_name(&one, "example.com/unhealthy", Some(&Effect::NoExecute));
        assert_eq!(name, "node-1-gpu-3-unhealthy-noexecute-adf9daf8");
        assert_ne!(name, rule_name(&one, "example.org/unhealthy", Some(&Effect::NoExecute)));
        let pool = selector(Some("gpu.example.com"), Some("rack/7"), None);
        assert!(rule_name(&pool, DRAIN_KEY, None).starts_with("rack-7-drain-"));
        let all = rule_name(&selector(Some("gpu.example.com"), None, None), "k", Some(&Effect::None));
        assert!(all.starts_with("gpu-example-com-k-none-"), "{all}");
        let long = "a".repeat(300);
        let long = rule_name(&selector(Some("d"), Some(&long), Some("x")), "k", None);
        assert_eq!(long.len(), NAME_BYTES_MAX);
    }

    #[test]
    fn labels_and_words_of_a_rule_say_nothing_of_what_it_taints() {
        let read = |labels: Value, annotations: Value| {
            let metadata = json!({"name": "r", "uid": "u", "labels": labels, "annotations": annotations});
            let rule = json!({
                "apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": metadata,
                "spec": {"deviceSelector": {"driver": "d", "pool": "p", "device": "x"}, "taint": {"key": "k", "effect": "NoSchedule"}},
            });
            match lazaret_api::decode_json(&rule.to_string()) {
                Ok(lazaret_api::Object::Rule(rule)) => (rule.selector, rule.taint, rule.review),
                other => panic!("{other:?}"),
            }
        };
        let labels = json!({DRIVER_LABEL: "e", POOL_LABEL: "q", DEVICE_LABEL: "y", SET_BY_LABEL: "ada"});
        let words = json!({REASON_ANNOTATION: "lazaret.dev/drain", SET_BY_ANNOTATION: "ada", DRAIN_KEY: "x", "lazaret.dev/quarantine": "x"});
        assert_eq!(read(labels, words), read(json!({}), json!({})));
    }

    #[test]
    fn users_become_labels() {
        assert_eq!(
            label_of("system:serviceaccount:ops:bot").as_deref(),
            Some("system_serviceaccount_ops_bot")
        );
        assert_eq!(label_of("a@example.com").as_deref(), Some("a_example.com"));
        assert_eq!(label_of(":::"), None);
    }
}
