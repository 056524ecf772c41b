//! Counts that only fall: circles between modules, long functions, types with many methods, words that are not plain.
//!
//! `ratchets.list` has how much of each there is and where. A count that rises fails the test, and so does a row that is out of date:
//! `UPDATE_RATCHETS=1 cargo test -p lazaret-tidy --test ratchets` writes lower counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use lazaret_tidy::{Counts, Modules, Workspace, files, functions, methods, product_code, without_text};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ratchets.list");
/// The first lines of the list.
const HEAD: &str = "# MEASURE | PLACE | COUNT: what is to become less. Counts only fall; see ratchets.rs.\n";
/// A function with more lines does not fit a screen.
const FUNCTION_LINES_MAX: usize = 70;
/// A type with more methods is several types.
const METHODS_MAX: usize = 60;
/// Words for which there is a plainer one: in comments and names of functions.
const WORDS: &[&str] = &["tell", "tells", "told", "hear", "hears", "heard", "anew"];
/// The same in documents.
const WORDS_OF_DOCUMENTS: &[&str] = &["nobody", "whoever", "somebody", "anew"];

#[test]
fn what_is_to_become_less_never_becomes_more() {
    let found = found();
    let listed = Counts::parse(&fs::read_to_string(LIST).unwrap()).unwrap();
    if std::env::var_os("UPDATE_RATCHETS").is_some() {
        fs::write(LIST, format!("{HEAD}{}", found.lowered(&listed).rows())).unwrap();
        return;
    }
    let (rose, fell) = found.differences(&listed);
    assert!(rose.is_empty(), "more than there were:\n{}", rose.join("\n"));
    assert!(fell.is_empty(), "fewer than listed; UPDATE_RATCHETS=1 writes the list:\n{}", fell.join("\n"));
}

fn found() -> Counts {
    let workspace = Workspace::load().unwrap();
    let mut counts = Counts::default();
    for package in &workspace.crates {
        let name = package.short();
        counts.add("circles", name, Modules::load(&package.folder.join("src")).unwrap().circles().len());
        sizes(&mut counts, name, &package.folder.join("src"));
        for path in files(&package.folder, ".rs") {
            comments(&mut counts, name, &fs::read_to_string(path).unwrap());
        }
    }
    for path in files(&workspace.root.join("docs"), ".md") {
        let place = path.strip_prefix(&workspace.root).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        counts.add("words of documents", &place, words(&text, WORDS_OF_DOCUMENTS));
    }
    counts
}

/// Long functions by file, and methods of types that have many.
fn sizes(counts: &mut Counts, name: &str, folder: &Path) {
    let mut of_types = Counts::default();
    let mut types = std::collections::BTreeMap::<String, usize>::new();
    for path in files(folder, ".rs") {
        let place = format!("{name}/{}", path.strip_prefix(folder).unwrap().display());
        if place.contains("tests") {
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let code = without_text(product_code(&source));
        let long = functions(&code).iter().filter(|one| one.lines > FUNCTION_LINES_MAX).count();
        counts.add("long functions", &place, long);
        let named = functions(&code).iter().map(|one| words(&one.name.replace('_', " "), WORDS)).sum();
        of_types.add("names of functions", name, named);
        for (name, count) in methods(&code) {
            *types.entry(name).or_default() += count;
        }
    }
    for (ty, count) in types.into_iter().filter(|(_, count)| *count > METHODS_MAX) {
        counts.add("methods", &format!("{name}::{ty}"), count);
    }
    counts.extend(of_types);
}

/// Words of comments that are not plain.
fn comments(counts: &mut Counts, name: &str, source: &str) {
    let comments = source.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    counts.add("words of comments", name, comments.map(|line| words(line, WORDS)).sum());
}

/// How often a text has one of the words.
fn words(text: &str, wanted: &[&str]) -> usize {
    let all = text.split(|c: char| !c.is_alphanumeric());
    all.filter(|word| wanted.iter().any(|one| word.eq_ignore_ascii_case(one))).count()
}
