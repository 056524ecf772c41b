//! The cases of Kubernetes' NodeRestriction plugin, one row a case.

mod nodes;
mod own;
mod pods;
mod tokens;

use std::collections::BTreeMap;

use lazaret_json::{Value, json};
use lazaret_kinds::{Access, Features};

use super::{Attempt, AttemptContext, Operation, Refusal, admit};

pub(super) const PERMITTED: &str = "";

/// A world around an attempt of `mynode`.
#[derive(Default)]
pub(super) struct World {
    /// By `plural/namespace/name`.
    stored: BTreeMap<String, Value>,
    /// The permissions by roles, as `verb resource namespace/name`.
    granted: Vec<&'static str>,
    features: Features,
}

impl World {
    pub(super) fn new() -> Self {
        let mut world = Self { features: Features::kubernetes_1_37(), ..Self::default() };
        world.put("nodes//mynode", json!({"metadata": {"name": "mynode", "uid": "mynode-uid"}}));
        world
    }

    pub(super) fn put(&mut self, key: &str, object: Value) {
        self.stored.insert(key.to_owned(), object);
    }

    /// Why the write is refused; empty if it is not. `resource` may have a subresource.
    pub(super) fn try_as(
        &self,
        node: &str,
        operation: Operation,
        resource: &str,
        place: &str,
        (object, old): (&Value, &Value),
    ) -> String {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (namespace, name) = place.split_once('/').unwrap();
        let group = match resource {
            "leases" => "coordination.k8s.io",
            "csinodes" => "storage.k8s.io",
            "resourceslices" => "resource.k8s.io",
            _ => "",
        };
        let attempt = Attempt {
            node,
            user: &format!("system:node:{node}"),
            group,
            resource,
            subresource,
            operation,
            namespace,
            name,
            object,
            old,
        };
        let stored = |_: &str, plural: &str, namespace: &str, name: &str| {
            self.stored.get(&format!("{plural}/{namespace}/{name}")).cloned()
        };
        let may = |access: Access<'_>| {
            let asked = format!("{} {} {}/{}", access.verb, access.resource, access.namespace, access.name);
            self.granted.contains(&asked.as_str())
        };
        let other_node_of_pool = |(driver, pool): (&str, &str), node: &str| {
            let slices = self.stored.iter().filter(|(key, _)| key.starts_with("resourceslices/"));
            let of_pool = slices.map(|(_, slice)| &slice["spec"]).filter(|spec| {
                spec["driver"].as_str() == Some(driver) && spec["pool"]["name"].as_str() == Some(pool)
            });
            let mut nodes = of_pool.filter_map(|spec| spec["nodeName"].as_str()).map(str::to_owned);
            nodes.find(|other| other != node)
        };
        let context = AttemptContext {
            features: &self.features,
            stored: &stored,
            other_node_of_pool: &other_node_of_pool,
            may: &may,
        };
        match admit(&attempt, &context) {
            Ok(()) => PERMITTED.into(),
            Err(Refusal::Forbidden(why)) => why,
            Err(Refusal::NotFound(_, plural, name)) => format!("{plural} {name:?} not found"),
        }
    }

    pub(super) fn attempt(
        &self,
        operation: Operation,
        resource: &str,
        place: &str,
        objects: (&Value, &Value),
    ) -> String {
        self.try_as("mynode", operation, resource, place, objects)
    }
}

pub(super) fn pod(name: &str, node: &str) -> Value {
    json!({"metadata": {"namespace": "ns", "name": name, "uid": "pod-uid"}, "spec": {"nodeName": node}})
}

pub(super) fn mirror(name: &str, node: &str) -> Value {
    let mut pod = pod(name, node);
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "true"});
    let uid = format!("{node}-uid");
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": true}]);
    pod
}

#[test]
fn a_node_without_a_name_writes_nothing() {
    let why = r#"could not determine node from user "system:node:""#;
    let found = World::new().try_as("", Operation::Create, "configmaps", "ns/a", (&json!({}), &Value::Null));
    assert_eq!(found, why);
}

#[test]
fn what_is_nobodys_business_is_permitted() {
    for operation in [Operation::Create, Operation::Update, Operation::Delete] {
        for resource in ["configmaps", "events", "serviceaccounts"] {
            let found = World::new().attempt(operation, resource, "ns/a", (&json!({}), &json!({})));
            assert_eq!(found, PERMITTED, "{operation} {resource}");
        }
    }
}
