//! The length of texts.

/// How many characters a string has; most are ASCII and need no decoding.
pub(super) fn char_count(text: &str) -> u64 {
    let count = if text.is_ascii() { text.len() } else { text.chars().count() };
    count as u64
}
