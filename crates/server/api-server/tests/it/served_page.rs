//! `docs/served.md` says of each kind of Kubernetes 1.37 whether it is served. Here a server is asked.

use std::{collections::BTreeSet, fs, path::Path};

use crate::support::{AllowAll, Api};
use lazaret_json::json;
use lazaret_server::{Server, ServerOptions};
use lazaret_store::Store;

/// Every kind that objects can be made of, by group.
const KUBERNETES: &[(&str, &str)] = &[
    (
        "",
        "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
    ),
    (
        "admissionregistration.k8s.io",
        "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("apps", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("authentication.k8s.io", "SelfSubjectReview TokenReview"),
    (
        "authorization.k8s.io",
        "LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
    ),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("batch", "CronJob Job"),
    ("certificates.k8s.io", "CertificateSigningRequest ClusterTrustBundle PodCertificateRequest"),
    ("coordination.k8s.io", "Lease LeaseCandidate"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("events.k8s.io", "Event"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io", "StorageVersion"),
    ("lifecycle.k8s.io", "Eviction EvictionRequest"),
    ("networking.k8s.io", "IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR"),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    (
        "resource.k8s.io",
        "DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourcePoolStatusRequest ResourceSlice",
    ),
    ("scheduling.k8s.io", "CompositePodGroup PodGroup PriorityClass Workload"),
    (
        "storage.k8s.io",
        "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
    ),
    ("storagemigration.k8s.io", "StorageVersionMigration"),
];

/// Group, version and kind.
type Served = (String, String, String);

struct Row {
    group: String,
    kind: String,
    /// With whether it is off unless it is asked for.
    versions: Vec<(String, bool)>,
    cells: Vec<String>,
}

fn rows(begin: &str) -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/served.md");
    let page = fs::read_to_string(path).unwrap();
    let (_, rest) = page.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (table, _) = rest.split_once("<!-- end -->").unwrap();
    let lines = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let rows: Vec<Row> = lines
        .map(|line| {
            let cells: Vec<String> =
                line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            let (kind, group) = cells[0].split_once(" (").unwrap_or((&cells[0], ")"));
            let versions = cells[1].split(", ").map(|version| {
                let (name, notes) = version.split_once(' ').unwrap_or((version, ""));
                (name.to_owned(), notes.contains("off"))
            });
            Row {
                group: group.trim_end_matches(')').to_owned(),
                kind: kind.to_owned(),
                versions: versions.collect(),
                cells: cells.clone(),
            }
        })
        .collect();
    assert!(!rows.is_empty(), "{begin}");
    rows
}

fn served_rows() -> Vec<Row> {
    rows("<!-- from the registry -->")
}

fn refused_rows() -> Vec<Row> {
    rows("<!-- not served -->")
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// As `lazaret up --api-only` serves it.
fn plain() -> Api {
    let options = ServerOptions { authorizer: Box::new(AllowAll), ..ServerOptions::default() };
    let store = Store::ephemeral(lazaret_store::Options::default()).unwrap();
    Api { server: Server::new(store, options), user: lazaret_server::User::default() }
}

/// All that a server says it has, but for kinds that definitions bring.
async fn discovered(api: &Api) -> BTreeSet<Served> {
    let mut versions = vec![(String::new(), "v1".to_owned())];
    let groups = api.get("/apis").await.expect(200);
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &lazaret_json::Value| value.as_str().unwrap().to_owned();
            versions.push((text(&group["name"]), text(&version["version"])));
        }
    }
    let mut found = BTreeSet::new();
    // Usage is read from nodes and is no kind of the registry.
    for (group, version) in versions.into_iter().filter(|(group, _)| group != "metrics.k8s.io") {
        let resources = api.get(&root(&group, &version)).await.expect(200);
        for resource in resources["resources"].as_array().unwrap() {
            if !resource["name"].as_str().unwrap().contains('/') {
                let kind = resource["kind"].as_str().unwrap().to_owned();
                found.insert((group.clone(), version.clone(), kind));
            }
        }
    }
    found
}

#[tokio::test]
async fn a_server_has_what_the_page_says_it_has() {
    let said: BTreeSet<Served> = served_rows()
        .iter()
        .flat_map(|row| {
            let on = row.versions.iter().filter(|(_, off)| !off);
            on.map(|(version, _)| (row.group.clone(), version.clone(), row.kind.clone()))
        })
        .collect();
    assert_eq!(discovered(&plain()).await, said);
    let everything = discovered(&Api::start().await).await;
    for row in served_rows().iter().filter(|row| !row.cells[1].contains("gate ")) {
        for (version, _) in &row.versions {
            let named = (row.group.clone(), version.clone(), row.kind.clone());
            assert!(everything.contains(&named), "{named:?} is not turned on by api/all");
        }
    }
}

#[tokio::test]
async fn what_the_page_says_is_not_served_is_refused_whatever_is_turned_on() {
    for api in [plain(), Api::start().await] {
        for row in refused_rows() {
            for (version, _) in &row.versions {
                let path = format!("{}/{}", root(&row.group, version), row.cells[2]);
                let object = json!({"metadata": {"name": "x"}});
                assert!(api.get(&path).await.is(404), "{path} is served");
                assert!(api.post(&path, &object).await.is(404), "{path} is taken");
            }
        }
    }
}

#[test]
fn the_page_forgets_no_kind_of_kubernetes() {
    let all: BTreeSet<(&str, &str)> =
        KUBERNETES.iter().flat_map(|(group, kinds)| kinds.split(' ').map(|kind| (*group, kind))).collect();
    let (served, refused) = (served_rows(), refused_rows());
    let named = |rows: &[Row]| -> BTreeSet<(String, String)> {
        rows.iter().map(|row| (row.group.clone(), row.kind.clone())).collect()
    };
    let (served, refused) = (named(&served), named(&refused));
    let open: Vec<_> = all
        .iter()
        .filter(|(group, kind)| {
            let name = ((*group).to_owned(), (*kind).to_owned());
            served.contains(&name) == refused.contains(&name)
        })
        .collect();
    assert_eq!(open, [] as [&(&str, &str); 0], "in neither table, or in both");
}
