//! Equality and order of values.

use core::cmp::Ordering;

use super::{
    context::Context,
    value::{Value, compare_numbers},
};
use crate::error::EvalError;

/// Whether two values are equal. Values of different types are not, except that some types of Kubernetes refuse to
/// be compared with anything else when they stand on the left.
pub(crate) fn equal<'v>(
    context: Context<'v>,
    left: &Value<'v>,
    right: &Value<'v>,
) -> Result<bool, EvalError> {
    Ok(match (left, right) {
        (Value::Text(a), Value::Text(b)) => **a == **b,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(left, right) == Some(Ordering::Equal),
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Quantity(a), Value::Quantity(b)) => **a == **b,
        (Value::Semver(a), Value::Semver(b)) => (**a).cmp(b) == Ordering::Equal,
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Format(a), Value::Format(b)) => a == b,
        (
            Value::Quantity(_)
            | Value::Semver(_)
            | Value::Url(_)
            | Value::Ip(_)
            | Value::Cidr(_)
            | Value::Format(_)
            | Value::Authorization(_),
            _,
        ) => return Err(EvalError::no_such_overload()),
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => is_equal(context, a, b),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_equal(context, &a, &b))
        }
        (Value::Map(a), Value::Map(b)) => {
            let (a, b) = (context.entries(a), context.entries(b));
            a.len() == b.len()
                && a.iter()
                    .all(|(key, value)| b.get(key).is_some_and(|other| is_equal(context, value, other)))
        }
        _ => false,
    })
}

/// Whether two values are equal; those that refuse to be compared are not.
pub(crate) fn is_equal<'v>(context: Context<'v>, left: &Value<'v>, right: &Value<'v>) -> bool {
    equal(context, left, right).unwrap_or(false)
}

/// The order of two values of one ordered type, or of two numbers.
pub(crate) fn compare(left: &Value<'_>, right: &Value<'_>) -> Result<Ordering, EvalError> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => Ok((**a).cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => compare_numbers(left, right).ok_or_else(|| EvalError::new("NaN values cannot be ordered")),
        _ => Err(EvalError::no_such_overload()),
    }
}
