//! Every place that says what keeps a pod, a drain or an incident says the same, the dashboard included. `UPDATE_WAITS=1` writes its table and its
//! cases.

use std::{env, fs, path::Path};

use lazaret_device::view::{
    Cluster as View, describe_incident, incident_checks, incident_line, incident_row, incident_wait,
    waits_of_drain,
};
use lazaret_eviction::{Block, Wait, WaitFacts, wait, wait_rows};
use lazaret_model::{DeviceId, Timestamp};
use serde_json::{Value, json};

use crate::support::Cluster;

const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../server/dashboard");

/// Reasons of the condition `EvictionBlocked` with what is said, and how each ends.
const SITUATIONS: [(Block, &str, &str); 7] = [
    (Block::Paused, "DisruptionGuard fleet is paused: storm", "kubectl device resume fleet"),
    (
        Block::Held,
        "DisruptionGuard fleet wants approval above 0 pods; kubectl device approve r",
        "it goes on when it is approved",
    ),
    (
        Block::Budget,
        "The disruption budget one needs 1 healthy pods and has 1 currently",
        "it goes on when the disruption budget permits it",
    ),
    (Block::Window, "no window of DisruptionGuard fleet is open", "it goes on when a window opens"),
    (
        Block::Breaker,
        "DisruptionGuard fleet is tripped: 3 of 10 devices out of service, 2 permitted",
        "kubectl device guard reset fleet --reason TEXT",
    ),
    (
        Block::Finalizer,
        "its finalizer a/b is not removed by the program that set it",
        "it goes on when the finalizer is removed",
    ),
    (
        Block::Capacity,
        "no room for the replacement of pod research/server: 2 nodes have no free device",
        "it goes on when there is room for its replacement",
    ),
];

/// The part of the condition about a pod that is kept for this reason.
fn part((why, said, _): (Block, &str, &str)) -> String {
    let verb = if why == Block::Finalizer { "not gone" } else { "not evicted" };
    format!("{}: 1 pod {verb} (research/server): {said}.", why.name())
}

/// The rule says that it keeps pods.
async fn blocked(cluster: &Cluster, why: Block, message: &str) {
    let condition = json!({
        "type": "EvictionBlocked", "status": "True", "reason": why.name(), "message": message,
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    });
    let rule = cluster.rules().await[0].0.clone();
    let status = json!({"status": {"conditions": [condition]}});
    cluster.send("PATCH", &format!("{RULES}/{rule}/status"), "application/merge-patch+json", &status).await;
}

#[tokio::test]
async fn why_and_drain_say_the_same_of_a_pod_that_stays() {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    cluster.run(&["drain", "node-2/gpu-0", "--reason", "x", "--yes", "--wait=false"]).await.ok();
    let rule = cluster.rules().await[0].0.clone();
    let earlier = json!({"spec": {"taint": {"timeAdded": "2026-01-01T11:00:00Z"}}});
    cluster.send("PATCH", &format!("{RULES}/{rule}"), "application/merge-patch+json", &earlier).await;
    let mut waits = Vec::new();
    for situation in SITUATIONS {
        let (why, said, ends) = situation;
        blocked(&cluster, why, &part(situation)).await;
        let answer = cluster.run(&["why", "server", "-n", "research"]).await.ok();
        let line = answer.lines().find(|line| line.contains("is blocked")).unwrap_or_default().trim();
        assert!(line.contains(&format!("is blocked ({}): 1 pod not ", why.name())), "{answer}");
        assert!(line.ends_with(&format!("(research/server): {said}; {ends}")), "{answer}");
        waits.push(line.split_once(" is ").unwrap().1.to_owned());
    }
    blocked(&cluster, Block::Paused, &SITUATIONS.map(part).join(" ")).await;
    let rule = cluster.get(&format!("{RULES}/{rule}")).await;
    let mut seen = View::default();
    seen.set(&rule.to_string());
    let device = DeviceId::new("gpu.example.com", "node-2", "gpu-0");
    assert_eq!(waits_of_drain(&seen, &[device]), waits.into_iter().collect());
}

/// A guard stops a device that its driver tainted: no rule has a condition that says so.
#[tokio::test]
async fn why_knows_the_guard_that_stops_a_device() {
    let cluster = Cluster::small().await;
    cluster.pod_with_device("server", "node-2", "gpu-0", json!([])).await;
    cluster.run(&["taint", "node-2/gpu-0", "example.com/fan:NoExecute", "--reason", "x"]).await.ok();
    let rule = cluster.rules().await[0].0.clone();
    let earlier = json!({"spec": {"taint": {"timeAdded": "2026-01-01T11:00:00Z"}}});
    cluster.send("PATCH", &format!("{RULES}/{rule}"), "application/merge-patch+json", &earlier).await;
    cluster.run(&["pause", "--reason", "storm"]).await.ok();
    let answer = cluster.run(&["why", "server", "-n", "research"]).await.ok();
    let wanted = "is blocked (Paused): DisruptionGuard pause is paused: storm; kubectl device resume pause";
    assert!(answer.contains(wanted) && answer.contains("for which it is due to be evicted"), "{answer}");
}

fn incident(stage: &str, waits_for: &str, held: Option<&str>) -> Value {
    let mut incident = json!({
        "metadata": {"name": "i", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "device": {"driver": "d", "pool": "n", "device": "gpu-0"}, "policy": "p", "rule": "r", "stage": stage,
            "openedAt": "2026-01-01T09:00:00Z",
        },
        "status": {"stage": stage, "enforced": true, "waitsFor": waits_for, "since": "2026-01-01T11:00:00Z"},
    });
    if let Some(reason) = held {
        incident["status"]["held"] = json!({"guard": "fleet", "reason": reason});
    }
    incident
}

fn incidents() -> Vec<Value> {
    let stages = ["Suspect", "Quarantined", "Draining", "Repairing", "Probation", "Abandoned"];
    let mut all: Vec<Value> = stages.iter().map(|stage| incident(stage, "calm for 60 s", None)).collect();
    all.push(incident("Suspect", "", None));
    all.push(incident("Draining", "its policy is gone: a person decides", None));
    for (reason, says) in [
        ("Paused", "DisruptionGuard fleet is paused: storm"),
        ("Paused", "DisruptionGuard fleet is not understood: no such class"),
        ("Breaker", "DisruptionGuard fleet is tripped: 3 of 10 devices out of service, 2 permitted"),
        ("Breaker", "DisruptionGuard fleet: 2 of 10 devices out of service, 2 permitted"),
        ("Window", "no window of DisruptionGuard fleet is open"),
    ] {
        all.push(incident("Suspect", says, Some(reason)));
    }
    all
}

#[test]
fn every_place_says_the_same_of_an_incident() {
    for incident in incidents() {
        let row = incident_row(&incident);
        let wait = incident_wait(&row, None).unwrap();
        let checks = incident_checks(Some(std::slice::from_ref(&incident)), None);
        assert_eq!((&checks[0].detail, &checks[0].hint), (&wait.words, &wait.ends));
        assert!(incident_line(&row).ends_with(&wait.line()), "{incident}");
        let described = describe_incident(&incident, Timestamp::EPOCH);
        let waits_for = wait.words.strip_prefix("waits for ").unwrap();
        assert!(described.contains(&format!("Waits for:    {waits_for}\n")), "{described}");
        assert!(described.contains(&format!("Ends:         {}\n", wait.ends)), "{described}");
    }
}

/// The table of the page, and cases with the words that it has to find.
#[test]
fn the_dashboard_has_the_same_words() {
    let rows: Vec<String> = wait_rows()
        .iter()
        .map(|row| {
            let row = json!({
                "incident": row.is_incident, "reason": row.reason.map(Block::name), "says": row.says,
                "stage": row.stage, "orphan": row.is_orphan, "ends": row.end.template(),
                "needsPerson": row.end.needs_person(),
            });
            format!("  {row},\n")
        })
        .collect();
    let table = format!(
        "// How waits end. Written by the tests of kubectl device, from the table that all commands use: UPDATE_WAITS=1.\n\n\
         /** @import {{ WaitRow }} from \"./waits.js\" */\n\n/** @type {{WaitRow[]}} */\nexport const ROWS = [\n{}];\n",
        rows.concat()
    );
    let case = |key: &str, object: &Value, wait: &Wait| {
        format!("{}", json!({key: object, "line": wait.line(), "needsPerson": wait.end.needs_person()}))
    };
    let mut cases: Vec<String> = incidents()
        .iter()
        .map(|one| case("incident", one, &incident_wait(&incident_row(one), None).unwrap()))
        .collect();
    let later = (Block::Refused, "DisruptionGuard fleet is not understood: x", "");
    for (why, said, _) in SITUATIONS.into_iter().chain([later]) {
        for message in [said.to_owned(), format!("{}: 1 pod not evicted (a/b): {said}.", why.name())] {
            let condition = json!({"reason": why.name(), "message": message});
            let found = wait(&WaitFacts::Eviction { reason: why.name(), message: &message });
            cases.push(case("condition", &condition, &found));
        }
    }
    let cases = format!("[\n{}\n]\n", cases.join(",\n"));
    for (name, text) in [("ui/wait-rows.js", table), ("tests/ui/waits.json", cases)] {
        let path = Path::new(DASHBOARD).join(name);
        if env::var_os("UPDATE_WAITS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            text,
            "{name} is not what the table of waits says: UPDATE_WAITS=1 cargo test -p lazaret-device --test it waits"
        );
    }
}
