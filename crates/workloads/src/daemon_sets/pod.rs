//! The pod that a daemon set makes for a node.

use k8s_openapi::api::core::v1::PodSpec;

use super::{COMPONENT, Daemons, GENERATION_LABEL, REVISION, admission, generation};
use crate::{meta, pods, prelude::*};

/// Makes the pod of a node.
pub(super) fn create(daemons: &Daemons<'_>, node: &str, number: usize, plan: &mut Plan) {
    let set = daemons.set;
    let mut body =
        pods::with_new_name(&set.spec.template, &resource::DAEMON_SETS, &set.metadata, daemons.now, number);
    let labels = &mut body["metadata"]["labels"];
    labels[REVISION] = json!(daemons.revision);
    if let Some(generation) = generation(set) {
        labels[GENERATION_LABEL] = json!(generation);
    }
    let none = PodSpec::default();
    let spec = set.spec.template.spec.as_ref().unwrap_or(&none);
    body["spec"]["tolerations"] = json!(admission::tolerations(spec));
    // What the template asks of nodes has been asked of this one.
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
    plan.write_and_tell(Write::Create { resource: &resource::PODS, namespace, body }, note);
}
