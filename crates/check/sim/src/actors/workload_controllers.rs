//! The workload controllers: the core that ships, and the server's handling of its writes.

use std::{borrow::Cow, sync::Arc};

use lazaret_leader::{Precedence, TurnOptions};
use lazaret_machine::{EffectId, Outcome, Reply};
use lazaret_model::{NodeReport, ObjectKey, Owner, Pod, PodPhase, Text, Timestamp};
use lazaret_workloads::{Answer, Key, Resource, Rules, Workloads, Write, resource, rules};
use serde_json::{Value, json};

use crate::{
    actors::{
        owners::controller_of,
        part::{Crew, Part, PartStep},
    },
    api::{PodMetadata, PodNotes, Refused, StoredObject, TRACKING},
    coverage::Mark,
    mutant::Mutant,
    world::{Step, World},
};

/// The controllers of the kinds that worlds have.
const RULES: &[Rules] =
    &[rules::REPLICA_SETS, rules::STATEFUL_SETS, rules::JOBS, rules::BUDGETS, rules::POD_GC, rules::GARBAGE];

impl Part for Workloads {
    const LOOP: TurnOptions = TurnOptions { in_flight_max: 32, precedence: Precedence::Patient };
    /// It asks to be called two minutes after each write, in case that no answer comes.
    const TICK_MS_MAX: u64 = 4_000;

    fn begin() -> Self {
        Self::new(RULES)
    }

    fn crew(world: &mut World) -> &mut Crew<Self> {
        &mut world.workload_controllers
    }

    fn step(step: PartStep<Write>) -> Step {
        Step::Workloads(Box::new(step))
    }

    fn ask(world: &mut World, number: usize) {
        world.watches.ask(number, &world.api);
    }

    fn is_past_fence(world: &World, number: usize) -> bool {
        world.watches.is_past_fence(number)
    }

    fn hear(world: &mut World, number: usize, now: Timestamp) {
        world.workload_controllers_hear(number, now);
    }

    fn is_event(kind: &Write) -> bool {
        matches!(kind, Write::Event(_))
    }

    /// A name is taken by an object or it is not, and a read finds what there is.
    fn may_conflict(kind: &Write) -> bool {
        !matches!(kind, Write::Create { .. } | Write::Confirm { .. } | Write::ReadScale { .. })
    }

    fn unheard(world: &mut World, kind: &Write) {
        if let Write::Create { resource, body, .. } = kind
            && **resource == resource::PODS
            && let Some(owner) = controller_of(&body["metadata"]["ownerReferences"])
            && let Some(number) = world.workloads.owned_by(&owner.uid)
        {
            world.workloads.all[number].history.unheard += 1;
        }
    }

    fn perform(world: &mut World, write: &Write, _in_part: bool) -> Reply {
        let outcome = match world.carry_out(write) {
            Ok(object) => {
                world.watches.answer = object.filter(|_| world.mutant != Some(Mutant::UnseenPods));
                Outcome::Done
            }
            Err(Refused::NotFound) => Outcome::Gone,
            Err(Refused::Conflict | Refused::Exists) => {
                world.coverage.hit(Mark::OwnerConflict);
                Outcome::Conflict
            }
        };
        outcome.into()
    }

    fn take_object(world: &mut World) -> Option<Vec<u8>> {
        world.watches.answer.take()
    }

    /// The object in the answer is used before the watch delivers it.
    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply, object: Option<Vec<u8>>) {
        Self::acknowledge(self, now, effect, Answer { reply, object });
    }
}

fn object_key(key: &Key) -> ObjectKey {
    ObjectKey::new(key.namespace.as_str(), key.name.as_str())
}

impl World {
    /// The object after a write, or the object that was read, as text; `None`: the answer has none.
    fn carry_out(&mut self, write: &Write) -> Result<Option<Vec<u8>>, Refused> {
        let text = |object: Arc<StoredObject>| Some(object.text().to_vec());
        match write {
            Write::Create { resource, namespace, body } if **resource == resource::PODS => {
                self.create_owned_pod(namespace, body)
            }
            Write::Create { resource, namespace, body } => {
                let uid = self.api.new_uid();
                let mut body = body.0.clone();
                body["metadata"]["namespace"] = json!(namespace);
                self.api.create_object(self.now, resource, &uid, body).map(text)
            }
            Write::Patch { resource, key, subresource, body, .. } if **resource == resource::PODS => {
                self.patch_owned_pod(key, subresource, body)
            }
            Write::Patch { resource, key, subresource, body, .. } => {
                self.patch_owner(resource, key, subresource, body).map(text)
            }
            Write::Replace { resource, key, body } => {
                self.api.patch_object(resource, key, "", body).map(text)
            }
            Write::Delete { resource, key, uid, resource_version, propagation, grace } => {
                let (found, version) = self.identity(resource, key)?;
                let is_another = found != uid.as_str();
                match resource_version {
                    // A conflict over the UID alone means that this incarnation is gone.
                    None if is_another => return Err(Refused::NotFound),
                    Some(_) if is_another => return Err(Refused::Conflict),
                    Some(wanted) if version != *wanted => return Err(Refused::Conflict),
                    None | Some(_) => {}
                }
                if **resource == resource::PODS {
                    let pod = self.api.pods.get(&object_key(key)).map(|stored| stored.object);
                    let owner = pod.and_then(|pod| pod.owner.as_ref());
                    if self.mutant == Some(Mutant::KeepDependents) && !self.has_owner(owner) {
                        return Ok(None);
                    }
                    self.delete_owned_pod(key, *grace == Some(0));
                    Ok(None)
                } else {
                    self.coverage.hit(Mark::Collected);
                    Ok(self.api.delete_object(self.now, resource, key, *propagation).and_then(text))
                }
            }
            Write::Confirm { resource, key, .. } => self.read(resource, key).map(Some),
            // Of all kinds here those that have a scale are known to the controllers.
            Write::ReadScale { .. } => Err(Refused::NotFound),
            Write::Event(_) => Ok(None),
            Write::Evict { .. } | Write::Finalize { .. } => {
                self.violate("controllers write to what there is", format!("{write:?}"));
                Err(Refused::NotFound)
            }
        }
    }

    /// An object as text.
    fn read(&self, resource: &'static Resource, key: &Key) -> Result<Vec<u8>, Refused> {
        if *resource == resource::PODS {
            let place = self.place_of(&object_key(key)).ok_or(Refused::NotFound)?;
            return self.api.pod_text(place).ok_or(Refused::NotFound);
        }
        if *resource == resource::NODES {
            let node = self.node(key)?;
            let version = self.api.nodes.get(&node.name).map_or(1, |stored| stored.version).to_string();
            let metadata = json!({"name": &*node.name, "uid": &*node.uid, "resourceVersion": version});
            let object = json!({"metadata": metadata});
            return Ok(object.to_string().into_bytes());
        }
        let object = self.api.objects.get(resource, key).ok_or(Refused::NotFound)?;
        Ok(object.text().to_vec())
    }

    /// The UID and the version of an object.
    fn identity(&self, resource: &'static Resource, key: &Key) -> Result<(Text, String), Refused> {
        if *resource == resource::PODS {
            let stored = self.api.pods.get(&object_key(key)).ok_or(Refused::NotFound)?;
            return Ok((stored.object.uid.clone(), stored.version.to_string()));
        }
        if *resource == resource::NODES {
            return Ok((self.node(key)?.uid.clone(), String::new()));
        }
        let object = self.api.objects.get(resource, key).ok_or(Refused::NotFound)?;
        let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
        Ok((field("uid").into(), field("resourceVersion").to_owned()))
    }

    fn node(&self, key: &Key) -> Result<&NodeReport, Refused> {
        self.reports.by_node.get(key.name.as_str()).map(|node| &**node).ok_or(Refused::NotFound)
    }

    /// Whether the owner of a pod is there.
    fn has_owner(&self, owner: Option<&Owner>) -> bool {
        let number = owner.and_then(|owner| self.workloads.owned_by(&owner.uid));
        let workload = number.map(|number| &self.workloads.all[number]);
        workload.is_some_and(|one| {
            one.resource().is_some_and(|kind| self.api.objects.get(kind, &one.key()).is_some())
        })
    }

    /// Where a pod was written last.
    fn place_of(&self, key: &ObjectKey) -> Option<usize> {
        let number = self.api.pods.number(key)?;
        (*self.api.pods.live().get(number as usize)? as usize).checked_sub(1)
    }

    /// A pod that a controller makes of a template becomes one of the world.
    fn create_owned_pod(&mut self, namespace: &str, body: &Value) -> Result<Option<Vec<u8>>, Refused> {
        let metadata = &body["metadata"];
        let owner = controller_of(&metadata["ownerReferences"]);
        let Some(number) = owner.as_ref().and_then(|owner| self.workloads.owned_by(&owner.uid)) else {
            self.violate("a pod has an owner", body.to_string());
            return Err(Refused::NotFound);
        };
        let name = metadata["name"].as_str().unwrap_or_default();
        let key = ObjectKey::new(namespace, name);
        if self.api.pods.get(&key).is_some() {
            return Err(Refused::Exists);
        }
        let uid = self.api.new_uid();
        let finalizers = metadata["finalizers"].as_array();
        let mut noted = PodMetadata::new(metadata);
        self.label(&mut noted, number);
        let notes = PodNotes {
            metadata: vec![(0, noted)],
            created: self.now,
            is_tracked: finalizers.is_some_and(|all| all.iter().any(|name| name == TRACKING)),
            ..PodNotes::default()
        };
        self.api.note_pod(&uid, notes);
        let protected = self.config.protected != 0;
        let pod = self.workloads.all[number].pod(key.name.clone(), uid, owner, protected);
        self.api.pods.put(&mut self.api.versions, pod);
        self.workloads.employ(self.api.pods.number(&key), number);
        self.coverage.hit(Mark::PodMade);
        self.check_made(number);
        self.note_made(number);
        self.read(&resource::PODS, &Key::new(namespace, name)).map(Some)
    }

    fn patch_owned_pod(
        &mut self,
        key: &Key,
        subresource: &str,
        body: &Value,
    ) -> Result<Option<Vec<u8>>, Refused> {
        let (uid, version) = self.identity(&resource::PODS, key)?;
        let differs = |field: &str, found: &str| {
            let wanted = &body["metadata"][field];
            !wanted.is_null() && wanted != found
        };
        if differs("uid", &uid) || differs("resourceVersion", &version) {
            return Err(Refused::Conflict);
        }
        let pod = object_key(key);
        let place = self.place_of(&pod);
        if subresource == "status" {
            if body["status"]["phase"] == "Failed" {
                self.api.edit_pod(&pod, &uid, |pod| pod.phase = PodPhase::Failed);
            }
            return self.read(&resource::PODS, key).map(Some);
        }
        let changes = body["metadata"].as_object().into_iter().flatten();
        for (field, value) in changes {
            match field.as_str() {
                "uid" | "resourceVersion" => {}
                "finalizers" if self.mutant == Some(Mutant::KeepFinalizers) => {}
                "finalizers" => {
                    self.coverage.hit(Mark::PodReleased);
                    self.api.release_pod(&pod);
                }
                "ownerReferences" => {
                    let owner = controller_of(value);
                    self.api.edit_pod(&pod, &uid, |pod: &mut Pod| pod.owner = owner);
                }
                _ => self.violate("controllers write to what there is", body.to_string()),
            }
        }
        if let Ok(after) = self.read(&resource::PODS, key) {
            return Ok(Some(after));
        }
        // A pod that only its finalizer held is gone; the answer has its last state.
        let mut last = place.map(|place| self.api.pod_json(place)).unwrap_or_default();
        last["metadata"]["finalizers"] = Value::Null;
        last["metadata"]["resourceVersion"] = json!(self.api.versions.last().to_string());
        Ok(Some(last.to_string().into_bytes()))
    }

    fn delete_owned_pod(&mut self, key: &Key, at_once: bool) {
        let key = object_key(key);
        self.coverage.hit(Mark::PodDeletedByOwner);
        let bound = self.api.pods.get(&key).map(|stored| stored.object).filter(|pod| pod.node.is_some());
        match bound.cloned() {
            Some(pod) if at_once => self.remove_by_force(&pod),
            // It is there, and has the UID that was asked for.
            Some(_) | None => drop(self.api.delete_pod(self.now, &key, None)),
        }
    }

    fn patch_owner(
        &mut self,
        resource: &'static Resource,
        key: &Key,
        subresource: &str,
        body: &Value,
    ) -> Result<Arc<StoredObject>, Refused> {
        let is_job = *resource == resource::JOBS && subresource == "status";
        let mut body = Cow::Borrowed(body);
        if is_job
            && self.mutant == Some(Mutant::CountCompletionsTwice)
            && let Some(succeeded) = body["status"]["succeeded"].as_u64()
        {
            body.to_mut()["status"]["succeeded"] = json!(succeeded + 1);
        }
        let before = self.api.objects.get(resource, key).cloned();
        let object = self.api.patch_object(resource, key, subresource, &body)?;
        if is_job {
            self.coverage.hit(Mark::JobStatusWritten);
            self.check_counted(key, before.as_ref().map_or(&Value::Null, |before| before), &object);
        }
        Ok(object)
    }
}
