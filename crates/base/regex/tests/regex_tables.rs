//! The tables are those of `regex`. `UPDATE_TABLES=1` writes them anew, for a new edition of Unicode.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::wildcard_enum_match_arm, reason = "a property is a class, or one character")]

#[path = "../src/set.rs"]
#[allow(dead_code, unreachable_pub, reason = "of the crate only the tables are needed")]
mod set;
#[path = "../src/unicode.rs"]
#[allow(dead_code, unreachable_pub, reason = "of the crate only the tables are needed")]
mod unicode;

extern crate alloc;

use std::{collections::BTreeSet, env, fs, path::Path};

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};
use unicode::{CATEGORIES, SCRIPTS};

const LAST: usize = 0x10_FFFF;

/// The characters of a property, as `regex` knows it.
fn ranges(name: &str) -> Vec<(u32, u32)> {
    let hir = regex_syntax::parse(&format!("[\\p{{{name}}}&&\\p{{Any}}]")).unwrap();
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().map(|one| (one.start().into(), one.end().into())).collect()
        }
        HirKind::Literal(literal) => {
            let c = std::str::from_utf8(&literal.0).unwrap().chars().next().unwrap();
            vec![(c.into(), c.into())]
        }
        other => panic!("{name}: {other:?}"),
    }
}

fn number(mut value: usize, bytes: &mut Vec<u8>) {
    while value > 0x7f {
        bytes.push(0x80 | u8::try_from(value & 0x7f).unwrap());
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
}

/// Runs of characters with the same number; those without a name have `rest`.
fn runs(names: &[&str], rest: u8) -> Vec<u8> {
    let mut numbers = vec![rest; LAST + 1];
    for (at, name) in names.iter().enumerate().filter(|(_, name)| **name != "Cs") {
        for (low, high) in ranges(name) {
            for c in low..=high {
                // Surrogates are no characters: they go with what is before them.
                let place = &mut numbers[usize::try_from(c).unwrap()];
                assert!(*place == rest || (0xd800..0xe000).contains(&c), "{name} {c:x} has two");
                *place = u8::try_from(at).unwrap();
            }
        }
    }
    let mut bytes = Vec::new();
    let mut start = 0;
    for at in 1..=LAST + 1 {
        if at > LAST || numbers[at] != numbers[start] {
            number(at - start, &mut bytes);
            bytes.push(numbers[start]);
            start = at;
        }
    }
    bytes
}

fn orbits() -> Vec<u8> {
    let (mut known, mut bytes, mut last) = (BTreeSet::new(), Vec::new(), 0);
    for c in (0..=0x10_FFFF).filter_map(char::from_u32) {
        if known.contains(&c) {
            continue;
        }
        let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
        class.try_case_fold_simple().unwrap();
        let orbit: Vec<char> = class.iter().flat_map(|range| range.start()..=range.end()).collect();
        if orbit.len() == 1 {
            continue;
        }
        let at = |c: char| usize::try_from(u32::from(c)).unwrap();
        number((at(c) - last) << 2 | (orbit.len() - 2), &mut bytes);
        last = at(c);
        orbit.windows(2).for_each(|pair| number(at(pair[1]) - at(pair[0]), &mut bytes));
        known.extend(orbit);
    }
    bytes
}

#[test]
fn tables_are_those_of_regex() {
    let scripts: Vec<&str> = SCRIPTS.split(' ').collect();
    let tables = [
        ("categories.bin", runs(&CATEGORIES, 4)),
        ("scripts.bin", runs(&scripts, u8::try_from(scripts.len()).unwrap())),
        ("orbits.bin", orbits()),
    ];
    for (name, bytes) in tables {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(name);
        if env::var_os("UPDATE_TABLES").is_some() {
            fs::write(&path, &bytes).unwrap();
        }
        assert!(fs::read(&path).unwrap() == bytes, "{name} is another: write it anew with UPDATE_TABLES=1");
    }
}
