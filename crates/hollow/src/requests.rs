//! The requests of the kubelets, as calls.

use lazaret_api::unprepared_to_text;
use lazaret_kubelet::{EffectKind, EndPod, RemovePod, SeenPod, StartPod};
use lazaret_model::{REPORTS_UNPREPARED, UNPREPARED};
use lazaret_runtime::{Call, LEASES, NODES, PODS, PatchKind};
use serde_json::{Value, json};

use crate::{
    effect::Effect,
    event, node_json,
    options::HollowOptions,
    pod_json::{self, Place},
};

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
            let pod = &warning.pod.pod;
            vec![event::warning(pod, &name, warning.reason, &warning.message, warning.at)]
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
