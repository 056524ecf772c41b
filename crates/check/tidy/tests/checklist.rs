//! The tests named in `docs/evidence/checklist.md` exist.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

#[test]
fn every_test_named_in_the_checklist_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let list = fs::read_to_string(root.join("docs/evidence/checklist.md")).unwrap();
    let named: Vec<&str> = list.split('`').filter(|word| word.starts_with("crates/")).collect();
    assert!(named.len() > 40, "only {} tests are named", named.len());
    for name in named {
        let (file, test) = name.split_once("::").unwrap_or((name, ""));
        let path = root.join(file);
        if test.is_empty() && path.is_dir() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        let as_function = text.contains(&format!("fn {test}("));
        let as_case = text.contains(&format!("\"{test}\"")) || text.contains(&format!("== {test} "));
        assert!(test.is_empty() || as_function || as_case, "{file} has no {test}");
    }
}
