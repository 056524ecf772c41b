//! The owners of pods, as objects of the server, and what people do to them.

use lazaret_model::{Owner, Text};
use lazaret_workloads::{Key, Propagation, Resource, resource};
use serde_json::{Value, json};

use crate::{
    actors::workloads::{Keeper, Workload},
    api::{PodMetadata, PodNotes},
    coverage::Mark,
    palette,
    world::World,
};

/// Labels and annotations that say which pod of a Job or a StatefulSet a pod is.
const JOB_UID: &str = "batch.kubernetes.io/controller-uid";
const JOB_NAME: &str = "batch.kubernetes.io/job-name";
pub(crate) const JOB_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const SET_POD: &str = "statefulset.kubernetes.io/pod-name";
const SET_INDEX: &str = "apps.kubernetes.io/pod-index";
/// One in this many Jobs numbers its pods.
const INDEXED: usize = 3;
/// One in this many Jobs is deleted some time after it has ended.
const SHORT_LIVED: usize = 2;
/// Seconds after which it is.
const TTL_SECS: u32 = 10;
/// Failures of pods that a Job bears: each pause is twice as long as the last.
const BACKOFF_LIMIT: u32 = 3;
/// Replicas that a person asks for, at most.
const REPLICAS_MAX: u32 = 12;
/// When faults have ended, a person scales an owner down that has made as many pods for each that it wants. One that is placed onto a device
/// with a taint that it tolerates for some seconds comes and goes for ever.
const MADE_AT_REST_MAX: u32 = 3;

/// The creations of an owner's pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnerHistory {
    /// The largest number of pods that it was ever to have.
    pub(crate) most: u32,
    /// Creations whose result the controller did not receive.
    pub(crate) unheard: u32,
    /// Pods made since faults ended.
    pub(super) made_at_rest: u32,
}

impl Workload {
    /// The kind of its owner.
    pub(crate) fn resource(&self) -> Option<&'static Resource> {
        match self.keeper {
            Keeper::ReplicaSet => Some(&resource::REPLICA_SETS),
            Keeper::StatefulSet => Some(&resource::STATEFUL_SETS),
            Keeper::Job => Some(&resource::JOBS),
            Keeper::Nobody => None,
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&*self.namespace, &*self.name)
    }

    /// Its owner, as its pods name it. The UID is the name: it is never given again.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let resource = self.resource()?;
        Some(Owner {
            group: palette::word(resource.group),
            kind: palette::word(resource.kind),
            name: self.name.clone(),
            uid: self.name.clone(),
        })
    }

    /// Whether its pods have numbers by which it counts them.
    pub(crate) fn is_indexed(&self) -> bool {
        self.keeper == Keeper::Job && self.number.is_multiple_of(INDEXED)
    }

    fn labels(&self) -> Value {
        let name = &*self.name;
        match self.keeper {
            Keeper::ReplicaSet | Keeper::StatefulSet => json!({"app": name, BUDGETED.0: BUDGETED.1}),
            Keeper::Job => json!({JOB_UID: name, JOB_NAME: name}),
            Keeper::Nobody => json!({}),
        }
    }

    /// The metadata of a pod that is there from the start.
    pub(crate) fn first_notes(&self, slot: u32) -> PodNotes {
        let mut metadata = json!({"labels": self.labels()});
        let index = slot.to_string();
        if self.keeper == Keeper::StatefulSet {
            metadata["labels"][SET_POD] = json!(format!("{}-{slot}", self.name));
            metadata["labels"][SET_INDEX] = json!(index);
        }
        if self.is_indexed() {
            metadata["labels"][JOB_INDEX] = json!(index);
            metadata["annotations"] = json!({JOB_INDEX: index});
        }
        let is_tracked = self.keeper == Keeper::Job;
        PodNotes { metadata: vec![(0, PodMetadata::new(&metadata))], is_tracked, ..PodNotes::default() }
    }

    /// Its owner, as a person writes it and the server completes it.
    fn manifest(&self) -> Value {
        let mut template = json!({"metadata": {"labels": self.labels()}});
        template["spec"] = json!({"containers": [{"name": "main", "image": "example.com/main:1"}]});
        let mut spec = match self.keeper {
            Keeper::ReplicaSet => json!({"replicas": self.replicas}),
            Keeper::StatefulSet => json!({
                "replicas": self.replicas,
                "serviceName": &*self.name,
                "podManagementPolicy": "Parallel",
                "updateStrategy": {"type": "OnDelete"},
            }),
            Keeper::Job | Keeper::Nobody => {
                let mode = if self.is_indexed() { "Indexed" } else { "NonIndexed" };
                json!({
                    "completions": self.replicas,
                    "parallelism": self.replicas,
                    "completionMode": mode,
                    "backoffLimit": BACKOFF_LIMIT,
                })
            }
        };
        if self.keeper == Keeper::Job && self.number.is_multiple_of(SHORT_LIVED) {
            spec["ttlSecondsAfterFinished"] = json!(TTL_SECS);
        }
        let selected = if self.keeper == Keeper::Job { JOB_UID } else { "app" };
        spec["selector"] = json!({"matchLabels": {selected: &*self.name}});
        spec["template"] = template;
        json!({"metadata": {"name": &*self.name, "namespace": &*self.namespace}, "spec": spec})
    }
}

/// The label of the pods that disruption budgets cover.
pub(crate) const BUDGETED: (&str, &str) = ("tier", "lasting");

impl World {
    /// A person makes the owner of a workload's pods.
    pub(super) fn create_owner(&mut self, workload: &Workload) {
        if let Some(resource) = workload.resource() {
            // Names differ.
            let _made = self.api.create_object(self.now, resource, &workload.name, workload.manifest());
        }
    }

    /// A person wants another number of pods of some ReplicaSet or StatefulSet.
    pub(crate) fn scale(&mut self, number: u32, replicas: u32) {
        let workload = number as usize % self.workloads.all.len().max(1);
        let lasts = |keeper: Keeper| matches!(keeper, Keeper::ReplicaSet | Keeper::StatefulSet);
        if self.workloads.all.get(workload).is_some_and(|workload| lasts(workload.keeper)) {
            self.coverage.hit(Mark::Scaled);
            self.set_replicas(workload, replicas % (REPLICAS_MAX + 1));
        }
    }

    fn set_replicas(&mut self, number: usize, replicas: u32) {
        let workload = &mut self.workloads.all[number];
        workload.history.most = workload.history.most.max(replicas);
        let (resource, key) = (workload.resource(), workload.key());
        if let Some(resource) = resource {
            self.api.edit_object(resource, &key, |owner| owner["spec"]["replicas"] = json!(replicas));
        }
    }

    /// A person deletes the owner of some pods.
    pub(crate) fn delete_owner(&mut self, number: u32, how: u32) {
        let workload = self.workloads.all.get(number as usize % self.workloads.all.len().max(1));
        let Some((resource, key)) = workload.and_then(|one| Some((one.resource()?, one.key()))) else {
            return;
        };
        let how = match how % 3 {
            0 => Propagation::Background,
            1 => Propagation::Foreground,
            _ => Propagation::Orphan,
        };
        if self.api.delete_object(self.now, resource, &key, how).is_some() {
            self.coverage.hit(Mark::OwnerDeleted);
        }
    }

    /// A controller made a pod of a workload.
    pub(super) fn note_made(&mut self, number: usize) {
        let workload = &mut self.workloads.all[number];
        workload.history.made_at_rest += u32::from(self.resting);
        let Some(resource) = workload.resource().filter(|resource| **resource != resource::JOBS) else {
            return;
        };
        let made = workload.history.made_at_rest;
        let replicas = self.replicas(resource, &self.workloads.all[number].key());
        if made > MADE_AT_REST_MAX * (replicas + 1) {
            self.set_replicas(number, replicas.saturating_sub(1));
        }
    }

    /// The number of pods that an owner is to have.
    pub(crate) fn replicas(&self, resource: &'static Resource, key: &Key) -> u32 {
        let wanted = self.api.objects.get(resource, key).and_then(|owner| owner["spec"]["replicas"].as_u64());
        wanted.and_then(|wanted| u32::try_from(wanted).ok()).unwrap_or(0)
    }
}

/// The controller in a list of references to owners.
pub(super) fn controller_of(references: &Value) -> Option<Owner> {
    let mut all = references.as_array()?.iter();
    let found = all.find(|reference| reference["controller"] == true)?;
    let text = |field: &str| Text::from(found[field].as_str().unwrap_or_default());
    let group =
        found["apiVersion"].as_str().and_then(|version| version.split_once('/')).map_or("", |both| both.0);
    Some(Owner { group: group.into(), kind: text("kind"), name: text("name"), uid: text("uid") })
}
