//! Double-quoted text in two dialects: CEL literals and Go's `%q`.

use alloc::string::String;
use core::fmt::Write as _;

/// `strings.quote`: wraps in double quotes and escapes what a CEL literal must escape.
pub(crate) fn cel(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match named_escape(c) {
            Some(escape) => out.push_str(escape),
            None => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Go's `%q`: as [`cel`], and characters that do not print are written as `\x`, `\u` or `\U` escapes.
pub(crate) fn go(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_go(&mut out, c);
    }
    out.push('"');
    out
}

/// Go's `%q` for bytes that need not be UTF-8: a stray byte is written as `\x..`.
pub(crate) fn go_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_go(&mut out, c);
        }
        for byte in chunk.invalid() {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn push_go(out: &mut String, c: char) {
    let code = u32::from(c);
    let _ = match named_escape(c) {
        Some(escape) => out.write_str(escape),
        None if prints(c) => out.write_char(c),
        None if code < 0x80 => write!(out, "\\x{code:02x}"),
        None if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        None => write!(out, "\\U{code:08x}"),
    };
}

fn named_escape(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{07}' => "\\a",
        '\u{08}' => "\\b",
        '\u{0c}' => "\\f",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{0b}' => "\\v",
        '\\' => "\\\\",
        '"' => "\\\"",
        _ => return None,
    })
}

/// Letters, marks, numbers, punctuation, symbols and the ASCII space print.
fn prints(c: char) -> bool {
    // `escape_debug` decides by the same categories, but escapes a combining mark when it comes first: put a letter
    // before it. A single quote is escaped there and prints in double quotes.
    let mut buffer = [b'a'; 5];
    let length = 1 + c.encode_utf8(&mut buffer[1..]).len();
    c == '\'' || core::str::from_utf8(&buffer[..length]).is_ok_and(|pair| pair.escape_debug().count() == 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cel_literals_escape_only_what_they_must() {
        assert_eq!(cel("first\nsecond"), r#""first\nsecond""#);
        assert_eq!(cel("bell\u{7} \"q\" \\"), r#""bell\a \"q\" \\""#);
        assert_eq!(cel("ends \u{1}"), "\"ends \u{1}\"");
        assert_eq!(cel(""), "\"\"");
    }

    #[test]
    fn go_escapes_what_does_not_print() {
        assert_eq!(go("it's é\u{301} 世"), "\"it's é\u{301} 世\"");
        assert_eq!(go("\u{1}\u{7f}\u{a0}\u{200b}"), r#""\x01\x7f\u00a0\u200b""#);
        assert_eq!(go("\u{e0001}"), r#""\U000e0001""#);
        assert_eq!(go_bytes(b"ok\xff\x00"), r#""ok\xff\x00""#);
    }
}
