//! Against `serde_json`'s tree: whatever is done to both, they say the same; and what was copied before stays what it was.
#![allow(clippy::unwrap_used, reason = "tests")]

use lazaret_json::{Map, Text, Value, json};
use proptest::prelude::*;
use serde_json::Value as Plain;

fn plain() -> impl Strategy<Value = Plain> {
    let leaf = prop_oneof![
        Just(Plain::Null),
        any::<bool>().prop_map(Plain::from),
        any::<i64>().prop_map(Plain::from),
        any::<u64>().prop_map(Plain::from),
        (-1_000_000..1_000_000i32).prop_map(|eighths| Plain::from(f64::from(eighths) / 8.0)),
        "[a-z\"\\\\é]{0,40}".prop_map(Plain::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Plain::from),
            prop::collection::btree_map("[a-d~/]{1,3}", inner, 0..6)
                .prop_map(|map| Plain::Object(map.into_iter().collect())),
        ]
    })
}

#[derive(Clone, Debug)]
enum Step {
    Set(String, Plain),
    Remove(String),
    Descend(String),
    Retain(char),
}

fn step() -> impl Strategy<Value = Step> {
    let name = "[a-d~/]{1,3}";
    prop_oneof![
        (name, plain()).prop_map(|(name, value)| Step::Set(name, value)),
        name.prop_map(Step::Remove),
        name.prop_map(Step::Descend),
        prop::char::range('a', 'd').prop_map(Step::Retain),
    ]
}

fn text(value: &Value) -> String {
    value.to_string()
}

proptest! {
    #[test]
    fn text_and_tree_agree(plain in plain()) {
        let written = plain.to_string();
        let ours: Value = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(text(&ours), written);
        prop_assert_eq!(&Value::from(plain.clone()), &ours);
        prop_assert_eq!(Plain::from(ours.clone()), plain.clone());
        prop_assert_eq!(format!("{ours:#}"), serde_json::to_string_pretty(&plain).unwrap());
    }

    #[test]
    fn changes_do_the_same_and_leave_copies_alone(start in plain(), steps in prop::collection::vec(step(), 0..12)) {
        let (mut ours, mut theirs) = (Value::from(start.clone()), start);
        let mut copies: Vec<(Value, String)> = Vec::new();
        for step in steps {
            copies.push((ours.clone(), theirs.to_string()));
            if !theirs.is_object() {
                (ours, theirs) = (json!({}), serde_json::json!({}));
            }
            match step {
                Step::Set(name, value) => {
                    ours[name.as_str()] = value.clone().into();
                    theirs[name] = value;
                }
                Step::Remove(name) => {
                    let removed = ours.as_object_mut().unwrap().remove(&name).map(|value| text(&value));
                    prop_assert_eq!(removed, theirs.as_object_mut().unwrap().remove(&name).map(|value| value.to_string()));
                }
                Step::Descend(name) => {
                    if let (Some(inner), Some(other)) = (ours.get_mut(&name), theirs.get_mut(&name)) {
                        *inner = Value::from(vec![inner.take()]);
                        *other = Plain::from(vec![other.take()]);
                    }
                }
                Step::Retain(first) => {
                    ours.as_object_mut().unwrap().retain(|name, _| name.starts_with(first));
                    theirs.as_object_mut().unwrap().retain(|name, _| name.starts_with(first));
                }
            }
            prop_assert_eq!(text(&ours), theirs.to_string());
        }
        for (copy, before) in copies {
            prop_assert_eq!(text(&copy), before);
        }
    }

    #[test]
    fn pointers_point_at_the_same(plain in plain(), path in "(/[a-d~01]{0,3}|/[0-9]{1,2}){0,3}") {
        let mut ours = Value::from(plain.clone());
        prop_assert_eq!(ours.pointer(&path).map(text), plain.pointer(&path).map(Plain::to_string));
        prop_assert_eq!(ours.pointer_mut(&path).map(|found| text(found)), plain.pointer(&path).map(Plain::to_string));
    }

    #[test]
    fn objects_of_any_size_keep_their_order_and_the_last_of_one_name(
        names in prop::collection::vec("[a-c]{1,5}", 0..200),
    ) {
        let fields = names.iter().enumerate().map(|(at, name)| (Text::from(name.as_str()), Value::from(at)));
        let read = Map::from(fields.clone().collect::<Vec<_>>());
        let mut built = Map::new();
        for (name, value) in fields {
            built.insert(name, value);
        }
        let expected: serde_json::Map<String, Plain> =
            names.iter().enumerate().map(|(at, name)| (name.clone(), at.into())).collect();
        prop_assert_eq!(&read, &built);
        prop_assert_eq!(text(&read.into()), Plain::Object(expected).to_string());
    }
}

#[test]
fn a_copy_shares_what_was_not_changed() {
    let before = json!({"spec": {"a": [1, 2]}, "status": {"b": 1}});
    let mut after = before.clone();
    assert!(after.is(&before));
    after["status"]["b"] = 2.into();
    assert!(after["spec"].is(&before["spec"]) && !after["status"].is(&before["status"]));
    assert_eq!(before["status"]["b"], 1);
    assert_ne!(after, before);
    after["status"]["b"] = 1.into();
    assert_eq!(after, before);
}

#[test]
fn looking_for_what_is_not_there_copies_nothing() {
    let before = json!({"list": [1], "map": {"a": 1}});
    let mut after = before.clone();
    assert!(
        after["list"].get(5).is_none()
            && after.get_mut("none").is_none()
            && after.pointer_mut("/map/b").is_none()
    );
    assert!(after.as_object_mut().unwrap().remove("none").is_none());
    assert!(after.is(&before));
    assert_eq!(after["none"]["deeper"], Value::Null);
}

#[test]
fn a_value_is_no_larger_than_a_short_text() {
    assert_eq!(size_of::<Value>(), size_of::<Text>());
}

/// The same text for both macros.
macro_rules! both {
    ($($json:tt)+) => {
        assert_eq!(json!($($json)+).to_string(), serde_json::json!($($json)+).to_string())
    };
}

#[test]
fn what_is_written_as_json_is_made_as_serde_json_makes_it() {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    enum Choice {
        Plain,
        One(u8),
        Two(u8, char),
        Fields { inner: Option<f32> },
    }
    #[derive(serde::Serialize)]
    struct Pair(i8, Option<()>);
    let (name, list) = ("key", vec![1_i16, -2]);
    both!(null);
    both!([]);
    both!({});
    both!(true);
    both!([1, [2, {"a": null}], {}, "x", null, list.len(), -3.5]);
    both!({"b": {"c": [null]}, name: list, (format!("{name}2")): &name, "a": if list.is_empty() { 1 } else { 2 }, "n": null,});
    both!([
        Choice::Plain,
        Choice::One(1),
        Choice::Two(2, 'é'),
        Choice::Fields { inner: Some(0.5) },
        Pair(-1, None)
    ]);
    both!({"map": std::collections::BTreeMap::from([(2_u64, "two")]), "twice": 1, "twice": 2});
    assert!(lazaret_json::to_value(std::collections::BTreeMap::from([(vec![1], 1)])).is_err());
}
