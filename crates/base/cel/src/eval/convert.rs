//! Conversions between types.

use alloc::{format, string::ToString};

use super::{
    time::{self, Instant},
    value::{Str, Value},
};
use crate::{
    check::decls::Func,
    error::EvalError,
    ext::{format::double_to_string, net},
};

/// `to(value)`.
pub(crate) fn convert<'v>(to: Func, value: &Value<'v>) -> Result<Value<'v>, EvalError> {
    let converted = match to {
        Func::ToDyn => Some(value.clone()),
        Func::ToType => Some(Value::Type(value.type_name())),
        Func::ToBool => to_bool(value)?,
        Func::ToBytes => to_bytes(value),
        Func::ToDouble => to_double(value)?,
        Func::ToInt => to_int(value)?,
        Func::ToUint => to_uint(value)?,
        Func::ToText => to_text(value)?,
        Func::ToDuration => to_duration(value)?,
        Func::ToTimestamp => to_timestamp(value)?,
        _ => None,
    };
    converted.ok_or_else(EvalError::no_such_overload)
}

fn refused(value: &Value<'_>, to: &str) -> EvalError {
    EvalError::new(format!(
        "type conversion error from '{}' to '{to}': {:?}",
        value.type_name(),
        value.shown()
    ))
}

fn to_bool<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    if let Value::Bool(_) = value {
        return Ok(Some(value.clone()));
    }
    let Value::Text(text) = value else { return Ok(None) };
    match &**text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Some(Value::Bool(true))),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Some(Value::Bool(false))),
        _ => Err(refused(value, "bool")),
    }
}

fn to_bytes<'v>(value: &Value<'v>) -> Option<Value<'v>> {
    match value {
        Value::Bytes(_) => Some(value.clone()),
        Value::Text(text) => Some(Value::Bytes(text.as_bytes().into())),
        _ => None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a conversion to double rounds by nature")]
fn to_double<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    Ok(Some(Value::Double(match value {
        Value::Double(double) => *double,
        Value::Int(int) => *int as f64,
        Value::Uint(uint) => *uint as f64,
        Value::Text(text) => text.parse().map_err(|_| refused(value, "double"))?,
        _ => return Ok(None),
    })))
}

fn to_int<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    let overflow = || EvalError::new("integer overflow");
    Ok(Some(Value::Int(match value {
        Value::Int(int) => *int,
        Value::Uint(uint) => i64::try_from(*uint).map_err(|_| overflow())?,
        Value::Double(double) => {
            // The bounds themselves round: only what lies strictly within converts.
            if double.is_nan()
                || *double <= -9_223_372_036_854_775_808.0
                || *double >= 9_223_372_036_854_775_807.0
            {
                return Err(overflow());
            }
            #[expect(clippy::cast_possible_truncation, reason = "within range: checked above")]
            let int = *double as i64;
            int
        }
        Value::Duration(duration) => duration.0,
        Value::Timestamp(instant) => instant.as_secs(),
        Value::Text(text) => text.parse().map_err(|_| refused(value, "int"))?,
        _ => return Ok(None),
    })))
}

fn to_uint<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    let overflow = || EvalError::new("unsigned integer overflow");
    Ok(Some(Value::Uint(match value {
        Value::Uint(uint) => *uint,
        Value::Int(int) => u64::try_from(*int).map_err(|_| overflow())?,
        Value::Double(double) => {
            if double.is_nan() || *double < 0.0 || *double >= 18_446_744_073_709_551_615.0 {
                return Err(overflow());
            }
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "within range: checked above"
            )]
            let uint = *double as u64;
            uint
        }
        Value::Text(text) if !text.starts_with('+') => text.parse().map_err(|_| refused(value, "uint"))?,
        Value::Text(_) => return Err(refused(value, "uint")),
        _ => return Ok(None),
    })))
}

fn to_text<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    let text = match value {
        Value::Text(_) => return Ok(Some(value.clone())),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => double_to_string(*double),
        Value::Bytes(bytes) => match core::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        Value::Duration(duration) => duration.to_text(),
        Value::Timestamp(instant) => instant.to_text(),
        Value::Ip(ip) => net::ip_to_string(*ip),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(name) => return Ok(Some(Value::Text(Str::Ref(name)))),
        _ => return Ok(None),
    };
    Ok(Some(Value::text(text)))
}

fn to_duration<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    match value {
        Value::Duration(_) => Ok(Some(value.clone())),
        Value::Text(text) => time::parse_duration(text).map(|duration| Some(Value::Duration(duration))),
        _ => Ok(None),
    }
}

fn to_timestamp<'v>(value: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    match value {
        Value::Timestamp(_) => Ok(Some(value.clone())),
        Value::Int(secs) => Instant::from_secs(*secs).map(|instant| Some(Value::Timestamp(instant))),
        Value::Text(text) => time::parse_timestamp(text).map(|instant| Some(Value::Timestamp(instant))),
        _ => Ok(None),
    }
}
