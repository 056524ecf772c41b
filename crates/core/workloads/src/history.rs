//! The templates that a stateful set or a daemon set has had, each kept as an object of its own.

use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::PodTemplateSpec};

use crate::{
    meta, names,
    prelude::*,
    writes::{self, size},
};

/// Kubernetes' default of `revisionHistoryLimit`.
const KEPT: i32 = 10;

/// A template as its owner has it now.
pub(crate) struct Template<'a> {
    pub(crate) resource: &'static Resource,
    pub(crate) owner: &'a ObjectMeta,
    pub(crate) template: &'a PodTemplateSpec,
    /// How often a name was taken by another template.
    pub(crate) collisions: Option<i32>,
    /// The label by which a revision says its hash.
    pub(crate) hash_label: &'static str,
}

/// The revisions of an owner, the oldest first.
pub(crate) struct History {
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// The one of the template as it is now.
    pub(crate) update: Arc<ControllerRevision>,
    hash_label: &'static str,
}

impl History {
    /// The history of an owner, or nothing while the revision for its template is being made, or was deleted before the owner.
    pub(crate) fn of(
        world: &World,
        owner: &Template<'_>,
        mut all: Vec<Arc<ControllerRevision>>,
        plan: &mut Plan,
    ) -> Option<Self> {
        all.sort_by(|left, right| order(left).cmp(&order(right)));
        let template = owner.kept();
        let next = all.last().map_or(0, |last| last.revision.unwrap_or(0)) + 1;
        let Some(update) = all.iter().rev().find(|known| template_in(known) == &template) else {
            // The garbage collector deletes the revisions of an owner that waits for its dependents to go.
            if !meta::is_leaving(owner.owner) {
                create(world, owner, &template, next, plan);
            }
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
        Some(Self { all, update, hash_label: owner.hash_label })
    }

    /// Other revisions of the template as it is now.
    pub(crate) fn duplicates(&self) -> impl Iterator<Item = &Arc<ControllerRevision>> {
        let same = |known: &&Arc<ControllerRevision>| {
            known.metadata.uid != self.update.metadata.uid
                && !meta::is_leaving(&known.metadata)
                && template_in(known) == template_in(&self.update)
        };
        self.all.iter().filter(same)
    }

    /// Deletes what is not `live` any more, beyond the limit, the oldest first. Names and hashes are asked for.
    pub(crate) fn forget_old(&self, limit: Option<i32>, live: impl Fn(&str) -> bool, plan: &mut Plan) {
        let limit = limit.unwrap_or(KEPT);
        let stays = |revision: &ControllerRevision| {
            let name = meta::name(&revision.metadata);
            name == meta::name(&self.update.metadata)
                || live(name)
                || meta::label(&revision.metadata, self.hash_label).is_some_and(&live)
                || meta::is_leaving(&revision.metadata)
        };
        let old: Vec<_> = self.all.iter().filter(|revision| !stays(revision)).collect();
        let surplus = if limit < 0 { 0 } else { old.len().saturating_sub(size(limit)) };
        for revision in old.into_iter().take(surplus) {
            plan.write(writes::delete(&resource::CONTROLLER_REVISIONS, &revision.metadata));
        }
    }
}

/// The template in a revision.
pub(crate) fn template_in(revision: &ControllerRevision) -> &Value {
    &revision.data.0["spec"]["template"]
}

impl Template<'_> {
    /// As a revision keeps it.
    fn kept(&self) -> Value {
        let mut template = json!(self.template);
        template["$patch"] = json!("replace");
        template
    }
}

fn order(revision: &ControllerRevision) -> (i64, Timestamp, &str) {
    (revision.revision.unwrap_or(0), meta::created(&revision.metadata), meta::name(&revision.metadata))
}

fn create(world: &World, owner: &Template<'_>, template: &Value, revision: i64, plan: &mut Plan) {
    let data = json!({"spec": {"template": template}});
    let hash = names::hash_of(&data, owner.collisions);
    let namespace = owner.owner.namespace.clone().unwrap_or_default();
    let name = format!("{}-{hash}", meta::name(owner.owner));
    if world.controller_revisions().get(&Key::new(namespace.as_str(), name.as_str())).is_some() {
        let status = json!({"collisionCount": owner.collisions.unwrap_or(0) + 1});
        plan.write(writes::status(owner.resource, owner.owner, status));
        return;
    }
    let mut labels = json!(owner.template.metadata.as_ref().and_then(|own| own.labels.clone()));
    labels[owner.hash_label] = json!(hash);
    let body = json!({
        "apiVersion": resource::CONTROLLER_REVISIONS.api_version(),
        "kind": resource::CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": owner.owner.annotations,
            "ownerReferences": [meta::controller_reference(owner.resource, owner.owner)],
        },
        "data": data,
        "revision": revision,
    });
    plan.write(Write::Create { resource: &resource::CONTROLLER_REVISIONS, namespace, body: body.into() });
}
