//! Results of derived attributes.

use alloc::sync::Arc;

use lazaret_model::{AttrValue, VersionValue};

use super::value::{List, Value};
use crate::error::EvalError;

/// A result as an attribute.
pub(crate) fn attribute(value: &Value<'_>) -> Result<AttrValue, EvalError> {
    Ok(match value {
        Value::Bool(value) => AttrValue::Bool(*value),
        Value::Int(value) => AttrValue::Int(*value),
        Value::Text(text) => AttrValue::String(text.to_text()),
        // A type is its name.
        Value::Type(name) => AttrValue::String((*name).into()),
        Value::Semver(version) => AttrValue::Version(VersionValue::new(&alloc::format!("{}", **version))),
        Value::List(list) => attributes(list)?,
        other => {
            return Err(EvalError::new(alloc::format!("unsupported CEL return type: {}", other.type_name())));
        }
    })
}

/// A list of one type as an attribute. An empty one is a list of strings.
fn attributes(list: &List<'_>) -> Result<AttrValue, EvalError> {
    fn all<T>(
        list: &List<'_>,
        what: &str,
        of: impl Fn(&Value<'_>) -> Option<T>,
    ) -> Result<Arc<[T]>, EvalError> {
        let element = |(at, value): (usize, Value<'_>)| {
            of(&value).ok_or_else(|| {
                EvalError::new(alloc::format!(
                    "expected list element at index {at} to be {what}, got {}",
                    value.type_name()
                ))
            })
        };
        list.iter().enumerate().map(element).collect()
    }
    let text = |value: &Value<'_>| if let Value::Text(text) = value { Some(text.to_text()) } else { None };
    Ok(match list.get(0) {
        None | Some(Value::Text(_)) => AttrValue::Strings(all(list, "string", text)?),
        Some(Value::Bool(_)) => AttrValue::Bools(all(list, "bool", |value| {
            if let Value::Bool(value) = value { Some(*value) } else { None }
        })?),
        Some(Value::Int(_)) => AttrValue::Ints(all(list, "int", |value| {
            if let Value::Int(value) = value { Some(*value) } else { None }
        })?),
        Some(Value::Semver(_)) => AttrValue::Versions(all(list, "semver", |value| match value {
            Value::Semver(version) => Some(VersionValue::new(&alloc::format!("{}", **version))),
            _ => None,
        })?),
        Some(other) => {
            return Err(EvalError::new(alloc::format!(
                "unsupported list element type: {}",
                other.type_name()
            )));
        }
    })
}
