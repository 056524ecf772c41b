//! The annotation that an eviction writes on a pod.

use lazaret_model::{EvictionMark, Text, Timestamp, Uid};
use serde::Serialize;

use crate::{decode::parse_quietly, fields};

/// The annotation.
pub const EVICTION_MARK: &str = "lazaret.dev/evicted-by";
/// The annotation of a pod or a namespace that says how pods want to be evicted.
pub const EVICTION_SAY: &str = "lazaret.dev/eviction";
/// The label of pods that leave together where a rule says `groups: Together`.
pub const EVICTION_GROUP: &str = "lazaret.dev/group";
/// The annotation, label and scheduling gate that a replacement writes on a pod.
pub const REPLACEMENT_MARK: &str = "lazaret.dev/replacement";
/// A longer one is not ours.
const BYTES_MAX: usize = 8 * 1024;

fields! {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wire {
        at_ms: Option<i64> = "atMs",
        rules: Option<Vec<Rule>> = "rules",
    }

    #[derive(Serialize)]
    struct Rule {
        name: Option<String> = "name",
        uid: Option<String> = "uid",
    }
}

/// The annotation's text.
#[must_use]
pub fn eviction_mark_to_text(mark: &EvictionMark) -> String {
    let rules = mark.rules.iter().take(EvictionMark::RULES_MAX);
    let rule = |(name, uid): &(Text, Uid)| Rule { name: Some(name.to_string()), uid: Some(uid.to_string()) };
    let rules = Some(rules.map(rule).collect());
    // Texts and a number cannot fail.
    serde_json::to_string(&Wire { at_ms: Some(mark.at.as_millis()), rules }).unwrap_or_default()
}

/// Reads the annotation. Any user may write annotations: text that is no mark counts as none.
pub(crate) fn read_eviction_mark(text: &str) -> Option<Box<EvictionMark>> {
    let wire: Wire = (text.len() <= BYTES_MAX).then(|| parse_quietly(text)).flatten()?;
    let rules = wire.rules?.into_iter().take(EvictionMark::RULES_MAX);
    let rules = rules.map(|rule| Some((rule.name?.into(), rule.uid?.into()))).collect::<Option<_>>()?;
    Some(Box::new(EvictionMark { at: Timestamp::from_millis(wire.at_ms?), rules }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_back_and_nothing_else_is_one() {
        let mark = EvictionMark {
            at: Timestamp::from_millis(1_700_000_000_123),
            rules: vec![("drain".into(), "u-1".into()), ("b".into(), "u-2".into())],
        };
        let text = eviction_mark_to_text(&mark);
        assert_eq!(
            text,
            r#"{"atMs":1700000000123,"rules":[{"name":"drain","uid":"u-1"},{"name":"b","uid":"u-2"}]}"#
        );
        assert_eq!(read_eviction_mark(&text).as_deref(), Some(&mark));
        let long = format!(r#"{{"atMs":1,"rules":[{{"name":"{}","uid":"u"}}]}}"#, "a".repeat(BYTES_MAX));
        for other in ["", "{}", "[]", "drain", r#"{"atMs":"1","rules":[]}"#, &long] {
            assert_eq!(read_eviction_mark(other), None, "{other}");
        }
        let many = EvictionMark { rules: vec![("r".into(), "u".into()); 40], ..mark };
        assert_eq!(read_eviction_mark(&eviction_mark_to_text(&many)).unwrap().rules.len(), 16);
    }
}
