//! Functions of strings.

use alloc::vec::Vec;

use super::{
    context::Context,
    outcome::{Outcome, unfit},
    value::{Key, List, Map, Str, Value},
};
use crate::{
    check::decls::Func,
    error::EvalError,
    ext::{
        ExtError,
        format::{self, FormatArg, View},
        regexes, strings,
    },
};

pub(crate) fn failed(error: ExtError) -> EvalError {
    EvalError::new(error.0)
}

pub(crate) fn call<'v>(context: Context<'v>, func: Func, args: &[Value<'v>]) -> Outcome<'v> {
    match (func, args) {
        (Func::Contains, [Value::Text(text), Value::Text(part)]) => Ok(Value::Bool(text.contains(&**part))),
        (Func::StartsWith, [Value::Text(text), Value::Text(part)]) => {
            Ok(Value::Bool(text.starts_with(&**part)))
        }
        (Func::EndsWith, [Value::Text(text), Value::Text(part)]) => Ok(Value::Bool(text.ends_with(&**part))),
        (Func::Matches | Func::Find | Func::FindAll, [Value::Text(text), Value::Text(pattern), ..]) => {
            pattern_call(func, &regexes::compile(pattern).map_err(failed)?, text, args)
        }
        (Func::CharAt, [Value::Text(text), Value::Int(at)]) => made(strings::char_at(text, *at)),
        (Func::IndexOf, [Value::Text(text), Value::Text(part)]) => int(strings::index_of(text, part, 0)),
        (Func::IndexOf, [Value::Text(text), Value::Text(part), Value::Int(from)]) => {
            int(strings::index_of(text, part, *from))
        }
        (Func::LastIndexOf, [Value::Text(text), Value::Text(part)]) => {
            Ok(Value::Int(strings::last_index_of(text, part)))
        }
        (Func::LastIndexOf, [Value::Text(text), Value::Text(part), Value::Int(from)]) => {
            int(strings::last_index_of_offset(text, part, *from))
        }
        (Func::LowerAscii, [Value::Text(text)]) => Ok(Value::text(strings::lower_ascii(text))),
        (Func::UpperAscii, [Value::Text(text)]) => Ok(Value::text(strings::upper_ascii(text))),
        (Func::Trim, [Value::Text(text)]) => Ok(Value::text(strings::trim(text))),
        (Func::Quote, [Value::Text(text)]) => strings::quote(text).map(Value::text).map_err(failed),
        (Func::Replace, [Value::Text(text), Value::Text(old), Value::Text(new)]) => {
            strings::replace(text, old, new, -1).map(Value::text).map_err(failed)
        }
        (Func::Replace, [Value::Text(text), Value::Text(old), Value::Text(new), Value::Int(limit)]) => {
            strings::replace(text, old, new, *limit).map(Value::text).map_err(failed)
        }
        (Func::Split, [Value::Text(text), Value::Text(by)]) => Ok(Value::texts(strings::split(text, by, -1))),
        (Func::Split, [Value::Text(text), Value::Text(by), Value::Int(limit)]) => {
            Ok(Value::texts(strings::split(text, by, *limit)))
        }
        (Func::Substring, [Value::Text(text), Value::Int(start)]) => {
            made(strings::substring_from(text, *start))
        }
        (Func::Substring, [Value::Text(text), Value::Int(start), Value::Int(end)]) => {
            made(strings::substring(text, *start, *end))
        }
        (Func::Join, [Value::List(list)]) => join(list, ""),
        (Func::Join, [Value::List(list), Value::Text(by)]) => join(list, by),
        (Func::Format, [Value::Text(template), Value::List(list)]) => {
            let values: Vec<Value<'v>> = list.iter().map(|value| context.whole(&value)).collect();
            format::format(template, &values).map(Value::text).map_err(failed)
        }
        _ => unfit(args),
    }
}

/// `matches`, `find` or `findAll` with a pattern that is compiled already.
pub(crate) fn pattern_call<'v>(
    func: Func,
    regex: &regex::Regex,
    text: &Str<'v>,
    args: &[Value<'v>],
) -> Outcome<'v> {
    let limit = match args.get(2) {
        Some(Value::Int(limit)) => *limit,
        Some(_) => return unfit(args),
        None => -1,
    };
    Ok(match func {
        Func::Find => Value::text(regexes::find(regex, text)),
        Func::FindAll => Value::texts(regexes::find_all(regex, text, limit)),
        _ => Value::Bool(regex.is_match(text)),
    })
}

fn made<'v>(text: Result<&str, ExtError>) -> Outcome<'v> {
    text.map(Value::text).map_err(failed)
}

fn int<'v>(at: Result<i64, ExtError>) -> Outcome<'v> {
    at.map(Value::Int).map_err(failed)
}

fn join<'v>(list: &List<'v>, by: &str) -> Outcome<'v> {
    let values: Vec<Value<'v>> = list.iter().collect();
    let mut texts = Vec::with_capacity(values.len());
    for value in &values {
        let Value::Text(text) = value else {
            return Err(EvalError::new(alloc::format!("join: not a string: {}", value.shown())));
        };
        texts.push(&**text);
    }
    strings::join(texts.into_iter(), by).map(Value::text).map_err(failed)
}

impl FormatArg for Value<'_> {
    fn view(&self) -> View<'_, Self> {
        match self {
            Self::Null => View::Null,
            Self::Bool(value) => View::Bool(*value),
            Self::Int(value) => View::Int(*value),
            Self::Uint(value) => View::Uint(*value),
            Self::Double(value) => View::Double(*value),
            Self::Text(text) => View::String(text),
            Self::Bytes(bytes) => View::Bytes(bytes),
            Self::Type(name) => View::Type(name),
            Self::Timestamp(instant) => View::Timestamp(instant.to_text()),
            Self::Duration(duration) => View::Duration(duration.to_text()),
            Self::List(list) => View::List(list.iter().collect()),
            Self::Map(Map::Made(entries)) => {
                View::Map(entries.iter().map(|(key, value)| (Key::to_value(key), value.clone())).collect())
            }
            other => View::Other(other.type_name()),
        }
    }
}
