//! The cache of the cluster: fed once, read by every controller.
//!
//! News may be late, repeated or missing until the next list. The result of a controller's own write is put here as soon as the
//! server has answered, so that a decision never overlooks the one before it; news that is older than that is ignored.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    coordination::v1::Lease,
    core::v1::{ConfigMap, Endpoints, Namespace, ReplicationController, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
    policy::v1::PodDisruptionBudget,
};
use lazaret_invariant::invariant;
use lazaret_machine::Recent;

use crate::{
    graph::{self, Graph},
    lean::Node,
    meta,
    pod_index::PodIndex,
    prelude::*,
    scales::{Scale, Scales},
    table::Table,
};

/// Deleted objects that are remembered, lest a late answer brings one back.
const GONE_MAX: usize = 16_384;

/// One change, as all controllers hear it.
#[derive(Clone, Debug)]
pub struct Change {
    /// As it was, unless it is new.
    pub old: Option<Object>,
    /// As it is, unless it has gone.
    pub new: Option<Object>,
}

impl Change {
    /// The object, in its latest form.
    #[must_use]
    pub fn latest(&self) -> Option<&Object> {
        invariant!(self.new.as_ref().or(self.old.as_ref()), "a change has an object before or after it")
    }
}

/// All that is known of the cluster.
#[derive(Debug)]
pub struct World {
    pods: Table<Pod>,
    pod_index: PodIndex,
    nodes: Table<Node>,
    namespaces: Table<Namespace>,
    service_accounts: Table<ServiceAccount>,
    config_maps: Table<ConfigMap>,
    replication_controllers: Table<ReplicationController>,
    deployments: Table<Deployment>,
    replica_sets: Table<ReplicaSet>,
    stateful_sets: Table<StatefulSet>,
    daemon_sets: Table<DaemonSet>,
    controller_revisions: Table<ControllerRevision>,
    jobs: Table<Job>,
    cron_jobs: Table<CronJob>,
    budgets: Table<PodDisruptionBudget>,
    leases: Table<Lease>,
    services: Table<Service>,
    endpoints: Table<Endpoints>,
    endpoint_slices: Table<EndpointSlice>,
    graph: Graph,
    scales: Scales,
    gone: Recent<String>,
    /// The kinds that were listed, each at the revision of its last list.
    listed: BTreeMap<&'static Resource, u64>,
}

macro_rules! dispatch {
    ($($variant:ident => $table:ident, $resource:ident, $type:ty;)*) => {
        impl World {
            $(#[doc = concat!("Every ", stringify!($variant), ".")]
            #[must_use]
            pub fn $table(&self) -> &Table<$type> {
                &self.$table
            })*

            /// The object of this kind and name, as last heard.
            #[must_use]
            pub fn get(&self, resource: &'static Resource, key: &Key) -> Option<Object> {
                $(if *resource == resource::$resource {
                    return self.$table.get(key).cloned().map(Object::$variant);
                })*
                self.graph.find(resource, key).map(graph::Node::object)
            }

            fn keys(&self, resource: &'static Resource) -> Vec<Key> {
                $(if *resource == resource::$resource {
                    return self.$table.all().map(|(key, _)| key.clone()).collect();
                })*
                self.graph.of_kind(resource).cloned().collect()
            }

            fn store(&mut self, key: Key, object: Object) {
                match object {
                    $(Object::$variant(object) => self.$table.put(key, object),)*
                    Object::Other(..) => {}
                }
            }

            fn discard(&mut self, resource: &'static Resource, key: &Key) {
                $(if *resource == resource::$resource {
                    self.$table.take(key);
                })*
            }
        }
    };
}

dispatch! {
    Pod => pods, PODS, Pod;
    Node => nodes, NODES, Node;
    Namespace => namespaces, NAMESPACES, Namespace;
    ServiceAccount => service_accounts, SERVICE_ACCOUNTS, ServiceAccount;
    ConfigMap => config_maps, CONFIG_MAPS, ConfigMap;
    ReplicationController => replication_controllers, REPLICATION_CONTROLLERS, ReplicationController;
    Deployment => deployments, DEPLOYMENTS, Deployment;
    ReplicaSet => replica_sets, REPLICA_SETS, ReplicaSet;
    StatefulSet => stateful_sets, STATEFUL_SETS, StatefulSet;
    DaemonSet => daemon_sets, DAEMON_SETS, DaemonSet;
    ControllerRevision => controller_revisions, CONTROLLER_REVISIONS, ControllerRevision;
    Job => jobs, JOBS, Job;
    CronJob => cron_jobs, CRON_JOBS, CronJob;
    PodDisruptionBudget => budgets, BUDGETS, PodDisruptionBudget;
    Lease => leases, LEASES, Lease;
    Service => services, SERVICES, Service;
    Endpoints => endpoints, ENDPOINTS, Endpoints;
    EndpointSlice => endpoint_slices, ENDPOINT_SLICES, EndpointSlice;
}

impl Default for World {
    fn default() -> Self {
        Self {
            pods: Table::default(),
            pod_index: PodIndex::default(),
            nodes: Table::default(),
            namespaces: Table::default(),
            service_accounts: Table::default(),
            config_maps: Table::default(),
            replication_controllers: Table::default(),
            deployments: Table::default(),
            replica_sets: Table::default(),
            stateful_sets: Table::default(),
            daemon_sets: Table::default(),
            controller_revisions: Table::default(),
            jobs: Table::default(),
            cron_jobs: Table::default(),
            budgets: Table::default(),
            leases: Table::default(),
            services: Table::default(),
            endpoints: Table::default(),
            endpoint_slices: Table::default(),
            graph: Graph::default(),
            scales: Scales::default(),
            gone: Recent::new(GONE_MAX),
            listed: BTreeMap::new(),
        }
    }
}

impl World {
    /// A world of which nothing is known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Pods by node and by label.
    pub(crate) fn pod_index(&self) -> &PodIndex {
        &self.pod_index
    }

    /// Owners and dependents of all kinds.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Tells of a kind that is none of [`resource::KNOWN`], so that references to it can be followed.
    pub fn learn(&mut self, resource: &'static Resource) {
        self.graph.learn(resource);
    }

    /// The kind is no longer served in this version. Either its objects are gone with it, or they are served under another version.
    pub fn forget(&mut self, resource: &'static Resource, objects_gone: bool) -> Vec<Change> {
        let forgotten = self.keys(resource).into_iter().filter_map(|key| {
            let old = self.get(resource, &key)?;
            if objects_gone {
                return self.remove(resource, &key, old.uid());
            }
            self.unlink(&old);
            None
        });
        let changes = forgotten.collect();
        self.listed.remove(resource);
        self.graph.forget(resource);
        changes
    }

    /// Whether the object with this UID was there and is not any more, as far as is remembered.
    pub(crate) fn has_gone(&self, uid: &str) -> bool {
        self.gone.contains(&uid.to_owned())
    }

    /// Whether all of these kinds have been listed at least once.
    #[must_use]
    pub fn knows(&self, resources: &[&'static Resource]) -> bool {
        resources.iter().all(|resource| self.listed.contains_key(resource))
    }

    /// An object is in the answer to a write. A list that is no older and lacks it says that it has gone.
    pub(crate) fn put_answer(&mut self, object: Object) -> Option<Change> {
        let listed = self.listed.get(object.resource()).copied().unwrap_or(0);
        let version = meta::revision(object.metadata());
        let is_known = || self.get(object.resource(), &object.key()).is_some();
        if version != 0 && version <= listed && !is_known() {
            return None;
        }
        self.put(object)
    }

    /// An object is there, or has changed. Nothing is returned when that is no news.
    pub fn put(&mut self, object: Object) -> Option<Change> {
        let resource = object.resource();
        let key = object.key();
        if self.gone.contains(&object.uid().to_owned()) {
            return None;
        }
        let old = self.get(resource, &key);
        let object = match &old {
            Some(old) if !meta::is_newer(object.metadata(), old.metadata()) => return None,
            Some(old) if old.uid() == object.uid() => keep_deletion(old, object),
            Some(old) => {
                self.gone.insert(old.uid().to_owned());
                self.graph.mark_absent(resource, &key, old.uid());
                self.unlink(old);
                object
            }
            None => object,
        };
        self.scales.forget(object.uid());
        match (&old, &object) {
            (Some(Object::Pod(old)), Object::Pod(new)) if old.metadata.uid == new.metadata.uid => {
                self.pod_index.update(&key, old, new);
            }
            (_, Object::Pod(new)) => self.pod_index.insert(&key, new),
            _ => {}
        }
        self.graph.put(&object);
        self.store(key, object.clone());
        Some(Change { old, new: Some(object) })
    }

    /// The object with this UID has gone.
    pub fn remove(&mut self, resource: &'static Resource, key: &Key, uid: &str) -> Option<Change> {
        self.gone.insert(uid.to_owned());
        self.graph.mark_absent(resource, key, uid);
        let old = self.get(resource, key).filter(|old| old.uid() == uid)?;
        self.unlink(&old);
        Some(Change { old: Some(old), new: None })
    }

    /// The kind was listed at a revision of the store: what is not in the list and is no younger has gone.
    pub fn list(
        &mut self,
        resource: &'static Resource,
        objects: Vec<Object>,
        kept: &[Key],
        revision: u64,
    ) -> Vec<Change> {
        self.listed.insert(resource, revision);
        self.graph.learn(resource);
        let present: BTreeSet<Key> = objects.iter().map(Object::key).chain(kept.iter().cloned()).collect();
        let mut changes = Vec::new();
        for key in self.keys(resource) {
            if !present.contains(&key)
                && let Some(old) = self.get(resource, &key)
                && meta::revision(old.metadata()) <= revision
            {
                changes.extend(self.remove(resource, &key, old.uid()));
            }
        }
        changes.extend(objects.into_iter().filter_map(|object| self.put(object)));
        changes
    }

    /// We have deleted it: until the server's word comes, it counts as leaving.
    pub(crate) fn mark_leaving(
        &mut self,
        now: Timestamp,
        resource: &'static Resource,
        key: &Key,
        uid: &str,
    ) -> Option<Change> {
        let old =
            self.get(resource, key).filter(|old| old.uid() == uid && !meta::is_leaving(old.metadata()))?;
        let new = old.with_metadata(|metadata| metadata.deletion_timestamp = Some(meta::wire_time(now)));
        if let (Object::Pod(before), Object::Pod(after)) = (&old, &new) {
            self.pod_index.remove(key, before);
            self.pod_index.insert(key, after);
        }
        self.graph.put(&new);
        self.store(key.clone(), new.clone());
        Some(Change { old: Some(old), new: Some(new) })
    }

    /// A fresh look found no such owner.
    pub(crate) fn mark_absent(&mut self, resource: &'static Resource, key: &Key, uid: &str) {
        self.graph.mark_absent(resource, key, uid);
    }

    /// How many pods the object with this UID wants, if it was asked and has not changed since.
    pub(crate) fn scale(&self, uid: &str) -> Option<Scale> {
        self.scales.get(uid)
    }

    pub(crate) fn put_scale(&mut self, uid: &str, answer: Option<&[u8]>) {
        self.scales.put(uid, answer);
    }

    fn unlink(&mut self, old: &Object) {
        self.scales.forget(old.uid());
        let key = old.key();
        if let Object::Pod(pod) = old {
            self.pod_index.remove(&key, pod);
        }
        self.graph.remove(old.uid());
        self.discard(old.resource(), &key);
    }
}

/// A departure is never taken back, whatever late news says.
fn keep_deletion(old: &Object, new: Object) -> Object {
    match &old.metadata().deletion_timestamp {
        Some(at) if new.metadata().deletion_timestamp.is_none() => {
            new.with_metadata(|metadata| metadata.deletion_timestamp = Some(at.clone()))
        }
        Some(_) | None => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that is paused lists when it goes on, and then finds the answer to what it wrote before: of a pod that came and went between two lists
    /// nothing else is ever heard.
    #[test]
    fn a_late_answer_brings_back_nothing_that_a_list_lacks() {
        let pod = |name: &str, version: u64| {
            let metadata =
                json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string()});
            Object::parse(&resource::PODS, &json!({"metadata": metadata})).unwrap()
        };
        let mut world = World::new();
        assert_eq!(world.list(&resource::PODS, vec![pod("there", 3)], &[], 7).len(), 1);
        assert!(world.put_answer(pod("gone", 5)).is_none(), "it went before the list");
        assert!(world.put_answer(pod("there", 5)).is_some(), "later than what the list showed");
        assert!(world.put_answer(pod("new", 8)).is_some(), "the watch has not shown it yet");
        assert_eq!(world.pods().all().count(), 2);
    }

    /// The answer to a creation may come before the news that the pod of this name is gone.
    #[test]
    fn a_pod_that_takes_the_name_of_another_is_found_by_node_and_label() {
        let pod = |uid: &str, version: &str| {
            let metadata = json!({"name": "p", "namespace": "n", "uid": uid, "resourceVersion": version, "labels": {"a": "b"}});
            Object::parse(&resource::PODS, &json!({"metadata": metadata, "spec": {"nodeName": "node"}}))
                .unwrap()
        };
        let mut world = World::new();
        for (uid, version) in [("one", "1"), ("two", "2"), ("two", "3")] {
            assert!(world.put(pod(uid, version)).is_some());
            let found = world.pod_index().on_node("node").count();
            let labelled = world.pod_index().labelled("n", "a", "b").map_or(0, BTreeSet::len);
            assert_eq!((found, labelled), (1, 1), "{uid} at {version}");
        }
    }
}
