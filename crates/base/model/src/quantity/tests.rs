use alloc::{format, string::String, vec::Vec};
use core::hash::BuildHasher;
use std::string::ToString;

use num_bigint::BigInt;
use proptest::prelude::*;
use rustc_hash::FxBuildHasher;

use super::{Format, Quantity, QuantityError};

use Format::{BinarySi as Bin, DecimalExponent as Exp, DecimalSi as Dec};

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap()
}

/// Text, canonical form, format, and what Kubernetes' `AsInt64` answers.
const FACTS: &[(&str, &str, Format, Option<i64>)] = &[
    ("0", "0", Dec, Some(0)),
    ("-0", "0", Dec, Some(0)),
    ("00", "0", Dec, Some(0)),
    ("0Ki", "0", Bin, Some(0)),
    ("0.0", "0", Dec, None),
    ("1", "1", Dec, Some(1)),
    ("-1", "-1", Dec, Some(-1)),
    ("+1", "1", Dec, Some(1)),
    ("007", "7", Dec, Some(7)),
    ("1.", "1", Dec, Some(1)),
    (".5", "500m", Dec, None),
    ("-.5", "-500m", Dec, None),
    ("0.1", "100m", Dec, None),
    ("100m", "100m", Dec, None),
    ("1000m", "1", Dec, None),
    ("1500m", "1500m", Dec, None),
    ("1.5", "1500m", Dec, None),
    ("1.500", "1500m", Dec, None),
    ("0.001", "1m", Dec, None),
    ("0.0001", "100u", Dec, None),
    ("1n", "1n", Dec, None),
    ("1000n", "1u", Dec, None),
    ("1500n", "1500n", Dec, None),
    ("0.1n", "1n", Dec, None),
    ("-0.1n", "-1n", Dec, None),
    ("1e-10", "1e-9", Exp, None),
    ("1e-4000000000", "1e-9", Exp, None),
    ("1.0000000001", "1000000001n", Dec, None),
    ("1u", "1u", Dec, None),
    ("999u", "999u", Dec, None),
    ("1k", "1k", Dec, Some(1000)),
    ("1000", "1k", Dec, Some(1000)),
    ("1000k", "1M", Dec, Some(1_000_000)),
    ("1500k", "1500k", Dec, Some(1_500_000)),
    ("999999", "999999", Dec, Some(999_999)),
    ("12M", "12M", Dec, Some(12_000_000)),
    ("1G", "1G", Dec, Some(1_000_000_000)),
    ("1.G", "1G", Dec, Some(1_000_000_000)),
    ("1T", "1T", Dec, Some(1_000_000_000_000)),
    ("1P", "1P", Dec, Some(1_000_000_000_000_000)),
    ("1E", "1E", Dec, Some(1_000_000_000_000_000_000)),
    ("100E", "100E", Dec, None),
    ("1e3", "1e3", Exp, Some(1000)),
    ("1E3", "1e3", Exp, Some(1000)),
    ("1e-3", "1e-3", Exp, None),
    ("12e0", "12", Exp, Some(12)),
    ("1e+1", "10", Exp, Some(10)),
    ("1e2", "100", Exp, Some(100)),
    ("1e100", "10e99", Exp, None),
    ("0e99999", "0", Exp, Some(0)),
    ("123456789e-4", "12345678900e-6", Exp, None),
    ("1Ki", "1Ki", Bin, Some(1024)),
    ("1024", "1024", Dec, Some(1024)),
    ("1023Ki", "1023Ki", Bin, Some(1_047_552)),
    ("1024Ki", "1Mi", Bin, Some(1_048_576)),
    ("1000Ki", "1000Ki", Bin, Some(1_024_000)),
    ("1.5Ki", "1536", Bin, None),
    ("1.1Ki", "1126400m", Bin, None),
    ("0.5Ki", "512", Bin, None),
    ("-0.5Ki", "-512", Bin, None),
    ("0.0005Ki", "512m", Dec, None),
    ("1536Mi", "1536Mi", Bin, Some(1_610_612_736)),
    ("1.5Gi", "1536Mi", Bin, None),
    ("80Gi", "80Gi", Bin, Some(85_899_345_920)),
    ("2048Gi", "2Ti", Bin, Some(2_199_023_255_552)),
    ("1Ti", "1Ti", Bin, Some(1_099_511_627_776)),
    ("1Pi", "1Pi", Bin, None),
    ("1Ei", "1Ei", Bin, None),
    ("7Ei", "7Ei", Bin, None),
    ("8Ei", "9223372036854775807", Bin, None),
    ("1024Ei", "9223372036854775807", Bin, None),
    ("-8Ei", "-9223372036854775807", Bin, None),
    ("-1Ki", "-1Ki", Bin, Some(-1024)),
    ("-1.5Gi", "-1536Mi", Bin, None),
    ("0.1Mi", "104857600m", Bin, None),
    ("9223372036854775807", "9223372036854775807", Dec, None),
    ("9223372036854775808", "9223372036854775808", Dec, None),
    ("9223372036854775807Ki", "9223372036854775807", Bin, None),
    ("123456789012345678901234567890", "123456789012345678901234567890", Dec, None),
    ("0.123456789123", "123456790n", Dec, None),
    ("Ki", "0", Bin, Some(0)),
    ("m", "0", Dec, None),
    ("-", "0", Dec, Some(0)),
    (".", "0", Dec, Some(0)),
    // Ours: Kubernetes writes 1 and means 10^21.
    ("1000E", "1000E", Dec, None),
];

#[test]
fn facts() {
    for &(text, canonical, format, held) in FACTS {
        let quantity = q(text);
        assert_eq!(quantity.to_string(), canonical, "canonical form of {text}");
        assert_eq!(quantity.format(), format, "format of {text}");
        assert_eq!(quantity.as_i64_if_held_so(), held, "AsInt64 of {text}");
    }
}

#[test]
fn refusals() {
    let number = |text: &str| QuantityError::Number(text.into());
    let suffix = |text: &str| QuantityError::Suffix(text.into());
    for text in ["", " ", "1 ", " 1", "x", "1.2.3", "1,5", "½", "Pi", "Ei", ".Ei", "e-10", "1e3.", "1B"] {
        assert_eq!(Quantity::parse(text), Err(number(text)), "{text:?}");
    }
    for (text, wrong) in [
        ("1e", "e"),
        ("1i", "i"),
        ("1K", "K"),
        ("1ki", "ki"),
        ("1-3", "-3"),
        ("1ee3", "ee3"),
        ("1Mi3", "Mi3"),
    ] {
        assert_eq!(Quantity::parse(text), Err(suffix(wrong)), "{text:?}");
    }
    for text in ["1e2000", "1e9223372036854775807", &"9".repeat(2000), &format!("0.{}", "1".repeat(2000))] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Range(text.into())));
    }
}

#[test]
fn three_words_are_enough() {
    assert!(size_of::<Quantity>() <= 24, "{}", size_of::<Quantity>());
}

#[test]
fn number_and_writing_are_two_things() {
    let plain = q("1024");
    let binary = q("1Ki");
    assert_eq!(plain, binary);
    assert_eq!(FxBuildHasher.hash_one(&plain), FxBuildHasher.hash_one(&binary));
    assert_eq!(plain.with_format(Bin).to_string(), "1Ki");
    assert_eq!(binary.with_format(Exp).to_string(), "1024");
    assert_eq!(Quantity::from_i64_format(5 << 30, Bin).to_string(), "5Gi");
    assert_eq!(Quantity::from_milli(1500, Dec).to_string(), "1500m");
    assert_eq!(Quantity::from_milli(i128::MAX, Exp).to_string(), format!("{}e-3", i128::MAX));
}

#[test]
fn sums_take_the_format_of_the_first_that_is_not_zero() {
    assert_eq!(q("0").add(&q("1Ki")).format(), Bin);
    assert_eq!(q("0").sub(&q("1Ki")).to_string(), "-1Ki");
    assert_eq!(q("1").add(&q("1Ki")).to_string(), "1025");
    assert_eq!(q("1Ki").add(&q("1k")).to_string(), "2024");
    assert_eq!(q("1Gi").sub(&q("1Gi")).to_string(), "0");
    assert_eq!(["1Gi", "512Mi", "512Mi"].map(q).into_iter().sum::<Quantity>().to_string(), "2Gi");
}

#[test]
fn sums_leave_64_bits_and_come_back() {
    let exa = q("7Ei");
    let many = exa.mul_i64(1 << 40).mul_i64(1 << 40);
    assert_eq!(many.to_string(), "8462480737302404222943232Ei");
    assert!(many > exa && exa > many.neg());
    assert_eq!(many.value_i64_rounded_up(), None);
    let back = many.sub(&many).add(&q("1"));
    assert_eq!((back.as_i64(), back.is_integer()), (Some(1), true));
}

#[test]
fn whole_numbers_and_roundings() {
    for (text, exact, rounded, milli) in [
        ("1", Some(1), Some(1), Some(1000)),
        ("1000m", Some(1), Some(1), Some(1000)),
        ("1100m", None, Some(2), Some(1100)),
        ("-1100m", None, Some(-2), Some(-1100)),
        ("1n", None, Some(1), None),
        ("1.5Gi", Some(1_610_612_736), Some(1_610_612_736), Some(1_610_612_736_000)),
        ("9223372036854775807", Some(i64::MAX), Some(i64::MAX), None),
        ("-9223372036854775808", Some(i64::MIN), Some(i64::MIN), None),
        ("9223372036854775808", None, None, None),
        ("1e40", None, None, None),
    ] {
        let quantity = q(text);
        assert_eq!(quantity.as_i64(), exact, "{text}");
        assert_eq!(quantity.value_i64_rounded_up(), rounded, "{text}");
        assert_eq!(quantity.milli_exact(), milli, "{text}");
    }
}

#[test]
fn how_a_sum_is_held_follows_its_parts() {
    for (sum, held) in [
        (q("1k").add(&q("1")), Some(1001)),
        (q("1").add(&q("1m")), None),
        (q("999m").add(&q("1m")), None),
        (q("1").add(&q("1Pi")), None),
        (q("1").add(&q("0.0")), Some(1)),
        (q("9E").add(&q("9E")), None),
        (q("1E").mul_i64(9), Some(9_000_000_000_000_000_000)),
        (q("1E").mul_i64(10), None),
        (q("1E").mul_i64(10).mul_i64(0), None),
        (q("500m").mul_i64(0), Some(0)),
        (q("500m").mul_i64(2), None),
    ] {
        assert_eq!(sum.as_i64_if_held_so(), held, "{sum}");
    }
}

#[test]
fn floats_round_as_kubernetes_rounds() {
    for (text, float) in [
        ("0", 0.0),
        ("1500m", 1.5),
        ("1.5Gi", 1_610_612_736.0),
        ("1e21", 1e21),
        ("-1e100", -1e100),
        ("1e308", 1e308),
        ("1e309", f64::INFINITY),
        ("-1e1000", f64::NEG_INFINITY),
        // The nearest float is one less: the mantissa was rounded before it was scaled.
        ("18446744073709551617E", f64::from_bits(0x47ab_c16d_674e_c801)),
    ] {
        assert_eq!(q(text).approximate_f64().to_bits(), float.to_bits(), "{text}");
    }
}

/// Texts over all of the grammar, with few and with many digits.
fn any_text() -> impl Strategy<Value = String> {
    let digits = prop_oneof!["[0-9]{1,4}", "[0-9]{1,22}", "[1-9]0{1,12}", "[0-9]{30,60}"];
    let fraction = prop_oneof![Just(String::new()), "\\.[0-9]{0,12}"];
    let suffix = "(|[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]|[eE][1-4][0-9])";
    ("[+-]?", digits, fraction, suffix)
        .prop_map(|(sign, digits, fraction, suffix)| sign + &digits + &fraction + &suffix)
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    any_text().prop_map(|text| q(&text))
}

fn nanos(quantity: &Quantity) -> BigInt {
    quantity.into()
}

fn hash(quantity: &Quantity) -> u64 {
    FxBuildHasher.hash_one(quantity)
}

/// The number of a decimal text, times 10^9 and rounded away from zero, by another way than the parser's.
fn reference_nanos(text: &str) -> BigInt {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.trim_start_matches('+')),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let mantissa: BigInt = format!("0{whole}{fraction}").parse().unwrap();
    let si = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"].iter().position(|s| *s == suffix);
    let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].iter().position(|s| *s == suffix && !s.is_empty());
    let ten: fn(usize) -> BigInt = |n| BigInt::from(10).pow(u32::try_from(n).unwrap());
    let (numerator, denominator) = match (si, binary) {
        (_, Some(step)) => (mantissa * (BigInt::from(1) << (10 * step)) * ten(9), ten(fraction.len())),
        (Some(step), None) => (mantissa * ten(3 * step), ten(fraction.len())),
        (None, None) => {
            let exponent: i32 = suffix[1..].parse().unwrap();
            (mantissa * ten(usize::try_from(exponent + 9).unwrap()), ten(fraction.len()))
        }
    };
    let rounded = (&numerator + &denominator - 1) / &denominator;
    let limit = BigInt::from(i64::MAX) * ten(9);
    let capped = if binary.is_some() && rounded > limit { limit } else { rounded };
    if negative { -capped } else { capped }
}

proptest! {
    #[test]
    fn parsing_is_exact(text in any_text()) {
        prop_assert_eq!(nanos(&q(&text)), reference_nanos(&text));
    }

    #[test]
    fn writing_keeps_the_number(quantity in any_quantity(), format in prop_oneof![Just(Dec), Just(Bin), Just(Exp)]) {
        let quantity = quantity.with_format(format);
        let text = quantity.to_string();
        let again = q(&text).with_format(format);
        if text.ends_with('i') && nanos(&quantity) != reference_nanos(&text) {
            // A binary suffix stops at 2^63-1 when it is read again.
            prop_assert_eq!(again.neg().max(again).as_i64(), Some(i64::MAX));
        } else {
            prop_assert_eq!(again.to_string(), text);
            prop_assert_eq!(again, quantity);
        }
    }

    #[test]
    fn order_and_hash_are_those_of_the_number(a in any_quantity(), b in any_quantity()) {
        prop_assert_eq!(a.cmp(&b), nanos(&a).cmp(&nanos(&b)));
        let same = Quantity::from(nanos(&a));
        prop_assert_eq!(&same, &a);
        prop_assert_eq!(hash(&same), hash(&a));
    }

    #[test]
    fn arithmetic_is_exact(a in any_quantity(), b in any_quantity(), factor: i64) {
        prop_assert_eq!(nanos(&a.add(&b)), nanos(&a) + nanos(&b));
        prop_assert_eq!(nanos(&a.sub(&b)), nanos(&a) - nanos(&b));
        prop_assert_eq!(nanos(&a.neg()), -nanos(&a));
        prop_assert_eq!(nanos(&a.mul_i64(factor)), nanos(&a) * factor);
        prop_assert_eq!(a.add(&b).sub(&b), a);
    }

    #[test]
    fn sorting_agrees(mut quantities in proptest::collection::vec(any_quantity(), 0..20)) {
        let mut numbers: Vec<BigInt> = quantities.iter().map(nanos).collect();
        quantities.sort();
        numbers.sort();
        prop_assert_eq!(quantities.iter().map(nanos).collect::<Vec<_>>(), numbers);
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,24}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert_eq!(q(&quantity.to_string()), quantity);
        }
    }
}
