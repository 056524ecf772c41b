//! The modules of the page without a browser: their types, checked by TypeScript, and their stores, run by Node.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

#[path = "../../../check/testkit/tests/tools/mod.rs"]
mod tools;

const DASHBOARD: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn every_module_is_right_in_its_types() {
    tools::run(tools::node().arg(tools::typescript()).args(["--pretty", "false", "-p", DASHBOARD]));
}

/// The tests are in `tests/ui`; what fails is in the output.
#[test]
fn the_stores_of_the_page() {
    let folder = Path::new(DASHBOARD).join("tests/ui");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let files = files.filter(|path| path.to_string_lossy().ends_with(".test.js"));
    let said = tools::run(tools::node().args(["--test", "--test-reporter=tap"]).args(files));
    // No files at all pass, too.
    let passed = said.lines().find_map(|line| line.strip_prefix("# pass ")?.parse::<usize>().ok());
    assert!(passed.is_some_and(|number| number > 0), "{said}");
}
