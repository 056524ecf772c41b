use super::*;
use alloc::vec;

/// A value of the tests: the formatter sees exactly what is written.
#[derive(Debug, Clone)]
enum V {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(&'static str),
    Bytes(&'static [u8]),
    Type(&'static str),
    Time(&'static str),
    Span(&'static str),
    List(Vec<V>),
    Map(Vec<(V, V)>),
    Quantity,
}

impl FormatArg for V {
    fn view(&self) -> View<'_, V> {
        match self {
            V::Null => View::Null,
            V::Bool(v) => View::Bool(*v),
            V::Int(v) => View::Int(*v),
            V::Uint(v) => View::Uint(*v),
            V::Double(v) => View::Double(*v),
            V::Str(v) => View::String(v),
            V::Bytes(v) => View::Bytes(v),
            V::Type(v) => View::Type(v),
            V::Time(v) => View::Timestamp((*v).to_string()),
            V::Span(v) => View::Duration((*v).to_string()),
            V::List(v) => View::List(v.clone()),
            V::Map(v) => View::Map(v.clone()),
            V::Quantity => View::Other("kubernetes.Quantity"),
        }
    }
}

fn check(template: &str, values: &[V], expected: &str) {
    assert_eq!(format(template, values).as_deref(), Ok(expected), "{template} {values:?}");
}

fn check_error(template: &str, values: &[V], expected: &str) {
    let error = format(template, values).unwrap_err().to_string();
    assert!(error.contains(expected), "{template}: {error}");
}

#[test]
fn text_and_percent_signs() {
    check("", &[], "");
    check("100%% of %s", &[V::Str("é")], "100% of é");
    check("%s%%", &[V::Int(1)], "1%");
    check("spare values are ignored", &[V::Int(1)], "spare values are ignored");
}

#[test]
fn string_clause_writes_the_conversion_to_string() {
    check("%s %s %s", &[V::Null, V::Bool(true), V::Uint(7)], "null true 7");
    check("%s %s", &[V::Double(1e6), V::Double(1e-5)], "1e+06 1e-05");
    check("%s %s", &[V::Bytes(b"abc"), V::Type("int")], "abc int");
    check("%s %s", &[V::Span("5400s"), V::Time("2023-01-01T00:00:00Z")], "5400s 2023-01-01T00:00:00Z");
    check("%.2s", &[V::Str("abc")], "abc");
    check_error("%s", &[V::Bytes(b"\xff")], "not UTF-8");
    check_error("%s", &[V::Quantity], "was given kubernetes.Quantity");
}

#[test]
fn lists_and_maps_are_literals() {
    check(
        "%s",
        &[V::List(vec![
            V::Double(1.5),
            V::Str("a\u{a0}"),
            V::Bytes(b"b"),
            V::Null,
            V::Type("int"),
            V::Span("1s"),
            V::Time("2023-01-01T00:00:00Z"),
            V::Double(-0.0),
        ])],
        r#"[1.500000, "a\u00a0", b"b", null, int, duration("1s"), timestamp("2023-01-01T00:00:00Z"), -0.000000]"#,
    );
    check(
        "%s",
        &[V::Map(vec![(V::Str("b"), V::Int(1)), (V::Str("a"), V::List(vec![V::Double(f64::INFINITY)]))])],
        r#"{"a":["+Inf"], "b":1}"#,
    );
    check_error("%s", &[V::List(vec![V::Quantity])], "no formatting function for kubernetes.Quantity");
    check_error("%s", &[V::Map(vec![(V::Null, V::Null)])], "map key of type null_type");
}

#[test]
fn integer_clauses() {
    check("%d %d", &[V::Int(-64), V::Uint(64)], "-64 64");
    check("%b %b %b", &[V::Int(-5), V::Uint(5), V::Bool(true)], "-101 101 1");
    check("%o %o", &[V::Int(-8), V::Uint(8)], "-10 10");
    check("%x %X", &[V::Int(-255), V::Uint(255)], "-ff FF");
    check("%x %X", &[V::Str("hi\n"), V::Bytes(b"\xff\x0a")], "68690a FF0A");
    check("%d", &[V::Int(i64::MIN)], "-9223372036854775808");
    check("%x", &[V::Int(i64::MIN)], "-8000000000000000");
    check_error("%d", &[V::Double(1.0)], "%d takes integers, was given double");
    check_error("%o", &[V::Bool(true)], "was given bool");
    check_error("%b", &[V::Str("1")], "was given string");
    check_error("%x", &[V::Double(1.0)], "was given double");
}

#[test]
fn fixed_point_groups_thousands() {
    check("%f", &[V::Double(1_234_567.891)], "1,234,567.891000");
    check("%.0f %.1f", &[V::Double(0.5), V::Double(2.25)], "0 2.2");
    check("%.20f", &[V::Double(0.1)], "0.10000000000000000555");
    check("%f", &[V::Double(1e22)], "10,000,000,000,000,000,000,000.000000");
    check("%f %.0f", &[V::Double(-0.0), V::Double(-0.4)], "0.000000 -0");
    check("%f|%f|%f", &[V::Str("-Infinity"), V::Str("NaN"), V::Str("Infinity")], "-∞|NaN|∞");
    check("%.256f", &[V::Double(1.5)], "1.5");
    check("%.300f", &[V::Double(1.5)], "1.50000000000000000000000000000000000000000000");
    check_error("%f", &[V::Int(1)], "%f takes doubles, was given int");
    check_error("%f", &[V::Str("1.0")], "was given string");
}

#[test]
fn scientific_has_six_digits_and_a_least_width() {
    check("%.3e", &[V::Double(1_052.032_911_275)], "1.052033×10⁰³");
    check("%.30e|", &[V::Double(1052.0)], "                 1.052000×10⁰³|");
    check("%e", &[V::Double(-0.000_123)], "-1.230000×10⁻⁰⁴");
    check("%e|%e", &[V::Double(0.0), V::Str("NaN")], "0.000000×10⁰⁰|   NaN");
    check("%e %e", &[V::Double(1e100), V::Double(-1e-100)], "1.000000×10¹⁰⁰ -1.000000×10⁻¹⁰⁰");
    check("%e %e", &[V::Double(1_234_566.5), V::Double(1_234_567.5)], "1.234566×10⁰⁶ 1.234568×10⁰⁶");
}

#[test]
fn malformed_templates_and_missing_values() {
    check_error("%", &[V::Int(1)], "unexpected end of string");
    check_error("%s %s", &[V::Int(1)], "index 1 out of range");
    check_error("%.f", &[V::Double(1.0)], "precision needs digits");
    check_error("%.3", &[V::Double(1.0)], "could not find end of precision specifier");
    check_error("%q", &[V::Int(1)], "unrecognized formatting clause \"q\"");
    check_error("%.1001f", &[V::Double(1.0)], "exceeds maximum allowed precision 1000");
    check_error("%.99999999999999999999f", &[V::Double(1.0)], "exceeds maximum");
}

#[test]
fn doubles_as_strings() {
    for (value, expected) in [
        (1.5, "1.5"),
        (-0.0, "-0"),
        (100_000.0, "100000"),
        (1_000_000.0, "1e+06"),
        (123_456_789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (1e-100, "1e-100"),
        (f64::NAN, "NaN"),
        (f64::INFINITY, "+Inf"),
        (f64::NEG_INFINITY, "-Inf"),
    ] {
        assert_eq!(double_to_string(value), expected);
    }
}

#[test]
fn clauses_check_static_kinds() {
    assert!(Clause::String.check(Kind::Dyn, "dyn").is_ok());
    assert!(Clause::String.check(Kind::Other, "net.IP").is_err());
    assert!(Clause::Fixed(6).check(Kind::String, "string").is_ok());
    assert!(Clause::Decimal.check(Kind::String, "string").is_err());
    assert!(Clause::Binary.check(Kind::Bool, "bool").is_ok());
    assert!(Clause::HexUpper.check(Kind::List, "list").is_err());
}
