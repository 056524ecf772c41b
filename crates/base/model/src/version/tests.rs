use alloc::{string::String, vec::Vec};
use core::{cmp::Ordering, hash::BuildHasher};
use std::string::ToString;

use proptest::prelude::*;
use rustc_hash::FxBuildHasher;

use super::{Version, VersionError};

fn v(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn the_standard_order() {
    // Each precedes the next.
    let ascending = [
        "0.0.0-0",
        "0.0.0",
        "0.0.1",
        "0.1.0",
        "1.0.0--",
        "1.0.0-0",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-A",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.9.0",
        "1.10.0",
        "2.0.0",
        "18446744073709551615.0.0",
    ];
    // A lone hyphen is a word, so numbers come before it.
    let mut sorted: Vec<_> = ascending.iter().map(|text| v(text)).collect();
    sorted.sort();
    let position = |text: &str| sorted.iter().position(|version| version.to_string() == text).unwrap();
    assert!(position("1.0.0--") > position("1.0.0-10"));
    for pair in ascending.iter().filter(|text| **text != "1.0.0--").collect::<Vec<_>>().windows(2) {
        assert_eq!(v(pair[0]).cmp(&v(pair[1])), Ordering::Less, "{pair:?}");
        assert_eq!(v(pair[1]).cmp(&v(pair[0])), Ordering::Greater, "{pair:?}");
    }
}

#[test]
fn build_metadata_is_shown_but_not_compared() {
    let (plain, built) = (v("1.2.3-rc.1"), v("1.2.3-rc.1+git.00f"));
    assert_eq!(plain, built);
    assert_eq!(FxBuildHasher.hash_one(&plain), FxBuildHasher.hash_one(&built));
    assert_eq!(built.to_string(), "1.2.3-rc.1+git.00f");
    assert_eq!((built.major(), built.minor(), built.patch()), (1, 2, 3));
}

#[test]
fn strict_refuses() {
    let number = |text: &str| VersionError::Number(text.into());
    let zero = |text: &str| VersionError::LeadingZero(text.into());
    let identifier = |text: &str| VersionError::Identifier(text.into());
    for (text, error) in [
        ("", VersionError::Parts),
        ("1", VersionError::Parts),
        ("1.2", VersionError::Parts),
        ("v1.2.3", number("v1")),
        ("1.2.3.4", number("3.4")),
        ("1..3", number("")),
        ("1.2.x", number("x")),
        (" 1.2.3", number(" 1")),
        ("1.2.18446744073709551616", number("18446744073709551616")),
        ("01.2.3", zero("01")),
        ("1.02.3", zero("02")),
        ("1.2.03", zero("03")),
        ("1.2.3-01", zero("01")),
        ("1.2.3-", identifier("")),
        ("1.2.3-a..b", identifier("")),
        ("1.2.3-a_b", identifier("a_b")),
        ("1.2.3+", identifier("")),
        ("1.2.3+a+b", identifier("a+b")),
        ("1.2.3-é", identifier("é")),
    ] {
        assert_eq!(Version::parse(text).unwrap_err(), error, "{text:?}");
    }
}

#[test]
fn normalized() {
    for (text, normal) in [
        ("1", Some("1.0.0")),
        ("v1", Some("1.0.0")),
        ("1.2", Some("1.2.0")),
        ("v01.002.0003", Some("1.2.3")),
        ("1.2.3-rc.1+x", Some("1.2.3-rc.1+x")),
        ("000.00.0", Some("0.0.0")),
        ("1.2.00-rc", Some("1.2.0-rc")),
        ("1.2.-rc", Some("1.2.0-rc")),
        ("1.2.+x", Some("1.2.0+x")),
        ("vv1.2.3", None),
        ("V1.2.3", None),
        (" 1.2.3", None),
        ("", None),
        ("1.", None),
        ("1.2-rc", None),
        ("1+x", None),
        ("1.2.3-01", None),
    ] {
        assert_eq!(
            Version::parse_normalized(text).ok().map(|v| v.to_string()).as_deref(),
            normal,
            "{text:?}"
        );
    }
    assert_eq!(Version::parse_normalized("1.2-rc"), Err(VersionError::ShortWithSuffix));
}

fn any_text() -> impl Strategy<Value = String> {
    "(0|[1-9][0-9]?)\\.[0-2]\\.[0-2](-(0|[1-9][0-9]{0,2}|[a-c-]{1,2}|[0-9][a-b])(\\.(0|[1-3]|[a-c]))?)?(\\+[0-9a-b]{1,3})?"
}

proptest! {
    #[test]
    fn writing_gives_the_text_back(text in any_text()) {
        prop_assert_eq!(v(&text).to_string(), text.clone());
        prop_assert_eq!(Version::parse_normalized(&text).unwrap().to_string(), text);
    }

    #[test]
    fn the_order_is_total(a in any_text(), b in any_text(), c in any_text()) {
        let (a, b, c) = (v(&a), v(&b), v(&c));
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
        if a == b {
            prop_assert_eq!(a.cmp(&c), b.cmp(&c));
            prop_assert_eq!(FxBuildHasher.hash_one(&a), FxBuildHasher.hash_one(&b));
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,16}") {
        let _ = Version::parse(&text).map(|version| version.to_string());
        let _ = Version::parse_normalized(&text).map(|version| version.to_string());
    }
}
