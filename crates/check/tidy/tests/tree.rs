//! The tree itself: sizes, documents, words that do not belong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs};

use lazaret_tidy::{Workspace, files};

/// One idea a file. Most are far below; this is where a file has certainly got away.
const LINES_MAX: usize = 800;

#[test]
fn source_files_stay_small() {
    let workspace = Workspace::load().unwrap();
    let mut long = Vec::new();
    for package in &workspace.crates {
        for path in files(&package.folder.join("src"), ".rs") {
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            if lines > LINES_MAX {
                long.push(format!("{}: {lines} lines", path.display()));
            }
        }
    }
    assert!(long.is_empty(), "more than {LINES_MAX} lines:\n{}", long.join("\n"));
}

#[test]
fn every_crate_states_its_invariant_and_its_floor_is_on_the_map() {
    let workspace = Workspace::load().unwrap();
    let map = workspace.read("docs/architecture.md");
    for package in &workspace.crates {
        let roots = ["src/lib.rs", "src/main.rs"]
            .map(|root| fs::read_to_string(package.folder.join(root)).unwrap_or_default());
        assert!(
            roots.iter().any(|text| text.contains("**Invariant.**")),
            "{} does not state its invariant",
            package.name
        );
        let floor = package.folder.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let folder = package.folder.file_name().unwrap().to_string_lossy().into_owned();
        let row = map.lines().find(|line| line.starts_with(&format!("| `{floor}` |"))).unwrap_or_default();
        assert!(
            row.contains(&format!("`{folder}`")),
            "docs/architecture.md has no `{folder}` on floor `{floor}`"
        );
    }
}

/// A place where we differ on purpose is marked `DEVIATION(name)` in the code, and `name` explained in the document; each row of the
/// document has a place in the code.
#[test]
fn deviations_in_code_and_document_agree() {
    let workspace = Workspace::load().unwrap();
    let document = workspace.read("docs/deviations.md");
    let mut rows: BTreeSet<&str> =
        document.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    for path in files(&workspace.root.join("crates"), ".rs") {
        if path.ends_with("tidy/tests/tree.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for name in text.split("DEVIATION(").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(
                document.contains(&format!("`{name}`")),
                "{}: {name} is not in docs/deviations.md",
                path.display()
            );
            rows.remove(name);
        }
    }
    assert!(rows.is_empty(), "no DEVIATION(name) in the code for {rows:?}");
}

#[test]
fn documents_link_to_files_and_headings_that_exist() {
    let workspace = Workspace::load().unwrap();
    let mut documents = files(&workspace.root.join("docs"), ".md");
    documents.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| workspace.root.join(name)));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            if path.contains("://") {
                continue;
            }
            let linked =
                if path.is_empty() { document.clone() } else { document.parent().unwrap().join(path) };
            assert!(linked.exists(), "{}: {target} does not exist", document.display());
            if !anchor.is_empty() && linked.extension().is_some_and(|ending| ending == "md") {
                let headings = anchors(&fs::read_to_string(&linked).unwrap());
                assert!(headings.contains(anchor), "{}: {target} has no such heading", document.display());
            }
        }
    }
}

/// The anchors that a forge gives to the headings of a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut is_code = false;
    let mut anchors = BTreeSet::new();
    for line in text.lines() {
        is_code ^= line.starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !is_code) {
            let kept = heading.trim_start_matches('#').trim().chars().filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || matches!(c, '-' | '_') => Some(c.to_ascii_lowercase()),
                _ => None,
            });
            anchors.insert(kept.collect());
        }
    }
    anchors
}
