//! Objects that are written as they were read.

use serde_json::{Error, value::RawValue};

use crate::{Spelled, Value};

/// Reads JSON of which nothing is known but that it is kept as it was written: an object whose text would otherwise be written
/// differently keeps it until it is changed. It stays on one line, for a line is what a reader of a watch reads at a time: a text with line
/// breaks loses all space between its tokens.
///
/// # Errors
/// When a number or an escape cannot be read.
pub fn verbatim(text: &RawValue) -> Result<Value, Error> {
    let Spelled(value) = serde_json::from_str(text.get())?;
    let Value::Object(map) = value else { return Ok(value) };
    let line = if text.get().contains(['\n', '\r']) { compact(text)? } else { text.to_owned() };
    if serde_json::to_string(&map)? == line.get() {
        return Ok(Value::Object(map));
    }
    Ok(Value::Object(map.with_text(line)))
}

/// The text without the space between its tokens.
fn compact(text: &RawValue) -> Result<Box<RawValue>, Error> {
    let (mut quoted, mut escaped) = (false, false);
    let kept = text.get().chars().filter(|&letter| {
        let is_space = !quoted && letter.is_ascii_whitespace();
        if letter == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && letter == '\\' && !escaped;
        !is_space
    });
    RawValue::from_string(kept.collect())
}
