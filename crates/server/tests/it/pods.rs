//! Pods, field by field: what a kube-apiserver says of each row of `tests/data/pods.txt`, this server says too.
//! The rows are made by `crates/testkit/differential/pods.py`.

use std::collections::BTreeSet;

use lazaret_json::{Value, json};

use crate::support::Api;

const ROWS: &str = include_str!("../data/pods.txt");
const PODS: &str = "/api/v1/namespaces/default/pods?dryRun=All";

/// Bound on the rows that a failure shows.
const SHOWN_MAX: usize = 40;

/// Sets a value by a path like `spec.containers[0].image`, with all that is on the way.
fn put(pod: &mut Value, path: &str, value: Value) {
    let mut at = pod;
    for part in path.split('.') {
        let (name, rest) = part.split_once('[').unwrap_or((part, ""));
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[name];
        if let Ok(index) = rest.trim_end_matches(']').parse::<usize>() {
            if !at.is_array() {
                *at = json!([]);
            }
            let items = at.as_array_mut().unwrap();
            while items.len() <= index {
                items.push(json!({}));
            }
            at = &mut items[index];
        }
    }
    *at = value;
}

fn pod_of(changes: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "initContainers": [{"name": "i", "image": "i"}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
    });
    for change in changes.split(" ; ") {
        let (path, value) = change.split_once(" = ").unwrap();
        match path.strip_prefix("metadata.annotations") {
            Some("") => pod["metadata"]["annotations"] = serde_json::from_str(value).unwrap(),
            _ => put(&mut pod, path, serde_json::from_str(value).unwrap()),
        }
    }
    pod
}

async fn verdict(api: &Api, changes: &str) -> String {
    let answer = api.post(PODS, &pod_of(changes)).await;
    if answer.is(201) {
        return "ok".to_owned();
    }
    let status = answer.body();
    let causes = status["details"]["causes"].as_array();
    let field = |cause: &Value| cause["field"].as_str().unwrap_or_default().to_owned();
    let fields: BTreeSet<String> = causes.into_iter().flatten().map(field).collect();
    let fields: Vec<String> = fields.into_iter().collect();
    format!("{} {}", status["code"], fields.join(" ")).trim_end().to_owned()
}

/// Rows in which this server says something else, with what it says. Each is to go; `UPDATE_PODS=1` writes the file anew.
const OPEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pods_open.txt");

#[tokio::test]
async fn pods_are_accepted_and_refused_as_kubernetes_does_field_by_field() {
    let api = Api::start().await;
    let mut different = Vec::new();
    for row in ROWS.lines() {
        let (changes, wanted) = row.rsplit_once(" -> ").unwrap();
        let found = verdict(&api, changes).await;
        if found != wanted {
            different.push(format!("{changes} -> {found}"));
        }
    }
    if std::env::var("UPDATE_PODS").is_ok() {
        std::fs::write(OPEN, different.join("\n") + "\n").unwrap();
    }
    let open = std::fs::read_to_string(OPEN).unwrap();
    let open: Vec<&str> = open.lines().collect();
    let news: Vec<_> = different.iter().filter(|row| !open.contains(&row.as_str())).collect();
    assert!(
        news.is_empty(),
        "{} rows differ that did not: {:?}",
        news.len(),
        &news[..news.len().min(SHOWN_MAX)]
    );
    assert_eq!(open.len(), different.len(), "rows of pods_open.txt agree by now: write it anew");
}
