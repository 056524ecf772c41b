//! An error names the missing part, and what to do about it.

use expect_test::expect;
use lazaret_server::Features;

use crate::support::Cluster;

const WITHOUT_DRA: &[(&str, bool)] = &[
    ("resource.k8s.io/v1", false),
    ("resource.k8s.io/v1beta1", false),
    ("resource.k8s.io/v1beta2", false),
    ("resource.k8s.io/v1alpha3", false),
];

#[tokio::test]
async fn a_cluster_without_devices_in_its_api() {
    let cluster = Cluster::with(Features::kubernetes_1_37(), WITHOUT_DRA, vec![]).await;
    expect!["this cluster does not serve ResourceSlices and ResourceClaims (it runs v1.37.0+lazaret-0.1.0): Dynamic Resource Allocation is on by default from Kubernetes 1.34; before, turn on the feature gate DynamicResourceAllocation and the API group resource.k8s.io"].assert_eq(&cluster.run(&["list"]).await.error());
}

#[tokio::test]
async fn a_cluster_without_rules() {
    let served = [("resource.k8s.io/v1", false), ("resource.k8s.io/v1beta1", true)];
    let cluster = Cluster::with(Features::kubernetes_1_37(), &served, vec![]).await;
    expect!["this cluster does not serve DeviceTaintRules (it runs v1.37.0+lazaret-0.1.0): they are on by default from Kubernetes 1.37; in 1.36 add --runtime-config=resource.k8s.io/v1beta2=true and the feature gate DRADeviceTaintRules, before that v1alpha3 and the gate DRADeviceTaints"].assert_eq(&cluster.run(&["taint", "gpu-0", "a:NoSchedule"]).await.error());
}

#[tokio::test]
async fn a_missing_permission_comes_with_the_rule_to_add() {
    let cluster = Cluster::with(Features::kubernetes_1_37(), &[], vec!["list resourceslices"]).await;
    expect![[r#"
        resourceslices.resource.k8s.io is forbidden: User "ada@example.com" cannot list resource "resourceslices" in API group "resource.k8s.io" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: ["resource.k8s.io"]
            resources: ["resourceslices"]
            verbs: ["list"]"#]].assert_eq(&cluster.run(&["list"]).await.error());
    let cluster = Cluster::with(Features::kubernetes_1_37(), &[], vec!["create devicetaintrules"]).await;
    cluster.fill().await;
    expect![[r#"
        devicetaintrules.resource.k8s.io is forbidden: User "ada@example.com" cannot create resource "devicetaintrules" in API group "resource.k8s.io" at the cluster scope
        add to a ClusterRole of this user, or ask for it:
          - apiGroups: ["resource.k8s.io"]
            resources: ["devicetaintrules"]
            verbs: ["create"]"#]].assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "a:NoSchedule"]).await.error());
}

#[tokio::test]
async fn words_that_make_no_sense() {
    let cluster = Cluster::small().await;
    expect![[r#"
        no device node-1/gpu-9; nearest names:
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-1/gpu-1
          gpu.example.com/node-2/gpu-0"#]]
    .assert_eq(&cluster.run(&["describe", "node-1/gpu-9"]).await.error());
    expect![[r#"
        gpu-0 matches 2 devices: name one of them
          gpu.example.com/node-1/gpu-0
          gpu.example.com/node-2/gpu-0"#]]
    .assert_eq(&cluster.run(&["describe", "gpu-0"]).await.error());
    expect!["--cel: 1:17: Syntax error: found 'the end of the expression' where a value must be"]
        .assert_eq(&cluster.run(&["list", "--cel", "device.driver =="]).await.error());
    expect![[r#"--cel: 4 devices could not be checked, among them gpu.example.com/node-1/gpu-0: selector #0: no such key: y; consider has(a.b), a.?b.orValue(default) or "b" in a for what a device may lack"#]].assert_eq(&cluster.run(&["list", "--cel", "device.attributes['x'].y == 1"]).await.error());
    expect![[r#"taint "a=b" has no effect: write a=b:NoSchedule to keep new pods away, a=b:NoExecute to evict pods, a=b:None to leave a note, or a=b- to remove it"#]].assert_eq(&cluster.run(&["taint", "node-1/gpu-0", "a=b"]).await.error());
    expect!["no taint given: add KEY:EFFECT to set one, KEY- to remove one"]
        .assert_eq(&cluster.run(&["taint", "node-1/gpu-0"]).await.error());
    expect![[
        r#""a//b" names no device: write DRIVER/POOL/DEVICE, as `kubectl device list -o name` prints it"#
    ]]
    .assert_eq(&cluster.run(&["list", "a//b"]).await.error());
}
