//! What an eviction leaves behind on a pod: the rules that it was for, in the words of a condition.

use lazaret_model::{ConditionStatus, Pod, Timestamp};

use crate::reason::{DELETION_BY_TAINT, DISRUPTION_TARGET};

/// What comes before the name of a rule, and before its UID.
pub(crate) const RULE: &str = "DeviceTaintRule ";
pub(crate) const UID: &str = "(uid ";

/// The rules that a pod's condition says it was evicted for (name and UID), and when. Empty for a pod that was not
/// marked by an eviction of this project.
pub fn marks_of(pod: &Pod) -> impl Iterator<Item = Mark<'_>> {
    let condition = pod.conditions.iter().find(|condition| {
        condition.kind == DISRUPTION_TARGET
            && condition.status == ConditionStatus::True
            && condition.reason == DELETION_BY_TAINT
    });
    let at = condition.and_then(|condition| condition.last_transition).unwrap_or(Timestamp::EPOCH);
    let mut rest = condition.map_or("", |condition| &condition.message);
    core::iter::from_fn(move || {
        loop {
            let found = after(rest, RULE)?;
            if let Some((rule, uid, after)) = name_and_uid(found) {
                rest = after;
                return Some(Mark { rule, uid, at });
            }
            rest = found;
        }
    })
}

/// What comes after the first `word` in `text`. [`str::find`] prepares for words and texts of any length: that takes
/// longer than to look through these.
fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let first = word.chars().next()?;
    text.match_indices(first).find_map(|(at, _)| text[at..].strip_prefix(word))
}

/// The name and the UID of a rule, and the rest. One that is cut off does not borrow its end from the next.
fn name_and_uid(text: &str) -> Option<(&str, &str, &str)> {
    let (rule, rest) = text.split_at(text.bytes().position(|byte| byte == b' ')?);
    let rest = rest.strip_prefix(' ')?.strip_prefix(UID)?;
    let (uid, rest) = rest.split_at(rest.bytes().position(|byte| matches!(byte, b' ' | b')'))?);
    Some((rule, uid, rest.strip_prefix(')')?))
}

/// A rule named in a pod's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark<'a> {
    /// The rule's name.
    pub rule: &'a str,
    /// The rule's incarnation.
    pub uid: &'a str,
    /// When the pod was marked.
    pub at: Timestamp,
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use lazaret_model::Condition;

    use super::*;

    fn marked(message: &str) -> Pod {
        let condition = Condition {
            kind: DISRUPTION_TARGET.into(),
            status: ConditionStatus::True,
            reason: DELETION_BY_TAINT.into(),
            message: message.into(),
            observed_generation: 0,
            last_transition: Some(Timestamp::from_secs(7)),
        };
        Pod { conditions: vec![condition], ..Pod::default() }
    }

    #[test]
    fn each_rule_that_is_spelled_out_whole() {
        for (message, expected) in [
            ("", &[][..]),
            ("Device DeviceTaintRule", &[]),
            ("x. DeviceTaintRule a (uid 1): taint k on device d/p/0.", &[("a", "1")]),
            (
                "DeviceTaintRule a (uid 1); ResourceSlice s; DeviceTaintRule b (uid 2)",
                &[("a", "1"), ("b", "2")],
            ),
            ("DeviceTaintRule a (uid 1); DeviceTaintRule a (uid 1)", &[("a", "1"), ("a", "1")]),
            ("DeviceTaintRule cut; DeviceTaintRule b (uid 2)", &[("b", "2")]),
            ("DeviceTaintRule a (uid cut; DeviceTaintRule b (uid 2)", &[("b", "2")]),
            ("DeviceTaintRule a (uid 1); DeviceTaintRule b (uid cut", &[("a", "1")]),
            ("DDeviceTaintRule a (uid 1): taint D", &[("a", "1")]),
        ] {
            let pod = marked(message);
            let marks: Vec<(&str, &str)> = marks_of(&pod).map(|mark| (mark.rule, mark.uid)).collect();
            assert_eq!(marks, expected, "{message}");
            assert!(marks_of(&pod).all(|mark| mark.at == Timestamp::from_secs(7)));
        }
    }
}
