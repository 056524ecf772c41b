//! Cases that fuzzing kept, each once.

use std::{fs, path::Path};

#[path = "../../fuzz/src/targets.rs"]
mod targets;

/// A corpus may grow; a test must not grow with it.
const CASES_MAX: usize = 400;

fn replay(name: &str, target: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut cases: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    assert!(!cases.is_empty(), "no cases in {}", folder.display());
    for case in cases.iter().take(CASES_MAX) {
        target(&fs::read(case).unwrap());
    }
}

#[test]
fn bodies() {
    replay("bodies", targets::bodies);
}

#[test]
fn patches() {
    replay("patches", targets::patches);
}

#[test]
fn selectors() {
    replay("selectors", targets::selectors);
}

#[test]
fn protobuf() {
    replay("protobuf", targets::protobuf);
}
