//! Admission of a new pod: an account with its token, and a priority.

use lazaret_json::{Value, json};
use lazaret_kinds::check_stated_priority;

use super::{limit_ranges, plugins::AdmissionPlugin, runtime_class};
use crate::{ApiError, call::Call, random};

const TOKEN_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// As Kubernetes asks for it: an hour and a little, which its servers stretch for clients that do not renew.
const TOKEN_SECONDS: i64 = 3_607;
const SYSTEM_CLASSES: &[&str] = &["system-node-critical", "system-cluster-critical"];

pub(super) fn before_create(call: &Call<'_>, pod: &mut Value, name: &str) -> Result<(), ApiError> {
    if !pod["spec"].is_object() {
        return Ok(());
    }
    limit_ranges::default_pod(call, pod);
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()).map(str::to_owned) {
        copy_topology(call, pod, &node);
    }
    priority(call, pod, name)?;
    if call.server.runs_plugin(AdmissionPlugin::ServiceAccount) {
        account(call, pod, name)?;
    }
    runtime_class::admit(call, pod, name)
}

/// Labels of a node that its pods get.
const TOPOLOGY: &[&str] = &["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Tells a pod where the node is that it goes to. A node that is not known says nothing.
pub(crate) fn copy_topology(call: &Call<'_>, pod: &mut Value, node: &str) {
    if !call.server.features().is_on("PodTopologyLabelsAdmission") {
        return;
    }
    let Some(nodes) = lazaret_kinds::find("", "nodes") else { return };
    let Some(node) = call.server.get(nodes, "", node) else { return };
    for label in TOPOLOGY {
        if let Some(value) = node["metadata"]["labels"].get(*label) {
            pod["metadata"]["labels"][*label] = value.clone();
        }
    }
}

fn priority(call: &Call<'_>, pod: &mut Value, name: &str) -> Result<(), ApiError> {
    let spec = &mut pod["spec"];
    let mut said = spec["priorityClassName"].as_str().unwrap_or_default().to_owned();
    if said.is_empty()
        && let Some(class) = call.server.default_priority()
    {
        said.clone_from(&class);
        spec["priorityClassName"] = class.into();
    }
    let class = lazaret_kinds::find("scheduling.k8s.io", "priorityclasses")
        .filter(|_| !said.is_empty())
        .and_then(|classes| call.server.get(classes, "", &said));
    if class.is_none() && !said.is_empty() && !SYSTEM_CLASSES.contains(&said.as_str()) {
        let why = format!("no PriorityClass with name {said} was found");
        return Err(ApiError::forbidden(&call.kind, name, &why));
    }
    check_stated_priority(spec, class.as_ref()).map_err(|why| ApiError::forbidden(&call.kind, name, &why))
}

/// The account that the pod runs as, and the volume with its token. The default account of a namespace may be missing:
/// then there is no token.
fn account(call: &Call<'_>, pod: &mut Value, name: &str) -> Result<(), ApiError> {
    let mirror = pod["metadata"]["annotations"].get("kubernetes.io/config.mirror").is_some();
    let spec = &mut pod["spec"];
    let said = ["serviceAccountName", "serviceAccount"].iter().find_map(|field| spec[*field].as_str());
    let said = said.filter(|said| !said.is_empty());
    // A pod that a node made for itself has no account.
    if mirror {
        let why = "a mirror pod may not reference service accounts";
        return said.map_or(Ok(()), |_| Err(ApiError::forbidden(&call.kind, name, why)));
    }
    let account = said.unwrap_or("default").to_owned();
    for field in ["serviceAccountName", "serviceAccount"] {
        spec[field] = account.clone().into();
    }
    let namespace = &call.target.namespace;
    let found = lazaret_kinds::find("", "serviceaccounts")
        .and_then(|accounts| call.server.get(accounts, namespace, &account));
    let Some(found) = found else {
        if account == "default" {
            return Ok(());
        }
        let why = format!(
            "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
        );
        return Err(ApiError::forbidden(&call.kind, name, &why));
    };
    let wanted = [&*spec, &found].iter().find_map(|holder| holder["automountServiceAccountToken"].as_bool());
    if wanted.unwrap_or(true) {
        mount_token(spec);
    }
    Ok(())
}

fn mount_token(spec: &mut Value) {
    let volume = format!("kube-api-access-{}", random::name_suffix());
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        // By `get_mut`: to index what is not there would make it.
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|one| one.is_object()) {
            let mounts = container["volumeMounts"].as_array().map_or(&[][..], Vec::as_slice);
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_FOLDER) {
                continue;
            }
            let mount = json!({"name": volume, "mountPath": TOKEN_FOLDER, "readOnly": true});
            push(container, "volumeMounts", mount);
            mounted = true;
        }
    }
    if mounted {
        push(spec, "volumes", token_volume(&volume));
    }
}

fn token_volume(name: &str) -> Value {
    let field = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]}})
}

fn push(holder: &mut Value, list: &str, item: Value) {
    let place = &mut holder[list];
    if let Value::Array(items) = place {
        items.push(item);
    } else {
        *place = json!([item]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_mounted_into_each_container_and_nothing_else_appears() {
        let mut spec = json!({"containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"mountPath": TOKEN_FOLDER}]}]});
        mount_token(&mut spec);
        assert_eq!(spec["containers"][0]["volumeMounts"][0]["mountPath"], TOKEN_FOLDER);
        assert_eq!(spec["volumes"].as_array().unwrap().len(), 1);
        assert!(spec.get("initContainers").is_none());
    }
}
