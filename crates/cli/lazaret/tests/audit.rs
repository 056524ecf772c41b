//! The audit records of policies are in the log, however little else is.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::json;
use support::Cluster;

const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn what_a_policy_notes_is_in_the_log() {
    for words in [&["--api-only"][..], &["--api-only", "--log-format", "json"]] {
        let cluster = Cluster::start(words);
        let rules = json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "small"},
            "spec": {
                "matchConstraints": {"resourceRules": rules},
                "validations": [{"expression": "size(object.data) < 2", "message": "too many keys"}],
                "auditAnnotations": [{"key": "keys", "valueExpression": "'there are ' + string(size(object.data))"}],
            },
        });
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "small"},
            "spec": {"policyName": "small", "validationActions": ["Audit"]},
        });
        cluster.send("POST", &format!("{REGISTRATIONS}/validatingadmissionpolicies"), &policy);
        cluster.send("POST", &format!("{REGISTRATIONS}/validatingadmissionpolicybindings"), &binding);
        let map = json!({"metadata": {"generateName": "m-"}, "data": {"a": "1", "b": "2"}});
        cluster.until("the note is in the log", |cluster| {
            cluster.send("POST", MAPS, &map);
            cluster.log().contains("there are 2")
        });
        let log = cluster.log();
        for part in ["audit", "small", "too many keys", "there are 2"] {
            assert!(log.contains(part), "{words:?}: no {part:?} in {log}");
        }
    }
}
