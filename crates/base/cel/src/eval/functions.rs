//! Which function does what. All dispatch on the values they are given: static types have done their part.

use super::{
    arithmetic, authorization, compare,
    context::Context,
    convert::convert,
    kubernetes, lists,
    outcome::{Outcome, unfit},
    texts,
    value::{Map, Value},
};
use crate::{
    check::decls::{Func, TimeField},
    error::EvalError,
};

/// Calls a function. Operations of the machine itself (logic, selection, optional defaults) never get here.
pub(crate) fn call<'v>(context: Context<'v>, func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match func {
        Func::Not | Func::NotStrictlyFalse => logic(func, args),
        Func::Equals | Func::NotEquals => equality(context, func, args),
        Func::Less | Func::LessEquals | Func::Greater | Func::GreaterEquals => order(func, args),
        Func::Add | Func::Subtract | Func::Multiply | Func::Divide | Func::Modulo | Func::Negate => {
            arithmetic::call(func, args)
        }
        Func::In => contains(context, args),
        Func::Size => size(context, args),
        Func::ToType | Func::ToBool | Func::ToBytes | Func::ToDouble | Func::ToDuration | Func::ToDyn => {
            one(func, args)
        }
        Func::ToInt | Func::ToText | Func::ToTimestamp | Func::ToUint => one(func, args),
        Func::Time(field) => time_field(field, args),
        Func::OptionalOf | Func::OptionalOfNonZero | Func::OptionalNone | Func::HasValue | Func::Value => {
            optional(context, func, args)
        }
        Func::Contains | Func::StartsWith | Func::EndsWith | Func::Matches | Func::CharAt => {
            texts::call(context, func, args)
        }
        Func::LowerAscii | Func::UpperAscii | Func::Replace | Func::Split | Func::Substring => {
            texts::call(context, func, args)
        }
        Func::Trim | Func::Join | Func::Quote | Func::Format | Func::Find | Func::FindAll => {
            texts::call(context, func, args)
        }
        Func::IndexOf | Func::LastIndexOf => match args {
            [Value::List(_), ..] => lists::call(context, func, args),
            _ => texts::call(context, func, args),
        },
        Func::SetsContains | Func::SetsEquivalent | Func::SetsIntersects | Func::Slice | Func::Flatten => {
            lists::call(context, func, args)
        }
        Func::Distinct
        | Func::Range
        | Func::Reverse
        | Func::Sort
        | Func::SortByKeys
        | Func::First
        | Func::Last => lists::call(context, func, args),
        Func::IsSorted | Func::Sum | Func::Min | Func::Max | Func::Includes | Func::Unwrap => {
            lists::call(context, func, args)
        }
        Func::MapInsert => lists::insert(context, args),
        Func::Url
        | Func::IsUrl
        | Func::UrlPart(_)
        | Func::Ip
        | Func::IsIp
        | Func::IpIsCanonical
        | Func::IpTest(_) => kubernetes::addresses(func, args),
        Func::Cidr
        | Func::IsCidr
        | Func::ContainsIp
        | Func::ContainsCidr
        | Func::Masked
        | Func::PrefixLength => kubernetes::addresses(func, args),
        Func::FormatNamed | Func::FormatOf(_) | Func::Validate => kubernetes::formats(func, args),
        Func::Quantity
        | Func::IsQuantity
        | Func::Sign
        | Func::AsInteger
        | Func::IsInteger
        | Func::AsFloat => kubernetes::quantities(func, args),
        Func::QuantityAdd | Func::QuantitySub => kubernetes::quantities(func, args),
        Func::IsGreaterThan | Func::IsLessThan | Func::CompareTo => kubernetes::ordered(func, args),
        Func::Semver | Func::IsSemver | Func::Major | Func::Minor | Func::Patch => {
            kubernetes::versions(func, args)
        }
        Func::Authorization(ask) => authorization::call(context, ask, args),
        Func::Conditional | Func::And | Func::Or | Func::Index | Func::OptIndex | Func::OptSelect => {
            Err(EvalError::no_such_overload())
        }
        Func::Or2 | Func::OrValue => Err(EvalError::no_such_overload()),
    }
}

fn one<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [value] => convert(func, value),
        _ => unfit(args),
    }
}

fn logic<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(if func == Func::Not { !value } else { *value })),
        _ if func == Func::NotStrictlyFalse => Ok(Value::Bool(true)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// DEVIATION(cel-quantity-equality): quantities are compared by amount.
fn equality<'v>(context: Context<'v>, func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [left, right] if func == Func::Equals => compare::equal(context, left, right).map(Value::Bool),
        [left, right] => Ok(Value::Bool(!compare::is_equal(context, left, right))),
        _ => unfit(args),
    }
}

fn order<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    let [left, right] = args else { return unfit(args) };
    let ordering = compare::compare(left, right)?;
    Ok(Value::Bool(match func {
        Func::Less => ordering.is_lt(),
        Func::LessEquals => ordering.is_le(),
        Func::Greater => ordering.is_gt(),
        _ => ordering.is_ge(),
    }))
}

fn contains<'v>(context: Context<'v>, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [value, Value::List(list)] => {
            Ok(Value::Bool(list.iter().any(|element| compare::is_equal(context, &element, value))))
        }
        [value, Value::Map(map)] => Ok(Value::Bool(context.contains(map, value))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn size<'v>(context: Context<'v>, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [value] => match context.size(value) {
            Some(size) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => Err(EvalError::new("no such overload: size")),
        },
        _ => unfit(args),
    }
}

fn time_field<'v>(field: TimeField, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Timestamp(instant)] => instant.field(field, None).map(Value::Int),
        [Value::Timestamp(instant), Value::Text(zone)] => instant.field(field, Some(zone)).map(Value::Int),
        [Value::Duration(duration)] => {
            duration.field(field).map(Value::Int).ok_or_else(EvalError::no_such_overload)
        }
        _ => unfit(args),
    }
}

fn optional<'v>(context: Context<'v>, func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match (func, args) {
        (Func::OptionalNone, _) => Ok(Value::Optional(None)),
        (Func::OptionalOf, [value]) => Ok(Value::some(value.clone())),
        (Func::OptionalOfNonZero, [value]) if is_zero(context, value) => Ok(Value::Optional(None)),
        (Func::OptionalOfNonZero, [value]) => Ok(Value::some(value.clone())),
        (Func::HasValue, [Value::Optional(value)]) => Ok(Value::Bool(value.is_some())),
        (Func::Value, [Value::Optional(Some(value))]) => Ok((**value).clone()),
        (Func::Value, [Value::Optional(None)]) => Err(EvalError::new("optional.none() dereference")),
        _ => unfit(args),
    }
}

/// Whether a value is what its type starts with.
fn is_zero<'v>(context: Context<'v>, value: &Value<'v>) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::Text(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.len() == 0,
        Value::Map(Map::Made(entries)) => entries.is_empty(),
        Value::Map(map) => context.map_len(map) == 0,
        Value::Optional(value) => value.is_none(),
        Value::Duration(duration) => duration.0 == 0,
        Value::Quantity(_) | Value::Semver(_) | Value::Timestamp(_) | Value::Type(_) => false,
        Value::Url(_) | Value::Ip(_) | Value::Cidr(_) | Value::Format(_) | Value::Authorization(_) => false,
    }
}
