//! The pod that a daemon set makes for a node.

use k8s_openapi::api::core::v1::PodSpec;

use super::{COMPONENT, Daemons, GENERATION_LABEL, REVISION, admission, generation};
use crate::{meta, pods, prelude::*};

// DEVIATION(failed-daemons): Kubernetes counts in memory, and forgets when it starts again.
/// How many pods of the set failed in a row on the node before this one.
const FAILURES: &str = "lazaret.dev/failures-before";

/// How many pods failed in a row before this one. Any client may write annotations: a value that is no count is 0.
pub(super) fn failures_before(pod: &Pod) -> u32 {
    meta::annotation(&pod.metadata, FAILURES).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Makes the pod of a node, on which this many failed in a row.
pub(super) fn create(daemons: &Daemons<'_>, node: &str, number: usize, failures: u32, plan: &mut Plan) {
    let set = daemons.set;
    let mut body =
        pods::with_new_name(&set.spec.template, &resource::DAEMON_SETS, &set.metadata, daemons.now, number);
    let labels = &mut body["metadata"]["labels"];
    labels[REVISION] = json!(daemons.revision);
    if let Some(generation) = generation(set) {
        labels[GENERATION_LABEL] = json!(generation);
    }
    if failures > 0 {
        body["metadata"]["annotations"][FAILURES] = json!(failures.to_string());
    }
    let none = PodSpec::default();
    let spec = set.spec.template.spec.as_ref().unwrap_or(&none);
    body["spec"]["tolerations"] = json!(admission::tolerations(spec));
    // The node was already checked against the template's own node affinity.
    body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
    });
    let name = body["metadata"]["name"].as_str().unwrap_or_default();
    let note = Note {
        resource: &resource::DAEMON_SETS,
        key: Key::of(&set.metadata),
        uid: meta::uid(&set.metadata).to_owned(),
        kind: EventType::Normal,
        reason: "SuccessfulCreate",
        message: format!("Created pod: {name}"),
        component: COMPONENT,
    };
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    plan.write_and_tell(Write::Create { resource: &resource::PODS, namespace, body: body.into() }, note);
}
