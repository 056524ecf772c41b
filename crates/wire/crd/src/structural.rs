//! The schema of a defined kind, read once from its JSON.

use std::collections::BTreeMap;

use lazaret_cel::Pattern;
use lazaret_json::{Map, Text, Value};

/// A schema: what a value is, and what else must hold for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Structural {
    /// The required type; `None` allows any.
    pub(crate) ty: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    /// Fields that are not listed are kept.
    pub(crate) preserve_unknown: bool,
    /// It is a whole object with a type and metadata.
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list: ListType,
    /// An object that is owned as a whole.
    pub(crate) atomic: bool,
    pub(crate) properties: BTreeMap<String, Structural>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Structural>>,
    pub(crate) checks: Option<Box<Checks>>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// How the items of a list are distinguished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

/// The fields that an object may have besides its properties.
#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    #[default]
    Nothing,
    Anything,
    Each(Box<Structural>),
}

/// The validations of a value besides its type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) values: Option<Vec<Value>>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: String,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<Value>,
    pub(crate) length: Size,
    pub(crate) items: Size,
    pub(crate) properties: Size,
    pub(crate) required: Vec<String>,
    pub(crate) all_of: Vec<Structural>,
    pub(crate) any_of: Vec<Structural>,
    pub(crate) one_of: Vec<Structural>,
    pub(crate) not: Option<Box<Structural>>,
}

/// A number that a value may not be beyond.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Value,
    pub(crate) exclusive: bool,
}

/// How many there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    pub(crate) min: Option<usize>,
    pub(crate) max: Option<usize>,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn read(name: &str) -> Option<Self> {
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean]
            .into_iter()
            .find(|ty| ty.name() == name)
    }
}

impl Structural {
    /// Reads a schema. Unknown parts are skipped: the definition was validated when it was accepted.
    pub(crate) fn read(schema: &Value) -> Self {
        let flag = |name: &str| schema[name].as_bool().unwrap_or_default();
        let keys = texts(&schema["x-kubernetes-list-map-keys"]);
        Self {
            ty: schema["type"].as_str().and_then(Type::read),
            nullable: flag("nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            list: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(keys),
                _ => ListType::Atomic,
            },
            atomic: schema["x-kubernetes-map-type"] == "atomic",
            properties: entries(&schema["properties"])
                .map(|(name, schema)| (name.to_string(), Self::read(schema)))
                .collect(),
            additional: match &schema["additionalProperties"] {
                Value::Bool(true) => Additional::Anything,
                each @ Value::Object(_) => Additional::Each(Box::new(Self::read(each))),
                Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::String(_)
                | Value::Encoded(_)
                | Value::Array(_) => Additional::Nothing,
            },
            items: schema["items"].is_object().then(|| Box::new(Self::read(&schema["items"]))),
            checks: Checks::read(schema).map(Box::new),
        }
    }

    /// The schema of the field `name` in an object of this schema.
    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Each(each) => Some(each),
            Additional::Anything | Additional::Nothing => None,
        })
    }
}

/// Every keyword that says what must hold besides the type. Rules in CEL are read elsewhere.
const CHECKS: &[&str] = &[
    "enum",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

impl Checks {
    fn read(schema: &Value) -> Option<Self> {
        if !CHECKS.iter().any(|name| schema.get(*name).is_some()) {
            return None;
        }
        let several = |name: &str| {
            schema[name].as_array().into_iter().flatten().map(Structural::read).collect::<Vec<_>>()
        };
        let size = |kind: &str| Size {
            min: count(&schema[format!("min{kind}")]),
            max: count(&schema[format!("max{kind}")]),
        };
        let bound = |name: &str, exclusive: &str| {
            let value = schema[name].clone();
            let exclusive = schema[exclusive].as_bool().unwrap_or_default();
            value.is_number().then_some(Bound { value, exclusive })
        };
        Some(Self {
            values: schema["enum"].as_array().cloned(),
            pattern: schema["pattern"].as_str().and_then(|text| Pattern::compile(text).ok()),
            format: schema["format"].as_str().unwrap_or_default().to_owned(),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: Some(schema["multipleOf"].clone()).filter(Value::is_number),
            length: size("Length"),
            items: size("Items"),
            properties: size("Properties"),
            required: texts(&schema["required"]),
            all_of: several("allOf"),
            any_of: several("anyOf"),
            one_of: several("oneOf"),
            not: schema["not"].is_object().then(|| Box::new(Structural::read(&schema["not"]))),
        })
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&Text, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|count| usize::try_from(count).ok())
}
