//! JSON that is kept as it was written.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use lazaret_json::{Value, WithVerbatim, json, to_value, verbatim};
use serde::de::DeserializeSeed as _;

fn read(text: &str) -> Value {
    verbatim(serde_json::from_str(text).unwrap()).unwrap()
}

#[test]
fn an_object_is_written_as_it_was_read() {
    for text in [
        r#"{"kind": "foo", "apiVersion": "dra.example.com/v1"}"#,
        r#"{ }"#,
        r#"{"b":1e3,"a":123456789012345678901234567890,"c":1.50,"d":-0}"#,
        r#"{"a":"\u0061\/","b":[ {"d":1, "c":[]} ]}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"b":null,"a":true}"#,
        r#"{"a":1}"#,
    ] {
        let value = read(text);
        assert_eq!(value.to_string(), text);
        assert_eq!(Value::Array(vec![value.clone()].into()).to_string(), format!("[{text}]"));
        assert_eq!(
            value,
            serde_json::from_str::<Value>(text).unwrap(),
            "it is equal to any other text of it"
        );
    }
}

#[test]
fn a_text_of_several_lines_is_compacted() {
    let text = "{\n  \"a b\": \"c \\\" d \\\\\",\r\n\t\"e\": [ 1e3 ]\n}";
    assert_eq!(read(text).to_string(), r#"{"a b":"c \" d \\","e":[1e3]}"#);
}

#[test]
fn a_change_takes_the_text_away_and_spares_whoever_else_has_it() {
    let text = r#"{"z": 1, "a": {"b": [2.0]}}"#;
    let value = read(text);
    let changes: [fn(&mut Value); 6] = [
        |value| value["a"]["b"] = 3.into(),
        |value| drop(value.as_object_mut().unwrap().insert("x", Value::Null)),
        |value| drop(value.as_object_mut().unwrap().remove("z")),
        |value| value.as_object_mut().unwrap().retain(|name, _| name == "z"),
        |value| value.as_object_mut().unwrap().values_mut().for_each(|value| *value = Value::Null),
        |value| *value.as_object_mut().unwrap().entry("y").or_insert(Value::Null) = 1.into(),
    ];
    for change in changes {
        let mut changed = value.clone();
        change(&mut changed);
        assert_ne!(changed, value);
        assert!(!changed.to_string().contains(' '), "{changed}");
        assert_eq!(value.to_string(), text);
    }
    let mut same = value.clone();
    assert_eq!((same.as_object_mut().unwrap().remove("x"), same.get_mut("x")), (None, None));
    assert_eq!(same.to_string(), text, "what is not there takes nothing away");
}

#[test]
fn fields_of_some_names_are_read_like_this_wherever_they_are() {
    let text = r#"{"data":{"a": 1},"list":[{"data":{ },"other":{"a":1}}],"z":{"data":[1,2]}}"#;
    let mut json = serde_json::Deserializer::from_str(text);
    assert_eq!(WithVerbatim::of(&["data"]).deserialize(&mut json).unwrap().to_string(), text);
}

#[test]
fn what_is_no_json_is_refused() {
    assert!(verbatim(serde_json::from_str(r#"{"a":"\ud800"}"#).unwrap()).is_err());
}

#[test]
fn the_text_survives_being_made_into_another_tree() {
    let text = r#"{"b": 1.0, "a": [ ]}"#;
    assert_eq!(json!({"x": read(text)}).to_string(), format!(r#"{{"x":{text}}}"#));
    assert_eq!(to_value(read(text)).unwrap().to_string(), text);
}
