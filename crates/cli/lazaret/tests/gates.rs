//! `lazaret up` as an older release or with a gate off, and `kubectl device` before it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;

use serde_json::json;
use support::Cluster;

fn run(cluster: &Cluster, words: &[&str]) -> (Option<i32>, String) {
    let output = cluster.command(words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn a_device_is_neither_drained_nor_shown_as_tainted_where_rules_are_off() {
    for (words, gate) in [
        (&["--emulated-version", "1.34"][..], "DRADeviceTaints"),
        (&["--emulated-version", "1.35"], "DRADeviceTaints"),
        (&["--emulated-version", "1.36"], "DRADeviceTaintRules"),
        (&["--feature-gates", "DRADeviceTaintRules=false"], "DRADeviceTaintRules"),
    ] {
        let served = ["--nodes", "1", "--devices", "1", "--runtime-config", "resource.k8s.io/v1alpha3=true"];
        let cluster = Cluster::start(&[&served[..], words].concat());
        cluster.until("a device is published", |cluster| {
            cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 1
        });
        let rule = json!({
            "apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule", "metadata": {"name": "idle"},
            "spec": {"deviceSelector": {"pool": "node-1"}, "taint": {"key": "a", "effect": "NoExecute"}},
        });
        cluster.send("POST", "/apis/resource.k8s.io/v1alpha3/devicetaintrules", &rule);
        let (code, printed) = run(&cluster, &["device", "list", "node-1/gpu-0"]);
        assert_eq!(code, Some(0), "{words:?}: {printed}");
        assert!(printed.contains(" Free "), "{words:?}: {printed}");
        assert!(printed.contains("a:NoExecute (rule, no effect)"), "{words:?}: {printed}");
        assert!(
            printed.contains(&format!("feature gate {gate} is off on this server")),
            "{words:?}: {printed}"
        );
        for command in [&["drain", "node-1/gpu-0", "--reason", "x", "--yes"][..], &["cordon", "node-1/gpu-0"]]
        {
            let (code, printed) = run(&cluster, &[&["device"], command].concat());
            assert_eq!(code, Some(1), "{words:?}: {printed}");
            assert!(
                printed.contains(&format!("nothing was written: the feature gate {gate} is off")),
                "{words:?}: {printed}"
            );
        }
        assert_eq!(cluster.names("/apis/resource.k8s.io/v1alpha3/devicetaintrules"), ["idle"], "{words:?}");
    }
}
