//! Questions about pods that every controller asks, and pods made from templates.

use k8s_openapi::api::core::v1::{PodCondition, PodTemplateSpec};

use crate::{meta, names, prelude::*, writes};

/// Whether it has run its course.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it counts as a replica: neither finished nor leaving.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !meta::is_leaving(&pod.metadata)
}

/// Whether it is on its way out and may still hold what it had.
pub(crate) fn is_terminating(pod: &Pod) -> bool {
    !is_finished(pod) && meta::is_leaving(&pod.metadata)
}

/// The phase, or nothing.
pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The node that it is bound to, or nothing.
pub(crate) fn node(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The node that it is for: the one that it is bound to, or the only one that its affinity admits by name.
pub(crate) fn target(pod: &Pod) -> Option<&str> {
    let bound = node(pod);
    if !bound.is_empty() {
        return Some(bound);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    let fields = required.node_selector_terms.iter().flat_map(|term| term.match_fields.iter().flatten());
    let mut named = fields.filter(|field| field.key == "metadata.name" && field.operator == "In");
    match named.next()?.values.as_deref()? {
        [name] => Some(name),
        _ => None,
    }
}

/// A condition.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Whether it says that it is ready.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Since when it is ready.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    Some(ready.last_transition_time.as_ref().map_or(Timestamp::EPOCH, meta::timestamp))
}

/// When it is, or will be, available: ready for `min_ready_seconds`.
pub(crate) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    ready_since(pod).map(|since| since.plus_secs(i64::from(min_ready_seconds)))
}

/// Whether it has been ready for `min_ready_seconds`.
pub(crate) fn is_available(now: Timestamp, pod: &Pod, min_ready_seconds: i32) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| min_ready_seconds == 0 || at <= now)
}

/// The patch that has the pod say something of this kind, unless it does so already.
pub(crate) fn with_condition(
    now: Timestamp,
    pod: &Pod,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Option<Write> {
    let known = condition(pod, kind);
    if known.is_some_and(|known| known.status == status) {
        return None;
    }
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.retain(|known| known.type_ != kind);
    conditions.push(PodCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: (!reason.is_empty()).then(|| reason.to_owned()),
        message: (!message.is_empty()).then(|| message.to_owned()),
        last_transition_time: Some(meta::wire_time(now)),
        last_probe_time: None,
        observed_generation: pod.metadata.generation,
    });
    Some(writes::status(&resource::PODS, &pod.metadata, json!({"conditions": conditions})))
}

/// A pod as a template has it, to be made by `owner`.
pub(crate) fn from_template(
    template: &PodTemplateSpec,
    resource: &Resource,
    owner: &ObjectMeta,
    name: &str,
) -> Value {
    from_template_value(&json!(template), resource, owner, name)
}

/// As [`from_template`], for a template that is kept as a value.
pub(crate) fn from_template_value(
    template: &Value,
    resource: &Resource,
    owner: &ObjectMeta,
    name: &str,
) -> Value {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "ownerReferences": [meta::controller_reference(resource, owner)],
        },
        "spec": template["spec"],
    });
    for field in ["labels", "annotations", "finalizers"] {
        let own = &template["metadata"][field];
        if !own.is_null() {
            pod["metadata"][field] = own.clone();
        }
    }
    pod
}

/// As [`from_template`], with a name that is not in use.
///
/// DEVIATION(chosen-names): the name is chosen here and not by the server, so that a creation of which nobody knows
/// whether it was done can be sent again without making a second pod.
pub(crate) fn with_new_name(
    template: &PodTemplateSpec,
    resource: &Resource,
    owner: &ObjectMeta,
    now: Timestamp,
    number: usize,
) -> Value {
    let prefix = format!("{}-", meta::name(owner));
    let name = names::generated(&prefix, meta::uid(owner), now, number);
    let mut pod = from_template(template, resource, owner, &name);
    pod["metadata"]["generateName"] = json!(prefix);
    pod
}
