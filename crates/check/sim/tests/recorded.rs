//! Worlds as recordings: the same seed gives the same file, which says what happened from the beginning to the end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::Value;

/// Of the recording that is an example: the page plays it in the browser's tests.
const EXAMPLE: [&str; 6] = ["--replay", "11", "--pods", "60", "--exact", "--record"];

fn record(words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("world.json");
    let output = Command::new(env!("CARGO_BIN_EXE_lazaret-sim")).args(words).arg(&file).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    fs::read_to_string(file).unwrap()
}

#[test]
fn the_example_is_what_the_simulator_records() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/simulated.json");
    let recorded = record(&EXAMPLE);
    if std::env::var_os("UPDATE_EXAMPLE").is_some() {
        fs::write(&path, &recorded).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    assert!(known == recorded, "examples/simulated.json is another: UPDATE_EXAMPLE=1 writes it anew");
}

#[test]
fn a_recording_tells_the_whole_world_in_order() {
    let file: Value =
        serde_json::from_str(&record(&["--start", "11", "--pods", "60", "--exact", "--record"])).unwrap();
    assert_eq!(file["kind"], "DeviceRecording");
    assert_eq!(file["title"], "lazaret-sim seed 11");
    let kinds = |list: &Value, of: fn(&Value) -> &Value| -> BTreeSet<String> {
        list.as_array().unwrap().iter().map(|one| of(one)["kind"].as_str().unwrap().to_owned()).collect()
    };
    let begun = kinds(&file["objects"], |object| object);
    assert!(begun.contains("ResourceSlice") && begun.contains("ResourceClaim"), "{begun:?}");
    let changed = kinds(&file["events"], |event| &event["object"]);
    assert!(changed.contains("ResourceClaim") && changed.contains("DeviceTaintRule"), "{changed:?}");
    let times: Vec<&str> =
        file["events"].as_array().unwrap().iter().map(|event| event["at"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "events are in order");
    assert!(file["start"].as_str().unwrap() <= times[0]);
    assert!(*times.last().unwrap() <= file["end"].as_str().unwrap());
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let words = ["--replay", "1", "--pods", "5", "--record", "/nowhere/at/all.json"];
    let output = Command::new(env!("CARGO_BIN_EXE_lazaret-sim")).args(words).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/at/all.json"));
}
