//! `+ - * / %` and negation. Integers never wrap.

use alloc::{string::String, vec::Vec};

use super::{
    outcome::{Outcome, unfit},
    value::{List, Value},
};
use crate::{check::decls::Func, error::EvalError};

pub(crate) fn call<'v>(func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => ints(func, *a, *b),
        [Value::Uint(a), Value::Uint(b)] => uints(func, *a, *b),
        [Value::Double(a), Value::Double(b)] => doubles(func, *a, *b),
        [Value::Int(a)] if func == Func::Negate => a.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(a)] if func == Func::Negate => Ok(Value::Double(-a)),
        [left, right] if func == Func::Add => add(left, right),
        [left, right] if func == Func::Subtract => subtract(left, right),
        _ => no_overload(args),
    }
}

fn no_overload<'v>(args: &[Value<'v>]) -> Outcome<'v> {
    if args.len() == 1 { Err(EvalError::no_such_overload()) } else { unfit(args) }
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn ints<'v>(func: Func, a: i64, b: i64) -> Outcome<'v> {
    let by_zero = |what: &str| if b == 0 { Err(EvalError::new(what)) } else { Ok(()) };
    let result = match func {
        Func::Add => a.checked_add(b),
        Func::Subtract => a.checked_sub(b),
        Func::Multiply => a.checked_mul(b),
        Func::Divide => {
            by_zero("division by zero")?;
            a.checked_div(b)
        }
        _ => {
            by_zero("modulus by zero")?;
            a.checked_rem(b)
        }
    };
    result.map(Value::Int).ok_or_else(overflow)
}

fn uints<'v>(func: Func, a: u64, b: u64) -> Outcome<'v> {
    let by_zero = |what: &str| if b == 0 { Err(EvalError::new(what)) } else { Ok(()) };
    let result = match func {
        Func::Add => a.checked_add(b),
        Func::Subtract => a.checked_sub(b),
        Func::Multiply => a.checked_mul(b),
        Func::Divide => {
            by_zero("division by zero")?;
            a.checked_div(b)
        }
        _ => {
            by_zero("modulus by zero")?;
            a.checked_rem(b)
        }
    };
    result.map(Value::Uint).ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

fn doubles<'v>(func: Func, a: f64, b: f64) -> Outcome<'v> {
    Ok(Value::Double(match func {
        Func::Add => a + b,
        Func::Subtract => a - b,
        Func::Multiply => a * b,
        Func::Divide => a / b,
        _ => return Err(EvalError::no_such_overload()),
    }))
}

fn add<'v>(left: &Value<'v>, right: &Value<'v>) -> Outcome<'v> {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => {
            let mut text = String::with_capacity(a.len() + b.len());
            text.push_str(a);
            text.push_str(b);
            Ok(Value::text(text))
        }
        (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([&**a, &**b].concat().into())),
        (Value::List(a), Value::List(b)) => Ok(concat(a, b)),
        (Value::Duration(a), Value::Duration(b)) => a.plus(*b).map(Value::Duration),
        (Value::Timestamp(at), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(at)) => {
            at.plus(*by).map(Value::Timestamp)
        }
        _ => Err(EvalError::no_such_overload()),
    }
}

fn concat<'v>(a: &List<'v>, b: &List<'v>) -> Value<'v> {
    let mut all = Vec::with_capacity(a.len() + b.len());
    all.extend(a.iter());
    all.extend(b.iter());
    Value::list(all)
}

fn subtract<'v>(left: &Value<'v>, right: &Value<'v>) -> Outcome<'v> {
    match (left, right) {
        (Value::Duration(a), Value::Duration(b)) => a.minus(*b).map(Value::Duration),
        (Value::Timestamp(at), Value::Duration(by)) => at.minus(*by).map(Value::Timestamp),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.since(*b).map(Value::Duration),
        _ => Err(EvalError::no_such_overload()),
    }
}
