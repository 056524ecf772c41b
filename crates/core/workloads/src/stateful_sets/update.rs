//! Pods of an old template make room for pods of the new one, the highest number first.

use super::{Places, delete, revision_of, revisions::Revisions};
use crate::{
    meta,
    portion::portion,
    prelude::*,
    writes::{count, size},
};

pub(super) fn update(context: &Context<'_>, places: &Places<'_>, revisions: &Revisions, plan: &mut Plan) {
    let strategy = places.set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return;
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let partition = size(rolling.and_then(|rolling| rolling.partition).unwrap_or(0));
    let replicas = places.set.spec.replicas.unwrap_or(1);
    let limit = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    let limit = limit.map_or(1, |limit| portion(limit, replicas, false)).max(1);
    let wanted = meta::name(&revisions.update.metadata);
    let down = |pod: &Pod| !places.is_available(context.now, pod);
    let old = |pod: &Pod| revision_of(pod) != wanted && !meta::is_leaving(&pod.metadata);
    let mut budget =
        limit - count(places.replicas.iter().filter(|place| place.as_ref().is_none_or(|pod| down(pod))));
    let outdated: Vec<_> =
        places.replicas.iter().skip(partition).rev().flatten().filter(|pod| old(pod)).collect();
    if !places.ordered {
        // Deleting pods that do not serve anyway costs nothing.
        outdated.iter().filter(|pod| down(pod)).for_each(|pod| delete(places.set, pod, plan));
    }
    for pod in outdated.into_iter().filter(|pod| places.ordered || !down(pod)) {
        if budget <= 0 {
            break;
        }
        delete(places.set, pod, plan);
        budget -= 1;
    }
}
