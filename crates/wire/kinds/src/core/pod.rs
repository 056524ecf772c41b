//! Pods.

use lazaret_json::{Value, json};

use super::{label_keys, pod_cells, pod_gates, pod_resources, pod_spec, pod_validation, priority};
use crate::{
    Column, Context, Errors, Rules, classic,
    gate::{Gate, drop_disabled},
    pod_group,
    rules::{Ceiling, SPEC_AND_METADATA, SpecPart, keep_all_but_status, keep_status},
    value::{
        ByText, append, canonical_quantities, field_mut, fill, fill_zero, has, is_filled, is_true, list,
        list_mut, map_mut, number, put, put_or_remove, remove, some, take, text,
    },
};

/// Seconds that a pod stays by default on a node that is not ready or not reachable.
const TOLERATION_SECONDS: i64 = 300;
/// The grace period of a pod that names none.
const GRACE_SECONDS: i64 = 30;
/// Fields of the status that a client which does not know them must not erase.
const KEPT_STATUS: &[&str] =
    &["resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"];

const GATES: &[Gate] = &[
    Gate {
        features: &[pod_group::FEATURE],
        in_use: |spec| has(spec, "schedulingGroup"),
        clear: |spec| remove(spec, "schedulingGroup"),
    },
    Gate {
        features: &["DynamicResourceAllocation"],
        in_use: |spec| !list(spec, "resourceClaims").is_empty(),
        clear: clear_claims,
    },
];

/// Fields of the status that belong to a feature.
const STATUS_GATES: &[Gate] = &[
    Gate {
        features: &["DRAExtendedResource"],
        in_use: |status| has(status, "extendedResourceClaimStatus"),
        clear: |status| remove(status, "extendedResourceClaimStatus"),
    },
    Gate {
        features: &["DRANodeAllocatableResources"],
        in_use: |status| !list(status, "nodeAllocatableResourceClaimStatuses").is_empty(),
        clear: |status| remove(status, "nodeAllocatableResourceClaimStatuses"),
    },
    Gate {
        features: &["CSIVolumeHealth"],
        in_use: |status| is_filled(status, "volumeHealth"),
        clear: |status| remove(status, "volumeHealth"),
    },
    Gate {
        features: &["ImageVolumeWithDigest"],
        in_use: |status| mounts(status).any(|mount| has(mount, "volumeStatus")),
        clear: |status| {
            if mounts(status).any(|mount| has(mount, "volumeStatus")) {
                for field in CONTAINER_STATUSES {
                    let mounts = |container| list_mut(container, "volumeMounts").iter_mut();
                    list_mut(status, field)
                        .iter_mut()
                        .flat_map(mounts)
                        .for_each(|mount| remove(mount, "volumeStatus"));
                }
            }
        },
    },
];

const CONTAINER_STATUSES: [&str; 3] =
    ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// Volumes as the containers of a pod have them.
fn mounts(status: &Value) -> impl Iterator<Item = &Value> {
    let containers = CONTAINER_STATUSES.into_iter().flat_map(|field| list(status, field));
    containers.flat_map(|container| list(container, "volumeMounts"))
}

fn clear_claims(spec: &mut Value) {
    remove(spec, "resourceClaims");
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, field) {
            if let Some(resources) = container.get_mut("resources").filter(|resources| resources.is_object())
            {
                remove(resources, "claims");
            }
        }
    }
}

/// Pods.
#[derive(Debug)]
pub(crate) struct Pod;

impl Rules for Pod {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        pod_spec::default(spec);
        pod_spec::default_pod(spec);
        if let Some(status) = object.get_mut("status").filter(|status| status.is_object()) {
            default_addresses(status);
        }
        canonical_quantities(object, "core/v1.Pod");
    }

    fn prepare_create(&self, object: &mut Value, context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        drop_disabled(GATES, spec, None, context.features);
        pod_gates::drop_fields(spec, None, context.features);
        priority::resolve(spec, context);
        pod_resources::default(spec, context.features.release());
        tolerate_lost_nodes(spec);
        let mut status = json!({"phase": "Pending", "qosClass": pod_spec::quality(spec)});
        if !list(spec, "schedulingGates").is_empty() {
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastTransitionTime": context.timestamp(),
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        put(object, "status", status);
        label_keys::write_out(object);
    }

    /// A pod that runs nowhere, or no longer, is gone at once.
    fn grace_seconds(&self, pod: &Value, asked: Option<i64>) -> i64 {
        let spec = &pod["spec"];
        if text(spec, "nodeName").is_empty()
            || matches!(text(&pod["status"], "phase"), "Succeeded" | "Failed")
        {
            return 0;
        }
        let own = || spec["terminationGracePeriodSeconds"].as_i64().unwrap_or(GRACE_SECONDS);
        let seconds = asked.unwrap_or_else(own);
        if seconds < 0 { 1 } else { seconds }
    }

    fn shows_deletion(&self) -> bool {
        true
    }

    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::NamespacePods)
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        priority::check(errors, &object["spec"], context);
        classic::check_feature(errors, &object["spec"], context.features);
        pod_validation::create(errors, object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        let spec = field_mut(new, "spec");
        drop_disabled(GATES, spec, Some(&old["spec"]), context.features);
        pod_gates::drop_fields(spec, Some(&old["spec"]), context.features);
        for field in ["priority", "preemptionPolicy"] {
            if let Some(kept) = some(&old["spec"], field) {
                fill(spec, field, kept.clone());
            }
        }
        tolerate_lost_nodes(spec);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        pod_validation::update(errors, new, old);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        &["spec", "metadata.ownerReferences"]
    }

    fn prepare_status(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_all_but_status(new, old, self.status_resets());
        let status = field_mut(new, "status");
        map_mut(status);
        let before = &old["status"];
        drop_disabled(STATUS_GATES, status, Some(before), context.features);
        let claims_are_on = context.features.is_on("DynamicResourceAllocation");
        if !claims_are_on && list(&old["spec"], "resourceClaims").is_empty() {
            remove(status, "resourceClaimStatuses");
        }
        fill(status, "qosClass", before.get("qosClass").cloned().unwrap_or_default());
        for field in KEPT_STATUS {
            if let Some(kept) = some(before, field)
                && !has(status, field)
            {
                put(status, field, kept.clone());
            }
        }
        keep_observed_generations(status, before);
    }

    fn validate_status(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        pod_validation::status(errors, new, old);
    }

    fn prepare_part(&self, part: SpecPart, new: &mut Value, old: &Value, context: &Context<'_>) {
        let mut wanted = take(new, "spec").unwrap_or_default();
        keep_all_but_status(new, old, SPEC_AND_METADATA);
        keep_status(new, old);
        match part {
            SpecPart::EphemeralContainers => {
                let wanted = take(&mut wanted, "ephemeralContainers");
                put_or_remove(field_mut(new, "spec"), "ephemeralContainers", wanted);
            }
            SpecPart::Resize => {
                pod_validation::prepare_resize(&mut wanted, &old["spec"]);
                pod_resources::default(&mut wanted, context.features.release());
                put(new, "spec", wanted);
            }
        }
    }

    fn validate_part(&self, part: SpecPart, new: &Value, old: &Value, errors: &mut Errors) {
        match part {
            SpecPart::EphemeralContainers => pod_validation::update_ephemeral_containers(errors, new, old),
            SpecPart::Resize => pod_validation::check_resize(errors, new, old),
        }
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        let (spec, status) = (&object["spec"], &object["status"]);
        Some(match field {
            "spec.nodeName" | "spec.host" => text(spec, "nodeName").into(),
            "spec.restartPolicy" => text(spec, "restartPolicy").into(),
            "spec.schedulerName" => text(spec, "schedulerName").into(),
            "spec.serviceAccountName" => text(spec, "serviceAccountName").into(),
            "spec.hostNetwork" => is_true(spec, "hostNetwork").to_string(),
            "status.phase" => text(status, "phase").into(),
            "status.podIP" => text(status, "podIP").into(),
            "status.podIPs" => {
                list(status, "podIPs").iter().map(|ip| text(ip, "ip")).collect::<Vec<_>>().join(",")
            }
            "status.nominatedNodeName" => text(status, "nominatedNodeName").into(),
            _ => return None,
        })
    }

    fn columns(&self) -> &'static [Column] {
        pod_cells::COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        pod_cells::cells(object, context)
    }
}

/// The first address and the list of all say the same.
fn default_addresses(status: &mut Value) {
    let first = text(status, "podIP").to_owned();
    let listed = list(status, "podIPs").first().map(|ip| text(ip, "ip").to_owned());
    match listed {
        Some(listed) if first.is_empty() => put(status, "podIP", listed),
        Some(listed) if listed == first => {}
        _ if first.is_empty() => {}
        _ => put(status, "podIPs", json!([{"ip": first}])),
    }
}

fn tolerate_lost_nodes(spec: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, "tolerations").iter().any(|toleration| {
            ["", key].contains(&text(toleration, "key"))
                && ["", "NoExecute"].contains(&text(toleration, "effect"))
        });
        if !tolerated {
            let added = json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATION_SECONDS});
            append(spec, "tolerations", added);
        }
    }
}

/// A status without a generation is of the same as before.
fn keep_observed_generations(status: &mut Value, old: &Value) {
    if let Some(kept) = some(old, "observedGeneration").and_then(Value::as_i64) {
        fill_zero(status, "observedGeneration", kept);
    }
    let earlier = ByText::of(list(old, "conditions"), "type");
    for condition in list_mut(status, "conditions") {
        let before = earlier.get(text(condition, "type"));
        if let Some(kept) = before.map(|known| number(known, "observedGeneration")).filter(|kept| *kept != 0)
        {
            fill_zero(condition, "observedGeneration", kept);
        }
    }
    if number(status, "observedGeneration") == 0 {
        remove(status, "observedGeneration");
    }
}
