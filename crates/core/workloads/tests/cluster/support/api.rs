//! A small model of an API server: objects with versions, preconditions, finalizers, and a log of what changed.

use std::collections::BTreeMap;

use lazaret_machine::{Outcome, Reply};
use lazaret_model::Timestamp;
use lazaret_workloads::{Answer, Key, Propagation, Resource, Write, resource};
use serde_json::{Value, json};

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct Logged {
    pub resource: &'static Resource,
    pub object: Value,
    pub removed: bool,
}

/// The server.
#[derive(Debug, Default)]
pub struct Api {
    pub revision: u64,
    objects: BTreeMap<(&'static Resource, Key), Value>,
    pub log: Vec<Logged>,
    uids: u64,
    pub events: Vec<lazaret_workloads::Note>,
    /// Creations of these kinds are refused with these words.
    pub refuse: BTreeMap<&'static str, String>,
    /// Kinds that have a subresource `scale`.
    pub with_scale: Vec<&'static Resource>,
}

impl Api {
    pub fn get(&self, resource: &'static Resource, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(resource, Key::new(namespace, name)))
    }

    pub fn all(&self, resource: &'static Resource) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((kind, _), _)| *kind == resource).map(|(_, object)| object)
    }

    pub fn everything(&self) -> impl Iterator<Item = (&'static Resource, &Value)> {
        self.objects.iter().map(|((resource, _), object)| (*resource, object))
    }

    /// Makes an object as a user would.
    pub fn create(
        &mut self,
        now: Timestamp,
        resource: &'static Resource,
        mut object: Value,
    ) -> Option<Value> {
        let key = key_of(&object);
        if self.objects.contains_key(&(resource, key.clone())) {
            return None;
        }
        self.uids += 1;
        object["metadata"]["uid"] = json!(format!("uid-{:06}", self.uids));
        object["metadata"]["generation"] = json!(1);
        object["metadata"]["creationTimestamp"] = json!(stamp(now));
        if *resource == lazaret_workloads::resource::PODS && object["status"].is_null() {
            object["status"] = json!({"phase": "Pending"});
        }
        Some(self.store(resource, key, object))
    }

    /// Changes an object as a user or a kubelet would; the generation grows when the spec differs.
    pub fn change(
        &mut self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) -> Option<Value> {
        let key = Key::new(namespace, name);
        let old = self.objects.get(&(resource, key.clone()))?.clone();
        let mut new = old.clone();
        change(&mut new);
        self.update(resource, key, &old, new)
    }

    /// Deletes an object as a user would.
    pub fn delete(
        &mut self,
        now: Timestamp,
        resource: &'static Resource,
        key: &Key,
        how: Propagation,
    ) -> Option<Value> {
        let old = self.objects.get(&(resource, key.clone()))?.clone();
        let mut new = old.clone();
        let mut finalizers: Vec<Value> =
            new["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
        match how {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(json!("foregroundDeletion")),
            Propagation::Orphan => finalizers.push(json!("orphan")),
        }
        let held = !finalizers.is_empty();
        new["metadata"]["finalizers"] = Value::Array(finalizers);
        let pod = *resource == lazaret_workloads::resource::PODS;
        let running = pod
            && new["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty())
            && !matches!(new["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let contents = *resource == lazaret_workloads::resource::NAMESPACES
            && new["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if !held && !running && !contents {
            return Some(self.erase(resource, key));
        }
        if new["metadata"]["deletionTimestamp"].is_null() {
            let grace = if running { 30 } else { 0 };
            new["metadata"]["deletionTimestamp"] = json!(stamp(now.plus_secs(grace)));
            new["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        }
        if contents {
            new["status"]["phase"] = json!("Terminating");
        }
        self.update(resource, key.clone(), &old, new)
    }

    /// A pod has stopped: it goes, unless a finalizer holds it.
    pub fn stopped(&mut self, key: &Key) {
        self.change(&lazaret_workloads::resource::PODS, &key.namespace, &key.name, |pod| {
            // The grace ends now; since when the pod has been leaving stays as it was.
            let metadata = &mut pod["metadata"];
            let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            let until: jiff::Timestamp = metadata["deletionTimestamp"].as_str().unwrap().parse().unwrap();
            let since = jiff::Timestamp::from_second(until.as_second() - grace).unwrap();
            metadata["deletionTimestamp"] = json!(since.to_string());
            metadata["deletionGracePeriodSeconds"] = json!(0);
            if pod["status"]["phase"] == "Running" {
                pod["status"]["phase"] = json!("Failed");
            }
        });
    }

    fn replace(&mut self, resource: &'static Resource, key: &Key, body: &Value) -> Answer {
        let mut patch = body.clone();
        let metadata = &body["metadata"];
        patch["metadata"] = json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
        for field in ["labels", "annotations"] {
            if !metadata[field].is_null() {
                patch["metadata"][field] = metadata[field].clone();
            }
        }
        self.patch(resource, key, "", &patch)
    }

    /// Carries out what a controller wants.
    pub fn carry_out(&mut self, now: Timestamp, write: &Write) -> Answer {
        match write {
            Write::Create { resource, namespace, body } => {
                if let Some(why) = self.refuse.get(resource.plural) {
                    return Reply { why: Some(why.as_str().into()), ..Outcome::Refused.into() }.into();
                }
                let mut body = body.0.clone();
                if resource.namespaced {
                    body["metadata"]["namespace"] = json!(namespace);
                }
                self.create(now, resource, body)
                    .map_or_else(|| Outcome::Conflict.into(), |object| done(Some(object)))
            }
            Write::Patch { resource, key, subresource, body, .. } => {
                self.patch(resource, key, subresource, body)
            }
            Write::Replace { resource, key, body } => self.replace(resource, key, body),
            Write::Finalize { key, body } => self.replace(&resource::NAMESPACES, key, body),
            Write::Delete { resource, key, uid, resource_version, propagation, .. } => {
                let Some(old) = self.objects.get(&(*resource, key.clone())) else {
                    return Outcome::Gone.into();
                };
                let wrong_version = resource_version
                    .as_deref()
                    .is_some_and(|version| old["metadata"]["resourceVersion"] != version);
                if old["metadata"]["uid"] != uid.as_str() || wrong_version {
                    return Outcome::Conflict.into();
                }
                done(self.delete(now, resource, key, *propagation))
            }
            Write::Evict { key, uid } => {
                let pods = &lazaret_workloads::resource::PODS;
                match self.objects.get(&(pods, key.clone())) {
                    None => Outcome::Gone.into(),
                    Some(old) if old["metadata"]["uid"] != uid.as_str() => Outcome::Conflict.into(),
                    Some(_) => done(self.delete(now, pods, key, Propagation::Background)),
                }
            }
            Write::Confirm { resource, key, .. } => {
                let found = self.objects.get(&(*resource, key.clone())).cloned();
                found.map_or_else(|| Outcome::Gone.into(), |object| done(Some(object)))
            }
            Write::ReadScale { resource, key, .. } => {
                let found = self
                    .objects
                    .get(&(*resource, key.clone()))
                    .filter(|_| self.with_scale.contains(resource));
                found.map_or_else(|| Outcome::Gone.into(), |object| {
                    let scale = json!({"metadata": object["metadata"], "spec": {"replicas": object["spec"]["replicas"]}});
                    done(Some(scale))
                })
            }
            Write::Event(note) => {
                self.events.push(note.clone());
                done(None)
            }
        }
    }

    fn patch(&mut self, resource: &'static Resource, key: &Key, subresource: &str, body: &Value) -> Answer {
        let Some(old) = self.objects.get(&(resource, key.clone())).cloned() else {
            return Outcome::Gone.into();
        };
        let wanted = &body["metadata"];
        assert!(wanted["uid"].is_string(), "a patch without a UID: {body}");
        for field in ["uid", "resourceVersion"] {
            if !wanted[field].is_null() && wanted[field] != old["metadata"][field] {
                return Outcome::Conflict.into();
            }
        }
        let mut new = old.clone();
        if subresource == "status" {
            merge(&mut new["status"], &body["status"]);
        } else {
            let mut body = body.clone();
            if let Some(map) = body.as_object_mut() {
                map.remove("status");
            }
            merge(&mut new, &body);
        }
        done(self.update(resource, key.clone(), &old, new))
    }

    fn update(
        &mut self,
        resource: &'static Resource,
        key: Key,
        old: &Value,
        mut new: Value,
    ) -> Option<Value> {
        if *old == new {
            return Some(new);
        }
        if old["spec"] != new["spec"] {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        let done = !new["metadata"]["deletionTimestamp"].is_null()
            && new["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty)
            && new["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
            && (*resource != lazaret_workloads::resource::NAMESPACES
                || new["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty));
        if done {
            self.objects.insert((resource, key.clone()), new);
            return Some(self.erase(resource, &key));
        }
        Some(self.store(resource, key, new))
    }

    fn store(&mut self, resource: &'static Resource, key: Key, mut object: Value) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind);
        self.objects.insert((resource, key), object.clone());
        self.log.push(Logged { resource, object: object.clone(), removed: false });
        object
    }

    fn erase(&mut self, resource: &'static Resource, key: &Key) -> Value {
        self.revision += 1;
        let mut object = self.objects.remove(&(resource, key.clone())).unwrap();
        object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
        self.log.push(Logged { resource, object: object.clone(), removed: true });
        object
    }
}

fn done(object: Option<Value>) -> Answer {
    Answer::done(object.map(|object| object.to_string().into_bytes()))
}

pub fn key_of(object: &Value) -> Key {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    Key::new(field("namespace"), field("name"))
}

pub fn stamp(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_secs()).unwrap().to_string()
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
