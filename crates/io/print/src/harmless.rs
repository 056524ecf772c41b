//! Texts of a cluster on a terminal: what would move the cursor, change colours, turn the direction of a line or stand
//! there unseen is shown as an escape instead. Whoever may write a message must not write the screen of who reads it.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::tint::Tint;

/// Whether a terminal would do something else with this character than show it.
///
/// Controls (C0, DEL, C1), marks and overrides of direction, characters without width, separators of lines, fillers that look like nothing,
/// notes between lines, tags.
#[must_use]
pub fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{34f}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{115f}'..='\u{1160}'
                | '\u{17b4}'..='\u{17b5}'
                | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{3164}'
                | '\u{feff}'
                | '\u{ffa0}'
                | '\u{fff0}'..='\u{fffb}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}'
        )
}

/// A text of several lines: line breaks and tabs stay.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    replaced(text, |character| character == '\n' || character == '\t')
}

/// A text within a line: in it, a line break is an escape too.
#[must_use]
pub fn in_a_line(text: &str) -> Cow<'_, str> {
    replaced(text, |_| false)
}

/// A text in which the colours of [`Tint`] may stand, if it is `coloured`.
#[must_use]
pub fn harmless_coloured(text: &str, coloured: bool) -> Cow<'_, str> {
    if !coloured || !text.contains('\x1b') {
        return harmless(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        shown.push_str(&harmless(&rest[..at]));
        rest = &rest[at..];
        match Tint::CODES.into_iter().find(|code| rest.starts_with(code)) {
            Some(code) => {
                shown.push_str(code);
                rest = &rest[code.len()..];
            }
            None => {
                escape(&mut shown, '\x1b');
                rest = &rest[1..];
            }
        }
    }
    shown.push_str(&harmless(rest));
    Cow::Owned(shown)
}

/// JSON that means the same, with escapes for what is unseen. Outside of its strings only line breaks are.
#[must_use]
pub fn harmless_json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|character| is_unseen(character) && character != '\n') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_unseen(character) && character != '\n' {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn replaced(text: &str, stays: impl Fn(char) -> bool) -> Cow<'_, str> {
    let acts = |character: char| is_unseen(character) && !stays(character);
    if !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) { escape(&mut shown, character) } else { shown.push(character) }
    }
    Cow::Owned(shown)
}

/// As Rust, C and JSON write such a character: `\n`, `\x1b`, `\u202e`.
fn escape(shown: &mut String, character: char) {
    let code = u32::from(character);
    // Writing to a string cannot fail.
    let _ = match character {
        '\n' => write!(shown, "\\n"),
        '\r' => write!(shown, "\\r"),
        '\t' => write!(shown, "\\t"),
        _ if code < 0x80 => write!(shown, "\\x{code:02x}"),
        _ => write!(shown, "\\u{code:04x}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_and_never_obeyed() {
        for (text, shown) in [
            ("plain, größer, 東京, \u{1f600}", "plain, größer, 東京, \u{1f600}"),
            ("a\nb\tc", "a\nb\tc"),
            ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
            ("\x1b[2J\x1b[1;1H", "\\x1b[2J\\x1b[1;1H"),
            ("Ready\rFailed", "Ready\\rFailed"),
            ("a\x08\x7f\u{9b}31m", "a\\x08\\x7f\\u009b31m"),
            ("gpu-\u{202e}0\u{2066}x\u{2069}", "gpu-\\u202e0\\u2066x\\u2069"),
            ("ze\u{200b}ro\u{feff}\u{2028}\u{ad}", "ze\\u200bro\\ufeff\\u2028\\u00ad"),
            ("\u{e0041}\u{3164}", "\\ue0041\\u3164"),
        ] {
            assert_eq!(harmless(text), shown, "{text:?}");
            assert!(!harmless(text).chars().any(|c| is_unseen(c) && !matches!(c, '\n' | '\t')));
        }
        assert_eq!(in_a_line("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn of_colours_only_those_that_are_ours_and_asked_for_are_obeyed() {
        let painted = format!("{} \x1b[8mhidden", Tint::Bad.paint("Failed", true));
        assert_eq!(harmless_coloured(&painted, true), "\x1b[31mFailed\x1b[0m \\x1b[8mhidden");
        assert_eq!(harmless_coloured(&painted, false), "\\x1b[31mFailed\\x1b[0m \\x1b[8mhidden");
    }

    #[test]
    fn json_means_the_same() {
        let value = serde_json::json!({"a\u{202e}": "\x1b[2J\u{9b}\u{7f}\u{e0041} \"\\ plain\n"});
        let text = serde_json::to_string_pretty(&value).unwrap();
        let shown = harmless_json(&text);
        assert!(shown.is_ascii(), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
