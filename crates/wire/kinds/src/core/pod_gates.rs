//! Fields of a pod's spec that belong to features which no release that can be had has by default. Sent with them off, they are dropped,
//! as Kubernetes drops them.

use lazaret_json::Value;

use crate::{
    Features,
    gate::{Gate, drop_disabled},
    value::{has, is_blank, list, list_mut, remove},
};

const CONTAINERS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];
const PROBES: &[&str] = &["livenessProbe", "readinessProbe", "startupProbe"];
const HOOKS: &[&str] = &["postStart", "preStop"];
/// Volumes of files, which may belong to a user.
const FILES: &[&str] = &["secret", "configMap", "downwardAPI", "projected"];
const SOURCES_OF_FILES: &[&str] =
    &["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

/// Whether a spec has any of these fields.
pub(crate) fn is_gated(spec: &Value) -> bool {
    GATES.iter().any(|gate| (gate.in_use)(spec))
}

/// Drops fields of features that are off, unless the stored spec has them.
pub(crate) fn drop_fields(spec: &mut Value, old: Option<&Value>, features: &Features) {
    for gate in GATES {
        // To change a spec costs more than to look.
        if (gate.in_use)(spec) {
            drop_disabled(std::slice::from_ref(gate), spec, old, features);
        }
    }
}

const GATES: &[Gate] = &[
    Gate {
        features: &["ContainerStopSignals"],
        in_use: |spec| in_containers(spec, has_stop_signal),
        clear: |spec| each_container(spec, clear_stop_signal),
    },
    Gate {
        features: &["H2CContainerProbe"],
        in_use: |spec| {
            in_containers(spec, |container| {
                actions(container).any(|action| has(&action["httpGet"], "protocol"))
            })
        },
        clear: |spec| {
            each_container(spec, |container| {
                each_action(container, |action| remove_below(action, "httpGet", "protocol"));
            });
        },
    },
    Gate {
        features: &["GRPCContainerProbeTLS"],
        in_use: |spec| {
            in_containers(spec, |container| actions(container).any(|action| has(&action["grpc"], "mode")))
        },
        clear: |spec| {
            each_container(spec, |container| {
                each_action(container, |action| remove_below(action, "grpc", "mode"));
            });
        },
    },
    Gate {
        features: &["VolumeBindMountOptions"],
        in_use: |spec| {
            in_containers(spec, |container| {
                list(container, "volumeMounts").iter().any(|mount| has(mount, "bindMountOptions"))
            })
        },
        clear: |spec| {
            each_container(spec, |container| {
                list_mut(container, "volumeMounts")
                    .iter_mut()
                    .for_each(|mount| remove(mount, "bindMountOptions"));
            });
        },
    },
    Gate {
        features: &["EmptyDirVolumeMode"],
        in_use: |spec| list(spec, "volumes").iter().any(|volume| has(&volume["emptyDir"], "mode")),
        clear: |spec| {
            list_mut(spec, "volumes").iter_mut().for_each(|volume| remove_below(volume, "emptyDir", "mode"));
        },
    },
    Gate {
        features: &["AtomicWriteVolumeUserFields"],
        in_use: |spec| list(spec, "volumes").iter().any(has_users),
        clear: |spec| list_mut(spec, "volumes").iter_mut().for_each(clear_users),
    },
    Gate {
        features: &["EvictionRequestAPI"],
        in_use: |spec| !list(spec, "evictionResponders").is_empty(),
        clear: |spec| remove(spec, "evictionResponders"),
    },
];

fn in_containers(spec: &Value, found: impl Fn(&Value) -> bool) -> bool {
    CONTAINERS.iter().any(|field| list(spec, field).iter().any(&found))
}

fn each_container(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for field in CONTAINERS {
        list_mut(spec, field).iter_mut().for_each(&mut change);
    }
}

/// The actions of a container's probes and hooks.
fn actions(container: &Value) -> impl Iterator<Item = &Value> {
    let probes = PROBES.iter().map(move |probe| &container[*probe]);
    probes.chain(HOOKS.iter().map(move |hook| &container["lifecycle"][*hook]))
}

fn each_action(container: &mut Value, mut change: impl FnMut(&mut Value)) {
    for probe in PROBES {
        object_at(container, probe).into_iter().for_each(&mut change);
    }
    for hook in HOOKS {
        object_at(container, "lifecycle")
            .and_then(|of| object_at(of, hook))
            .into_iter()
            .for_each(&mut change);
    }
}

fn object_at<'v>(holder: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    holder.get_mut(field).filter(|found| found.is_object())
}

fn remove_below(holder: &mut Value, field: &str, below: &str) {
    if let Some(found) = object_at(holder, field) {
        remove(found, below);
    }
}

fn has_stop_signal(container: &Value) -> bool {
    has(&container["lifecycle"], "stopSignal")
}

/// A lifecycle that says nothing else is none.
fn clear_stop_signal(container: &mut Value) {
    if has_stop_signal(container) {
        remove_below(container, "lifecycle", "stopSignal");
        if is_blank(&container["lifecycle"]) {
            remove(container, "lifecycle");
        }
    }
}

fn has_users(volume: &Value) -> bool {
    let of_items = |source: &Value| list(source, "items").iter().any(|item| has(item, "user"));
    FILES.iter().map(|field| &volume[*field]).any(|source| has(source, "defaultUser") || of_items(source))
        || list(&volume["projected"], "sources").iter().any(|part| {
            SOURCES_OF_FILES.iter().map(|field| &part[*field]).any(|part| has(part, "user") || of_items(part))
        })
}

fn clear_users(volume: &mut Value) {
    for field in FILES {
        let Some(source) = object_at(volume, field) else { continue };
        remove(source, "defaultUser");
        list_mut(source, "items").iter_mut().for_each(|item| remove(item, "user"));
    }
    let Some(projected) = object_at(volume, "projected") else { return };
    for part in list_mut(projected, "sources") {
        for field in SOURCES_OF_FILES {
            let Some(part) = object_at(part, field) else { continue };
            remove(part, "user");
            list_mut(part, "items").iter_mut().for_each(|item| remove(item, "user"));
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    #[test]
    fn fields_of_features_that_are_off_are_dropped_unless_they_are_stored() {
        let grpc = json!({"grpc": {"port": 1, "mode": "TLS"}});
        let http = json!({"httpGet": {"port": 1, "protocol": "h2c"}});
        let spec = json!({
            "evictionResponders": [{"name": "r"}],
            "containers": [
                {"name": "a", "lifecycle": {"stopSignal": "SIGTERM"}, "livenessProbe": grpc},
                {"name": "b", "lifecycle": {"stopSignal": "SIGTERM", "preStop": http}, "volumeMounts": [{"name": "v", "bindMountOptions": {}}]},
            ],
            "volumes": [
                {"name": "v", "emptyDir": {"mode": 1}},
                {"name": "w", "secret": {"secretName": "s", "defaultUser": 1, "items": [{"key": "k", "path": "p", "user": 1}]}},
                {"name": "x", "projected": {"defaultUser": 1, "sources": [{"serviceAccountToken": {"path": "t", "user": 1}}]}},
                {"name": "y", "rbd": {"user": "admin"}},
            ],
        });
        let wanted = json!({
            "containers": [
                {"name": "a", "livenessProbe": {"grpc": {"port": 1}}},
                {"name": "b", "lifecycle": {"preStop": {"httpGet": {"port": 1}}}, "volumeMounts": [{"name": "v"}]},
            ],
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
                {"name": "x", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
                {"name": "y", "rbd": {"user": "admin"}},
            ],
        });
        assert!(is_gated(&spec) && !is_gated(&wanted));
        let mut new = spec.clone();
        drop_fields(&mut new, None, &Features::default());
        assert_eq!(new, wanted);
        let mut stored = spec.clone();
        drop_fields(&mut stored, Some(&spec), &Features::default());
        assert_eq!(stored, spec);
    }
}
