//! Lazaret on releases of Kubernetes before 1.37: rules are written in the version that the release has, and where they have no effect every policy
//! says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod support;
#[path = "../../../check/testkit/tests/tools/mod.rs"]
mod tools;

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use support::{Cluster, LAZARET};

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
const PATCHES: &str = "/apis/lazaret.dev/v1alpha1/resourceslicepatches";
const HEALTH_POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicehealthpolicies";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASS: &str = "gpu.example.com";

/// As this release, with what else is said.
fn cluster(words: &[&str]) -> Cluster {
    let cluster = Cluster::start(&[&["--nodes", "1", "--devices", "2"], words].concat());
    cluster.until("the devices are published", |cluster| {
        cluster.names("/apis/resource.k8s.io/v1/resourceslices").len() == 1
    });
    cluster
}

/// A pod with one of two devices, which runs.
fn workload(cluster: &Cluster) {
    cluster.send(
        "POST",
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates",
        &json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "one"},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}},
        }),
    );
    cluster.send(
        "POST",
        PODS,
        &json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "solo"},
            "spec": {"terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
        }),
    );
    cluster.until("it runs", |cluster| cluster.get(&format!("{PODS}/solo"))["status"]["phase"] == "Running");
}

/// A policy that selects by class, which no release of Kubernetes does.
fn policy(cluster: &Cluster) {
    cluster.send(
        "POST",
        POLICIES,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "out"},
            "spec": {
                "deviceSelector": {"deviceClassName": CLASS},
                "taint": {"key": "example.com/out", "effect": "NoExecute", "evictionsPerSecond": 5},
            },
        }),
    );
}

/// A patch with a taint, and an attribute that no scheduler of Kubernetes hears of.
fn patch(cluster: &Cluster) {
    cluster.send(
        "POST",
        PATCHES,
        &json!({
            "apiVersion": "lazaret.dev/v1alpha1", "kind": "ResourceSlicePatch", "metadata": {"name": "corrected"},
            "spec": {"devices": {
                "filter": {"deviceClassName": CLASS},
                "taints": [{"key": "example.com/patched", "effect": "NoSchedule"}],
                "attributes": {"example.com/rack": {"string": "7"}},
            }},
        }),
    );
}

fn condition(cluster: &Cluster, path: &str, kind: &str) -> Option<(String, String, String)> {
    let object = cluster.get(path);
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.into_iter().find(|one| one["type"] == kind)?;
    let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

#[test]
fn a_policy_becomes_rules_in_the_version_that_the_release_has() {
    for (version, words) in [
        (
            "v1alpha3",
            &[
                "--emulated-version=1.35",
                "--feature-gates=DRADeviceTaints=true,DRADeviceTaintRules=true",
                "--runtime-config=resource.k8s.io/v1alpha3=false,resource.k8s.io/v1alpha3/devicetaintrules=true",
            ][..],
        ),
        (
            "v1beta2",
            &[
                "--emulated-version=1.36",
                "--feature-gates=DRADeviceTaintRules=true",
                "--runtime-config=resource.k8s.io/v1alpha3=false,resource.k8s.io/v1beta2=true",
            ],
        ),
        ("v1", &[]),
    ] {
        let cluster = cluster(words);
        workload(&cluster);
        let rules = format!("/apis/resource.k8s.io/{version}/devicetaintrules");
        assert_eq!(cluster.names(&rules), Vec::<String>::new(), "{version}");
        policy(&cluster);
        cluster.until("each device has a rule", |cluster| cluster.names(&rules).len() == 2);
        cluster.until("the pod is gone", |cluster| cluster.names(PODS).is_empty());
        cluster.until("the policy says so", |cluster| {
            let path = format!("{POLICIES}/out");
            condition(cluster, &path, "Drained").is_some_and(|(status, ..)| status == "True")
                && condition(cluster, &path, "Compiled").is_some_and(|(status, ..)| status == "True")
        });
        cluster.until("late pods are kept off", |cluster| {
            let all = cluster.get(&rules);
            let mut all = all["items"].as_array().unwrap().iter();
            all.all(|rule| rule["spec"]["taint"]["effect"] == "NoExecute")
        });
        cluster.send("DELETE", &format!("{POLICIES}/out"), &Value::Null);
        cluster.until("its rules go with it", |cluster| cluster.names(&rules).is_empty());
        patch(&cluster);
        cluster.until("each device has a rule of the patch", |cluster| cluster.names(&rules).len() == 2);
        let path = format!("{PATCHES}/corrected");
        cluster.until("the patch says what it became", |cluster| {
            condition(cluster, &path, "Compiled").is_some_and(|(status, ..)| status == "True")
                && condition(cluster, &path, "AttributesApplied").is_some_and(|(status, _, message)| {
                    status == "False" && message.starts_with("not in effect: example.com/rack;")
                })
        });
        cluster.send("DELETE", &path, &Value::Null);
        cluster.until("policies and rules go with it", |cluster| {
            cluster.names(POLICIES).is_empty() && cluster.names(&rules).is_empty()
        });
    }
}

/// No pod is evicted for a policy whose taint no scheduler would obey: the pod would be back on the device at once.
#[test]
fn where_rules_have_no_effect_policies_have_none_and_say_so() {
    // `lazaret up` serves all of v1alpha3, which Kubernetes does not.
    let none = "--runtime-config=resource.k8s.io/v1alpha3=false";
    let alpha =
        "--runtime-config=resource.k8s.io/v1alpha3=false,resource.k8s.io/v1alpha3/devicetaintrules=true";
    let beta = "--runtime-config=resource.k8s.io/v1alpha3=false,resource.k8s.io/v1beta2=true";
    for (reason, words) in [
        ("RulesNotServed", &["--emulated-version=1.34", none][..]),
        ("RulesOff", &["--emulated-version=1.34", alpha]),
        ("RulesOff", &["--emulated-version=1.35", alpha]),
        ("RulesNotServed", &["--emulated-version=1.36", none]),
        ("RulesOff", &["--emulated-version=1.36", beta]),
        ("RulesOff", &["--feature-gates=DRADeviceTaintRules=false"]),
    ] {
        let cluster = cluster(words);
        workload(&cluster);
        policy(&cluster);
        cluster.send(
            "POST",
            HEALTH_POLICIES,
            &json!({
                "apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceHealthPolicy", "metadata": {"name": "ecc"},
                "spec": {"deviceSelector": {"driver": CLASS}, "rules": [{"name": "ecc", "when": "signal.key == 'ecc'", "stage": "Drained"}]},
            }),
        );
        for (path, kind) in
            [(format!("{POLICIES}/out"), "Compiled"), (format!("{HEALTH_POLICIES}/ecc"), "Accepted")]
        {
            cluster.until("the policy says that it has no effect", |cluster| {
                condition(cluster, &path, kind)
                    .is_some_and(|(status, why, _)| status == "False" && why == reason)
            });
        }
        assert_eq!(cluster.names(PODS), ["solo"], "{words:?}");
        let output = cluster.command(&["device", "check"]).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let line = printed.lines().find(|line| line.contains("policies are in effect")).unwrap();
        assert!(
            line.starts_with('‼') && line.contains("out (") && line.contains("ecc ("),
            "{words:?}: {line}"
        );
        patch(&cluster);
        let path = format!("{PATCHES}/corrected");
        cluster.until("the patch says that its taint has no effect", |cluster| {
            condition(cluster, &path, "Compiled")
                .is_some_and(|(status, why, _)| status == "False" && why == reason)
        });
        assert_eq!(cluster.names(PODS), ["solo"], "{words:?}");
    }
}

/// `lazaret run` beside a server that has rules in an older version, without a flag that their gate is on.
#[test]
fn rules_of_an_older_version_count_once_somebody_says_that_their_gate_is_on() {
    let cluster = Cluster::start(&[
        "--emulated-version=1.36",
        "--feature-gates=DRADeviceTaintRules=true",
        "--runtime-config=resource.k8s.io/v1alpha3=false,resource.k8s.io/v1beta2=true",
        "--api-only",
    ]);
    policy(&cluster);
    let path = format!("{POLICIES}/out");
    for (words, wanted) in [
        (&[][..], ("False", "RulesOff")),
        (&["--feature-gates", "DRADeviceTaintRules=true"], ("True", "AsSelected")),
    ] {
        let mut process = cluster.command(&[&["run", "policies"], words].concat()).spawn().unwrap();
        cluster.until("the policy says whether it is in effect", |cluster| {
            condition(cluster, &path, "Compiled")
                .is_some_and(|(status, reason, _)| (&*status, &*reason) == wanted)
        });
        process.kill().unwrap();
        process.wait().unwrap();
    }
}

#[test]
fn one_command_installs_on_every_release() {
    let manifest = tools::run(Command::new(LAZARET).args(["install"]));
    for release in ["1.34", "1.35", "1.36", "1.37"] {
        let cluster = Cluster::start(&["--nodes", "1", "--emulated-version", release]);
        let folder = cluster.folder.path();
        for (words, said) in [
            (&["apply"][..], "deployment.apps/lazaret-controllers created"),
            (&["delete", "--ignore-not-found"], "namespace \"lazaret-system\" deleted"),
        ] {
            let mut command = Command::new(tools::kubectl());
            command
                .args(words)
                .args(["-f", "-"])
                .env("KUBECONFIG", folder.join("kubeconfig"))
                .env("HOME", folder);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(manifest.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{release}: {text}");
            assert!(text.contains(said), "{release}: {text}");
        }
    }
}
