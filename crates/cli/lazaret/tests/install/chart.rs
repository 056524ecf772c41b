//! The chart with every switch.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::{
    admission::ADMISSION,
    render::{collection, deploy, forget_own_kinds, helm_in, template, try_template},
    support::Cluster,
    tools,
};

/// Every switch of the chart, alone and with all others.
const SWITCHES: &[&[&str]] = &[
    &[],
    &["controllers.parts.eviction=true,controllers.parts.claims=true,controllers.parts.poolStatus=true"],
    &["controllers.parts.health=true"],
    &["controllers.enabled=false,scheduler.enabled=true"],
    &["scheduler.enabled=true,scheduler.schedulerName=second,scheduler.replicas=3"],
    &["drivers.example.enabled=true,drivers.example.devices=2"],
    &["drivers.nvidia.enabled=true,drivers.nvidia.partitions=dynamic,drivers.nvidia.evictOn.lost=true"],
    &["nodeAgent.enabled=true"],
    &["networkPolicy.metricsFrom.team=monitoring,networkPolicy.apiServerPorts.server=7443"],
    &["networkPolicy.enabled=false,controllers.podDisruptionBudget.enabled=false,rbac.create=false"],
    &["kubectlDevice.roles=false,crds.install=false"],
    &[
        "crds.keep=false,image.repository=registry.example.com/lazaret,image.tag=next,imagePullSecrets.pull=true",
    ],
    &["commonLabels.team=gpu,commonAnnotations.note=x,serviceAccount.annotations.iam=y"],
    &[
        "controllers.flags.feature-gates=DRADeviceTaintRules=false,controllers.env.A=b,controllers.verbosity=0",
    ],
    &["controllers.tolerations.all.operator=Exists,controllers.tolerations.control-plane=null"],
    &["controllers.podLabels.a=b,controllers.podAnnotations.c=d,controllers.priorityClassName="],
    &["monitoring.podMonitor.enabled=true,monitoring.podMonitor.labels.release=prometheus"],
    &["monitoring.serviceMonitor.enabled=true,scheduler.enabled=true,commonAnnotations.note=x"],
    &["monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true"],
    &[ADMISSION],
    &["webhook.enabled=true"],
    &["webhook.enabled=true,webhook.port=8443,webhook.timeoutSeconds=2,webhook.failurePolicy=Fail"],
];

#[test]
fn the_chart_makes_valid_objects_with_every_switch() {
    let folder = tempfile::tempdir().unwrap();
    tools::run(helm_in(folder.path()).args(["lint", "--strict"]).arg(deploy("chart")));
    let cluster = Cluster::start(&["--api-only"]);
    cluster.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": "lazaret-system"}}));
    forget_own_kinds(&cluster);
    let mut kinds = BTreeSet::new();
    for settings in SWITCHES {
        for object in template(settings) {
            kinds.insert(object["kind"].as_str().unwrap().to_owned());
            if object["apiVersion"].as_str().unwrap().starts_with("monitoring.coreos.com/") {
                continue;
            }
            // A dry run in a namespace needs the namespace.
            if object["kind"] == "Namespace" {
                let _ = cluster.try_send("POST", &collection(&object), &object);
                continue;
            }
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&object));
            let answer = cluster.try_send("POST", &path, &object);
            assert!(answer.is_ok(), "{settings:?}: {answer:?}\n{object:#}");
        }
    }
    let wanted = "ClusterRole ClusterRoleBinding ConfigMap CustomResourceDefinition DaemonSet Deployment DeviceClass Namespace NetworkPolicy PodDisruptionBudget PodMonitor PrometheusRule Role RoleBinding Service ServiceAccount ServiceMonitor ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration";
    assert_eq!(kinds.into_iter().collect::<Vec<_>>().join(" "), wanted);
}

#[test]
fn values_that_make_no_sense_are_refused_before_anything_is_made() {
    for (setting, complaint) in [
        ("controllers.replica=3", "replica"),
        ("controllers.replicas=0", "controllers.replicas"),
        ("controllers.logFormat=xml", "logFormat"),
        ("drivers.example.devices=2000", "devices"),
        ("drivers.nvidia.partitions=some", "partitions"),
        ("networkPolicy.apiServerPorts.x=70000", "apiServerPorts"),
        ("admissionPolicies.action=deny", "action"),
        ("controllers.parts.replacement=false,controllers.parts.policies=false", "turn one on"),
        ("nodeAgent.enabled=true,nodeAgent.root=/var/lib/kubelet", "belongs to the kubelet"),
    ] {
        let refused = try_template(&[setting]).unwrap_err();
        assert!(refused.contains(complaint), "{setting}: {refused}");
    }
}

#[test]
fn every_component_runs_with_as_little_as_it_needs() {
    let settings = "scheduler.enabled=true,drivers.example.enabled=true,nodeAgent.enabled=true,controllers.parts.eviction=true,controllers.parts.claims=true,controllers.parts.poolStatus=true";
    let objects = template(&[settings]);
    let verbs_of = |role: &Value| -> BTreeSet<String> {
        let rules = role["rules"].as_array().unwrap().iter();
        rules
            .flat_map(|rule| rule["verbs"].as_array().unwrap().iter())
            .map(|verb| verb.as_str().unwrap().to_owned())
            .collect()
    };
    let (mut roles, mut pods) = (0, 0);
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        match object["kind"].as_str().unwrap() {
            "ClusterRole" if name.ends_with("-see") => {
                roles += 1;
                let reads = BTreeSet::from(["get", "list", "watch"].map(str::to_owned));
                assert!(verbs_of(object).is_subset(&reads), "{name}");
            }
            "ClusterRole" if name.starts_with("lazaret-") => {
                roles += 1;
                let text = object["rules"].to_string();
                assert!(
                    !["\"*", "secrets", "escalate", "\"bind\"", "impersonate"]
                        .iter()
                        .any(|word| text.contains(word)),
                    "{name}"
                );
            }
            "Deployment" => {
                pods += 1;
                let pod = &object["spec"]["template"]["spec"];
                let container = &pod["containers"][0]["securityContext"];
                assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
                assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
                assert_eq!(container["readOnlyRootFilesystem"], true);
                assert_eq!(container["allowPrivilegeEscalation"], false);
                assert_eq!(container["capabilities"]["drop"], json!(["ALL"]));
            }
            "DaemonSet" => {
                pods += 1;
                let container = &object["spec"]["template"]["spec"]["containers"][0]["securityContext"];
                assert_eq!(container["readOnlyRootFilesystem"], true, "{name}");
                assert_eq!(container.get("privileged"), None, "{name}");
            }
            _ => {}
        }
    }
    // Of controllers, scheduler, agent and driver each two; of the seven controllers each one.
    assert_eq!((roles, pods), (15, 4));
}
