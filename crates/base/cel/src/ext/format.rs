//! `string.format`: a template with `%` clauses filled from a list of values.
//!
//! Fixed-point and scientific output follow the `en-US` conventions the original inherits from its message printer:
//! thousands are grouped with commas and exponents are written as `×10⁰³`.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::quote;
use super::{ExtError, STRING_BYTES_MAX};

/// Longest precision of a clause. Kubernetes has no bound; a billion digits serve no purpose.
/// DEVIATION(cel-text-limits).
pub(crate) const PRECISION_MAX: usize = 1_000;

const PRECISION_DEFAULT: usize = 6;

/// A value as the formatter needs to see it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum View<'a, V> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(&'a str),
    Bytes(&'a [u8]),
    /// Name of the type.
    Type(&'a str),
    /// Text of the conversion to string.
    Timestamp(String),
    /// Text of the conversion to string.
    Duration(String),
    List(Vec<V>),
    Map(Vec<(V, V)>),
    /// Anything that cannot be formatted, by type name.
    Other(&'a str),
}

/// A value that can be formatted.
pub(crate) trait FormatArg: Sized {
    /// How the formatter sees this value.
    fn view(&self) -> View<'_, Self>;
}

/// The type that a clause accepts: the kind of a static type or of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Known only at run time: every clause accepts it.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Type,
    Timestamp,
    Duration,
    List,
    Map,
    Other,
}

/// One piece of a parsed template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Clause(Clause),
}

/// One `%` clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    HexLower,
    HexUpper,
    Octal,
}

/// Splits a template into text and clauses.
pub(crate) fn parse(template: &str) -> Result<Vec<Piece<'_>>, ExtError> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        let (text, clause) = rest.split_at(at);
        if !text.is_empty() {
            pieces.push(Piece::Text(text));
        }
        let clause = &clause[1..];
        if let Some(after) = clause.strip_prefix('%') {
            pieces.push(Piece::Text("%"));
            rest = after;
        } else {
            let (clause, after) = parse_clause(clause)?;
            pieces.push(Piece::Clause(clause));
            rest = after;
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Fills a template. Values beyond the last clause are ignored, as at run time in Kubernetes.
pub(crate) fn format<V: FormatArg>(template: &str, values: &[V]) -> Result<String, ExtError> {
    let mut out = String::new();
    let mut next = 0;
    for piece in parse(template)? {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Clause(clause) => {
                let value = values.get(next).ok_or_else(|| ExtError(format!("index {next} out of range")))?;
                next += 1;
                out.push_str(
                    &clause
                        .render(value)
                        .map_err(|error| ExtError(format!("error during formatting: {error}")))?,
                );
            }
        }
        if out.len() > STRING_BYTES_MAX {
            return Err(ExtError::too_long());
        }
    }
    Ok(out)
}

/// A double as `string(double)` writes it: the shortest digits that read back, exponent form outside 1e-4..1e6.
pub(crate) fn double_to_string(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        format!("{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    }
}

impl Clause {
    /// Whether a value of this kind suits the clause; `type_name` names it in the error.
    pub(crate) fn check(self, kind: Kind, type_name: &str) -> Result<(), ExtError> {
        let suits = match self {
            Clause::String => kind != Kind::Other,
            Clause::Decimal | Clause::Octal => matches!(kind, Kind::Int | Kind::Uint | Kind::Dyn),
            // Some strings stand for doubles; which ones is known at run time.
            Clause::Fixed(_) | Clause::Scientific(_) => {
                matches!(kind, Kind::Double | Kind::String | Kind::Dyn)
            }
            Clause::Binary => matches!(kind, Kind::Int | Kind::Uint | Kind::Bool | Kind::Dyn),
            Clause::HexLower | Clause::HexUpper => {
                matches!(kind, Kind::Int | Kind::Uint | Kind::String | Kind::Bytes | Kind::Dyn)
            }
        };
        if suits { Ok(()) } else { Err(self.mismatch(type_name)) }
    }

    fn mismatch(self, type_name: &str) -> ExtError {
        let accepts = match self {
            Clause::String => {
                "%s takes strings, bools, bytes, numbers, null, types, durations, timestamps, lists and maps"
            }
            Clause::Decimal => "%d takes integers",
            Clause::Fixed(_) => "%f takes doubles",
            Clause::Scientific(_) => "%e takes doubles",
            Clause::Binary => "%b takes integers and bools",
            Clause::HexLower => "%x takes integers, strings and bytes",
            Clause::HexUpper => "%X takes integers, strings and bytes",
            Clause::Octal => "%o takes integers",
        };
        ExtError(format!("{accepts}, was given {type_name}"))
    }

    fn render<V: FormatArg>(self, value: &V) -> Result<String, ExtError> {
        let view = value.view();
        let integer = view.integer();
        let rendered = match self {
            Clause::String => return text(&view),
            Clause::Decimal => integer.map(|(sign, digits)| format!("{sign}{digits}")),
            Clause::Octal => integer.map(|(sign, digits)| format!("{sign}{digits:o}")),
            Clause::Binary => {
                if let View::Bool(bit) = view {
                    Some(u8::from(bit).to_string())
                } else {
                    integer.map(|(sign, digits)| format!("{sign}{digits:b}"))
                }
            }
            Clause::HexLower | Clause::HexUpper => match view.bytes() {
                Some(bytes) => Some(hex_bytes(bytes)?),
                None => integer.map(|(sign, digits)| format!("{sign}{digits:x}")),
            },
            Clause::Fixed(precision) => view.double().map(|value| fixed(value, precision)),
            Clause::Scientific(width) => view.double().map(|value| scientific(value, width)),
        };
        match rendered {
            Some(hex) if self == Clause::HexUpper => Ok(hex.to_ascii_uppercase()),
            Some(rendered) => Ok(rendered),
            None => Err(self.mismatch(view.type_name())),
        }
    }
}

impl<V> View<'_, V> {
    /// Sign and magnitude.
    fn integer(&self) -> Option<(&'static str, u64)> {
        if let View::Int(value) = self {
            let sign = if *value < 0 { "-" } else { "" };
            Some((sign, value.unsigned_abs()))
        } else if let View::Uint(value) = self {
            Some(("", *value))
        } else {
            None
        }
    }

    /// Three strings stand for doubles that have no literal.
    fn double(&self) -> Option<f64> {
        if let View::Double(value) = self {
            return Some(*value);
        }
        let View::String(name) = self else {
            return None;
        };
        match *name {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        }
    }

    fn bytes(&self) -> Option<&[u8]> {
        if let View::String(text) = self {
            Some(text.as_bytes())
        } else if let View::Bytes(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }

    fn kind(&self) -> Kind {
        match self {
            View::Null => Kind::Null,
            View::Bool(_) => Kind::Bool,
            View::Int(_) => Kind::Int,
            View::Uint(_) => Kind::Uint,
            View::Double(_) => Kind::Double,
            View::String(_) => Kind::String,
            View::Bytes(_) => Kind::Bytes,
            View::Type(_) => Kind::Type,
            View::Timestamp(_) => Kind::Timestamp,
            View::Duration(_) => Kind::Duration,
            View::List(_) => Kind::List,
            View::Map(_) => Kind::Map,
            View::Other(_) => Kind::Other,
        }
    }

    fn type_name(&self) -> &str {
        match self {
            View::Null => "null_type",
            View::Bool(_) => "bool",
            View::Int(_) => "int",
            View::Uint(_) => "uint",
            View::Double(_) => "double",
            View::String(_) => "string",
            View::Bytes(_) => "bytes",
            View::Type(_) => "type",
            View::Timestamp(_) => "google.protobuf.Timestamp",
            View::Duration(_) => "google.protobuf.Duration",
            View::List(_) => "list",
            View::Map(_) => "map",
            View::Other(name) => name,
        }
    }
}

fn parse_clause(clause: &str) -> Result<(Clause, &str), ExtError> {
    if clause.is_empty() {
        return Err(ExtError::new("unexpected end of string"));
    }
    let (precision, clause) = parse_precision(clause)?;
    let Some(verb) = clause.chars().next() else {
        return Err(clause_error("could not find end of precision specifier"));
    };
    let digits = precision.unwrap_or(PRECISION_DEFAULT);
    let parsed = match verb {
        's' => Clause::String,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(digits),
        'e' => Clause::Scientific(digits),
        'b' => Clause::Binary,
        'x' => Clause::HexLower,
        'X' => Clause::HexUpper,
        'o' => Clause::Octal,
        other => {
            return Err(clause_error(&format!("unrecognized formatting clause \"{other}\"")));
        }
    };
    Ok((parsed, &clause[verb.len_utf8()..]))
}

fn parse_precision(clause: &str) -> Result<(Option<usize>, &str), ExtError> {
    let Some(rest) = clause.strip_prefix('.') else {
        return Ok((None, clause));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, rest) = rest.split_at(end);
    if rest.is_empty() {
        return Err(clause_error("could not find end of precision specifier"));
    }
    if digits.is_empty() {
        return Err(clause_error("precision needs digits after the dot"));
    }
    match digits.parse() {
        Ok(precision) if precision <= PRECISION_MAX => Ok((Some(precision), rest)),
        Ok(_) | Err(_) => Err(clause_error(&format!(
            "precision {digits} exceeds maximum allowed precision {PRECISION_MAX}"
        ))),
    }
}

fn clause_error(reason: &str) -> ExtError {
    ExtError(format!("could not parse formatting clause: {reason}"))
}

/// `%s`: as the conversion to string; lists and maps as literals.
fn text<V: FormatArg>(view: &View<'_, V>) -> Result<String, ExtError> {
    match view {
        View::Null => Ok("null".to_string()),
        View::Bool(v) => Ok(v.to_string()),
        View::Int(v) => Ok(v.to_string()),
        View::Uint(v) => Ok(v.to_string()),
        View::Double(v) => Ok(double_to_string(*v)),
        View::String(v) => Ok((*v).to_string()),
        View::Type(name) => Ok((*name).to_string()),
        View::Timestamp(v) | View::Duration(v) => Ok(v.clone()),
        View::Bytes(v) => core::str::from_utf8(v)
            .map(ToString::to_string)
            .map_err(|_| ExtError::new("bytes that are not UTF-8 have no string form")),
        View::List(_) | View::Map(_) => {
            let mut out = String::new();
            literal(view, &mut out)?;
            Ok(out)
        }
        View::Other(name) => Err(Clause::String.mismatch(name)),
    }
}

/// A value inside a list or map, written so that CEL could read it back.
fn literal<V: FormatArg>(view: &View<'_, V>, out: &mut String) -> Result<(), ExtError> {
    match view {
        View::Double(v) => out.push_str(&literal_double(*v)),
        View::String(v) => out.push_str(&quote::go(v)),
        View::Bytes(_) => {
            out.push('b');
            out.push_str(&quote::go(&text(view)?));
        }
        View::Timestamp(v) => out.push_str(&format!("timestamp({})", quote::go(v))),
        View::Duration(v) => out.push_str(&format!("duration({})", quote::go(v))),
        View::List(items) => literal_list(items, out)?,
        View::Map(entries) => literal_map(entries, out)?,
        View::Null | View::Bool(_) | View::Int(_) | View::Uint(_) | View::Type(_) => {
            out.push_str(&text(view)?);
        }
        View::Other(name) => {
            return Err(ExtError(format!("no formatting function for {name}")));
        }
    }
    if out.len() > STRING_BYTES_MAX {
        return Err(ExtError::too_long());
    }
    Ok(())
}

fn literal_list<V: FormatArg>(items: &[V], out: &mut String) -> Result<(), ExtError> {
    out.push('[');
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        literal(&item.view(), out)?;
    }
    out.push(']');
    Ok(())
}

fn literal_map<V: FormatArg>(entries: &[(V, V)], out: &mut String) -> Result<(), ExtError> {
    let mut written = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = key.view();
        if !matches!(key.kind(), Kind::String | Kind::Bool | Kind::Int | Kind::Uint) {
            return Err(ExtError(format!("no formatting function for map key of type {}", key.type_name())));
        }
        let mut pair = (String::new(), String::new());
        literal(&key, &mut pair.0)?;
        literal(&value.view(), &mut pair.1)?;
        written.push(pair);
    }
    written.sort();
    out.push('{');
    for (position, (key, value)) in written.iter().enumerate() {
        if position > 0 {
            out.push_str(", ");
        }
        out.push_str(key);
        out.push(':');
        out.push_str(value);
    }
    out.push('}');
    Ok(())
}

fn literal_double(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.PRECISION_DEFAULT$}")
    } else {
        format!("\"{}\"", double_to_string(value))
    }
}

fn fixed(value: f64, precision: usize) -> String {
    let Some(sign) = finite_sign(value) else {
        return not_finite(value);
    };
    let digits = format!("{:.precision$}", value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    // The original keeps its least number of fraction digits in one byte: beyond 255 it wraps, and zeros are dropped.
    let kept = precision % 256;
    let trimmed = fraction.trim_end_matches('0').len().max(kept);
    let fraction = &fraction[..trimmed];
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{dot}{fraction}", grouped(whole))
}

/// Always six fraction digits: the clause's number is the least width, not the precision. So it is in the original.
fn scientific(value: f64, width: usize) -> String {
    let text = match finite_sign(value) {
        None => not_finite(value),
        Some(sign) => {
            let text = format!("{:.6e}", value.abs());
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let (minus, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ("⁻", exponent),
                None => ("", exponent),
            };
            let raised: String = format!("{exponent:0>2}").chars().map(superscript).collect();
            format!("{sign}{digits}×10{minus}{raised}")
        }
    };
    format!("{text:>width$}")
}

fn superscript(digit: char) -> char {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    digit.to_digit(10).and_then(|value| RAISED.get(value as usize)).copied().unwrap_or(digit)
}

/// The sign of a finite double; negative zero has none.
fn finite_sign(value: f64) -> Option<&'static str> {
    value.is_finite().then_some(if value < 0.0 { "-" } else { "" })
}

fn not_finite(value: f64) -> String {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_string()
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn hex_bytes(bytes: &[u8]) -> Result<String, ExtError> {
    if bytes.len() > STRING_BYTES_MAX / 2 {
        return Err(ExtError::too_long());
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
