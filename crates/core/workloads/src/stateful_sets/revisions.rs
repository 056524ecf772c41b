//! Which template pods of a stateful set have, and which they should get.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};

use super::revision_of;
use crate::{
    history::{History, Template, template_in},
    meta,
    prelude::*,
    writes::size,
};

/// The label by which a revision says its hash.
const HASH: &str = "controller.kubernetes.io/hash";

/// Which template pods have, and which they should get.
pub(super) struct Revisions {
    history: History,
    pub(super) current: Arc<ControllerRevision>,
    pub(super) update: Arc<ControllerRevision>,
}

impl Revisions {
    /// The revisions of a set, or nothing while the one for its template is being made.
    pub(super) fn of(
        world: &World,
        set: &StatefulSet,
        all: Vec<Arc<ControllerRevision>>,
        plan: &mut Plan,
    ) -> Option<Self> {
        let template = Template {
            resource: &resource::STATEFUL_SETS,
            owner: &set.metadata,
            template: &set.spec.template,
            collisions: set.status.as_ref().and_then(|status| status.collision_count),
            hash_label: HASH,
        };
        let history = History::of(world, &template, all, plan)?;
        let name = set.status.as_ref().and_then(|status| status.current_revision.as_deref());
        let current = history.all.iter().find(|known| Some(meta::name(&known.metadata)) == name);
        let update = Arc::clone(&history.update);
        let current = current.map_or_else(|| Arc::clone(&update), Arc::clone);
        Some(Self { history, current, update })
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
        let live = |name: &str| {
            name == meta::name(&self.current.metadata) || pods.iter().any(|pod| revision_of(pod) == name)
        };
        self.history.forget_old(set.spec.revision_history_limit, live, plan);
    }
}
