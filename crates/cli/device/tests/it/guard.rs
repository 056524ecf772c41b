//! `kubectl device pause`, `resume` and `guard`.

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::Cluster;

const GUARDS: &str = "/apis/lazaret.dev/v1alpha1/disruptionguards";

async fn guards(cluster: &Cluster) -> Vec<Value> {
    let list = cluster.send("GET", GUARDS, "application/json", &Value::Null).await;
    list["items"].as_array().cloned().unwrap_or_default()
}

#[tokio::test]
async fn one_command_pauses_and_one_resumes() {
    let cluster = Cluster::small().await;
    let said = cluster.run(&["pause", "--reason", "storage is being moved"]).await.ok();
    assert_eq!(said, "guard pause paused until `kubectl device resume`: no eviction begins\n");
    let paused = guards(&cluster).await;
    assert_eq!(paused[0]["spec"], json!({"paused": {"reason": "storage is being moved"}}));
    assert_eq!(paused[0]["metadata"]["annotations"]["lazaret.dev/set-by"], "ada@example.com");
    let said = cluster.run(&["pause", "--reason", "longer", "--for", "1h"]).await.ok();
    assert_eq!(said, "guard pause paused until 2026-01-01T13:00:00Z: no eviction begins\n");
    expect![[r#"
        NAME    PAUSED   UNTIL                  MAX      OF       OUT      TRIPPED   WINDOW   HELD
        pause   longer   2026-01-01T13:00:00Z   <none>   <none>   <none>   false     <none>   0
    "#]]
    .assert_eq(&cluster.run(&["guard", "list"]).await.ok());
    assert_eq!(cluster.run(&["resume", "--dry-run"]).await.ok(), "guard pause resumed (dry run)\n");
    assert_eq!(cluster.run(&["resume"]).await.ok(), "guard pause resumed\n");
    assert!(guards(&cluster).await.is_empty(), "nothing is left of it");
    expect!["DisruptionGuard pause not found"].assert_eq(&cluster.run(&["resume"]).await.error());
    let error = cluster.run(&["pause", "--reason", " "]).await.error();
    assert_eq!(error, "--reason must not be empty and have at most 1024 bytes");
}

#[tokio::test]
async fn a_guard_with_a_breaker_stays_and_can_be_reset() {
    let cluster = Cluster::small().await;
    let guard = json!({
        "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "fleet"},
        "spec": {"breaker": {"maxOutOfService": "20%"}},
    });
    cluster.post(GUARDS, guard).await;
    cluster.run(&["pause", "fleet", "--reason", "freeze"]).await.ok();
    cluster.run(&["resume", "fleet"]).await.ok();
    let kept = guards(&cluster).await;
    let breaker = json!({"maxOutOfService": "20%", "of": "Devices", "resetAfterSeconds": 300});
    assert_eq!(kept[0]["spec"], json!({"breaker": breaker}));
    let said = cluster.run(&["guard", "reset", "fleet", "--reason", "the rack has power again"]).await.ok();
    assert_eq!(said, "breaker of guard fleet reset\n");
    let annotations = guards(&cluster).await[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations["lazaret.dev/breaker-reset"], "2026-01-01T12:00:00.000000Z");
    assert_eq!(annotations["lazaret.dev/reason"], "the rack has power again");
}

#[tokio::test]
async fn the_list_says_which_windows_are_open() {
    let cluster = Cluster::small().await;
    let window = json!({"start": "Sat 02:00", "duration": "4h", "timeZone": "Europe/Zurich"});
    for (name, status) in [
        ("a", json!({"open": true})),
        ("b", json!({"open": false, "opensAt": "2026-01-03T01:00:00Z"})),
        ("c", Value::Null),
    ] {
        let guard = json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": name},
            "spec": {"windows": [window]},
        });
        cluster.post(GUARDS, guard).await;
        let path = format!("{GUARDS}/{name}/status");
        let patch = json!({"status": {"window": status}});
        cluster.send("PATCH", &path, "application/merge-patch+json", &patch).await;
    }
    expect![[r#"
        NAME   PAUSED   UNTIL    MAX      OF       OUT      TRIPPED   WINDOW                       HELD
        a      <none>   <none>   <none>   <none>   <none>   false     open                         0
        b      <none>   <none>   <none>   <none>   <none>   false     opens 2026-01-03T01:00:00Z   0
        c      <none>   <none>   <none>   <none>   <none>   false     <unknown>                    0
    "#]]
    .assert_eq(&cluster.run(&["guard", "list"]).await.ok());
    cluster.run(&["pause", "a", "--reason", "freeze"]).await.ok();
    cluster.run(&["resume", "a"]).await.ok();
    let kept = guards(&cluster).await;
    assert_eq!(kept[0]["spec"], json!({"windows": [window]}), "a guard with windows stays");
}

#[tokio::test]
async fn a_guard_that_makes_no_sense_is_refused() {
    let cluster = Cluster::small().await;
    for (spec, field) in [
        (json!({"breaker": {"maxOutOfService": "many"}}), "spec.breaker.maxOutOfService"),
        (json!({"breaker": {"maxOutOfService": "101%"}}), "spec.breaker.maxOutOfService"),
        (json!({"breaker": {"maxOutOfService": -1}}), "spec.breaker.maxOutOfService"),
        (json!({"breaker": {"maxOutOfService": 1, "of": "Racks"}}), "spec.breaker.of"),
        (
            json!({"breaker": {"maxOutOfService": 1, "of": "FaultDomains"}}),
            "faultDomainAttribute is required",
        ),
        (
            json!({"breaker": {"maxOutOfService": 1, "of": "Nodes", "faultDomainAttribute": "rack"}}),
            "belongs to it alone",
        ),
        (
            json!({"breaker": {"maxOutOfService": 1, "of": "FaultDomains", "faultDomainAttribute": "a rack"}}),
            "spec.breaker.faultDomainAttribute",
        ),
        (
            json!({"breaker": {
                "maxOutOfService": 1, "of": "FaultDomains",
                "faultDomainAttribute": format!("{}/rack", "a".repeat(64)),
            }}),
            "more than 63 characters",
        ),
        (
            json!({"breaker": {"maxOutOfService": 1, "resetAfterSeconds": -1}}),
            "spec.breaker.resetAfterSeconds",
        ),
        (json!({"breaker": {"maxOutOfService": 1, "windowSeconds": -1}}), "spec.breaker.windowSeconds"),
        (json!({"breaker": {"maxOutOfService": 1, "windowSeconds": 604_801}}), "spec.breaker.windowSeconds"),
        (json!({"paused": {}}), "spec.paused.reason"),
        (json!({"paused": {"reason": "r", "until": "tomorrow"}}), "spec.paused.until"),
        (json!({"deviceSelector": {}}), "spec.deviceSelector"),
        (json!({"windows": [{"start": "noon", "duration": "1h"}]}), "spec.windows[0].start"),
        (json!({"windows": [{"start": "02:00"}]}), "spec.windows[0].duration"),
        (json!({"windows": [{"start": "02:00", "duration": "25h"}]}), "spec.windows[0].duration"),
        (
            json!({"windows": [{"start": "02:00", "duration": "1h", "timeZone": "Europe/Atlantis"}]}),
            "spec.windows[0].timeZone",
        ),
        (json!({"windows": vec![json!({"start": "02:00", "duration": "1h"}); 17]}), "spec.windows"),
    ] {
        let guard = json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DisruptionGuard", "metadata": {"name": "g"}, "spec": spec,
        });
        let (code, answer) = cluster.try_send("POST", GUARDS, "application/json", &guard).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(code, 422, "{guard}: {answer}");
        assert!(message.contains(field), "{message}");
    }
}
