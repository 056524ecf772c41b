//! The strings library, version 2. Positions are code points; texts of range errors are those of cel-go.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{ExtError, STRING_BYTES_MAX};

/// The character at `index`, or the empty string at the very end.
pub(crate) fn char_at(text: &str, index: i64) -> Result<&str, ExtError> {
    let start = byte_at(text, index)?;
    let rest = &text[start..];
    Ok(&rest[..rest.chars().next().map_or(0, char::len_utf8)])
}

/// Position of the first `needle` at or after `offset`, or -1.
pub(crate) fn index_of(text: &str, needle: &str, offset: i64) -> Result<i64, ExtError> {
    let Ok(skip) = usize::try_from(offset) else {
        return Err(out_of_range(offset));
    };
    let length = text.chars().count();
    if needle.is_empty() {
        return Ok(as_int(skip.min(length)));
    }
    if skip >= length {
        return Ok(-1);
    }
    let start = byte_of(text, skip);
    Ok(text[start..].find(needle).map_or(-1, |at| as_int(skip + text[start..start + at].chars().count())))
}

/// Position of the last `needle`, or -1.
pub(crate) fn last_index_of(text: &str, needle: &str) -> i64 {
    text.rfind(needle).map_or(-1, |at| as_int(text[..at].chars().count()))
}

/// Position of the last `needle` that starts at or before `offset`, or -1. An offset past the end finds nothing.
pub(crate) fn last_index_of_offset(text: &str, needle: &str, offset: i64) -> Result<i64, ExtError> {
    let Ok(last) = usize::try_from(offset) else {
        return Err(out_of_range(offset));
    };
    let length = text.chars().count();
    if needle.is_empty() {
        return Ok(as_int(last.min(length)));
    }
    if last >= length {
        return Ok(-1);
    }
    // No match can end inside a character, so the window may shrink to a boundary.
    let mut end = (byte_of(text, last) + needle.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    Ok(last_index_of(&text[..end], needle))
}

/// Lower case for ASCII letters only.
pub(crate) fn lower_ascii(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// Upper case for ASCII letters only.
pub(crate) fn upper_ascii(text: &str) -> String {
    text.to_ascii_uppercase()
}

/// Replaces the first `limit` occurrences (all when negative). An empty `old` matches before every character and at
/// the end.
pub(crate) fn replace(text: &str, old: &str, new: &str, limit: i64) -> Result<String, ExtError> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 || old == new {
        return Ok(text.to_owned());
    }
    let count = text.matches(old).take(limit).count();
    let removed = count * old.len();
    let length = count
        .checked_mul(new.len())
        .and_then(|added| added.checked_add(text.len() - removed))
        .filter(|length| *length <= STRING_BYTES_MAX)
        .ok_or_else(ExtError::too_long)?;
    let mut out = String::with_capacity(length);
    let mut done = 0;
    for (at, found) in text.match_indices(old).take(limit) {
        out.push_str(&text[done..at]);
        out.push_str(new);
        done = at + found.len();
    }
    out.push_str(&text[done..]);
    Ok(out)
}

/// Splits into at most `limit` parts (all when negative, none when zero). An empty separator splits into characters.
pub(crate) fn split<'a>(text: &'a str, separator: &str, limit: i64) -> Vec<&'a str> {
    match usize::try_from(limit) {
        Ok(0) => Vec::new(),
        Ok(limit) if separator.is_empty() => characters(text, limit),
        Ok(limit) => text.splitn(limit, separator).collect(),
        Err(_) if separator.is_empty() => characters(text, usize::MAX),
        Err(_) => text.split(separator).collect(),
    }
}

/// Characters from `start` to the end.
pub(crate) fn substring_from(text: &str, start: i64) -> Result<&str, ExtError> {
    Ok(&text[byte_at(text, start)?..])
}

/// Characters from `start` up to, not including, `end`.
pub(crate) fn substring(text: &str, start: i64, end: i64) -> Result<&str, ExtError> {
    if start > end {
        return Err(ExtError(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(text, start)?;
    let to = byte_at(text, end)?;
    Ok(&text[from..to])
}

/// Without white space (Unicode) at both ends.
pub(crate) fn trim(text: &str) -> &str {
    text.trim()
}

/// Joins with a separator between the parts.
pub(crate) fn join<'a>(parts: impl Iterator<Item = &'a str>, separator: &str) -> Result<String, ExtError> {
    let mut out = String::new();
    for (position, part) in parts.enumerate() {
        let separator = if position == 0 { "" } else { separator };
        if out.len() + separator.len() + part.len() > STRING_BYTES_MAX {
            return Err(ExtError::too_long());
        }
        out.push_str(separator);
        out.push_str(part);
    }
    Ok(out)
}

/// `strings.quote`.
pub(crate) fn quote(text: &str) -> Result<String, ExtError> {
    if text.len() > STRING_BYTES_MAX / 2 - 1 {
        return Err(ExtError::too_long());
    }
    Ok(super::quote::cel(text))
}

fn characters(text: &str, limit: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (head, tail) = rest.split_at(first.len_utf8());
        parts.push(head);
        rest = tail;
    }
    parts
}

/// Byte position of a code point index that must lie within the text or at its end.
fn byte_at(text: &str, index: i64) -> Result<usize, ExtError> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    if text.is_ascii() {
        return (wanted <= text.len()).then_some(wanted).ok_or_else(|| out_of_range(index));
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(wanted).ok_or_else(|| out_of_range(index))
}

fn byte_of(text: &str, index: usize) -> usize {
    text.char_indices().nth(index).map_or(text.len(), |(at, _)| at)
}

fn out_of_range(index: i64) -> ExtError {
    ExtError(format!("index out of range: {index}"))
}

fn as_int(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;
    use alloc::vec;

    fn range_error(index: i64) -> String {
        format!("index out of range: {index}")
    }

    #[test]
    fn char_at_counts_code_points_and_allows_the_end() {
        assert_eq!(char_at("tacocat", 3), Ok("o"));
        assert_eq!(char_at("©αT", 1), Ok("α"));
        assert_eq!(char_at("©αT", 3), Ok(""));
        assert_eq!(char_at("©αT", 4).unwrap_err().to_string(), range_error(4));
        assert_eq!(char_at("", -1).unwrap_err().to_string(), range_error(-1));
    }

    #[test]
    fn index_of_searches_forward_from_the_offset() {
        for (text, needle, offset, expected) in [
            ("tacocat", "", 0, 0),
            ("tacocat", "ac", 0, 1),
            ("tacocat", "none", 0, -1),
            ("tacocat", "", 3, 3),
            ("tacocat", "", 99, 7),
            ("tacocat", "a", 3, 5),
            ("tacocat", "at", 7, -1),
            ("ta©o©αT", "©", 3, 4),
            ("ta©o©αT", "©αT", 3, 4),
            ("ta©o©αT", "©α", 5, -1),
            ("", "x", 0, -1),
        ] {
            assert_eq!(index_of(text, needle, offset), Ok(expected), "{text} {needle} {offset}");
        }
        assert!(index_of("tacocat", "a", -1).is_err());
    }

    #[test]
    fn last_index_of_searches_backward_from_the_offset() {
        assert_eq!(last_index_of("tacocat", ""), 7);
        assert_eq!(last_index_of("tacocat", "at"), 5);
        assert_eq!(last_index_of("ta©o©αT", "©"), 4);
        assert_eq!(last_index_of("", "x"), -1);
        for (text, needle, offset, expected) in [
            ("tacocat", "", 3, 3),
            ("tacocat", "", 9, 7),
            ("tacocat", "a", 3, 1),
            ("tacocat", "a", 5, 5),
            ("tacocat", "a", 7, -1),
            ("aaaa", "aa", 1, 1),
            ("aaaa", "aa", 3, 2),
            ("ta©o©αT", "©", 3, 2),
            ("ta©o©αT", "©α", 4, 4),
            ("ααα", "a", 1, -1),
            ("ab", "abc", 1, -1),
        ] {
            assert_eq!(last_index_of_offset(text, needle, offset), Ok(expected), "{text} {needle} {offset}");
        }
        assert!(last_index_of_offset("tacocat", "a", -1).is_err());
    }

    #[test]
    fn replace_respects_the_limit_and_the_empty_needle() {
        for (text, old, new, limit, expected) in [
            ("hello hello", "he", "we", -1, "wello wello"),
            ("hello hello", "he", "we", 1, "wello hello"),
            ("hello hello", "he", "we", 0, "hello hello"),
            ("hello hello", "", "_", -1, "_h_e_l_l_o_ _h_e_l_l_o_"),
            ("hé", "", "-", 2, "-h-é"),
            ("", "", "x", -1, "x"),
            ("abc", "b", "", -1, "ac"),
        ] {
            assert_eq!(replace(text, old, new, limit).unwrap(), expected);
        }
    }

    #[test]
    fn growth_is_bounded() {
        let long = "x".repeat(2_000);
        assert_eq!(replace(&long, "", &long, -1), Err(ExtError::too_long()));
        assert_eq!(join([long.as_str(); 600].into_iter(), ""), Err(ExtError::too_long()));
        assert_eq!(quote(&"\"".repeat(STRING_BYTES_MAX)), Err(ExtError::too_long()));
    }

    #[test]
    fn split_follows_go() {
        assert_eq!(split("hello world", " ", -1), vec!["hello", "world"]);
        assert_eq!(split("a,b,c", ",", 2), vec!["a", "b,c"]);
        assert_eq!(split("a,b,c", ",", 0), Vec::<&str>::new());
        assert_eq!(split("a,b,c", ",", 1), vec!["a,b,c"]);
        assert_eq!(split("", ",", -1), vec![""]);
        assert_eq!(split("", "", -1), Vec::<&str>::new());
        assert_eq!(split("héy", "", -1), vec!["h", "é", "y"]);
        assert_eq!(split("héy", "", 2), vec!["h", "éy"]);
        assert_eq!(split("hé", "", 9), vec!["h", "é"]);
    }

    #[test]
    fn substring_checks_order_before_bounds() {
        assert_eq!(substring_from("ta©o©αT", 2), Ok("©o©αT"));
        assert_eq!(substring_from("abc", 3), Ok(""));
        assert_eq!(substring_from("abc", 4).unwrap_err().to_string(), range_error(4));
        assert_eq!(substring("ta©o©αT", 2, 4), Ok("©o"));
        assert_eq!(substring("abc", 0, 4).unwrap_err().to_string(), range_error(4));
        assert_eq!(substring("abc", -1, 2).unwrap_err().to_string(), range_error(-1));
        assert_eq!(
            substring("abc", 2, 1).unwrap_err().to_string(),
            "invalid substring range. start: 2, end: 1"
        );
    }

    #[test]
    fn cases_trim_and_join() {
        assert_eq!(lower_ascii("TacoCÆt"), "tacocÆt");
        assert_eq!(upper_ascii("tacocæt"), "TACOCæT");
        assert_eq!(trim(" \u{85}\u{a0}\t text \u{3000}\n"), "text");
        assert_eq!(trim("\u{200b}x"), "\u{200b}x");
        assert_eq!(join(["x", "y"].into_iter(), "-").unwrap(), "x-y");
        assert_eq!(join(core::iter::empty(), "-").unwrap(), "");
    }
}
