//! Pods: a node makes mirrors of those that it runs by itself, and reports, evicts and deletes those that are bound to it.

use lazaret_json::Value;

use super::attempt::{Attempt, AttemptContext, Operation, Refusal, Verdict, same};
use crate::{
    auth::node::references::{MIRROR, config_maps, is_mirror, list, secrets, text},
    object,
};

/// Sources of a volume that name no other object of the API.
const SELF_CONTAINED: &[&str] = &[
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Sources of a volume that name other objects, and what these are called in a refusal.
const REFERRING: &[(&str, &str)] = &[
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// The same for sources of a projected volume.
const PROJECTED: &[(&str, &str)] = &[
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

pub(super) fn pod(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    let node = attempt.node;
    match attempt.operation {
        Operation::Create => create(attempt, context),
        Operation::Delete if is_bound_to(attempt.old, node) => Ok(()),
        Operation::Delete => Err(Refusal::Forbidden(format!(
            "node {node:?} can only delete pods with spec.nodeName set to itself"
        ))),
        Operation::Update => Err(Refusal::Forbidden(format!(
            "unexpected operation \"{}\", node {node:?} can only create and delete mirror pods",
            attempt.operation
        ))),
    }
}

pub(super) fn status(attempt: &Attempt<'_>) -> Verdict {
    let Attempt { node, object, old, operation, .. } = *attempt;
    if operation != Operation::Update {
        return Err(Refusal::Forbidden(format!("unexpected operation \"{operation}\"")));
    }
    let refuse = |why: &str| Err(Refusal::Forbidden(format!("node {node:?} {why}")));
    if !is_bound_to(old, node) {
        return refuse("can only update pod status for pods with spec.nodeName set to itself");
    }
    if !same(&old["metadata"]["labels"], &object["metadata"]["labels"]) {
        return refuse("cannot update labels through pod status");
    }
    for (field, why) in [
        ("resourceClaimStatuses", "cannot update resource claim statues"),
        ("extendedResourceClaimStatus", "cannot update extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "cannot update node allocatable resource claim statuses"),
    ] {
        if !same(&old["status"][field], &object["status"][field]) {
            return refuse(why);
        }
    }
    Ok(())
}

pub(super) fn eviction(attempt: &Attempt<'_>) -> Verdict {
    if attempt.operation != Operation::Create {
        return Err(Refusal::Forbidden(format!("unexpected operation {}", attempt.operation)));
    }
    if is_bound_to(attempt.old, attempt.node) {
        return Ok(());
    }
    let why = format!("node {} can only evict pods with spec.nodeName set to itself", attempt.node);
    Err(Refusal::Forbidden(why))
}

pub(super) fn is_bound_to(pod: &Value, node: &str) -> bool {
    pod["spec"]["nodeName"] == node
}

fn create(attempt: &Attempt<'_>, context: &AttemptContext<'_>) -> Verdict {
    let (node, pod) = (attempt.node, attempt.object);
    if !is_mirror(pod) {
        return Err(Refusal::Forbidden(format!(
            "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
        )));
    }
    if !is_bound_to(pod, node) {
        return Err(Refusal::Forbidden(format!(
            "node {node:?} can only create pods with spec.nodeName set to itself"
        )));
    }
    owner(node, pod, context)?;
    match other_objects(pod) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => {
            Err(Refusal::Forbidden(format!("node {node:?} can not create pods that reference {what}")))
        }
        Err(why) => Err(Refusal::Forbidden(format!("error checking mirror pod for API references: {why}"))),
    }
}

/// A mirror pod belongs to its node, and to it alone.
fn owner(node: &str, pod: &Value, context: &AttemptContext<'_>) -> Verdict {
    let refuse = |why: &str| Err(Refusal::Forbidden(format!("node {node:?} {why}")));
    let owners: Vec<&Value> = list(&pod["metadata"], "ownerReferences").collect();
    let owner = match owners.as_slice() {
        [] => return refuse("can only create pods with an owner reference set to itself"),
        [owner] => *owner,
        _ => return refuse("can only create pods with a single owner reference set to itself"),
    };
    if owner["apiVersion"] != "v1" || owner["kind"] != "Node" || owner["name"] != node {
        return refuse("can only create pods with an owner reference set to itself");
    }
    if owner["controller"] != true {
        return refuse("can only create pods with a controller owner reference set to itself");
    }
    if owner["blockOwnerDeletion"] == true {
        return refuse("must not set blockOwnerDeletion on an owner reference");
    }
    let Some(stored) = (context.stored)("", "nodes", "", node) else {
        return Err(Refusal::NotFound("", "nodes", node.to_owned()));
    };
    let (said, uid) = (owner["uid"].as_str().unwrap_or_default(), object::meta(&stored, "uid"));
    if said != uid {
        return Err(Refusal::Forbidden(format!("node {node} UID mismatch: expected {said} got {uid}")));
    }
    Ok(())
}

/// Which other objects of the API a pod names, in the words of a refusal.
fn other_objects(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = &pod["spec"];
    let has_account =
        ["serviceAccountName", "serviceAccount"].iter().any(|field| text(spec, field).is_some());
    for (found, what) in [
        (has_account, "serviceaccounts"),
        (!secrets(pod).is_empty(), "secrets"),
        (!config_maps(pod).is_empty(), "configmaps"),
        (list(spec, "resourceClaims").next().is_some(), "resourceclaims"),
    ] {
        if found {
            return Ok(Some(what));
        }
    }
    for volume in list(spec, "volumes") {
        if let Some(what) = other_objects_of_volume(volume)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

fn other_objects_of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    let has = |holder: &Value, field: &str| holder.get(field).is_some_and(|value| !value.is_null());
    let name = volume["name"].as_str().unwrap_or_default();
    if let Some((_, what)) = REFERRING.iter().find(|(source, _)| has(volume, source)) {
        return Ok(Some(what));
    }
    if has(volume, "projected") {
        for source in list(&volume["projected"], "sources") {
            if let Some((_, what)) = PROJECTED.iter().find(|(field, _)| has(source, field)) {
                return Ok(Some(what));
            }
            if !has(source, "downwardAPI") {
                return Err(format!("unknown source for projected volume {name:?}"));
            }
        }
        return Ok(None);
    }
    if SELF_CONTAINED.iter().any(|source| has(volume, source)) {
        return Ok(None);
    }
    Err(format!("unknown volume type for volume  {name:?}"))
}
