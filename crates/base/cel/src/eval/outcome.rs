//! How a function ends.

use alloc::{format, string::String};

use super::value::Value;
use crate::error::EvalError;

/// The result of a function.
pub(crate) type Outcome<'v> = Result<Value<'v>, EvalError>;

/// A function that is not for these values.
pub(crate) fn unfit<'v>(args: &[Value<'v>]) -> Outcome<'v> {
    let mut types = String::new();
    for arg in args {
        types.push_str(if types.is_empty() { "" } else { ", " });
        types.push_str(arg.type_name());
    }
    Err(EvalError::new(format!("no such overload for ({types})")))
}
