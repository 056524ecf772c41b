//! The watches of processes for objects that are kept as JSON, and the events that the workload controllers get from them.

use std::collections::BTreeMap;

use lazaret_model::{Text, Timestamp, Uid};
use lazaret_workloads::{Key, Object, Resource, Workloads, resource};
use serde_json::json;

use crate::{
    actors::{
        news::{Event, Gaps, Progress, listed},
        nodes::Reports,
        part::Agent,
    },
    api::{Api, Kind, Live, LoggedObject},
    mutant::Mutant,
    rng::Rng,
    world::{CLIENTS, Step, World},
};

/// The kinds that are kept as JSON, and kinds of which there are none.
static LISTED: [&Resource; 8] = [
    &resource::REPLICA_SETS,
    &resource::STATEFUL_SETS,
    &resource::CONTROLLER_REVISIONS,
    &resource::JOBS,
    &resource::BUDGETS,
    &resource::DEPLOYMENTS,
    &resource::REPLICATION_CONTROLLERS,
    &resource::VOLUME_CLAIMS,
];

/// How far the watches of each process are.
#[derive(Clone, Debug)]
pub(crate) struct ObjectWatches {
    /// The length of the log when the process listed.
    began: [usize; CLIENTS],
    told: [usize; CLIENTS],
    /// A new leader must have been told as much before it acts.
    fence: [usize; CLIENTS],
    /// A watch that broke off here was opened anew there.
    missed: [Vec<(usize, usize)>; CLIENTS],
    planned: [bool; CLIENTS],
    scheduled: usize,
    /// By place in the log of pods.
    pods: Vec<Option<Object>>,
    /// The object in the answer to the last write.
    pub(super) answer: Option<Vec<u8>>,
    rng: Rng,
}

impl ObjectWatches {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            began: [0; CLIENTS],
            told: [0; CLIENTS],
            fence: [0; CLIENTS],
            missed: core::array::from_fn(|_| Vec::new()),
            planned: [false; CLIENTS],
            scheduled: 0,
            pods: Vec::new(),
            answer: None,
            rng,
        }
    }

    /// From here on, chance comes from this.
    pub(crate) fn draw_from(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// A process lists everything.
    pub(crate) fn begin(&mut self, number: usize, api: &Api) {
        let length = api.objects.log().len();
        (self.began[number], self.told[number]) = (length, length);
        self.missed[number].clear();
    }

    /// A process that is about to lead asks how far the server is.
    pub(super) fn ask(&mut self, number: usize, api: &Api) {
        self.fence[number] = api.objects.log().len();
    }

    /// The length of the log when a process listed.
    pub(super) fn began(&self, number: usize) -> usize {
        self.began[number]
    }

    /// The part of the log that a process has been told of.
    pub(super) fn told(&self, number: usize) -> usize {
        self.told[number]
    }

    /// Whether the watches of a process have shown what a leader must know.
    pub(super) fn is_past_fence(&self, number: usize) -> bool {
        self.told[number] >= self.fence[number]
    }

    pub(crate) fn is_behind(&self, number: usize, api: &Api) -> bool {
        self.told[number] < api.objects.log().len()
    }

    /// The pod that was written at this place of the log, decoded once for all.
    fn pod(&mut self, api: &Api, place: usize) -> Option<Object> {
        if self.pods.len() <= place {
            self.pods.resize(place + 1, None);
        }
        if self.pods[place].is_none() {
            let text = api.pod_text(place);
            self.pods[place] = text.and_then(|text| Object::read(&resource::PODS, &text).ok());
        }
        self.pods[place].clone()
    }

    /// The metadata of pods has changed since they were decoded.
    pub(crate) fn forget_pods(&mut self) {
        self.pods.clear();
    }

    /// Decodes what there is from the start.
    pub(crate) fn decode(&mut self, api: &Api) {
        (0..api.pods.log().len()).for_each(|place| drop(self.pod(api, place)));
    }

    /// Tells the first lists of the watches.
    fn list(
        &mut self,
        core: &mut Workloads,
        now: Timestamp,
        api: &Api,
        (pods, nodes): (&Live, &BTreeMap<Text, Uid>),
        length: usize,
    ) {
        list_objects(core, now, api, length);
        let nodes = nodes.iter().filter_map(|(name, uid)| node(name, uid, 1)).collect();
        core.list(now, &resource::NODES, nodes, 0);
        self.list_pods(core, now, api, pods, 0);
    }

    fn list_pods(&mut self, core: &mut Workloads, now: Timestamp, api: &Api, pods: &Live, length: usize) {
        let revision = length.checked_sub(1).map_or(0, |last| api.pods.log()[last].version);
        let places = pods.iter().filter_map(|place| (*place as usize).checked_sub(1));
        let pods = places.filter_map(|place| self.pod(api, place)).collect();
        core.list(now, &resource::PODS, pods, revision);
    }
}

impl World {
    /// There may be something to deliver.
    pub(crate) fn plan_objects(&mut self) {
        let length = self.api.objects.log().len();
        if core::mem::replace(&mut self.watches.scheduled, length) == length {
            return;
        }
        for number in 0..CLIENTS {
            if self.clients[number].down || core::mem::replace(&mut self.watches.planned[number], true) {
                continue;
            }
            let delay = self.watches.rng.below(u64::from(self.config.lag_ms) + 1);
            self.push(self.now + delay, Step::DeliverObjects(number));
        }
    }

    /// The watches of a process deliver. They stall as its watch of nodes does.
    pub(crate) fn deliver_objects(&mut self, number: usize) {
        self.watches.planned[number] = false;
        let quiet_until = self.clients[number].quiet_until(Kind::Node);
        if self.clients[number].down {
            return;
        }
        if quiet_until > self.now {
            self.watches.planned[number] = true;
            return self.push(quiet_until, Step::DeliverObjects(number));
        }
        self.watches.told[number] = self.api.objects.log().len();
        self.workload_controllers.told(number);
        self.replacers.told(number);
    }

    /// The watches of a process break: they list again.
    pub(crate) fn relist_objects(&mut self, number: usize) {
        let length = self.api.objects.log().len();
        let before = core::mem::replace(&mut self.watches.told[number], length);
        self.watches.missed[number].push((before, length));
        self.workload_controllers.told(number);
        self.replacers.told(number);
    }

    /// Passes on the events of a process's watches since its agent's last turn; a new agent gets the first lists of the watches.
    pub(super) fn workload_controllers_hear(&mut self, number: usize, now: Timestamp) {
        let Self { workload_controllers, clients, api, watches, reports, mutant, .. } = self;
        let (gaps, view): (&Gaps, _) = (&clients[number].gaps, &clients[number].view);
        let Agent { core, progress, .. } = &mut workload_controllers.agents[number];
        let progress = progress.get_or_insert_with(|| {
            let heard = gaps.began;
            let pods = listed(&api.pods, heard[Kind::Pod as usize]);
            let objects = watches.began[number];
            let node_uids = nodes_at(api, reports, heard[Kind::Node as usize]);
            watches.list(core, now, api, (&pods, &node_uids), objects);
            Progress { heard, pods, objects, node_uids, ..Progress::default() }
        });
        let to = view.position(Kind::Node);
        let from = core::mem::replace(&mut progress.heard[Kind::Node as usize], to);
        for Event { place, .. } in gaps.events(&api.nodes, from, to) {
            hear_of_node(core, now, api, reports, progress, place, *mutant);
        }
        let to = watches.told[number].max(progress.objects);
        let mut from = core::mem::replace(&mut progress.objects, to);
        for (begin, end) in &watches.missed[number] {
            if *end > from {
                hear_of_objects(core, now, &api.objects.log()[from..*begin], *mutant);
                list_objects(core, now, api, *end);
                from = *end;
            }
        }
        hear_of_objects(core, now, &api.objects.log()[from..to], *mutant);
        let to = view.position(Kind::Pod);
        let mut from = core::mem::replace(&mut progress.heard[Kind::Pod as usize], to);
        for (kind, begin, end) in &gaps.missed {
            if *kind == Kind::Pod
                && *end > from
                && !matches!(mutant, Some(Mutant::UnseenPods | Mutant::UnseenLeaving))
            {
                for place in from..*begin {
                    hear_of_pod(core, now, api, watches, progress, place, *mutant);
                }
                progress.pods = listed(&api.pods, *end);
                watches.list_pods(core, now, api, &progress.pods, *end);
                from = *end;
            }
        }
        for place in from..to {
            hear_of_pod(core, now, api, watches, progress, place, *mutant);
        }
    }

    /// Tells a machine of all that there is.
    pub(crate) fn tell_all_workloads(&mut self, core: &mut Workloads, now: Timestamp) {
        let (pods, objects) = (self.api.pods.live().clone(), self.api.objects.log().len());
        let nodes = nodes_at(&self.api, &self.reports, self.api.nodes.log().len());
        self.watches.list(core, now, &self.api, (&pods, &nodes), objects);
    }
}

/// A Node that is ready.
fn node(name: &Text, uid: &Uid, version: u64) -> Option<Object> {
    let metadata = json!({"name": &**name, "uid": &**uid, "resourceVersion": version.to_string()});
    let status = json!({"conditions": [{"type": "Ready", "status": "True"}]});
    Object::parse(&resource::NODES, &json!({"metadata": metadata, "spec": {}, "status": status})).ok()
}

/// The Nodes that there were when the log was as long as this, and their UIDs.
fn nodes_at(api: &Api, reports: &Reports, length: usize) -> BTreeMap<Text, Uid> {
    let places = listed(&api.nodes, length);
    let found = places.into_iter().filter_map(|place| {
        let name = api.nodes.written(place)?.object.name.clone();
        let uid = reports.uid_at(&name, (place as usize).saturating_sub(1));
        Some((name, uid))
    });
    found.collect()
}

/// A Node was written or removed at this place of the log. Only that it is another than before matters.
fn hear_of_node(
    core: &mut Workloads,
    now: Timestamp,
    api: &Api,
    reports: &Reports,
    progress: &mut Progress,
    place: usize,
    mutant: Option<Mutant>,
) {
    let logged = &api.nodes.log()[place];
    let name = api.nodes.key(logged.number);
    let uid = logged.object.is_some().then(|| reports.uid_at(name, place));
    let before = progress.node_uids.get(name);
    if before == uid.as_ref() || (uid.is_none() && mutant == Some(Mutant::UnseenNodeDeletion)) {
        return;
    }
    if let Some(before) = before {
        core.remove(now, &resource::NODES, &Key::new("", &**name), before);
    }
    match uid {
        Some(uid) => {
            node(name, &uid, logged.version).into_iter().for_each(|node| core.put(now, node));
            progress.node_uids.insert(name.clone(), uid);
        }
        None => drop(progress.node_uids.remove(name)),
    }
}

/// Lists the objects that there were when the log was as long as this.
fn list_objects(core: &mut Workloads, now: Timestamp, api: &Api, length: usize) {
    let last = length.checked_sub(1).map(|last| &api.objects.log()[last]);
    let revision = last.map_or(0, |last| last.version);
    for resource in LISTED {
        core.list(now, resource, api.objects.listed(resource, length), revision);
    }
}

/// Objects were written or removed.
fn hear_of_objects(core: &mut Workloads, now: Timestamp, log: &[LoggedObject], mutant: Option<Mutant>) {
    for logged in log {
        match &logged.object {
            _ if mutant == Some(Mutant::UnseenBudgets) && *logged.resource == resource::BUDGETS => {}
            Some(object) => core.put(now, object.clone()),
            None => core.remove(now, logged.resource, &logged.key, &logged.uid),
        }
    }
}

/// A pod was written or removed at this place of the log.
fn hear_of_pod(
    core: &mut Workloads,
    now: Timestamp,
    api: &Api,
    watches: &mut ObjectWatches,
    progress: &mut Progress,
    place: usize,
    mutant: Option<Mutant>,
) {
    let logged = &api.pods.log()[place];
    let number = logged.number as usize;
    progress.pods.resize(progress.pods.len().max(number + 1), 0);
    let after = if logged.object.is_some() { u32::try_from(place + 1).unwrap_or(u32::MAX) } else { 0 };
    let before = api.pods.written(core::mem::replace(&mut progress.pods[number], after));
    let before = before.map(|stored| stored.object);
    let is_leaving = logged.object.as_ref().is_none_or(|pod| pod.deleting_since.is_some());
    let is_new = before.is_none_or(|before| Some(&before.uid) != logged.object.as_ref().map(|pod| &pod.uid));
    match mutant {
        Some(Mutant::UnseenLeaving) if is_leaving => return,
        Some(Mutant::UnseenPods) if is_new && logged.object.is_some() => {
            progress.pods[number] = 0;
            return;
        }
        Some(_) | None => {}
    }
    if let Some(before) = before.filter(|_| is_new) {
        let key = Key::new(&*before.key.namespace, &*before.key.name);
        core.remove(now, &resource::PODS, &key, &before.uid);
    }
    if let Some(pod) = watches.pod(api, place) {
        core.put(now, pod);
    }
}
