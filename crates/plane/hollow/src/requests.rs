//! The requests of the kubelets, as calls.

use lazaret_api::unprepared_to_text;
use lazaret_kubelet::{EffectKind, EndPod, RemovePod, SeenPod, StartPod};
use lazaret_model::{REPORTS_UNPREPARED, UNPREPARED};
use lazaret_runtime::{Call, LEASES, NODES, PODS, PatchKind};
use serde_json::{Value, json};

use crate::{
    annotations::PREPARED,
    checkpoint,
    effect::Effect,
    event, node_json,
    options::HollowOptions,
    pod_json::{self, Place},
};

/// The reason of an event of a pod whose device was also given to the claim of another pod.
const DEVICE_WANTED: &str = "DeviceAllocatedTwice";

/// The calls that carry out an effect of the kubelets.
pub(crate) fn calls(options: &HollowOptions, kind: &EffectKind) -> Effect {
    let name = options.node_name(kind.node());
    let patch_node = |part: &str, kind: PatchKind, body: &Value| {
        Call::patch(&NODES, "", &name, part, kind, body.to_string())
    };
    Effect::Calls(match kind {
        EffectKind::Register { node, at } => {
            vec![Call::create(&NODES, "", node_json::node(options, *node, *at).to_string())]
        }
        EffectKind::SetNodeReady { node, uid, at } => {
            let status = node_json::status(options, *node, *at);
            let body = json!({"metadata": {"uid": &**uid}, "status": status});
            vec![patch_node("status", PatchKind::Strategic, &body)]
        }
        EffectKind::Report { uid, unprepared, .. } => {
            let text = (!unprepared.is_empty()).then(|| unprepared_to_text(unprepared));
            let annotations = json!({REPORTS_UNPREPARED: "true", UNPREPARED: text});
            let body = json!({"metadata": {"uid": &**uid, "annotations": annotations}});
            vec![patch_node("", PatchKind::Merge, &body)]
        }
        EffectKind::Save { uid, version, checkpoint, .. } => {
            let annotations = json!({PREPARED: checkpoint::to_text(checkpoint)});
            let metadata = json!({"uid": &**uid, "resourceVersion": &**version, "annotations": annotations});
            vec![patch_node("", PatchKind::Merge, &json!({"metadata": metadata}))]
        }
        EffectKind::RemoveNotReadyTaint { uid, version, others, .. } => {
            let body = json!({
                "metadata": {"uid": &**uid, "resourceVersion": &**version},
                "spec": {"taints": node_json::taints(others)},
            });
            vec![patch_node("", PatchKind::Merge, &body)]
        }
        EffectKind::RenewLease { node, at } => {
            let renewal = node_json::renewal(options, *node, *at).to_string();
            let lease = node_json::lease(options, *node, *at).to_string();
            return Effect::Lease {
                renew: Call::patch(&LEASES, "kube-node-lease", &name, "", PatchKind::Merge, renewal),
                create: Call::create(&LEASES, "kube-node-lease", lease),
            };
        }
        EffectKind::Warn(warning) => {
            let about = |pod: &SeenPod, reason: &str, message: &str| {
                event::warning(&pod.pod, &name, reason, message, warning.at)
            };
            let own = about(&warning.pod, warning.reason, &warning.message);
            let holders = warning.holders.iter().map(|(pod, message)| about(pod, DEVICE_WANTED, message));
            std::iter::once(own).chain(holders).collect()
        }
        EffectKind::Start(start) => vec![patch_status(&start.pod, &pod_json::running(start, &place(start)))],
        EffectKind::SetPodReady { pod, at, .. } => vec![patch_status(pod, &pod_json::ready(pod, *at))],
        EffectKind::End(end) => vec![ended(end)],
        EffectKind::Remove(RemovePod { pod, end, .. }) => {
            let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": &*pod.pod.uid}});
            let key = pod.key();
            let delete = Call::delete(&PODS, &key.namespace, &key.name, options.to_string());
            end.iter().map(ended).chain([delete]).collect()
        }
    })
}

fn place(start: &StartPod) -> Place {
    let host_ip = node_json::host_ip(start.node);
    let pod_ip = match start.address {
        Some(number) => node_json::pod_ip(start.node, number),
        None => host_ip.clone(),
    };
    Place { host_ip, pod_ip }
}

fn ended(end: &EndPod) -> Call {
    patch_status(&end.pod, &pod_json::ended(end))
}

fn patch_status(pod: &SeenPod, status: &Value) -> Call {
    let key = pod.key();
    Call::patch(&PODS, &key.namespace, &key.name, "status", PatchKind::Strategic, status.to_string())
}
