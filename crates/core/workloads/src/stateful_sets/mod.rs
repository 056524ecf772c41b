//! Stateful sets: pods with a number, a lasting name, and an order, and claims of storage that outlive them.

mod claims;
mod revisions;
mod status;
mod update;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};

use crate::{
    claim::{claim, concerned},
    limits::Limits,
    meta, pods,
    prelude::*,
    writes::{self, size},
};
use revisions::Revisions;

const COMPONENT: &str = "statefulset-controller";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";
/// Pods created or deleted in one decision.
const BURST_MAX: usize = 500;

/// Keeps the numbered pods of each StatefulSet, and their volume claims.
pub const RULES: Rules = Rules {
    name: "statefulset",
    needs: &[
        &resource::STATEFUL_SETS,
        &resource::PODS,
        &resource::CONTROLLER_REVISIONS,
        &resource::VOLUME_CLAIMS,
    ],
    concerns,
    decide,
};

fn concerns(world: &World, change: &Change, keys: &mut Vec<Key>) {
    match change.latest() {
        Some(Object::StatefulSet(set)) => keys.push(Key::of(&set.metadata)),
        Some(Object::Pod(_) | Object::ControllerRevision(_)) => {
            concerned(
                world.stateful_sets(),
                &resource::STATEFUL_SETS,
                change,
                |set| Some(&set.spec.selector),
                keys,
            );
        }
        Some(Object::Other(kind, _)) if **kind == resource::VOLUME_CLAIMS => {
            claims::concerned(world, change, keys)
        }
        Some(_) | None => {}
    }
}

/// A set with its pods in their places.
struct Places<'a> {
    set: &'a StatefulSet,
    start: usize,
    /// By number, from `start`.
    replicas: Vec<Option<Arc<Pod>>>,
    /// Those beyond the last number, the highest first.
    condemned: Vec<Arc<Pod>>,
    ordered: bool,
}

fn decide(context: &Context<'_>, plan: &mut Plan) {
    let Some(set) = context.world.stateful_sets().get(context.key) else { return };
    let kinds = (&resource::STATEFUL_SETS, &resource::PODS);
    let named = |pod: &Pod| ordinal(set, pod).is_some();
    let claimed = claim(context.world.pods(), kinds, &set.metadata, &set.spec.selector, named);
    claimed.writes.into_iter().for_each(|write| plan.write(write));
    let kinds = (&resource::STATEFUL_SETS, &resource::CONTROLLER_REVISIONS);
    let any = |_: &ControllerRevision| true;
    let known = claim(context.world.controller_revisions(), kinds, &set.metadata, &set.spec.selector, any);
    known.writes.into_iter().for_each(|write| plan.write(write));
    // The revision of its template is being made.
    let Some(revisions) = Revisions::of(context.world, set, known.mine, plan) else { return };
    if !plan.is_empty() {
        return;
    }
    let places = Places::of(set, &claimed.mine, context.limits.owner_pods_max);
    if let Some(why) = context.limits.refusal(size(set.spec.replicas.unwrap_or(1))) {
        let note = Note { kind: EventType::Warning, ..note(set, "FailedCreate", why) };
        Limits::write_event_once(context, note, plan);
    }
    if !meta::is_leaving(&set.metadata)
        && fill(context, &places, &revisions, plan)
        && shrink(context, &places, plan)
    {
        update::update(context, &places, &revisions, plan);
    }
    revisions.forget_old(set, &claimed.mine, plan);
    status::report(context, set, &claimed.mine, &revisions, plan);
    let min_ready = set.spec.min_ready_seconds.unwrap_or(0);
    let later = claimed.mine.iter().filter_map(|pod| pods::available_at(pod, min_ready));
    later.filter(|at| *at > context.now).for_each(|at| plan.look_again(at));
}

impl<'a> Places<'a> {
    /// Pods beyond the limit that the set still wants are neither looked at nor made.
    fn of(set: &'a StatefulSet, pods: &[Arc<Pod>], most: usize) -> Self {
        let start = size(set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0));
        let wanted = size(set.spec.replicas.unwrap_or(1));
        let mut replicas = vec![None; wanted.min(most)];
        let mut condemned = Vec::new();
        for pod in pods {
            // Its name is not one that the set gives.
            let Some(number) = ordinal(set, pod) else { continue };
            match number.checked_sub(start).filter(|at| *at < wanted) {
                Some(at) => replicas.get_mut(at).into_iter().for_each(|place| *place = Some(Arc::clone(pod))),
                None => condemned.push((number, Arc::clone(pod))),
            }
        }
        condemned.sort_by(|(left, _), (right, _)| right.cmp(left));
        let condemned = condemned.into_iter().map(|(_, pod)| pod).collect();
        let ordered = set.spec.pod_management_policy.as_deref() != Some("Parallel");
        Self { set, start, replicas, condemned, ordered }
    }

    fn is_available(&self, now: Timestamp, pod: &Pod) -> bool {
        let min_ready = self.set.spec.min_ready_seconds.unwrap_or(0);
        !meta::is_leaving(&pod.metadata) && pods::is_available(now, pod, min_ready)
    }

    /// Whether it is up: in an ordered set the next in line waits for that.
    fn is_up(&self, now: Timestamp, pod: &Pod) -> bool {
        pods::phase(pod) == "Running" && self.is_available(now, pod)
    }
}

/// Fills empty places, in order. Returns whether the set may go on.
fn fill(context: &Context<'_>, places: &Places<'_>, revisions: &Revisions, plan: &mut Plan) -> bool {
    for (at, place) in places.replicas.iter().enumerate() {
        if plan.writes.len() >= BURST_MAX {
            return false;
        }
        match place {
            None => {
                let number = places.start + at;
                if claims::prepare(context, places.set, number, plan) {
                    create(places.set, number, revisions.for_new(places.set, at), plan);
                }
            }
            Some(pod) if pods::is_finished(pod) => {
                if !meta::is_leaving(&pod.metadata) {
                    delete(places.set, pod, plan);
                }
            }
            Some(pod) if places.is_up(context.now, pod) => {
                identify(places.set, pod, places.start + at, plan);
                claims::settle(context.world, places.set, pod, places.start + at, false, plan);
                continue;
            }
            // It is on its way up or out.
            Some(_) => {}
        }
        if places.ordered {
            return false;
        }
    }
    true
}

/// Deletes pods beyond the last number, the highest first. Returns whether the set may go on.
fn shrink(context: &Context<'_>, places: &Places<'_>, plan: &mut Plan) -> bool {
    let lowest_down = places.condemned.iter().rev().find(|pod| !places.is_available(context.now, pod));
    for pod in places.condemned.iter().take(BURST_MAX) {
        if !meta::is_leaving(&pod.metadata) {
            let first_down = lowest_down.is_some_and(|down| Arc::ptr_eq(down, pod));
            if places.ordered && !places.is_up(context.now, pod) && !first_down {
                return false;
            }
            let number = ordinal(places.set, pod).unwrap_or_default();
            // The claims go with the pod, so they must be its own before it goes.
            if claims::settle(context.world, places.set, pod, number, true, plan) {
                delete(places.set, pod, plan);
            }
        }
        if places.ordered {
            return false;
        }
    }
    true
}

/// Which number a pod of the set has.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<usize> {
    let rest = meta::name(&pod.metadata).strip_prefix(meta::name(&set.metadata))?.strip_prefix('-')?;
    if rest.len() > 1 && rest.starts_with('0') {
        return None;
    }
    rest.bytes().all(|byte| byte.is_ascii_digit()).then(|| rest.parse().ok())?
}

/// The revision that a pod was made from.
fn revision_of(pod: &Pod) -> &str {
    meta::label(&pod.metadata, REVISION).unwrap_or_default()
}

fn create(set: &StatefulSet, number: usize, revision: (&Value, &str), plan: &mut Plan) {
    let (template, revision) = revision;
    let name = format!("{}-{number}", meta::name(&set.metadata));
    let mut body = pods::from_template_value(template, &resource::STATEFUL_SETS, &set.metadata, &name);
    body["metadata"]["generateName"] = json!(format!("{}-", meta::name(&set.metadata)));
    let labels = &mut body["metadata"]["labels"];
    labels[POD_NAME] = json!(name);
    labels[POD_INDEX] = json!(number.to_string());
    labels[REVISION] = json!(revision);
    body["spec"]["hostname"] = json!(name);
    claims::mount(set, number, &mut body["spec"]);
    if let Some(service) = &set.spec.service_name {
        body["spec"]["subdomain"] = json!(service);
    }
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let message = format!("create Pod {name} in StatefulSet {} successful", meta::name(&set.metadata));
    plan.write_and_tell(
        Write::Create { resource: &resource::PODS, namespace, body: body.into() },
        note(set, "SuccessfulCreate", message),
    );
}

/// A pod that was taken in gets the labels that tell its name and number.
fn identify(set: &StatefulSet, pod: &Pod, number: usize, plan: &mut Plan) {
    let name = format!("{}-{number}", meta::name(&set.metadata));
    let index = number.to_string();
    let known = meta::label(&pod.metadata, POD_NAME) == Some(name.as_str())
        && meta::label(&pod.metadata, POD_INDEX) == Some(index.as_str());
    if !known {
        let body = json!({"metadata": {"labels": {POD_NAME: name, POD_INDEX: index}}});
        plan.write(writes::patch(&resource::PODS, &pod.metadata, body));
    }
}

fn delete(set: &StatefulSet, pod: &Pod, plan: &mut Plan) {
    let message = format!(
        "delete Pod {} in StatefulSet {} successful",
        meta::name(&pod.metadata),
        meta::name(&set.metadata)
    );
    plan.write_and_tell(
        writes::delete(&resource::PODS, &pod.metadata),
        note(set, "SuccessfulDelete", message),
    );
}

fn note(set: &StatefulSet, reason: &'static str, message: String) -> Note {
    Note {
        resource: &resource::STATEFUL_SETS,
        key: Key::of(&set.metadata),
        uid: meta::uid(&set.metadata).to_owned(),
        kind: EventType::Normal,
        reason,
        message,
        component: COMPONENT,
    }
}
