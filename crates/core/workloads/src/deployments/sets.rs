//! The replica sets of a deployment: the one for its template, and those before.

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::PodTemplateSpec,
};

use super::Wanted;
use crate::{meta, names, prelude::*, writes};

pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that a replica set does not take over from its deployment.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];
/// Characters of a replica set's name.
const NAME_MAX: usize = 253;

/// The replica sets of a deployment.
pub(super) struct Sets {
    /// The one whose template is the deployment's.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All others, the oldest first.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    pub(super) fn sorted(deployment: &Deployment, mut all: Vec<Arc<ReplicaSet>>) -> Self {
        all.sort_by(|left, right| age(left).cmp(&age(right)));
        let template = &deployment.spec.template;
        let new = all.iter().position(|set| {
            set.spec.template.as_ref().is_some_and(|known| without_hash(known) == without_hash(template))
        });
        let new = new.map(|at| all.remove(at));
        Self { new, old: all }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// Replica sets that should have pods.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|set| replicas(set) > 0)
    }

    /// How many pods all of them should have.
    pub(super) fn total(&self) -> i32 {
        writes::sum(self.all().map(|set| replicas(set)))
    }
}

/// The order of age: by creation, then by name.
pub(super) fn age(set: &ReplicaSet) -> (Timestamp, &str) {
    (meta::created(&set.metadata), meta::name(&set.metadata))
}

/// How many pods it should have.
pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// How many of its pods are available.
pub(super) fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// The revision that it stands for.
pub(super) fn revision(set: &ReplicaSet) -> i64 {
    meta::annotation(&set.metadata, REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A template without the label that says which it is.
fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    // An empty map and none say the same.
    if let Some(metadata) = &mut template.metadata {
        metadata.labels = metadata.labels.take().filter(|labels| !labels.is_empty());
        metadata.annotations = metadata.annotations.take().filter(|annotations| !annotations.is_empty());
        metadata.creation_timestamp = None;
    }
    template.metadata = template.metadata.filter(|metadata| *metadata != ObjectMeta::default());
    template
}

/// The annotations that a deployment hands on.
pub(super) fn inherited_annotations(deployment: &Deployment) -> BTreeMap<String, String> {
    let annotations = deployment.metadata.annotations.iter().flatten();
    annotations
        .filter(|(name, _)| !NOT_COPIED.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The annotations by which a later look knows how large the deployment was.
pub(super) fn size_annotations(wanted: &Wanted<'_>) -> Value {
    json!({DESIRED: wanted.replicas.to_string(), MAX: wanted.total_max().to_string()})
}

/// Creates the replica set for the template, with `size` pods.
///
/// DEVIATION(template-hash): the hash is one over the template as JSON. Kubernetes hashes how Go prints its own structures; nobody
/// else can. A replica set is recognised by its template, so sets of either origin are found.
pub(super) fn create(world: &World, wanted: &Wanted<'_>, revision: i64, size: i32, plan: &mut Plan) {
    let deployment = wanted.deployment;
    let (name, hash) = name_and_hash(deployment);
    let namespace = deployment.metadata.namespace.clone().unwrap_or_default();
    if let Some(other) = world.replica_sets().get(&Key::new(namespace.as_str(), name.as_str())) {
        if !meta::is_leaving(&other.metadata) {
            let collisions = collisions(deployment).unwrap_or(0) + 1;
            let status = json!({"collisionCount": collisions});
            plan.write(writes::status(&resource::DEPLOYMENTS, &deployment.metadata, status));
        }
        return;
    }
    let mut template = json!(deployment.spec.template);
    template["metadata"]["labels"][HASH] = json!(hash);
    let mut selector = json!(deployment.spec.selector);
    selector["matchLabels"][HASH] = json!(hash);
    let mut annotations = json!(inherited_annotations(deployment));
    annotations[REVISION] = json!(revision.to_string());
    for (name, value) in size_annotations(wanted).as_object().into_iter().flatten() {
        annotations[name] = value.clone();
    }
    let body = json!({
        "apiVersion": resource::REPLICA_SETS.api_version(),
        "kind": resource::REPLICA_SETS.kind,
        "metadata": {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [meta::controller_reference(&resource::DEPLOYMENTS, &deployment.metadata)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.spec.min_ready_seconds.unwrap_or(0),
            "selector": selector,
            "template": template,
        },
    });
    let write = Write::Create { resource: &resource::REPLICA_SETS, namespace, body: body.into() };
    if size > 0 {
        let message = format!("Scaled up replica set {name} from 0 to {size}");
        plan.write_and_tell(write, wanted.note(EventType::Normal, "ScalingReplicaSet", message));
    } else {
        plan.write(write);
    }
}

/// The name of the replica set for the deployment's template, and the hash that its pods carry.
pub(super) fn name_and_hash(deployment: &Deployment) -> (String, String) {
    let hash = names::hash_of(&json!(deployment.spec.template), collisions(deployment));
    let name = meta::name(&deployment.metadata);
    let base = &name[..name.len().min(NAME_MAX - 1 - hash.len())];
    (format!("{base}-{hash}"), hash)
}

/// How often another object had the name that a replica set should have got.
fn collisions(deployment: &Deployment) -> Option<i32> {
    deployment.status.as_ref()?.collision_count
}

/// Gives a replica set this size. Returns whether that changes it.
pub(super) fn resize(wanted: &Wanted<'_>, set: &ReplicaSet, size: i32, plan: &mut Plan) -> bool {
    let annotations = size_annotations(wanted);
    let old = replicas(set);
    let body = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size}});
    let write = writes::patch(&resource::REPLICA_SETS, &set.metadata, body);
    if old == size {
        let known = annotations.as_object().into_iter().flatten();
        if known.into_iter().any(|(name, value)| meta::annotation(&set.metadata, name) != value.as_str()) {
            plan.write(write);
        }
        return false;
    }
    let direction = if size > old { "up" } else { "down" };
    let name = meta::name(&set.metadata);
    let message = format!("Scaled {direction} replica set {name} from {old} to {size}");
    plan.write_and_tell(write, wanted.note(EventType::Normal, "ScalingReplicaSet", message));
    true
}
