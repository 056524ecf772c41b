//! `kubectl device taint --future`: a rule of Kubernetes where names say enough, Lazaret's own kinds where not.

use expect_test::expect;
use lazaret_server::Features;
use serde_json::{Value, json};

use crate::support::Cluster;

const POLICIES: &str = "/apis/lazaret.dev/v1alpha1/devicetaintpolicies";
const BY_CLASS: [&str; 7] = [
    "taint",
    "--future",
    "--class",
    "gpu",
    "--cel",
    "device.driver == 'gpu.example.com'",
    "example.com/old=firmware:NoSchedule",
];

async fn specs(cluster: &Cluster, path: &str) -> Vec<Value> {
    let list = cluster.get(path).await;
    list["items"].as_array().unwrap().iter().map(|item| item["spec"].clone()).collect()
}

#[tokio::test]
async fn a_selection_by_names_is_a_rule_of_kubernetes() {
    let cluster = Cluster::small().await;
    let words = ["taint", "--future", "--driver", "gpu.example.com", "a:NoSchedule"];
    expect![[r#"
        gpu.example.com/*/* tainted a:NoSchedule (rule gpu-example-com-a-noschedule-53443d43)
    "#]]
    .assert_eq(&cluster.run(&words).await.ok());
    let rules = cluster.rules().await;
    let [(_, spec)] = rules.as_slice() else { panic!("{rules:?}") };
    assert_eq!(spec["deviceSelector"], json!({"driver": "gpu.example.com"}));
    assert_eq!(specs(&cluster, POLICIES).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_selection_by_class_and_expression_is_a_policy_where_rules_know_names_alone() {
    let cluster = Cluster::small().await;
    let set = cluster.run(&BY_CLASS).await.ok();
    assert!(
        set.starts_with("*/*/* of class gpu by expression tainted example.com/old=firmware:NoSchedule (rule gpu-old-noschedule-"),
        "{set}"
    );
    assert_eq!(cluster.rules().await, []);
    let made = specs(&cluster, POLICIES).await;
    let [spec] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(
        spec["deviceSelector"],
        json!({"deviceClassName": "gpu", "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]})
    );
    assert_eq!(spec["taint"]["value"], "firmware");

    // Said again it is the same one; another value has to be meant.
    assert!(cluster.run(&BY_CLASS).await.ok().ends_with("unchanged\n"));
    let mut other = BY_CLASS;
    other[6] = "example.com/old=bios:NoSchedule";
    let refused = cluster.run(&other).await.error();
    assert!(refused.contains("add --overwrite to change it to example.com/old=bios:NoSchedule"), "{refused}");
    let changed = cluster.run(&[&other[..], &["--overwrite", "-o", "name"]].concat()).await.ok();
    assert!(changed.starts_with("devicetaintpolicy.lazaret.dev/gpu-old-noschedule-"), "{changed}");
    assert_eq!(specs(&cluster, POLICIES).await[0]["taint"]["value"], "bios");

    // A policy of somebody else is left alone.
    let theirs = json!({"apiVersion": "lazaret.dev/v1alpha1", "kind": "DeviceTaintPolicy", "metadata": {"name": "theirs"},
        "spec": {"deviceSelector": spec["deviceSelector"], "taint": {"key": "example.com/old", "effect": "NoSchedule"}}});
    cluster.post(POLICIES, theirs).await;
    let mut gone = BY_CLASS;
    gone[6] = "example.com/old-";
    let removed = cluster.run(&gone).await.ok();
    assert!(removed.contains("no longer tainted example.com/old=bios:NoSchedule"), "{removed}");
    let left = cluster.get(POLICIES).await;
    let names: Vec<&Value> =
        left["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["theirs"]);
}

#[tokio::test]
async fn lazarets_own_server_has_rules_that_know_classes() {
    let served = [("resource.k8s.io/v1alpha3", true)];
    let cluster = Cluster::with(Features::kubernetes_1_37(), &served, vec![]).await;
    cluster.fill().await;
    cluster.run(&BY_CLASS).await.ok();
    let made = specs(&cluster, "/apis/resource.k8s.io/v1alpha3/devicetaintrules").await;
    let [spec] = made.as_slice() else { panic!("{made:?}") };
    assert_eq!(spec["deviceSelector"]["deviceClassName"], "gpu");
    assert_eq!(specs(&cluster, POLICIES).await, Vec::<Value>::new());
    // A taint can also be removed by class.
    let mut gone = BY_CLASS;
    gone[6] = "example.com/old-";
    assert!(cluster.run(&gone).await.ok().contains("no longer tainted"));
    assert_eq!(specs(&cluster, "/apis/resource.k8s.io/v1alpha3/devicetaintrules").await, Vec::<Value>::new());
}

#[tokio::test]
async fn where_no_kind_can_say_it_the_mend_is_named_and_nothing_is_written() {
    let cluster = Cluster::small().await;
    let definition =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/devicetaintpolicies.lazaret.dev";
    cluster.send("DELETE", definition, "application/json", &Value::Null).await;
    let refused = cluster.run(&BY_CLASS).await.error();
    assert!(
        refused.starts_with("nothing was written: the DeviceTaintRules of this server (it runs v1.37")
            && refused.contains("select by driver, pool and device alone")
            && refused.ends_with("to have them: lazaret install | kubectl apply -f -; or leave out --future and taint the devices that match now"),
        "{refused}"
    );
    assert_eq!(cluster.rules().await, []);
}

#[tokio::test]
async fn words_that_make_no_sense_with_it_are_refused() {
    let cluster = Cluster::small().await;
    for (words, wanted) in [
        (
            &["taint", "--future", "a:NoSchedule"][..],
            "--future needs --driver, --class or --cel: which devices?",
        ),
        (
            &["taint", "--future", "--driver", "d", "--node", "n", "a:NoSchedule"],
            "--future selects by --driver, --class and --cel alone",
        ),
        (
            &["taint", "--future", "--driver", "d", "node-1/gpu-0", "a:NoSchedule"],
            "--future selects by --driver, --class and --cel, and not by names: ",
        ),
        (&["taint", "--future", "--cel", "device.", "a:NoSchedule"], "--cel: "),
        (
            &["taint", "--future", "--class", "gpu", "a:NoExecute"],
            "NoExecute evicts pods: add --reason, which is kept with the rule",
        ),
    ] {
        let refused = cluster.run(words).await.error();
        assert!(refused.starts_with(wanted), "{words:?}: {refused}");
    }
    assert_eq!(cluster.rules().await, []);
}
