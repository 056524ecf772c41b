//! Two replicas: the next one leads when the first ends.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{
    replica::Replica,
    stage::{OTHERS, PARTS, Stage},
};

/// Half of the pods are evicted by one leader, which then ends in order or is killed, and the rest by the next; none twice.
fn leaders_change(end: &str) {
    let stage = Stage::with(OTHERS, PARTS);
    let config = stage.kubeconfig("lazaret-controllers");
    let mut replicas: BTreeMap<String, Replica> = BTreeMap::new();
    for name in ["a", "b"] {
        replicas.insert(name.to_owned(), Replica::start(&config, name, &["eviction"]));
    }
    stage.until("both are ready", || replicas.values().all(Replica::is_ready));
    stage.workload(4);
    stage.until("one of them leads", || stage.holder().is_some());
    let uids_on = |node: &str| -> BTreeSet<String> {
        let pods = stage.pods();
        let there = pods.iter().filter(|pod| pod["spec"]["nodeName"] == node);
        there.map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()).collect()
    };
    let told = |uids: &BTreeSet<String>| {
        let evictions = stage.evictions();
        uids.iter().all(|uid| evictions.contains_key(uid))
    };
    let of_one = uids_on("node-1");
    stage.taint("one", "node-1", "NoExecute");
    let all_on = |node: &str| {
        let pods = stage.pods();
        pods.len() == 4
            && pods.iter().all(|pod| pod["spec"]["nodeName"] == node && pod["status"]["phase"] == "Running")
    };
    stage.until("nobody is left on node-1", || all_on("node-2"));
    // Events are sent after the writes that they report, and those of a process that is killed are lost.
    stage.until("the events of the first are there", || told(&of_one));
    let (first, of_two) = (stage.holder().unwrap(), uids_on("node-2"));
    replicas[&first].signal(end);
    stage
        .request("DELETE", "/apis/resource.k8s.io/v1/devicetaintrules/one", "application/json", &Value::Null)
        .unwrap();
    stage.taint("two", "node-2", "NoExecute");
    let took = stage.until("the next one leads", || stage.holder().is_some_and(|holder| holder != first));
    eprintln!("after {end} the next one held the lease within {took:?}");
    stage.until("nobody is left on node-2", || all_on("node-1"));
    stage.until("the events are there", || told(&of_two));
    assert!(stage.evictions().values().all(|times| *times == 1), "{:?}", stage.evictions());
    assert_eq!(stage.refused(), Vec::<String>::new());
    if end == "-TERM" {
        assert!(replicas.get_mut(&first).unwrap().process.wait().unwrap().success());
    }
}

#[test]
fn a_replica_that_ends_hands_over_and_nobody_is_evicted_twice() {
    leaders_change("-TERM");
}

#[test]
fn a_replica_that_is_killed_is_followed_and_nobody_is_evicted_twice() {
    leaders_change("-KILL");
}
