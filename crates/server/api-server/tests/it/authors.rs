//! Rules that a controller makes for a health policy have the author of the policy, who is no second person for them.

use lazaret_json::{Value, json};
use lazaret_server::User;

use crate::support::Api;

const OWN: &str = "/apis/lazaret.dev/v1alpha1";
const RULES: &str = "/apis/resource.k8s.io/v1/devicetaintrules";
const MERGE: &str = "application/merge-patch+json";
const WRITTEN_BY: &str = "lazaret.dev/written-by";
const HEALTH: &str = "system:lazaret:device-health";

async fn begun() -> Api {
    let api = Api::start().await;
    api.server.bootstrap().await.unwrap();
    let guard =
        json!({"metadata": {"name": "g"}, "spec": {"confirmAbove": {"pods": 0}, "approvers": "Different"}});
    api.post(&format!("{OWN}/disruptionguards"), &guard).await.expect(201);
    api
}

fn as_user(api: &Api, name: &str) -> Api {
    let groups = vec!["system:masters".into(), "system:authenticated".into()];
    Api { server: api.server.clone(), user: User { name: name.into(), groups, ..User::default() } }
}

/// A rule or a policy that is made for an incident.
fn made(name: &str, incident: &str) -> Value {
    let owner =
        json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceIncident", "name": incident, "uid": "u"});
    json!({
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}},
    })
}

fn author(object: &Value) -> &str {
    object["metadata"]["annotations"][WRITTEN_BY].as_str().unwrap_or_default()
}

#[tokio::test]
async fn rules_of_an_incident_have_the_author_of_its_health_policy() {
    let api = begun().await;
    let [ada, bob, health] = ["ada", "bob", HEALTH].map(|name| as_user(&api, name));
    let policies = format!("{OWN}/devicehealthpolicies");
    let rules = json!([{"name": "r", "when": "signal.key == 'a'", "stage": "Drained"}]);
    let policy =
        json!({"metadata": {"name": "p", "annotations": {WRITTEN_BY: "eve"}}, "spec": {"rules": rules}});
    let policy = ada.post(&policies, &policy).await.expect(201);
    assert_eq!(author(&policy), "ada");
    let device = json!({"driver": "d", "pool": "p", "device": "gpu-0"});
    let opened = json!({"device": device, "policy": "p", "rule": "r", "stage": "Quarantined", "taintValue": "a", "cause": "a", "number": 1,
        "openedAt": "2026-01-31T12:00:00Z"});
    let incident = json!({"metadata": {"name": "i"}, "spec": opened});
    health.post(&format!("{OWN}/deviceincidents"), &incident).await.expect(201);

    assert_eq!(author(&health.post(RULES, &made("a", "i")).await.expect(201)), "ada");
    let drains = format!("{OWN}/devicetaintpolicies");
    assert_eq!(author(&health.post(&drains, &made("a", "i")).await.expect(201)), "ada");
    assert_eq!(
        author(&health.post(RULES, &made("b", "none")).await.expect(201)),
        HEALTH,
        "no author is known"
    );
    assert_eq!(
        author(&bob.post(RULES, &made("c", "i")).await.expect(201)),
        "bob",
        "an owner names no author"
    );

    let change = json!({"spec": {"clearAfter": "1h"}});
    assert_eq!(author(&bob.patch(&format!("{policies}/p"), MERGE, &change).await.expect(200)), "bob");
    let relabelled = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(author(&health.patch(&format!("{RULES}/a"), MERGE, &relabelled).await.expect(200)), "ada");
    let worse = json!({"spec": {"taint": {"value": "worse"}}});
    assert_eq!(author(&health.patch(&format!("{RULES}/a"), MERGE, &worse).await.expect(200)), "bob");
}
