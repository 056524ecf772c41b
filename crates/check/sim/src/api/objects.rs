//! Objects that the server keeps as JSON: the owners of pods and the objects that belong to them.

use std::{collections::BTreeMap, ops::Deref, sync::Arc};

use lazaret_workloads::{Key, Object, Propagation, Resource};
use serde_json::{Value, json};

use super::{Api, Refused, wall};

/// One write, as watches see it.
#[derive(Clone, Debug)]
pub(crate) struct LoggedObject {
    pub(crate) resource: &'static Resource,
    pub(crate) key: Key,
    pub(crate) uid: String,
    /// The resource version of the write.
    pub(crate) version: u64,
    /// The object after the write; `None`: deleted.
    pub(crate) object: Option<Object>,
}

/// An object, with the text that the server answers with.
#[derive(Debug, PartialEq)]
pub(crate) struct StoredObject {
    value: Value,
    text: Vec<u8>,
}

impl Deref for StoredObject {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl StoredObject {
    /// The object as text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }
}

/// The objects, and all their changes. The log is never trimmed: a world is short.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    live: BTreeMap<&'static Resource, BTreeMap<Key, Arc<StoredObject>>>,
    log: Vec<LoggedObject>,
}

impl Objects {
    pub(crate) fn get(&self, resource: &'static Resource, key: &Key) -> Option<&Arc<StoredObject>> {
        self.live.get(resource)?.get(key)
    }

    /// Every object of a kind, by namespace and name.
    pub(crate) fn all(&self, resource: &'static Resource) -> impl Iterator<Item = &Value> {
        self.live.get(resource).into_iter().flat_map(BTreeMap::values).map(|object| &object.value)
    }

    /// Everything that happened, oldest first.
    pub(crate) fn log(&self) -> &[LoggedObject] {
        &self.log
    }

    /// The objects of a kind that there were when the log was as long as this.
    pub(crate) fn listed(&self, resource: &'static Resource, length: usize) -> Vec<Object> {
        let of_kind = self.log[..length].iter().filter(|logged| logged.resource == resource);
        let last: BTreeMap<&Key, Option<&Object>> =
            of_kind.map(|logged| (&logged.key, logged.object.as_ref())).collect();
        last.into_values().flatten().cloned().collect()
    }

    fn record(
        &mut self,
        resource: &'static Resource,
        key: Key,
        version: u64,
        mut value: Value,
        is_there: bool,
    ) -> Arc<StoredObject> {
        value["metadata"]["resourceVersion"] = json!(version.to_string());
        let uid = value["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let text = serde_json::to_vec(&value).unwrap_or_default();
        // The server validates objects before it stores them.
        let parsed = if is_there { Object::read(resource, &text).ok() } else { None };
        self.log.push(LoggedObject { resource, key: key.clone(), uid, version, object: parsed });
        let object = Arc::new(StoredObject { value, text });
        let live = self.live.entry(resource).or_default();
        if is_there {
            live.insert(key, Arc::clone(&object));
        } else {
            live.remove(&key);
        }
        object
    }
}

impl Api {
    /// Makes an object with this UID.
    ///
    /// # Errors
    /// [`Refused::Exists`].
    pub(crate) fn create_object(
        &mut self,
        now: u64,
        resource: &'static Resource,
        uid: &str,
        mut object: Value,
    ) -> Result<Arc<StoredObject>, Refused> {
        let key = key_of(&object);
        if self.objects.get(resource, &key).is_some() {
            return Err(Refused::Exists);
        }
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(uid);
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = json!(lazaret_api::format_time(wall(now)));
        Ok(self.store_object(resource, key, object))
    }

    /// Applies a merge patch, if the UID and the version that it names are those of the object.
    ///
    /// # Errors
    /// [`Refused::NotFound`], [`Refused::Conflict`].
    pub(crate) fn patch_object(
        &mut self,
        resource: &'static Resource,
        key: &Key,
        subresource: &str,
        body: &Value,
    ) -> Result<Arc<StoredObject>, Refused> {
        let old = self.objects.get(resource, key).ok_or(Refused::NotFound)?;
        let differs = |field: &str| {
            let wanted = &body["metadata"][field];
            !wanted.is_null() && *wanted != old["metadata"][field]
        };
        if differs("uid") || differs("resourceVersion") {
            return Err(Refused::Conflict);
        }
        let status = subresource == "status";
        let edited = self.edit_object(resource, key, |object| {
            if status {
                merge(&mut object["status"], &body["status"]);
            } else {
                let mut body = body.clone();
                body.as_object_mut().map(|body| body.remove("status"));
                merge(object, &body);
            }
        });
        edited.ok_or(Refused::NotFound)
    }

    /// Changes an object: its generation grows when its spec differs, and it goes when it was to go and no finalizer is left. `None`: there is no
    /// such object.
    pub(crate) fn edit_object(
        &mut self,
        resource: &'static Resource,
        key: &Key,
        edit: impl FnOnce(&mut Value),
    ) -> Option<Arc<StoredObject>> {
        let old = self.objects.get(resource, key)?;
        let mut new = old.value.clone();
        edit(&mut new);
        if new == old.value {
            return Some(Arc::clone(old));
        }
        if new["spec"] != old["spec"] {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = json!(generation);
        }
        let is_held = new["metadata"]["finalizers"].as_array().is_some_and(|left| !left.is_empty());
        if !new["metadata"]["deletionTimestamp"].is_null() && !is_held {
            return Some(self.remove_object(resource, key.clone(), new));
        }
        Some(self.store_object(resource, key.clone(), new))
    }

    /// Deletes an object, at once or when its finalizers are gone.
    pub(crate) fn delete_object(
        &mut self,
        now: u64,
        resource: &'static Resource,
        key: &Key,
        how: Propagation,
    ) -> Option<Arc<StoredObject>> {
        let old = self.objects.get(resource, key)?;
        let mut finalizers = old["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.retain(|name| name != "orphan" && name != "foregroundDeletion");
        match how {
            Propagation::Background => {}
            Propagation::Foreground => finalizers.push(json!("foregroundDeletion")),
            Propagation::Orphan => finalizers.push(json!("orphan")),
        }
        if finalizers.is_empty() {
            let last = old.value.clone();
            return Some(self.remove_object(resource, key.clone(), last));
        }
        self.edit_object(resource, key, |object| {
            let metadata = &mut object["metadata"];
            metadata["finalizers"] = Value::Array(finalizers);
            if metadata["deletionTimestamp"].is_null() {
                metadata["deletionTimestamp"] = json!(lazaret_api::format_time(wall(now)));
                metadata["deletionGracePeriodSeconds"] = json!(0);
            }
        })
    }

    fn store_object(&mut self, resource: &'static Resource, key: Key, object: Value) -> Arc<StoredObject> {
        self.objects.record(resource, key, self.versions.next(), object, true)
    }

    fn remove_object(&mut self, resource: &'static Resource, key: Key, object: Value) -> Arc<StoredObject> {
        self.objects.record(resource, key, self.versions.next(), object, false)
    }
}

fn key_of(object: &Value) -> Key {
    let field = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    Key::new(field("namespace"), field("name"))
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
    let Some(target) = target.as_object_mut() else { return };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use lazaret_workloads::resource::JOBS;

    use super::*;

    #[test]
    fn a_patch_names_the_object_that_it_means() {
        let mut api = Api::default();
        let key = Key::new("a", "j");
        let job = json!({"metadata": {"name": "j", "namespace": "a"}, "spec": {"parallelism": 1}});
        let made = api.create_object(0, &JOBS, "u", job.clone()).expect("new");
        assert_eq!(api.create_object(0, &JOBS, "v", job), Err(Refused::Exists));
        let patch = |version: &Value, parallelism: u32| {
            let metadata = json!({"uid": "u", "resourceVersion": version});
            json!({"metadata": metadata, "spec": {"parallelism": parallelism}, "status": {"failed": 7}})
        };
        let version = &made["metadata"]["resourceVersion"];
        let changed = api.patch_object(&JOBS, &key, "", &patch(version, 2)).expect("current");
        assert_eq!((&changed["metadata"]["generation"], &changed["status"]), (&json!(2), &Value::Null));
        assert_eq!(api.patch_object(&JOBS, &key, "", &patch(version, 3)), Err(Refused::Conflict));
        let version = &changed["metadata"]["resourceVersion"];
        let counted = api.patch_object(&JOBS, &key, "status", &patch(version, 4)).expect("current");
        assert_eq!((&counted["spec"]["parallelism"], &counted["status"]["failed"]), (&json!(2), &json!(7)));
    }

    #[test]
    fn an_object_that_a_finalizer_holds_goes_when_it_is_off() {
        let mut api = Api::default();
        let key = Key::new("a", "j");
        let job = json!({"metadata": {"name": "j", "namespace": "a"}, "spec": {}});
        api.create_object(0, &JOBS, "u", job).expect("new");
        api.delete_object(0, &JOBS, &key, Propagation::Foreground);
        assert!(api.objects.get(&JOBS, &key).is_some());
        let body = json!({"metadata": {"uid": "u", "finalizers": null}});
        api.patch_object(&JOBS, &key, "", &body).expect("there");
        assert!(api.objects.get(&JOBS, &key).is_none());
        let log = api.objects.log();
        assert!(log.len() == 3 && log[2].object.is_none());
        assert_eq!((api.objects.listed(&JOBS, 2).len(), api.objects.listed(&JOBS, 3).len()), (1, 0));
    }
}
