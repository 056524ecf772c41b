//! Objects that a policy describes are made by the rights of the account that it names, and no object that somebody else made counts as one.

use serde_json::{Value, json};

use crate::{
    support::wait_until,
    up::{INCIDENTS, JOBS, POLICIES, SLICES, Up, held, policy},
};

const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A policy that repairs when a fan is reported, with Jobs that wait to be released.
fn repairing() -> Value {
    let mut policy = held(policy());
    policy["spec"]["rules"][1]["stage"] = "Drained".into();
    policy
}

fn report(up: &Up) {
    up.said(&["report", "node-1/gpu-1", "example.com/fan", "--reason", "it stands still"]);
}

fn task(incident: &Value) -> String {
    format!("{}-{}", incident["metadata"]["name"].as_str().unwrap(), incident["status"]["tries"])
}

/// A Job that is complete as soon as it is made, with the name and the owner of a repair.
fn forged(namespace: &str, name: &str, incident: &Value) -> Value {
    let metadata = &incident["metadata"];
    json!({
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": [{
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceIncident", "controller": true,
            "name": metadata["name"], "uid": metadata["uid"],
        }]},
        "spec": {"completions": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
        }}},
    })
}

fn is_complete(job: &Value) -> bool {
    let conditions = job["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Complete" && one["status"] == "True"))
}

#[test]
fn a_tenant_that_forges_a_repair_job_repairs_nothing_and_the_real_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let mut up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "tenant"}}));
    up.send("POST", POLICIES, &repairing());
    report(&up);
    up.until_stage("Repairing");
    let real = || up.list(JOBS).into_iter().next().unwrap_or_default();
    wait_until("the repair is made, and it is stored which it is", || {
        let task = up.incident()["status"]["task"].clone();
        !task.is_null() && task["uid"] == real()["metadata"]["uid"] && task["namespace"] == "default"
    });
    let (incident, uid) = (up.incident(), real()["metadata"]["uid"].clone());
    let theirs = "/apis/batch/v1/namespaces/tenant/jobs";
    up.send("POST", theirs, &forged("tenant", &task(&incident), &incident));
    wait_until("the forged one is complete", || up.list(theirs).iter().any(is_complete));
    // Whoever leads next finds both.
    up = up.kill();
    wait_until("it leads again", || !up.list(INCIDENTS).is_empty());
    up.said(&["report", "node-1/gpu-0", "example.com/other", "--reason", "it is looked at"]);
    wait_until("the report was taken in", || up.list("/apis/lazaret.dev/v1alpha1/devicesignals").is_empty());
    assert_eq!(up.incident()["status"]["stage"], "Repairing", "{:#}", up.incident()["status"]);
    assert_eq!(up.list(JOBS)[0]["metadata"]["uid"], uid, "the real one is there");
    up.release_jobs();
    up.until_stage("Probation");
}

#[test]
fn a_job_that_has_the_name_beforehand_blocks_and_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    up.send("POST", POLICIES, &repairing());
    report(&up);
    let first = up.until_stage("Repairing");
    let name = first["metadata"]["name"].as_str().unwrap();
    let next = format!("{}-2-1", name.strip_suffix("-1").unwrap());
    let mut job = forged("default", &next, &first);
    job["metadata"]["ownerReferences"] = Value::Null;
    up.send("POST", JOBS, &job);
    up.send("DELETE", &format!("{INCIDENTS}/{name}"), &Value::Null);
    report(&up);
    wait_until("the next incident says what is in its way", || {
        let waits_for = up.incident()["status"]["waitsFor"].as_str().unwrap_or_default().to_owned();
        waits_for.contains(&format!("Job default/{next} is there and was not made for this incident"))
    });
    assert_eq!(up.incident()["status"]["stage"], "Repairing");
}

#[test]
fn an_account_without_rights_makes_nothing_and_its_incident_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(folder.path());
    wait_until("the devices are there", || !up.list(SLICES).is_empty());
    let mut policy = repairing();
    policy["spec"]["serviceAccount"]["name"] = "powerless".into();
    up.send("POST", POLICIES, &policy);
    report(&up);
    wait_until("the incident says whose right is missing", || {
        let waits_for = up.incident()["status"]["waitsFor"].as_str().unwrap_or_default().to_owned();
        waits_for.contains("system:serviceaccount:lazaret-repair:powerless") && waits_for.contains("jobs")
    });
    assert!(up.list(JOBS).is_empty());
    let binding = json!({
        "metadata": {"name": "powerless"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "repair"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "lazaret-repair", "name": "powerless"}],
    });
    up.send("POST", ROLE_BINDINGS, &binding);
    up.release_jobs();
    up.until_stage("Probation");
}
