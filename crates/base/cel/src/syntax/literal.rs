//! The values of number and string tokens.

use alloc::{string::String, vec::Vec};

use super::ast::Literal;

/// The value of an int token, `-` included if it has one.
pub(crate) fn int(text: &str, negative: bool) -> Option<Literal> {
    let magnitude = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => text.parse::<u64>().ok()?,
    };
    let value = if negative { -i128::from(magnitude) } else { i128::from(magnitude) };
    i64::try_from(value).ok().map(Literal::Int)
}

/// The value of a uint token.
pub(crate) fn uint(text: &str) -> Option<Literal> {
    let text = text.strip_suffix(['u', 'U'])?;
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
    .map(Literal::Uint)
}

/// The value of a float token. Out of range is an error, as everywhere in CEL's literals.
pub(crate) fn double(text: &str, negative: bool) -> Option<Literal> {
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(Literal::Double(if negative { -value } else { value }))
}

/// The text of a string token.
pub(crate) fn string(token: &str) -> Result<Literal, &'static str> {
    let bytes = unquote(token, false)?;
    let text = String::from_utf8(bytes).map_err(|_| "invalid unicode code point")?;
    Ok(Literal::String(text.into()))
}

/// The bytes of a bytes token.
pub(crate) fn bytes(token: &str) -> Result<Literal, &'static str> {
    Ok(Literal::Bytes(unquote(&token[1..], true)?.into()))
}

const BAD_ESCAPE: &str = "unable to unescape string";
const BAD_POINT: &str = "invalid unicode code point";

fn unquote(token: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let token = token.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match token.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, token.as_str()),
    };
    let width =
        if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = quoted.get(width..quoted.len().saturating_sub(width)).ok_or(BAD_ESCAPE)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], bytes, &mut out)?;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Handles what follows a backslash and returns what follows that.
fn escape<'t>(text: &'t str, bytes: bool, out: &mut Vec<u8>) -> Result<&'t str, &'static str> {
    let first = *text.as_bytes().first().ok_or(BAD_ESCAPE)?;
    let simple = match first {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'`' | b'?' => first,
        b'x' | b'X' => return code(text, 1, 2, 16, bytes, out),
        b'u' if !bytes => return code(text, 1, 4, 16, false, out),
        b'U' if !bytes => return code(text, 1, 8, 16, false, out),
        b'0'..=b'3' => return code(text, 0, 3, 8, bytes, out),
        _ => return Err(BAD_ESCAPE),
    };
    out.push(simple);
    Ok(&text[1..])
}

fn code<'t>(
    text: &'t str,
    skip: usize,
    digits: usize,
    radix: u32,
    as_byte: bool,
    out: &mut Vec<u8>,
) -> Result<&'t str, &'static str> {
    let written = text.get(skip..skip + digits).ok_or(BAD_ESCAPE)?;
    if !written.bytes().all(|b| char::from(b).is_digit(radix)) {
        return Err(BAD_ESCAPE);
    }
    let value = u32::from_str_radix(written, radix).map_err(|_| BAD_ESCAPE)?;
    if as_byte {
        out.push(u8::try_from(value).map_err(|_| BAD_ESCAPE)?);
    } else {
        let point = char::from_u32(value).ok_or(BAD_POINT)?;
        out.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&text[skip + digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_mean_what_their_escapes_say() {
        let cases: [(&str, Result<&str, &str>); 9] = [
            (r#""plain""#, Ok("plain")),
            (r#"'a\n\x41\101\u00e9\U0001F600'"#, Ok("a\nAA\u{e9}\u{1F600}")),
            (r#""""multi "quoted" line""""#, Ok("multi \"quoted\" line")),
            (r#"r"raw\n""#, Ok("raw\\n")),
            ("'''a\r\nb'''", Ok("a\nb")),
            (r#""\ud800""#, Err(BAD_POINT)),
            (r#""\q""#, Err(BAD_ESCAPE)),
            (r#""\400""#, Err(BAD_ESCAPE)),
            (r#""\x4""#, Err(BAD_ESCAPE)),
        ];
        for (token, expected) in cases {
            assert_eq!(string(token), expected.map(|text| Literal::String(text.into())), "{token}");
        }
        assert_eq!(bytes(r#"b"\xff\377""#), Ok(Literal::Bytes([0xff, 0xff].as_slice().into())));
        assert_eq!(bytes(r#"b"\u00e9""#), Err(BAD_ESCAPE));
    }

    #[test]
    fn numbers_keep_to_their_range() {
        assert_eq!(int("9223372036854775808", true), Some(Literal::Int(i64::MIN)));
        assert_eq!(int("9223372036854775808", false), None);
        assert_eq!(int("0x1F", false), Some(Literal::Int(31)));
        assert_eq!(uint("18446744073709551615u"), Some(Literal::Uint(u64::MAX)));
        assert_eq!(uint("18446744073709551616u"), None);
        assert_eq!(double("1e400", false), None);
    }
}
