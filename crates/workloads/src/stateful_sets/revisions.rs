//! The templates that a stateful set has had, each kept as an object of its own.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::Pod,
};

use super::revision_of;
use crate::{
    meta, names,
    prelude::*,
    writes::{self, size},
};

/// What Kubernetes means when a set does not say how many to keep.
const KEPT: i32 = 10;

/// Which template pods have, and which they should get.
pub(super) struct Revisions {
    all: Vec<Arc<ControllerRevision>>,
    pub(super) current: Arc<ControllerRevision>,
    pub(super) update: Arc<ControllerRevision>,
}

impl Revisions {
    /// The revisions of a set, or nothing while the one for its template is being made.
    pub(super) fn of(
        world: &World,
        set: &StatefulSet,
        mut all: Vec<Arc<ControllerRevision>>,
        plan: &mut Plan,
    ) -> Option<Self> {
        all.sort_by(|left, right| order(left).cmp(&order(right)));
        let template = template_of(set);
        let next = all.last().map_or(0, |last| last.revision.unwrap_or(0)) + 1;
        let Some(update) = all.iter().rev().find(|known| template_in(known) == &template) else {
            create(world, set, &template, next, plan);
            return None;
        };
        let update = Arc::clone(update);
        if update.revision.unwrap_or(0) + 1 < next {
            // An earlier template has come back: it becomes the latest.
            plan.write(writes::patch(
                &resource::CONTROLLER_REVISIONS,
                &update.metadata,
                json!({"revision": next}),
            ));
            return None;
        }
        let name = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let current = all.iter().find(|known| Some(meta::name(&known.metadata)) == name);
        let current = current.map_or_else(|| Arc::clone(&update), Arc::clone);
        Some(Self { all, current, update })
    }

    /// The template for a new pod in this place, and the revision's name. Beneath the partition the old one is kept.
    pub(super) fn for_new(&self, set: &StatefulSet, at: usize) -> (&Value, &str) {
        let strategy = set.spec.update_strategy.as_ref();
        let rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete");
        let kept = match strategy.and_then(|strategy| strategy.rolling_update.as_ref()) {
            Some(rolling) => size(rolling.partition.unwrap_or(0)),
            None if rolling => {
                size(set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0))
            }
            None => 0,
        };
        let revision = if at < kept { &self.current } else { &self.update };
        (template_in(revision), meta::name(&revision.metadata))
    }

    /// Deletes what no pod has any more, beyond the limit, the oldest first.
    pub(super) fn forget_old(&self, set: &StatefulSet, pods: &[Arc<Pod>], plan: &mut Plan) {
        let limit = set.spec.revision_history_limit.unwrap_or(KEPT);
        let live = |revision: &ControllerRevision| {
            let name = meta::name(&revision.metadata);
            name == meta::name(&self.current.metadata)
                || name == meta::name(&self.update.metadata)
                || pods.iter().any(|pod| revision_of(pod) == name)
                || meta::is_leaving(&revision.metadata)
        };
        let old: Vec<_> = self.all.iter().filter(|revision| !live(revision)).collect();
        let surplus = if limit < 0 { 0 } else { old.len().saturating_sub(size(limit)) };
        for revision in old.into_iter().take(surplus) {
            plan.write(writes::delete(&resource::CONTROLLER_REVISIONS, &revision.metadata));
        }
    }
}

fn order(revision: &ControllerRevision) -> (i64, Timestamp, &str) {
    (revision.revision.unwrap_or(0), meta::created(&revision.metadata), meta::name(&revision.metadata))
}

/// The template as a revision keeps it.
fn template_of(set: &StatefulSet) -> Value {
    let mut template = json!(set.spec.template);
    template["$patch"] = json!("replace");
    template
}

fn template_in(revision: &ControllerRevision) -> &Value {
    &revision.data.0["spec"]["template"]
}

fn create(world: &World, set: &StatefulSet, template: &Value, revision: i64, plan: &mut Plan) {
    let collisions = set.status.as_ref().and_then(|status| status.collision_count);
    let data = json!({"spec": {"template": template}});
    let hash = names::hash_of(&data, collisions);
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let name = format!("{}-{hash}", meta::name(&set.metadata));
    if world.controller_revisions().get(&Key::new(namespace.as_str(), name.as_str())).is_some() {
        let status = json!({"collisionCount": collisions.unwrap_or(0) + 1});
        plan.write(writes::status(&resource::STATEFUL_SETS, &set.metadata, status));
        return;
    }
    let mut labels = json!(set.spec.template.metadata.as_ref().and_then(|own| own.labels.clone()));
    labels["controller.kubernetes.io/hash"] = json!(hash);
    let body = json!({
        "apiVersion": resource::CONTROLLER_REVISIONS.api_version(),
        "kind": resource::CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": set.metadata.annotations,
            "ownerReferences": [meta::controller_reference(&resource::STATEFUL_SETS, &set.metadata)],
        },
        "data": data,
        "revision": revision,
    });
    plan.write(Write::Create { resource: &resource::CONTROLLER_REVISIONS, namespace, body });
}
