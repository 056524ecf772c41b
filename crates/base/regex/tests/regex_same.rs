//! The same answers as `regex`, on random patterns in the spelling of `lazaret_cel` and random texts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use lazaret_regex::RegexBuilder;

/// Random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// Characters with several cases, of several scripts, and of one to four bytes.
const LETTERS: [&str; 24] = [
    "a", "b", "B", "k", "K", "s", "\u{17f}", "\u{212a}", "0", "7", "_", "-", " ", "\n", "é", "É", "σ", "ς",
    "Σ", "ß", "ẞ", "ǅ", "日", "😀",
];
const SETS: [&str; 22] = [
    ".",
    "[0-9]",
    "[^0-9]",
    "[0-9A-Za-z_]",
    r"[\t\n\f\r\x20]",
    r"[^\t\n\f\r\x20]",
    "[[:alpha:]]",
    "[[:^alpha:]]",
    "[[:word:]_]",
    r"\p{Greek}",
    r"\P{Greek}",
    r"\p{Lu}",
    r"\P{L}",
    r"\p{Nd}",
    r"[\p{Han}\x{61}]",
    r"[^\p{Ll}\x{30}-\x{39}]",
    r"[\x{61}-\x{6b}]",
    r"[^\x{73}]",
    r"[\x{61}[^\x{62}]]",
    r"[^[^0-9A-Za-z_]\x{61}]",
    r"\p{Any}",
    r"[\x{0}-\x{10ffff}]",
];
const PLACES: [&str; 6] = ["^", "$", r"\A", r"\z", r"(?-u:\b)", r"(?-u:\B)"];
const REPEATS: [&str; 12] =
    ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}", "{0}", "{0,}"];
const FLAGS: [&str; 9] = ["i", "m", "s", "U", "im", "-i", "i-s", "-U", "is-m"];

/// A few seconds.
const PATTERNS: usize = 2_000;

fn pattern(dice: &mut Dice, depth: usize, out: &mut String) {
    for branch in 0..=dice.below(3).saturating_sub(1) {
        if branch > 0 {
            out.push('|');
        }
        for _ in 0..dice.below(4) {
            let repeats = match dice.below(if depth == 0 { 8 } else { 11 }) {
                0..=3 => {
                    out.push_str(&lazaret_regex::escape(dice.pick(&LETTERS)));
                    true
                }
                4..=6 => {
                    out.push_str(dice.pick(&SETS));
                    true
                }
                7 => {
                    out.push_str(dice.pick(&PLACES));
                    true
                }
                8 => {
                    out.push_str("(?:");
                    pattern(dice, depth - 1, out);
                    out.push(')');
                    true
                }
                9 => {
                    *out += &format!("(?{}:", dice.pick(&FLAGS));
                    pattern(dice, depth - 1, out);
                    out.push(')');
                    true
                }
                _ => {
                    *out += &format!("(?{})", dice.pick(&FLAGS));
                    false
                }
            };
            if repeats && dice.below(3) == 0 {
                out.push_str(dice.pick(&REPEATS));
            }
        }
    }
}

#[test]
fn answers_are_those_of_regex() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut matched = 0;
    for _ in 0..PATTERNS {
        let mut text = String::new();
        pattern(&mut dice, 3, &mut text);
        let (ours, theirs) = (RegexBuilder::new(&text).build(), regex::Regex::new(&text));
        let (Ok(ours), Ok(theirs)) = (&ours, &theirs) else {
            assert!(ours.is_err() == theirs.is_err(), "{text}: {ours:?} {theirs:?}");
            continue;
        };
        for _ in 0..8 {
            let haystack: String = (0..dice.below(12)).map(|_| dice.pick(&LETTERS)).collect();
            let all: Vec<&str> = theirs.find_iter(&haystack).map(|one| one.as_str()).collect();
            assert_eq!(
                ours.find_iter(&haystack).map(|one| one.as_str()).collect::<Vec<_>>(),
                all,
                "{text} on {haystack:?}"
            );
            assert_eq!(
                ours.find(&haystack).map(|one| one.as_str()),
                theirs.find(&haystack).map(|one| one.as_str()),
                "{text} on {haystack:?}"
            );
            // Of an edge of words `regex` sometimes says that it does not match where it finds a match.
            assert_eq!(ours.is_match(&haystack), theirs.find(&haystack).is_some(), "{text} on {haystack:?}");
            matched += usize::from(!all.is_empty());
        }
    }
    assert!(matched > PATTERNS, "{matched} of {PATTERNS} times 8 texts");
}

#[test]
fn what_is_no_pattern_is_refused() {
    for wrong in [
        "(",
        ")",
        "a)",
        "[a",
        "*",
        "a{2",
        "a{2,1}",
        r"\",
        r"\q",
        r"\p{Nope}",
        r"\pL",
        "(?x)",
        "[b-a]",
        "[[:nope:]]",
        r"[\x{110000}]",
        "(?",
        "a{}",
    ] {
        assert!(RegexBuilder::new(wrong).build().is_err(), "{wrong}");
    }
    let deep = "(?:".repeat(10_000) + &")".repeat(10_000);
    assert!(RegexBuilder::new(&deep).build().is_err());
    let large = r"(?:(?:[\x{61}-\x{7a}]{1000}){1000}){1000}";
    assert!(matches!(
        RegexBuilder::new(large).size_limit(4 << 20).build(),
        Err(lazaret_regex::Error::CompiledTooBig(_))
    ));
}
