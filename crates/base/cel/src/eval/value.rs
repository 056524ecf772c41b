//! Values while an expression runs. They borrow from the device and the program wherever they can.

use alloc::{collections::BTreeMap, string::String, sync::Arc, vec::Vec};
use core::{cmp::Ordering, fmt, net::IpAddr, ops::Deref};

use lazaret_model::{AttrValue, Quantity, Text, Version, VersionValue};

use super::{
    authorizer_check::AuthorizerCheck,
    time::{Duration, Instant},
};
use crate::{
    check::types::Type,
    ext::{named_format::NamedFormat, net::Cidr, url::Url},
};

/// Any value.
#[derive(Clone, Debug)]
pub(crate) enum Value<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Str<'v>),
    Bytes(Arc<[u8]>),
    List(List<'v>),
    Map(Map<'v>),
    Optional(Option<Arc<Value<'v>>>),
    Quantity(Shared<'v, Quantity>),
    Semver(Shared<'v, Version>),
    Duration(Duration),
    Timestamp(Instant),
    Type(&'static str),
    Url(Arc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Format(NamedFormat),
    Authorization(Arc<AuthorizerCheck>),
}

/// A string, borrowed or shared.
#[derive(Clone, Debug)]
pub(crate) enum Str<'v> {
    Ref(&'v str),
    Shared(Text),
}

/// Something borrowed or shared.
#[derive(Debug)]
pub(crate) enum Shared<'v, T> {
    Ref(&'v T),
    Arc(Arc<T>),
}

/// Which of a device's two maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Attributes,
    Capacity,
}

/// A list: made by the expression, or an attribute as it stands in the device.
#[derive(Clone, Debug)]
pub(crate) enum List<'v> {
    Made(Arc<Vec<Value<'v>>>),
    Ints(&'v [i64]),
    Bools(&'v [bool]),
    Texts(&'v [Text]),
    Versions(&'v [VersionValue]),
}

/// A map: made by the expression, or a part of the device that is not yet read.
#[derive(Clone, Debug)]
pub(crate) enum Map<'v> {
    Made(Arc<BTreeMap<Key<'v>, Value<'v>>>),
    /// `device` itself.
    Device,
    /// `device.attributes` or `device.capacity`.
    Domains(Side),
    /// Their entries for a domain.
    Ids(Side, Str<'v>),
    /// Entries that are computed on first use.
    Lazy,
}

/// The key of a map. Numbers of different types are the same key if they are the same number.
#[derive(Clone, Debug)]
pub(crate) enum Key<'v> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Str<'v>),
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Ref(value) => Self::Ref(value),
            Self::Arc(value) => Self::Arc(Arc::clone(value)),
        }
    }
}

impl<T> Deref for Shared<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match self {
            Self::Ref(value) => value,
            Self::Arc(value) => value,
        }
    }
}

impl Deref for Str<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Ref(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Str<'_> {
    /// The text, independent of the evaluation.
    pub(crate) fn to_text(&self) -> Text {
        match self {
            Self::Ref(text) => (*text).into(),
            Self::Shared(text) => text.clone(),
        }
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl<'v> Value<'v> {
    pub(crate) fn text(text: impl Into<Text>) -> Self {
        Self::Text(Str::Shared(text.into()))
    }

    pub(crate) fn list(values: Vec<Value<'v>>) -> Self {
        Self::List(List::Made(Arc::new(values)))
    }

    pub(crate) fn texts<'t>(texts: impl IntoIterator<Item = &'t str>) -> Self {
        Self::list(texts.into_iter().map(Self::text).collect())
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// The same value, borrowing where cloning would count references.
    pub(crate) fn borrowed(&'v self) -> Self {
        match self {
            Self::Text(text) => Self::Text(Str::Ref(text)),
            Self::Quantity(quantity) => Self::Quantity(Shared::Ref(quantity)),
            Self::Semver(version) => Self::Semver(Shared::Ref(version)),
            other => other.clone(),
        }
    }

    /// The same value, independent of the evaluation; `None` for a part of a device.
    pub(crate) fn to_static(&self) -> Option<Value<'static>> {
        Some(match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Text(text) => Value::Text(Str::Shared(text.to_text())),
            Self::Bytes(bytes) => Value::Bytes(Arc::clone(bytes)),
            Self::List(list) => {
                Value::list(list.iter().map(|value| value.to_static()).collect::<Option<_>>()?)
            }
            Self::Map(Map::Made(entries)) => {
                let entry = |(key, value): (&Key<'_>, &Value<'_>)| {
                    Some((key.to_value().to_static()?.to_key()?, value.to_static()?))
                };
                Value::Map(Map::Made(Arc::new(entries.iter().map(entry).collect::<Option<_>>()?)))
            }
            Self::Map(Map::Lazy) => Value::Map(Map::Lazy),
            Self::Map(Map::Device | Map::Domains(_) | Map::Ids(..)) => return None,
            Self::Optional(None) => Value::Optional(None),
            Self::Optional(Some(value)) => Value::some(value.to_static()?),
            Self::Quantity(Shared::Ref(quantity)) => {
                Value::Quantity(Shared::Arc(Arc::new((*quantity).clone())))
            }
            Self::Quantity(Shared::Arc(quantity)) => Value::Quantity(Shared::Arc(Arc::clone(quantity))),
            Self::Semver(Shared::Ref(version)) => Value::Semver(Shared::Arc(Arc::new((*version).clone()))),
            Self::Semver(Shared::Arc(version)) => Value::Semver(Shared::Arc(Arc::clone(version))),
            Self::Duration(duration) => Value::Duration(*duration),
            Self::Timestamp(instant) => Value::Timestamp(*instant),
            Self::Type(name) => Value::Type(name),
            Self::Url(url) => Value::Url(Arc::clone(url)),
            Self::Ip(ip) => Value::Ip(*ip),
            Self::Cidr(cidr) => Value::Cidr(*cidr),
            Self::Format(format) => Value::Format(*format),
            Self::Authorization(authorizer_check) => Value::Authorization(Arc::clone(authorizer_check)),
        })
    }

    /// An attribute as a value; `None` where it has none.
    pub(crate) fn of_attribute(value: &'v AttrValue) -> Option<Self> {
        Some(match value {
            AttrValue::Int(int) => Self::Int(*int),
            AttrValue::Bool(bool) => Self::Bool(*bool),
            AttrValue::String(text) => Self::Text(Str::Ref(text)),
            AttrValue::Version(version) => Self::of_version(version)?,
            AttrValue::Ints(ints) => Self::List(List::Ints(ints)),
            AttrValue::Bools(bools) => Self::List(List::Bools(bools)),
            AttrValue::Strings(texts) => Self::List(List::Texts(texts)),
            AttrValue::Versions(versions) => Self::List(List::Versions(versions)),
            AttrValue::Unsupported => return None,
        })
    }

    fn of_version(version: &'v VersionValue) -> Option<Self> {
        version.parsed.as_ref().map(|parsed| Self::Semver(Shared::Ref(parsed)))
    }

    /// The name that `type()` and messages give its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::Type(_) => "type",
            Self::Url(_) => "kubernetes.URL",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorization(authorizer_check) => authorizer_check.step().name(),
        }
    }

    /// The value of a type's name.
    pub(crate) fn of_type(named: &Type) -> Self {
        Self::Type(match named {
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Null => "null_type",
            Type::List(_) => "list",
            Type::Map(_) | Type::Device | Type::Object(_) => "map",
            Type::Meta(_) => "type",
            Type::Optional(_) => "optional_type",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Ip => "net.IP",
            Type::Cidr => "net.CIDR",
            Type::Quantity => "kubernetes.Quantity",
            Type::Semver => "kubernetes.Semver",
            Type::Url => "kubernetes.URL",
            Type::NamedFormat => "kubernetes.NamedFormat",
            Type::Authorization(step) => step.name(),
            Type::Dyn | Type::Any | Type::Param(_) | Type::Error => "dyn",
        })
    }

    /// This value as a key.
    pub(crate) fn to_key(&self) -> Option<Key<'v>> {
        match self {
            Self::Bool(value) => Some(Key::Bool(*value)),
            Self::Int(value) => Some(Key::Int(*value)),
            Self::Uint(value) => Some(Key::Uint(*value)),
            Self::Double(value) => Some(Key::Double(*value)),
            Self::Text(text) => Some(Key::Text(text.clone())),
            Self::Null | Self::Bytes(_) | Self::List(_) | Self::Map(_) | Self::Optional(_) => None,
            Self::Quantity(_) | Self::Semver(_) | Self::Duration(_) | Self::Timestamp(_) => None,
            Self::Type(_) | Self::Url(_) | Self::Ip(_) | Self::Cidr(_) | Self::Format(_) => None,
            Self::Authorization(_) => None,
        }
    }

    /// For messages.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(text) => (**text).into(),
            Self::Int(value) => alloc::format!("{value}"),
            Self::Uint(value) => alloc::format!("{value}"),
            Self::Double(value) => crate::ext::format::double_to_string(*value),
            Self::Bool(value) => alloc::format!("{value}"),
            other => other.type_name().into(),
        }
    }
}

impl<'v> List<'v> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Made(values) => values.len(),
            Self::Ints(values) => values.len(),
            Self::Bools(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Versions(values) => values.len(),
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Value<'v>> {
        match self {
            Self::Made(values) => values.get(at).cloned(),
            Self::Ints(values) => values.get(at).map(|value| Value::Int(*value)),
            Self::Bools(values) => values.get(at).map(|value| Value::Bool(*value)),
            Self::Texts(values) => values.get(at).map(|text| Value::Text(Str::Ref(text))),
            Self::Versions(values) => values.get(at).map(|v| Value::of_version(v).unwrap_or(Value::Null)),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'v>> + '_ {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

impl<'v> Key<'v> {
    pub(crate) fn to_value(&self) -> Value<'v> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Text(text) => Value::Text(text.clone()),
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => (**a).cmp(b),
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Bool(_), _) | (_, Self::Text(_)) => Ordering::Less,
            (_, Self::Bool(_)) | (Self::Text(_), _) => Ordering::Greater,
            (a, b) => compare_numbers(&a.to_value(), &b.to_value()).unwrap_or(Ordering::Greater),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

/// The order of two numbers of whatever types; `None` if one is no number or not a number.
pub(crate) fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Double(a), Value::Int(b)) => compare_double(*a, i128::from(*b)),
        (Value::Double(a), Value::Uint(b)) => compare_double(*a, i128::from(*b)),
        (Value::Int(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
        (Value::Uint(a), Value::Double(b)) => compare_double(*b, i128::from(*a)).map(Ordering::reverse),
        _ => None,
    }
}

/// A whole number against a double is compared as a double, rounding included.
#[expect(clippy::cast_precision_loss, reason = "that is the rule")]
fn compare_double(a: f64, b: i128) -> Option<Ordering> {
    a.partial_cmp(&(b as f64))
}
