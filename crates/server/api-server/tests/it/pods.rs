//! Pods, field by field: what a kube-apiserver says of each row of `tests/data/pods.txt`, this server says too.
//! The rows are made by `crates/check/testkit/differential/pods.py`.

use std::collections::BTreeSet;

use lazaret_json::{Value, json};
use lazaret_server::AdmissionPlugin;

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

/// Rows in which this server says something else on purpose: how they begin, and the deviation.
const ON_PURPOSE: &[(&str, &str)] = &[
    ("spec.resourceClaims[0].classicClaimName = ", "classic-claims"),
    ("spec.resourceClaims[0].template = {}", "classic-claims"),
    ("spec.runtimeClassName = \"\"", "client-errors"),
    ("spec.overhead = {}", "absent-structs"),
    ("spec.resources.claims = []", "absent-structs"),
    ("spec.os.name = \"windows\" ; spec.securityContext.supplementalGroups = []", "absent-structs"),
    (EPHEMERAL_PORTS, "absent-structs"),
    (EPHEMERAL_RESIZES, "absent-structs"),
    (EPHEMERAL_RULES, "absent-structs"),
];
const EPHEMERAL_PORTS: &str = "spec.ephemeralContainers[0] = {\"name\": \"e\", \"image\": \"i\"} ; spec.ephemeralContainers[0].ports = []";
const EPHEMERAL_RESIZES: &str = "spec.ephemeralContainers[0] = {\"name\": \"e\", \"image\": \"i\"} ; spec.ephemeralContainers[0].resizePolicy = []";
const EPHEMERAL_RULES: &str = "spec.ephemeralContainers[0] = {\"name\": \"e\", \"image\": \"i\"} ; spec.ephemeralContainers[0].restartPolicyRules = []";

#[tokio::test]
async fn pods_are_accepted_and_refused_as_kubernetes_does_field_by_field() {
    let api = Api::start().await;
    // As it was where the rows were made.
    api.server.disable_admission_plugin(AdmissionPlugin::ServiceAccount);
    let mut different = Vec::new();
    let mut unused: BTreeSet<&str> = ON_PURPOSE.iter().map(|(start, _)| *start).collect();
    for row in ROWS.lines() {
        let (changes, wanted) = row.rsplit_once(" -> ").unwrap();
        let found = verdict(&api, changes).await;
        if found == wanted {
            continue;
        }
        match ON_PURPOSE.iter().find(|(start, _)| changes.starts_with(start)) {
            Some((start, _)) => drop(unused.remove(start)),
            None => different.push(format!("{changes} -> {found}, not {wanted}")),
        }
    }
    assert!(
        different.is_empty(),
        "{} rows differ: {:#?}",
        different.len(),
        &different[..different.len().min(SHOWN_MAX)]
    );
    assert!(unused.is_empty(), "no row that begins so differs: {unused:?}");
}
