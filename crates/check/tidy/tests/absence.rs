//! No shell maps an error of a call, or of reading its answer, to "there is none": each place that looks like it has its reason in a list.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs};

use lazaret_tidy::{Workspace, files, mapped_to_nothing, product_code, without_text};

/// The crates that ask a server.
const SHELLS: &[&str] = &[
    "agent",
    "alerts",
    "cli",
    "containers",
    "controllers",
    "cri",
    "device",
    "driver",
    "example",
    "hollow",
    "images",
    "nodeapi",
    "nvidia",
    "provision",
    "runtime",
    "webhook",
];
/// One row for each place: the file, words of the statement, and why nothing is lost there.
const LIST: &str = include_str!("absence.list");

struct Row<'a> {
    file: &'a str,
    words: &'a str,
    reason: &'a str,
}

fn rows() -> Vec<Row<'static>> {
    let lines = LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let row = |line: &'static str| {
        let mut parts = line.splitn(3, " | ");
        let mut part = || parts.next().unwrap_or_else(|| panic!("three parts: {line}"));
        Row { file: part(), words: part(), reason: part() }
    };
    lines.map(row).collect()
}

#[test]
fn errors_of_calls_never_become_absence() {
    let workspace = Workspace::load().unwrap();
    let (rows, mut used, mut wrong) = (rows(), BTreeSet::new(), Vec::new());
    for shell in SHELLS {
        let package = workspace.crates.iter().find(|package| package.short() == *shell).unwrap();
        for path in files(&package.folder.join("src"), ".rs") {
            let file = format!("{shell}/{}", path.strip_prefix(&package.folder).unwrap().display());
            if file.ends_with("tests.rs") || file.contains("/tests/") {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            for statement in mapped_to_nothing(&without_text(product_code(&source))) {
                let listed = rows.iter().position(|row| row.file == file && statement.contains(row.words));
                match listed {
                    Some(at) => drop(used.insert(at)),
                    None => wrong.push(format!("{file}: {statement}")),
                }
            }
        }
    }
    let stale = rows.iter().enumerate().filter(|(at, _)| !used.contains(at));
    wrong.extend(stale.map(|(_, row)| format!("no such statement any more: {} | {}", row.file, row.words)));
    wrong.extend(
        rows.iter().filter(|row| row.reason.len() < 10).map(|row| format!("no reason: {}", row.file)),
    );
    assert!(wrong.is_empty(), "an error becomes \"there is none\":\n{}", wrong.join("\n"));
}
