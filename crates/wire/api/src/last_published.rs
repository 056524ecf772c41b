//! The annotation on a claim that says what devices were like which no slice has any more.

use std::collections::BTreeMap;

use lazaret_model::{AttrValue, CapacityValue, Device, DeviceId, LastPublished};
use serde_json::{Map, Value, json};

use crate::{
    convert::{attribute_of, capacity_of},
    decode::parse_quietly,
    fields,
    wire::{Attribute, Capacity, Nullable},
};

/// The annotation.
pub const LAST_PUBLISHED: &str = "lazaret.dev/last-published";
/// A claim holds no more devices.
const DEVICES_MAX: usize = 32;

fields! {
    struct Wire {
        driver: Option<String> = "driver",
        pool: Option<String> = "pool",
        device: Option<String> = "device",
        attributes: Nullable<BTreeMap<String, Attribute>> = "attributes",
        capacity: Nullable<BTreeMap<String, Capacity>> = "capacity",
        allow_multiple_allocations: Nullable<bool> = "allowMultipleAllocations",
    }
}

/// The annotation's text.
#[must_use]
pub fn last_published_to_text(devices: &[LastPublished]) -> String {
    let all: Vec<Value> = devices.iter().map(|one| to_json(&one.driver, &one.pool, &one.device)).collect();
    Value::from(all).to_string()
}

/// Reads the annotation. Any user may write annotations: text that cannot be parsed counts as none.
pub(crate) fn read_last_published(text: &str) -> Vec<LastPublished> {
    let wire = (text.len() <= LastPublished::BYTES_MAX).then(|| parse_quietly::<Vec<Wire>>(text));
    let devices = wire.flatten().unwrap_or_default().into_iter().take(DEVICES_MAX);
    devices.filter_map(from_wire).collect()
}

fn from_wire(wire: Wire) -> Option<LastPublished> {
    let id = DeviceId::new(wire.driver?, wire.pool?, wire.device?);
    let attributes =
        wire.attributes.0.into_iter().map(|(key, value)| Some((key.into(), attribute_of(value)?)));
    let capacity = wire.capacity.0.into_iter().map(|(key, value)| Some((key.into(), capacity_of(value)?)));
    let (attributes, capacity) = (attributes.collect::<Option<_>>()?, capacity.collect::<Option<_>>()?);
    Some(LastPublished::new(&id, attributes, capacity, wire.allow_multiple_allocations.0))
}

fn to_json(driver: &str, pool: &str, device: &Device) -> Value {
    let mut json = json!({"driver": driver, "pool": pool, "device": &*device.name});
    if !device.attributes.is_empty() {
        let attributes = device.attributes.iter().map(|(key, value)| (key.to_string(), value_to_json(value)));
        json["attributes"] = attributes.collect::<Map<_, _>>().into();
    }
    if !device.capacity.is_empty() {
        let amount = |capacity: &CapacityValue| json!({"value": capacity.value.to_string()});
        let capacity = device.capacity.iter().map(|(key, value)| (key.to_string(), amount(value)));
        json["capacity"] = capacity.collect::<Map<_, _>>().into();
    }
    if device.allow_multiple_allocations == Some(true) {
        json["allowMultipleAllocations"] = true.into();
    }
    json
}

fn value_to_json(value: &AttrValue) -> Value {
    let versions = |list: &[lazaret_model::VersionValue]| -> Vec<Value> {
        list.iter().map(|version| version.text.as_str().into()).collect()
    };
    match value {
        AttrValue::Int(value) => json!({"int": value}),
        AttrValue::Bool(value) => json!({"bool": value}),
        AttrValue::String(text) => json!({"string": text.as_str()}),
        AttrValue::Version(version) => json!({"version": version.text.as_str()}),
        AttrValue::Ints(list) => json!({"ints": list.to_vec()}),
        AttrValue::Bools(list) => json!({"bools": list.to_vec()}),
        AttrValue::Strings(list) => {
            json!({"strings": list.iter().map(|text| text.as_str()).collect::<Vec<_>>()})
        }
        AttrValue::Versions(list) => json!({"versions": versions(list)}),
        AttrValue::Unsupported => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use lazaret_model::{Quantity, VersionValue};

    use super::*;

    fn device(text: &str) -> LastPublished {
        let quantity = |text: &str| CapacityValue { value: Quantity::parse(text).unwrap(), policy: None };
        let attributes = vec![
            ("a.example.com/int".into(), AttrValue::Int(i64::MIN)),
            ("bool".into(), AttrValue::Bool(false)),
            ("bools".into(), AttrValue::Bools(vec![true, false].into())),
            ("ints".into(), AttrValue::Ints(vec![-1, i64::MAX].into())),
            ("odd".into(), AttrValue::Unsupported),
            ("string".into(), AttrValue::String(text.into())),
            ("strings".into(), AttrValue::Strings(vec!["".into(), text.into()].into())),
            ("version".into(), AttrValue::Version(VersionValue::new("1.2.3"))),
            ("versions".into(), AttrValue::Versions(vec![VersionValue::new("no version")].into())),
        ];
        let capacity = vec![("memory".into(), quantity("80Gi")), ("share".into(), quantity("1500m"))];
        LastPublished::new(&DeviceId::new("d.example.com", "node-1", "gpu-0"), attributes, capacity, true)
    }

    #[test]
    fn every_kind_of_value_is_read_back_and_no_text_is_longer_than_was_said() {
        for text in ["model", "", "\"\\\n\u{1}", "ü\u{10FFFF}"] {
            let devices = [device(text), LastPublished { pool: text.into(), ..device("b") }];
            let written = last_published_to_text(&devices);
            assert_eq!(read_last_published(&written), devices, "{written}");
            let bound: usize = devices.iter().map(LastPublished::json_bytes).sum();
            assert!(written.len() <= bound + 2, "{} bytes, {bound} said: {written}", written.len());
        }
    }

    #[test]
    fn what_is_no_such_annotation_says_nothing() {
        let long =
            format!(r#"[{{"driver":"d","pool":"p","device":"{}"}}]"#, "a".repeat(LastPublished::BYTES_MAX));
        let two = r#"[{"driver":"d","pool":"p","device":"a","attributes":{"x":{"int":1,"bool":true}}}]"#;
        let amount = r#"[{"driver":"d","pool":"p","device":"a","capacity":{"x":{"value":"much"}}}]"#;
        for other in ["", "{}", "[{}]", "gpu-0", two, amount, &long] {
            assert_eq!(read_last_published(other), [], "{other}");
        }
        let many = last_published_to_text(&vec![device("b"); 40]);
        assert_eq!(read_last_published(&many).len(), DEVICES_MAX);
    }
}
