//! The counts of the paths at the last update, in a file that is part of the repository.

use std::{collections::BTreeMap, fs, path::PathBuf};

use anyhow::{Context, Result};

use crate::count::print;

/// More than this share above the baseline is a regression; as much below it is worth a new baseline.
const TOLERANCE_PERCENT: u64 = 10;
/// By which compiler and for which machine this was made.
const BUILT_BY: &str = env!("BUILT_BY");

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("baseline.txt")
}

/// Prints what was counted beside the baseline; says whether none is much above it.
pub(crate) fn check(counted: &[(&'static str, u64)]) -> Result<bool> {
    let text = fs::read_to_string(file()).context("read baseline.txt")?;
    let baseline = parse(&text);
    let same = text.lines().next() == Some(BUILT_BY);
    if !same {
        print(&format!("the baseline was not made by {BUILT_BY}: nothing is compared"));
    }
    let mut good = true;
    print(&format!("{:<20} {:>12} {:>12}", "INSTRUCTIONS OF", "NOW", "BASELINE"));
    for (name, now) in counted {
        let before = baseline.get(*name).copied().filter(|_| same);
        let verdict = before.map_or("", |before| verdict(before, *now));
        good &= verdict != WORSE;
        let before = before.map_or_else(|| "-".to_owned(), |before| before.to_string());
        print(&format!("{name:<20} {now:>12} {before:>12} {verdict}"));
    }
    if !good {
        print(
            "a path takes more than a tenth more instructions: find out why, or accept it with `update` and say so in the commit",
        );
    }
    Ok(good)
}

const WORSE: &str = "WORSE";

fn verdict(before: u64, now: u64) -> &'static str {
    if now * 100 > before * (100 + TOLERANCE_PERCENT) {
        WORSE
    } else if now * (100 + TOLERANCE_PERCENT) < before * 100 {
        "better: update the baseline"
    } else {
        ""
    }
}

/// Writes what was counted as the new baseline.
pub(crate) fn update(counted: &[(&'static str, u64)]) -> Result<()> {
    let lines = counted.iter().map(|(name, count)| format!("{name} {count}\n"));
    let text: String = std::iter::once(format!("{BUILT_BY}\n")).chain(lines).collect();
    print(text.trim_end());
    fs::write(file(), text).context("write baseline.txt")
}

fn parse(text: &str) -> BTreeMap<&str, u64> {
    text.lines()
        .skip(1)
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(name, count)| Some((name, count.parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_a_tenth_is_worse() {
        assert_eq!([1_000, 1_100, 1_101].map(|now| verdict(1_000, now)), ["", "", WORSE]);
        assert_eq!([910, 900].map(|now| verdict(1_000, now)), ["", "better: update the baseline"]);
    }

    #[test]
    fn the_baseline_has_every_path() {
        let text = fs::read_to_string(file()).unwrap();
        let names: Vec<&str> = parse(&text).into_keys().collect();
        let mut known: Vec<&str> = crate::paths::ALL.iter().map(|path| path.name).collect();
        known.sort_unstable();
        assert_eq!(names, known);
    }
}
