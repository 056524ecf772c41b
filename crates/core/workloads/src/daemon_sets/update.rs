//! Pods of an old template make room for pods of the new one: within what may be unavailable, or after the new one is there.

use super::{BURST_MAX, Daemons, delete, pod};
use crate::{meta, prelude::*};

pub(super) fn update(daemons: &Daemons<'_>, plan: &mut Plan) {
    let strategy = daemons.set.spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return;
    }
    let desired = daemons.nodes.values().filter(|node| daemons.admission.ask(node).runs).count();
    let (surge, unavailable) = daemons.leeway(desired);
    if surge == 0 {
        replace(daemons, unavailable, plan);
    } else {
        grow(daemons, surge, desired, plan);
    }
}

type Found<'a> = Option<&'a Arc<Pod>>;

/// The pod of the new template and the pod of an old one on a node; nothing where there are more, which are deleted first.
fn pair<'a>(daemons: &Daemons<'_>, here: &'a [Arc<Pod>]) -> Option<(Found<'a>, Found<'a>)> {
    let stays = here.iter().filter(|pod| !meta::is_leaving(&pod.metadata));
    let (new, old): (Vec<_>, Vec<_>) = stays.partition(|pod| daemons.is_updated(pod));
    (new.len() < 2 && old.len() < 2).then(|| (new.first().copied(), old.first().copied()))
}

/// Deletes old pods: those of no use, and as many others as nodes may be without one.
fn replace(daemons: &Daemons<'_>, limit: usize, plan: &mut Plan) {
    let (mut down, mut useless, mut candidates) = (0, Vec::new(), Vec::new());
    for here in daemons.pods.values() {
        match pair(daemons, here) {
            Some((None, Some(old))) if daemons.is_available(old) => candidates.push(old),
            Some((None, Some(old))) => {
                useless.push(old);
                down += 1;
            }
            Some((Some(new), None)) if daemons.is_available(new) => {}
            Some(_) | None => down += 1,
        }
    }
    let room = limit.saturating_sub(down);
    let old = useless.into_iter().chain(candidates.into_iter().take(room));
    old.take(BURST_MAX).for_each(|pod| delete(daemons.set, pod, plan));
}

/// Makes new pods beside old ones, and deletes an old one once the new one is available.
fn grow(daemons: &Daemons<'_>, limit: usize, desired: usize, plan: &mut Plan) {
    let (mut extra, mut available) = (0, 0);
    let (mut over, mut misplaced) = (Vec::new(), Vec::new());
    let (mut must, mut may) = (Vec::new(), Vec::new());
    for (name, here) in &daemons.pods {
        let Some((new, old)) = pair(daemons, here) else {
            extra += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(|pod| daemons.is_available(pod)));
        let runs = daemons.nodes.get(name.as_str()).is_some_and(|node| daemons.admission.ask(node).runs);
        match (new, old) {
            (_, None) => {}
            (None, Some(old)) => match (daemons.is_available(old), runs) {
                (true, true) => may.push(name.as_str()),
                (true, false) => misplaced.push(old),
                (false, true) => must.push(name.as_str()),
                (false, false) => over.push(old),
            },
            (Some(new), Some(old)) if daemons.is_available(new) => over.push(old),
            (Some(_), Some(_)) => extra += 1,
        }
    }
    // Where a node is no longer wanted, its pod goes only when enough others are available.
    over.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
    let nodes = must.into_iter().chain(may.into_iter().take(limit.saturating_sub(extra)));
    for (number, node) in nodes.take(BURST_MAX).enumerate() {
        pod::create(daemons, node, number, 0, plan);
    }
    over.into_iter().take(BURST_MAX).for_each(|pod| delete(daemons.set, pod, plan));
}
