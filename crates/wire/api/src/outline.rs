//! Pods of one template: the fields that they have in common are decoded once.

use std::fmt;

use lazaret_model::Pod;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{
    FieldError,
    convert::{self, PodTemplate},
    decode::parse,
    wire::{self, Nullable},
};

/// Ends each part of a key: no text contains this byte.
const PART_END: u8 = 0xff;
/// Ends the labels and each container: nor this one.
const SECTION_END: u8 = 0xfe;

/// A pod whose spec and labels are not decoded.
#[derive(Debug)]
pub struct PodOutline {
    metadata: wire::ObjectMeta,
    node: String,
    status: wire::PodStatus,
    key: Vec<u8>,
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(default)]
    metadata: Nullable<wire::ObjectMeta>,
    #[serde(borrow, default)]
    spec: RawFields<'a>,
    #[serde(default)]
    status: Nullable<wire::PodStatus>,
}

impl PodOutline {
    /// Reads a pod; `None` when this is better left to [`decode_as`](crate::decode_as), which finds the wrong field.
    #[must_use]
    pub fn read(json: &str) -> Option<Self> {
        // A list would be read as well, field by field.
        if !json.trim_start().starts_with('{') {
            return None;
        }
        let Parts { metadata, spec, status } = serde_json::from_str(json).ok()?;
        let node = match spec.get("nodeName") {
            Some(node) => serde_json::from_str::<Nullable<String>>(node.get()).ok()?.0,
            None => String::new(),
        };
        let key = key(&metadata.0, &spec)?;
        Some(Self { metadata: metadata.0, node, status: status.0, key })
    }

    /// All that its template is decoded from. Pods with equal keys have equal templates.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Decodes the template of the pod with this JSON.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn template(json: &str) -> Result<PodTemplate, FieldError> {
        let wire::Pod { metadata, spec, .. } = parse(json)?;
        convert::pod_template(&metadata.0, spec.0)
    }

    /// The pod, which is of this template.
    ///
    /// # Errors
    /// The field that is wrong.
    pub fn pod(self, template: &PodTemplate) -> Result<Pod, FieldError> {
        convert::pod(self.metadata, self.node, template, self.status)
    }
}

/// A pod's own are its node and its volumes, which have names that the server makes up: a template has neither.
fn key(metadata: &wire::ObjectMeta, spec: &RawFields<'_>) -> Option<Vec<u8>> {
    let length =
        |fields: &RawFields<'_>| fields.0.iter().map(|(_, value)| value.get().len() + 24).sum::<usize>();
    let mut key = Vec::with_capacity(length(spec) + 256);
    write(&mut key, &metadata.namespace.0);
    for (name, value) in &metadata.labels.0 {
        write(&mut key, name);
        write(&mut key, &value.0);
    }
    key.push(SECTION_END);
    for (name, value) in &spec.0 {
        match *name {
            "nodeName" | "volumes" => {}
            "containers" | "initContainers" => {
                let containers: Vec<RawFields<'_>> = serde_json::from_str(value.get()).ok()?;
                for container in containers {
                    write(&mut key, name);
                    let fields = container.0.iter().filter(|(name, _)| *name != "volumeMounts");
                    fields.for_each(|(name, value)| write_field(&mut key, name, value));
                    key.push(SECTION_END);
                }
            }
            _ => write_field(&mut key, name, value),
        }
    }
    Some(key)
}

fn write_field(key: &mut Vec<u8>, name: &str, value: &RawValue) {
    write(key, name);
    write(key, value.get());
}

fn write(key: &mut Vec<u8>, part: &str) {
    key.extend_from_slice(part.as_bytes());
    key.push(PART_END);
}

/// The fields of an object, as they are written and in that order.
#[derive(Default)]
struct RawFields<'a>(Vec<(&'a str, &'a RawValue)>);

impl<'a> RawFields<'a> {
    fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RawFieldsVisitor).map(Self)
    }
}

struct RawFieldsVisitor;

impl<'de> Visitor<'de> for RawFieldsVisitor {
    type Value = Vec<(&'de str, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(16);
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}
