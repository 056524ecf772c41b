//! Each annotation and label of ours has a row in `docs/security.md` that says what a forged one gains, and a test that forges it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs};

use lazaret_tidy::{Workspace, files, literals};

/// Names of the same form that are neither annotations nor labels of objects in a cluster, or are those of tools that run no cluster: what they are.
const OTHERS: &[(&str, &str)] = &[
    ("bench", "a label and a taint of what a benchmark makes"),
    ("bench-devices", "a label of what a benchmark makes"),
    ("container", "an annotation of a container in the node's runtime"),
    ("node", "a label of a container in the node's runtime"),
    ("sandbox", "an annotation of a container in the node's runtime"),
    ("selected", "a key of a taint that is never written"),
    ("unreadable", "what stands for the name of a taint or request that cannot be read"),
    ("driver.lazaret.dev/failsOnCommand", "an attribute of a device"),
    ("hollow.lazaret.dev/volumes", "the name of a provisioner"),
    ("lists.lazaret.dev/match", "an attribute of a device of a benchmark"),
    ("shares.lazaret.dev/index", "an attribute of a device of a benchmark"),
];
const PREFIX: &str = "lazaret.dev/";

/// Whether a literal is a key: `lazaret.dev/NAME`, or one of a part of it.
fn is_key(text: &str) -> bool {
    let Some((group, name)) = text.split_once('/') else { return false };
    let is_ours = group == "lazaret.dev" || group.ends_with(".lazaret.dev");
    let is_version = name.starts_with("v1alpha") && name.len() < 10;
    is_ours
        && !is_version
        && !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The rows of the table: the keys of each, and its tests.
fn rows(text: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let section = text.split("## Reach of annotations").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `") || line.starts_with("| label"));
    let words = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let row = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 4, "{line}");
        (words(cells[0]), words(cells[3]))
    };
    rows.map(row).collect()
}

#[test]
fn every_annotation_and_label_of_ours_has_a_row_and_a_test_that_forges_it() {
    let workspace = Workspace::load().unwrap();
    let rows = rows(&fs::read_to_string(workspace.root.join("docs/security.md")).unwrap());
    let listed: BTreeSet<&str> = rows.iter().flat_map(|(keys, _)| keys.iter().map(String::as_str)).collect();
    let mut found = BTreeSet::new();
    for package in &workspace.crates {
        for path in files(&package.folder.join("src"), ".rs") {
            if path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            let keys = literals(&source).into_iter().map(|literal| literal.text).filter(|text| is_key(text));
            found.extend(keys.map(|key| key.strip_prefix(PREFIX).map_or(key.clone(), str::to_owned)));
        }
    }
    assert!(found.len() > 30, "only {} keys were found", found.len());
    let known = |key: &str| listed.contains(key) || OTHERS.iter().any(|(other, _)| *other == key);
    let missing: Vec<&String> = found.iter().filter(|key| !known(key)).collect();
    assert!(
        missing.is_empty(),
        "say in docs/security.md what a forged one gains, and name its test: {missing:?}"
    );
    let gone: Vec<&&str> = listed.iter().filter(|key| !found.contains(**key)).collect();
    assert!(gone.is_empty(), "docs/security.md names keys that the code does not have: {gone:?}");
    for (keys, tests) in &rows {
        assert!(!tests.is_empty(), "{keys:?} has no test");
        for test in tests {
            let (file, name) =
                test.split_once("::").unwrap_or_else(|| panic!("{keys:?}: name the test of {test}"));
            let text = fs::read_to_string(workspace.root.join(file))
                .unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(&format!("fn {name}(")), "{file} has no {name}");
        }
    }
}

#[test]
fn a_key_is_a_key() {
    for (text, is) in [
        ("lazaret.dev/eviction", true),
        ("hollow.lazaret.dev/fail", true),
        ("lazaret.dev/v1alpha1", false),
        ("lazaret.dev/v1alpha3-fields", true),
        ("lazaret.dev/probe=absent", false),
        ("lazaret.dev/", false),
        ("lazaret.dev", false),
        ("example.com/eviction", false),
    ] {
        assert_eq!(is_key(text), is, "{text}");
    }
}
