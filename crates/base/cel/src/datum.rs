//! Values that come from outside: those that rules and expressions are about.

use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};

use lazaret_model::Text;

use crate::{
    authorization::ResourceCheck,
    error::EvalError,
    eval::{
        authorizer_check::AuthorizerCheck,
        time::{parse_duration, parse_timestamp},
        value::{Key, Map, Str, Value},
    },
};

/// A value that a rule is about.
#[derive(Clone, Debug)]
pub struct Datum(pub(crate) Value<'static>);

/// The entries of [`Datum::lazy`].
pub trait Lazy {
    /// The entry of this name, or why it cannot be computed; `None` where there is no such entry.
    fn get(&self, name: &str) -> Option<Result<Datum, EvalError>>;
}

impl Datum {
    /// Whether it is true or false, if it is either.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Value::Bool(value) = self.0 { Some(value) } else { None }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.0 { Some(text) } else { None }
    }

    /// Whether it is nothing.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self.0, Value::Null)
    }

    /// The authorizer that an expression is evaluated with, for the user of the request.
    #[must_use]
    pub fn authorizer() -> Self {
        Self(Value::Authorization(Arc::new(AuthorizerCheck::Authorizer(None))))
    }

    /// A check of that authorizer that lacks only its verb.
    #[must_use]
    pub fn resource_check(check: ResourceCheck) -> Self {
        Self(Value::Authorization(Arc::new(AuthorizerCheck::Resource(None, check))))
    }

    /// A map whose entries are those that an expression is evaluated with, each computed on first use.
    #[must_use]
    pub fn lazy() -> Self {
        Self(Value::Map(Map::Lazy))
    }

    /// Nothing.
    #[must_use]
    pub fn null() -> Self {
        Self(Value::Null)
    }

    /// True or false.
    #[must_use]
    pub fn bool(value: bool) -> Self {
        Self(Value::Bool(value))
    }

    /// A whole number.
    #[must_use]
    pub fn int(value: i64) -> Self {
        Self(Value::Int(value))
    }

    /// A number.
    #[must_use]
    pub fn double(value: f64) -> Self {
        Self(Value::Double(value))
    }

    /// Text.
    #[must_use]
    pub fn text(value: &str) -> Self {
        Self(Value::text(value))
    }

    /// A point in time as RFC 3339 writes it; `None` if it is not one.
    #[must_use]
    pub fn timestamp(text: &str) -> Option<Self> {
        parse_timestamp(text).ok().map(|time| Self(Value::Timestamp(time)))
    }

    /// A length of time like `1h30m`; `None` if it is not one.
    #[must_use]
    pub fn duration(text: &str) -> Option<Self> {
        parse_duration(text).ok().map(|time| Self(Value::Duration(time)))
    }

    /// A list.
    pub fn list(values: impl IntoIterator<Item = Self>) -> Self {
        Self(Value::list(values.into_iter().map(|value| value.0).collect::<Vec<_>>()))
    }

    /// An object or map.
    pub fn map(entries: impl IntoIterator<Item = (Text, Self)>) -> Self {
        let entry = |(name, value): (Text, Self)| (Key::Text(Str::Shared(name)), value.0);
        Self(Value::Map(Map::Made(Arc::new(entries.into_iter().map(entry).collect::<BTreeMap<_, _>>()))))
    }
}
