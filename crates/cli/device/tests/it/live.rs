//! `kubectl device top` and `record`, as scripts see them, and the screen of a terminal.

use std::collections::BTreeMap;

use expect_test::expect;
use lazaret_device::{
    screen,
    view::{Condition, DrainRow, Recording, Top, TopGroup},
};
use serde_json::{Value, json};

use crate::support::{Cluster, now};

#[tokio::test]
async fn top_prints_once_without_a_terminal() {
    let cluster = Cluster::small().await;
    expect![[r#"
        4 devices on 2 nodes
        □ 2 free   ■ 1 in use   ? 1 suspect

        node-1 ■?  node-2 □□
    "#]]
    .assert_eq(&cluster.run(&["top"]).await.ok());
    let summary: Value = serde_json::from_str(&cluster.run(&["top", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(summary["devices"], 4);
    let sum: u64 = summary["conditions"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
    assert_eq!(sum, 4, "counts add up: {summary}");
}

#[tokio::test]
async fn top_shows_what_is_drained_and_what_is_left() {
    let cluster = Cluster::small().await;
    cluster.run(&["taint", "node-1/gpu-0", "example.com/fan:NoExecute", "--reason", "fan"]).await.ok();
    let summary: Value = serde_json::from_str(&cluster.run(&["top", "-o", "json"]).await.ok()).unwrap();
    assert_eq!(summary["conditions"]["draining"], 1, "{summary}");
    assert_eq!(summary["drains"][0]["left"], 1, "{summary}");
    assert_eq!(summary["drains"][0]["reason"], "fan", "{summary}");
    assert_eq!(summary["drains"][0]["drained"], false, "{summary}");
}

/// A fleet that is larger than the screen, with texts that whoever writes objects may choose.
fn crowded() -> Top {
    let devices = |node: usize| -> Vec<(String, Condition)> {
        (0..8).map(|at| (format!("gpu-{at}"), Condition::ALL[(node + at) % 8])).collect()
    };
    let mut counts = BTreeMap::new();
    let groups: Vec<TopGroup> =
        (0..200).map(|node| TopGroup { name: format!("node-{node}"), devices: devices(node) }).collect();
    for (_, condition) in groups.iter().flat_map(|group| &group.devices) {
        *counts.entry(*condition).or_default() += 1;
    }
    let drain = |number: usize| DrainRow {
        rule: format!(
            "rule-{number}-with-a-name-that-is-longer-than-any-terminal-is-wide-{}",
            "x".repeat(80)
        ),
        reason: "\u{1b}]0;owned\u{7}\u{1b}[2J red \r\n text".to_owned(),
        evicted: u64::MAX,
        left: 3,
        drained: false,
    };
    Top { groups, counts, drains: (0..9).map(drain).collect(), incidents: Vec::new() }
}

#[test]
fn a_screen_fits_and_no_text_commands_the_terminal() {
    for (width, height) in [(80, 24), (120, 40), (40, 10), (20, 5), (1, 1)] {
        let text = screen(&crowded(), now(), width, height);
        assert!(text.lines().count() <= height, "{width}x{height}:\n{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{width}x{height}:\n{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{width}x{height}:\n{text:?}");
    }
    let text = screen(&crowded(), now(), 80, 24);
    assert_eq!(text.lines().count(), 24);
    assert!(text.starts_with("1600 devices on 200 nodes\n"), "{text}");
    assert!(text.contains("Drains (9)") && text.contains("q quit"), "{text}");
}

#[tokio::test]
async fn a_recording_begins_with_what_there_is() {
    let cluster = Cluster::small().await;
    let text = cluster.run(&["record", "-o", "-", "--for", "1s"]).await.ok();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["kind"], "DeviceRecording");
    let mut kinds: Vec<&str> =
        file["objects"].as_array().unwrap().iter().filter_map(|object| object["kind"].as_str()).collect();
    kinds.dedup();
    assert_eq!(kinds, ["ResourceSlice", "ResourceClaim", "DeviceClass"]);
    assert!(!text.contains("managedFields"));
}

#[test]
fn a_list_after_a_lost_watch_tells_of_changes_alone() {
    let pod = |name: &str, version: &str| {
        json!({"kind": "Pod", "metadata": {"name": name, "resourceVersion": version, "managedFields": [1]}})
            .to_string()
    };
    let mut recording = Recording::new(now());
    for name in ["a", "b", "c"] {
        recording.begin(&pod(name, "1"));
    }
    let listed = [pod("a", "1"), pod("b", "2"), pod("d", "3")];
    recording.listed(now(), "Pod", listed.iter().map(String::as_str));
    recording.set(now(), &pod("d", "4"));
    recording.gone(now(), &pod("d", "4"));
    let file = recording.file(now());
    let told: Vec<(&str, &str)> = file["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| (event["type"].as_str().unwrap(), event["object"]["metadata"]["name"].as_str().unwrap()))
        .collect();
    assert_eq!(
        told,
        [("DELETED", "c"), ("MODIFIED", "b"), ("MODIFIED", "d"), ("MODIFIED", "d"), ("DELETED", "d")]
    );
    assert_eq!(recording.counts(), (3, 5));
}
