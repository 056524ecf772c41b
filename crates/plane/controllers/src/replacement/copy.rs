//! A bare pod once more, under another name.

use lazaret_replacement::Record;
use serde_json::{Value, json};

use super::{MARK, mark, record};

/// The copy of a pod, from the pod as the API has it.
pub(super) fn copy(pod: &Value, name: &str, gated: bool, of: &Record, proof: String) -> Value {
    let mut spec = pod["spec"].as_object().cloned().unwrap_or_default();
    // The scheduler chooses the node; ephemeral containers of a running pod cannot be requested.
    for field in ["nodeName", "ephemeralContainers", "schedulingGates"] {
        spec.remove(field);
    }
    if gated {
        spec.insert("schedulingGates".into(), json!([{"name": MARK}]));
    }
    let mut labels = pod["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.insert(MARK.into(), "copy".into());
    let mut annotations = pod["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations.insert(MARK.into(), record::format(of).into());
    annotations.insert(mark::PROOF.into(), proof.into());
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": &*of.pod.namespace, "labels": labels, "annotations": annotations,
        },
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_model::{ObjectKey, Timestamp};
    use lazaret_replacement::{Cause, Origin, Plan};

    #[test]
    fn a_copy_has_the_spec_without_its_place_and_names_what_it_replaces() {
        let of = Record {
            policy: "p".into(),
            counted_by: vec!["p".into()],
            pod: ObjectKey::new("n", "a"),
            uid: "u".into(),
            node: "w".into(),
            cause: Cause {
                origin: Origin::Node,
                place: "w".into(),
                key: "k".into(),
                value: "".into(),
                effect: "NoSchedule".into(),
            },
            since: Timestamp::from_secs(1),
            started: Timestamp::from_secs(9),
            lacking: 0,
            plan: Plan::Rebuild { name: "a-r1".into() },
        };
        let pod = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"app": "x"}, "resourceVersion": "7"},
            "spec": {"nodeName": "w", "containers": [{"name": "c"}]},
            "status": {"phase": "Running"},
        });
        let made = copy(&pod, "a-r1", true, &of, "proof".to_owned());
        assert_eq!(made["spec"], json!({"containers": [{"name": "c"}], "schedulingGates": [{"name": MARK}]}));
        assert_eq!(made["metadata"]["labels"], json!({"app": "x", MARK: "copy"}));
        assert!(made.get("status").is_none() && made["metadata"].get("uid").is_none());
        assert_eq!(made["metadata"]["annotations"][mark::PROOF], "proof");
        let mark = made["metadata"]["annotations"][MARK].as_str().unwrap();
        assert_eq!(record::parse(mark), Some(of));
    }
}
