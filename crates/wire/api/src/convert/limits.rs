//! Limits of fields, which come from the tables: the words in which one that is exceeded is refused.

use serde_json::Value;

use super::Result;
use crate::{field::Path, wire};

pub(super) fn required(is_there: bool, is_asked_for: bool, path: &Path<'_>, with: &str) -> Result<()> {
    if is_asked_for && !is_there { Err(path.error(format!("is required{with}"))) } else { Ok(()) }
}

pub(super) fn needs(is_there: bool, is_met: bool, path: &Path<'_>, words: &str) -> Result<()> {
    if is_there && !is_met { Err(path.error(words)) } else { Ok(()) }
}

pub(super) fn range(number: Option<i64>, min: Option<i64>, max: Option<i64>, path: &Path<'_>) -> Result<()> {
    let Some(number) = number else { return Ok(()) };
    if min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max) {
        return Ok(());
    }
    let permitted = match (min, max) {
        (Some(min), Some(max)) => format!("must be from {min} to {max}"),
        (Some(1), None) => "must be greater than zero".to_owned(),
        (Some(min), None) => format!("must be {min} or more"),
        (None, Some(max)) => format!("must be {max} or less"),
        (None, None) => return Ok(()),
    };
    Err(path.error(format!("{permitted}, not {number}")))
}

pub(super) fn bytes(length: usize, most: usize, path: &Path<'_>) -> Result<()> {
    if length > most { Err(path.error(format!("is longer than {most} bytes"))) } else { Ok(()) }
}

/// The limit of a JSON value is on the value in its shortest form, as Kubernetes stores it: another encoder may write the same value in six
/// bytes for one (`<` as `\u003c`), or with blanks.
pub(super) fn raw(raw: Option<&wire::Raw>, most: usize, path: &Path<'_>) -> Result<()> {
    let Some(text) = raw.map(|raw| raw.0.get()).filter(|text| text.len() > most) else { return Ok(()) };
    let shortest = serde_json::from_str::<Value>(text).map_or(text.len(), |value| value.to_string().len());
    bytes(shortest, most, path)
}

pub(super) fn chars(text: &str, most: usize, path: &Path<'_>) -> Result<()> {
    if text.chars().count() > most {
        Err(path.error(format!("is longer than {most} characters")))
    } else {
        Ok(())
    }
}

pub(super) fn one_of(is_known: bool, known: &str, path: &Path<'_>, found: &str) -> Result<()> {
    if is_known { Ok(()) } else { Err(path.error(format!("must be one of {known}, not {found}"))) }
}

pub(super) fn items(count: usize, most: usize, path: &Path<'_>) -> Result<()> {
    if count > most {
        Err(path.error(format!("has {count} items: at most {most} are permitted")))
    } else {
        Ok(())
    }
}
