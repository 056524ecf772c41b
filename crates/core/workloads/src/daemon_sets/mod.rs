//! Daemon sets: one pod on each node that the template is meant for.
//!
//! A pod is made for one node and names it in its affinity; the scheduler binds it. The pod belongs to that node from the beginning.

mod admission;
mod manage;
mod pod;
mod status;
mod update;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};

use crate::{
    claim::{claim, concerned},
    history::{History, Template},
    lean::Node,
    limits::Limits,
    meta, pods,
    portion::portion,
    prelude::*,
    selector,
    writes::{self, size},
};
use admission::Admission;

const COMPONENT: &str = "daemonset-controller";
/// The label by which a pod says from which template it was made.
const REVISION: &str = "controller-revision-hash";
/// The same as a number, for pods of an API that is no longer served.
const GENERATION_LABEL: &str = "pod-template-generation";
const GENERATION: &str = "deprecated.daemonset.template.generation";
/// Pods created or deleted in one decision.
const BURST_MAX: usize = 250;

/// Keeps one pod of each DaemonSet on every suitable node.
pub const RULES: Rules = Rules {
    name: "daemonset",
    needs: &[&resource::DAEMON_SETS, &resource::PODS, &resource::NODES, &resource::CONTROLLER_REVISIONS],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::DaemonSet(set)) => keys.push(Key::of(&set.metadata)),
        Some(Object::Node(_)) if admission::may_differ(change) => {
            keys.extend(world.daemon_sets().all().map(|(key, _)| key.clone()));
        }
        Some(Object::Pod(_) | Object::ControllerRevision(_)) => {
            concerned(
                world.daemon_sets(),
                &resource::DAEMON_SETS,
                change,
                |set| Some(&set.spec.selector),
                keys,
            );
        }
        Some(_) | None => {}
    }
}

/// A set, its nodes and its pods on each of them.
struct Daemons<'a> {
    now: Timestamp,
    set: &'a DaemonSet,
    admission: Admission,
    nodes: BTreeMap<&'a str, &'a Node>,
    /// By the node that they are for, bound ones first, then the oldest.
    pods: BTreeMap<String, Vec<Arc<Pod>>>,
    /// Of the template as it is now.
    revision: String,
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(set) = context.world.daemon_sets().get(context.key) else { return };
    if meta::is_leaving(&set.metadata) {
        return;
    }
    if selector::is_empty(&set.spec.selector) {
        let why = "This daemon set is selecting all pods. A non-empty selector is required.".to_owned();
        let note = Note { kind: EventType::Warning, ..note(set, "SelectingAll", why) };
        Limits::write_event_once(context, note, plan);
        return;
    }
    let kinds = (&resource::DAEMON_SETS, &resource::PODS);
    let claimed = claim(context.world.pods(), kinds, &set.metadata, &set.spec.selector, |_: &Pod| true);
    claimed.writes.into_iter().for_each(|write| plan.write(write));
    let kinds = (&resource::DAEMON_SETS, &resource::CONTROLLER_REVISIONS);
    let any = |_: &ControllerRevision| true;
    let known = claim(context.world.controller_revisions(), kinds, &set.metadata, &set.spec.selector, any);
    known.writes.into_iter().for_each(|write| plan.write(write));
    // The revision of its template is being made.
    let Some(history) = History::of(context.world, &template(set), known.mine, plan) else { return };
    if plan.is_empty() {
        merge_duplicates(&history, &claimed.mine, plan);
    }
    if !plan.is_empty() {
        return;
    }
    let daemons = Daemons::of(context, set, &claimed.mine, &history);
    manage::manage(&daemons, plan);
    if plan.is_empty() {
        update::update(&daemons, plan);
    }
    let live = |name: &str| claimed.mine.iter().any(|pod| revision_of(pod) == name);
    history.forget_old(set.spec.revision_history_limit, live, plan);
    status::report(&daemons, plan);
    let later = claimed.mine.iter().filter_map(|pod| pods::available_at(pod, daemons.min_ready()));
    later.filter(|at| *at > context.now).for_each(|at| plan.look_again(at));
}

/// Several revisions of one template are one: pods of the others are said to be of the latest, lest they are replaced by their like, and then the
/// others go.
fn merge_duplicates(history: &History, mine: &[Arc<Pod>], plan: &mut Plan) {
    let hash = meta::label(&history.update.metadata, REVISION).unwrap_or_default();
    let others: BTreeSet<&str> =
        history.duplicates().filter_map(|other| meta::label(&other.metadata, REVISION)).collect();
    let of_others = |pod: &&Arc<Pod>| revision_of(pod) != hash && others.contains(revision_of(pod));
    for pod in mine.iter().filter(of_others).take(BURST_MAX) {
        let body = json!({"metadata": {"labels": {REVISION: hash}}});
        plan.write(writes::patch(&resource::PODS, &pod.metadata, body));
    }
    if plan.is_empty() {
        for other in history.duplicates().take(BURST_MAX) {
            plan.write(writes::delete(&resource::CONTROLLER_REVISIONS, &other.metadata));
        }
    }
}

impl<'a> Daemons<'a> {
    fn of(context: &Context<'a>, set: &'a DaemonSet, mine: &[Arc<Pod>], history: &History) -> Self {
        let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in mine.iter().filter(|pod| !(pods::is_finished(pod) && meta::is_leaving(&pod.metadata))) {
            if let Some(node) = pods::target(pod) {
                by_node.entry(node.to_owned()).or_default().push(Arc::clone(pod));
            }
        }
        for pods in by_node.values_mut() {
            pods.sort_by_cached_key(|pod| {
                let name = meta::name(&pod.metadata).to_owned();
                (pods::node(pod).is_empty(), meta::created(&pod.metadata), name)
            });
        }
        let nodes = context.world.nodes().all().map(|(key, node)| (key.name.as_str(), &**node)).collect();
        let admission = Admission::of(&set.spec.template);
        let revision = meta::label(&history.update.metadata, REVISION).unwrap_or_default().to_owned();
        Self { now: context.now, set, admission, nodes, pods: by_node, revision }
    }

    fn min_ready(&self) -> i32 {
        self.set.spec.min_ready_seconds.unwrap_or(0)
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(self.now, pod, self.min_ready())
    }

    /// Whether a pod was made from the template as it is now.
    fn is_updated(&self, pod: &Pod) -> bool {
        let generation = generation(self.set);
        revision_of(pod) == self.revision
            || generation.is_some_and(|own| meta::label(&pod.metadata, GENERATION_LABEL) == Some(own))
    }

    /// How many more pods than nodes there may be in an update, and how many nodes may be without one.
    fn leeway(&self, nodes: usize) -> (usize, usize) {
        let strategy = self.set.spec.update_strategy.as_ref();
        let Some(rolling) = strategy.and_then(|strategy| strategy.rolling_update.as_ref()) else {
            return (0, 1);
        };
        let nodes = i32::try_from(nodes).unwrap_or(i32::MAX);
        let part = |value: &_| size(portion(value, nodes, true));
        let surge = rolling.max_surge.as_ref().map_or(0, part);
        let unavailable = rolling.max_unavailable.as_ref().map_or(1, part);
        // Neither would mean that the update never begins.
        (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
    }

    fn surges(&self) -> bool {
        self.leeway(1).0 > 0
    }
}

fn template(set: &DaemonSet) -> Template<'_> {
    Template {
        resource: &resource::DAEMON_SETS,
        owner: &set.metadata,
        template: &set.spec.template,
        collisions: set.status.as_ref().and_then(|status| status.collision_count),
        hash_label: REVISION,
    }
}

/// The number that an old client gave to the template.
fn generation(set: &DaemonSet) -> Option<&str> {
    meta::annotation(&set.metadata, GENERATION).filter(|text| text.parse::<i64>().is_ok())
}

fn revision_of(pod: &Pod) -> &str {
    meta::label(&pod.metadata, REVISION).unwrap_or_default()
}

fn delete(set: &DaemonSet, pod: &Pod, plan: &mut Plan) {
    let message = format!("Deleted pod: {}", meta::name(&pod.metadata));
    plan.write_and_tell(
        writes::delete(&resource::PODS, &pod.metadata),
        note(set, "SuccessfulDelete", message),
    );
}

fn note(set: &DaemonSet, reason: &'static str, message: String) -> Note {
    Note {
        resource: &resource::DAEMON_SETS,
        key: Key::of(&set.metadata),
        uid: meta::uid(&set.metadata).to_owned(),
        kind: EventType::Normal,
        reason,
        message,
        component: COMPONENT,
    }
}
