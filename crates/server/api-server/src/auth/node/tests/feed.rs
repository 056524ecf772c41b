//! The graph follows the store, also where changes are no longer known one by one.

use lazaret_json::{Value, json};
use lazaret_kinds::{Access, User};
use lazaret_store::{Op, Options, Store};

use crate::{Server, ServerOptions, auth::node::NodeAuthorizer};

struct World {
    store: Store,
    server: Server,
    nodes: NodeAuthorizer,
}

impl World {
    /// A store that remembers this many changes.
    fn new(history_events_max: usize) -> Self {
        let store = Store::ephemeral(Options { history_events_max, ..Options::default() }).unwrap();
        let options = ServerOptions::default();
        Self { server: Server::new(store.clone(), options), store, nodes: NodeAuthorizer::default() }
    }

    fn put(&self, key: &str, object: &Value) {
        self.store.txn_blocking(vec![Op::put(key, object.to_string())]).unwrap();
    }

    fn delete(&self, key: &str) {
        self.store.txn_blocking(vec![Op::delete_any(key)]).unwrap();
    }

    fn may_get(&self, node: &str, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let user = User {
            name: format!("system:node:{node}"),
            groups: vec!["system:nodes".into()],
            ..User::default()
        };
        let access = Access { verb: "get", group, resource, subresource: "", namespace, name, fields: &[] };
        self.nodes.access(self.server.stored(), &user, access).is_ok()
    }
}

fn pod(name: &str, node: &str) -> Value {
    let secret = format!("secret-{name}");
    json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {
        "nodeName": node,
        "volumes": [
            {"name": "s", "secret": {"secretName": secret}},
            {"name": "v", "persistentVolumeClaim": {"claimName": "claim"}},
        ],
    }})
}

#[test]
fn the_graph_follows_the_store_whether_it_remembers_much_or_little() {
    for history in [1, 3, 100_000] {
        let world = World::new(history);
        let may = |node: &str, name: &str| world.may_get(node, "", "secrets", "ns", name);
        assert!(!may("n1", "secret-p0"));
        for number in 0..10 {
            let name = format!("p{number}");
            world.put(
                &format!("/core/pods/ns/{name}"),
                &pod(&name, if number % 2 == 0 { "n1" } else { "n2" }),
            );
        }
        for number in 0..10 {
            let secret = format!("secret-p{number}");
            assert_eq!(may("n1", &secret), number % 2 == 0, "{history}: {secret}");
            assert_eq!(may("n2", &secret), number % 2 == 1, "{history}: {secret}");
        }
        world.delete("/core/pods/ns/p0");
        assert!(!may("n1", "secret-p0"), "{history}: it is gone");
        (1..10).for_each(|number| world.delete(&format!("/core/pods/ns/p{number}")));
        (0..10).for_each(|number| assert!(!may("n1", &format!("secret-p{number}"))));
    }
}

#[test]
fn every_kind_of_the_graph_is_followed() {
    let world = World::new(100_000);
    let of_node = json!({"spec": {"nodeName": "n1"}});
    let volume = json!({"spec": {"claimRef": {"namespace": "ns", "name": "claim"}}});
    let cases: [(&str, &Value, [&str; 4]); 4] = [
        ("/core/pods/ns/p", &pod("p", "n1"), ["", "pods", "ns", "p"]),
        ("/core/persistentvolumes/pv", &volume, ["", "persistentvolumes", "", "pv"]),
        ("/storage.k8s.io/volumeattachments/va", &of_node, ["storage.k8s.io", "volumeattachments", "", "va"]),
        ("/resource.k8s.io/resourceslices/s", &of_node, ["resource.k8s.io", "resourceslices", "", "s"]),
    ];
    for (key, object, [group, resource, namespace, name]) in cases {
        let may = |node| world.may_get(node, group, resource, namespace, name);
        assert!(!may("n1"), "{key}");
        world.put(key, object);
        assert!(may("n1") && !may("n2"), "{key}");
    }
    world.delete("/core/pods/ns/p");
    assert!(!world.may_get("n1", "", "persistentvolumes", "", "pv"), "the way led through the pod");
    for (key, _, [group, resource, namespace, name]) in cases {
        world.delete(key);
        assert!(!world.may_get("n1", group, resource, namespace, name), "{key}");
    }
}

#[test]
fn who_is_not_a_node_is_told_nothing() {
    let world = World::new(10);
    let access = Access {
        verb: "list",
        group: "",
        resource: "services",
        subresource: "",
        namespace: "",
        name: "",
        fields: &[],
    };
    for (name, groups, expected) in [
        ("alice", vec![], Err(String::new())),
        ("system:node:n1", vec![], Err(String::new())),
        ("n1", vec!["system:nodes".to_owned()], Err(String::new())),
        (
            "system:node:",
            vec!["system:nodes".to_owned()],
            Err("unknown node for user \"system:node:\"".into()),
        ),
        ("system:node:n1", vec!["system:nodes".to_owned()], Ok(())),
    ] {
        let user = User { name: name.into(), groups, ..User::default() };
        assert_eq!(world.nodes.access(world.server.stored(), &user, access), expected, "{user:?}");
    }
}
