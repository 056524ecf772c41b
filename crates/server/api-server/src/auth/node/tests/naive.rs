//! The graph after any changes answers as a search through all objects does.

use std::collections::BTreeMap;

use lazaret_json::{Value, json};

use crate::auth::node::{
    graph::{Graph, Vertex},
    references::{
        classic_claims, config_maps, is_mirror, resource_claims, secrets, volume_claims, volume_secrets,
    },
};

const SEEDS: u64 = 200;
const STEPS: usize = 120;
const NODES: [&str; 3] = ["n0", "n1", ""];
const NAMES: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 2] = ["x", "y"];

/// Numbers that follow from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn one_of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }

    fn pod(&mut self, name: &str) -> Value {
        let mut pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": self.one_of(&NODES),
            "serviceAccountName": self.one_of(&NAMES),
            "volumes": [
                {"name": "a", "secret": {"secretName": self.one_of(&NAMES)}},
                {"name": "b", "secret": {"secretName": self.one_of(&NAMES)}},
                {"name": "c", "configMap": {"name": self.one_of(&NAMES)}},
                {"name": "d", "persistentVolumeClaim": {"claimName": self.one_of(&NAMES)}},
            ],
            "resourceClaims": [{"name": "r", "resourceClaimName": self.one_of(&NAMES)}],
        }});
        if self.below(5) == 0 {
            pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": ""});
        }
        pod
    }

    fn volume(&mut self) -> Value {
        let secret = json!({"namespace": self.one_of(&NAMESPACES), "name": self.one_of(&NAMES)});
        json!({"spec": {
            "claimRef": {"namespace": self.one_of(&NAMESPACES), "name": self.one_of(&NAMES)},
            "csi": {"nodeStageSecretRef": secret},
        }})
    }
}

#[derive(Default)]
struct Objects {
    pods: BTreeMap<(&'static str, &'static str), Value>,
    volumes: BTreeMap<&'static str, Value>,
    slices: BTreeMap<&'static str, Value>,
}

impl Objects {
    fn has_path(&self, node: &str, vertex: Vertex, namespace: &str, name: &str) -> bool {
        let mine =
            || self.pods.iter().filter(|((at, _), pod)| *at == namespace && pod["spec"]["nodeName"] == node);
        let names = |find: &dyn Fn(&Value) -> bool| mine().any(|(_, pod)| !is_mirror(pod) && find(pod));
        let through = |volume: &Value| {
            let claim = &volume["spec"]["claimRef"];
            let text = |field: &str| claim[field].as_str().unwrap_or_default().to_owned();
            self.has_path(node, Vertex::VolumeClaim, &text("namespace"), &text("name"))
        };
        match vertex {
            Vertex::Pod => mine().any(|((_, pod), _)| *pod == name),
            Vertex::Secret => {
                let needs = |volume: &&Value| volume_secrets(volume).contains(&(namespace, name));
                names(&|pod| secrets(pod).contains(&name)) || self.volumes.values().filter(needs).any(through)
            }
            Vertex::ConfigMap => names(&|pod| config_maps(pod).contains(&name)),
            Vertex::ServiceAccount => names(&|pod| pod["spec"]["serviceAccountName"] == name),
            Vertex::ResourceClaim => names(&|pod| resource_claims(pod).contains(&name)),
            Vertex::ClassicClaim => names(&|pod| classic_claims(pod).iter().any(|claim| claim == name)),
            Vertex::VolumeClaim => names(&|pod| volume_claims(pod).iter().any(|claim| claim == name)),
            Vertex::Volume => self.volumes.get(name).is_some_and(through),
            Vertex::Slice => self.slices.get(name).is_some_and(|slice| slice["spec"]["nodeName"] == node),
            Vertex::Attachment => false,
        }
    }
}

#[test]
fn the_graph_answers_as_a_search_through_all_objects_does() {
    for seed in 1..=SEEDS {
        let (mut numbers, mut objects, mut graph) =
            (Numbers(seed * 7919), Objects::default(), Graph::default());
        for _ in 0..STEPS {
            let (namespace, name) = (numbers.one_of(&NAMESPACES), numbers.one_of(&NAMES));
            let there = numbers.below(3) > 0;
            match numbers.below(4) {
                0 | 1 => {
                    let pod = there.then(|| numbers.pod(name));
                    graph.set_pod(namespace, name, pod.as_ref());
                    keep(&mut objects.pods, (namespace, name), pod);
                }
                2 => {
                    let volume = there.then(|| numbers.volume());
                    graph.set_volume(name, volume.as_ref());
                    keep(&mut objects.volumes, name, volume);
                }
                _ => {
                    let slice = there.then(|| json!({"spec": {"nodeName": numbers.one_of(&NODES)}}));
                    graph.set_slice(name, slice.as_ref());
                    keep(&mut objects.slices, name, slice);
                }
            }
        }
        compare(seed, &graph, &objects);
        objects.pods.keys().for_each(|(namespace, name)| graph.set_pod(namespace, name, None));
        objects.volumes.keys().for_each(|name| graph.set_volume(name, None));
        objects.slices.keys().for_each(|name| graph.set_slice(name, None));
        assert!(graph.is_empty(), "seed {seed}: {graph:?}");
    }
}

fn compare(seed: u64, graph: &Graph, objects: &Objects) {
    for vertex in [
        Vertex::Secret,
        Vertex::ConfigMap,
        Vertex::ServiceAccount,
        Vertex::ResourceClaim,
        Vertex::VolumeClaim,
        Vertex::Volume,
        Vertex::Slice,
        Vertex::Pod,
    ] {
        for (node, namespace, name) in ["n0", "n1"].iter().flat_map(|node| {
            NAMESPACES.iter().flat_map(move |at| NAMES.iter().map(move |name| (*node, *at, *name)))
        }) {
            let expected = objects.has_path(node, vertex, namespace, name);
            let found = graph.has_path(node, vertex, namespace, name);
            assert_eq!(found, expected, "seed {seed}: {vertex:?} {namespace}/{name} to {node}");
        }
    }
}

fn keep<K: Ord>(map: &mut BTreeMap<K, Value>, key: K, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}
