//! The roles of every cluster, held against those of Kubernetes: none grants more.

use std::collections::{BTreeMap, BTreeSet};

use lazaret_json::{Value, json};
use lazaret_memory::Memory;
use lazaret_server::{Rbac, Server, ServerOptions, User};

use crate::support::Api;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const KUBERNETES: &str = include_str!("../data/kubernetes_roles.txt");

/// Groups and resources that no kind here has, so that a role without them permits as much.
const NOT_SERVED: &[&str] = &[
    "extensions",
    "networking.k8s.io servicecidrs",
    "certificates.k8s.io clustertrustbundles",
    "coordination.k8s.io leasecandidates",
];

/// Roles of Kubernetes that there are not: their parts of a cluster are not here, or authorized otherwise.
const NOT_THERE: &[&str] = &[
    "system:cluster-trust-bundle-discovery",
    "system:heapster",
    "system:node",
    "system:service-account-issuer-discovery",
];

/// Permissions that the roles have besides, as `docs/deviations.md` says: role, and the beginning of what it permits.
const MORE: &[(&str, &str)] = &[
    ("admin", "cdi.k8s.io resourceclaims"),
    ("edit", "cdi.k8s.io resourceclaims"),
    ("view", "cdi.k8s.io resourceclaims"),
    ("system:aggregate-to-edit", "cdi.k8s.io resourceclaims"),
    ("system:aggregate-to-view", "cdi.k8s.io resourceclaims"),
    ("system:kube-scheduler", "cdi.k8s.io resourcecla"),
    ("system:kube-scheduler", "resource.k8s.io resourceslicepatches"),
    (
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeserver",
        "certificates.k8s.io certificatesigningrequests/selfnodeserver",
    ),
    ("system:kube-controller-manager", ""),
];

/// Permissions of a role, one text for each thing: group, resource, verb, name.
type Permits = BTreeMap<String, BTreeSet<String>>;

fn gathered(
    own: &Permits,
    of: &BTreeMap<String, String>,
    to: &BTreeMap<String, BTreeSet<String>>,
) -> Permits {
    fn of_role(
        role: &str,
        own: &Permits,
        of: &BTreeMap<String, String>,
        to: &BTreeMap<String, BTreeSet<String>>,
    ) -> BTreeSet<String> {
        let Some(label) = of.get(role) else { return own.get(role).cloned().unwrap_or_default() };
        to.iter()
            .filter(|(_, labels)| labels.contains(label))
            .flat_map(|(part, _)| of_role(part, own, of, to))
            .collect()
    }
    let names = own.keys().chain(of.keys());
    names.map(|role| (role.clone(), of_role(role, own, of, to))).collect()
}

fn each(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for group in groups {
        for resource in resources {
            for verb in verbs {
                for name in names {
                    all.insert(format!("{group} {resource} {verb} {name}").trim_end().to_owned());
                }
            }
        }
    }
    all
}

fn of_kubernetes() -> Permits {
    let (mut own, mut of, mut to) =
        (Permits::new(), BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for line in KUBERNETES.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<Vec<&str>> = line.split(" | ").map(|part| part.split(' ').collect()).collect();
        let role = parts[0][0].to_owned();
        match &parts[1..] {
            [label] if label[0] == "of" => {
                of.insert(role, label[1].to_owned());
            }
            [label] => {
                to.entry(role).or_default().insert(label[1].to_owned());
            }
            [verbs, paths] => own.entry(role).or_default().extend(each(&["path"], paths, verbs, &[""])),
            [verbs, groups, resources, names @ ..] => {
                let names = names.first().map_or(&[""][..], Vec::as_slice);
                own.entry(role).or_default().extend(each(groups, resources, verbs, names));
            }
            [] => panic!("{line}"),
        }
    }
    gathered(&own, &of, &to)
}

fn of_lazaret(roles: &Value) -> Permits {
    let (mut own, mut of, mut to) =
        (Permits::new(), BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    let label = |text: &str| text.strip_prefix("rbac.authorization.k8s.io/aggregate-to-").map(str::to_owned);
    for role in roles["items"].as_array().unwrap() {
        let name = role["metadata"]["name"].as_str().unwrap().to_owned();
        for labels in role["metadata"]["labels"].as_object().into_iter().flatten() {
            to.entry(name.clone()).or_default().extend(label(labels.0));
        }
        for selector in role["aggregationRule"]["clusterRoleSelectors"].as_array().into_iter().flatten() {
            for labels in selector["matchLabels"].as_object().into_iter().flatten() {
                of.extend(label(labels.0).map(|label| (name.clone(), label)));
            }
        }
        for rule in role["rules"].as_array().into_iter().flatten() {
            let texts = |field: &str| -> Vec<&str> {
                let all = rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
                all.map(|text| if text.is_empty() { "core" } else { text }).collect()
            };
            let names = if rule.get("resourceNames").is_some() { texts("resourceNames") } else { vec![""] };
            let permits = own.entry(name.clone()).or_default();
            permits.extend(each(&texts("apiGroups"), &texts("resources"), &texts("verbs"), &names));
            permits.extend(each(&["path"], &texts("nonResourceURLs"), &texts("verbs"), &[""]));
        }
    }
    gathered(&own, &of, &to)
}

async fn begun() -> Api {
    let options = ServerOptions { authorizer: Box::<Rbac>::default(), ..ServerOptions::default() };
    let server = Server::new(Memory::default(), options);
    server.bootstrap().await.unwrap();
    let user = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
    Api { server, user }
}

#[tokio::test]
async fn no_default_role_permits_more_than_in_kubernetes_but_for_what_is_documented() {
    let api = begun().await;
    let (ours, theirs) = (of_lazaret(&api.get(ROLES).await.expect(200)), of_kubernetes());
    let nothing = BTreeSet::new();
    // Those of Lazaret's controllers have a table and tests of their own.
    for (role, permits) in ours.iter().filter(|(role, _)| !role.starts_with("system:lazaret")) {
        let known = theirs.get(role).unwrap_or(&nothing);
        let more = permits.difference(known);
        let unexpected: Vec<_> = more
            .filter(|permit| !MORE.iter().any(|(of, what)| of == role && permit.starts_with(what)))
            .collect();
        assert!(unexpected.is_empty(), "{role} permits what Kubernetes' does not: {unexpected:?}");
    }
    for (role, permits) in &theirs {
        if NOT_THERE.contains(&role.as_str()) || role == "system:kube-controller-manager" {
            continue;
        }
        let own = ours.get(role).unwrap_or_else(|| panic!("there is no {role}"));
        let missing = permits.difference(own);
        let missing: Vec<_> =
            missing.filter(|permit| !NOT_SERVED.iter().any(|what| permit.starts_with(what))).collect();
        assert!(missing.is_empty(), "{role} lacks {missing:?}");
    }
}

#[tokio::test]
async fn who_edits_a_namespace_reports_nothing_as_done() {
    let api = begun().await;
    let bind = |role: &str| {
        json!({"metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": role}]})
    };
    for role in ["admin", "edit", "view"] {
        api.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", &bind(role))
            .await
            .expect(201);
    }
    // Role, verb, group, resource, whether it is permitted in the namespace.
    let rows = [
        ("edit", "update", "batch", "jobs/status", false),
        ("edit", "patch", "apps", "deployments/status", false),
        ("edit", "update", "policy", "poddisruptionbudgets/status", false),
        ("edit", "update", "resource.k8s.io", "resourceclaims/status", false),
        ("edit", "update", "core", "pods/status", false),
        ("edit", "get", "batch", "jobs/status", true),
        ("edit", "update", "apps", "deployments/scale", true),
        ("edit", "create", "rbac.authorization.k8s.io", "rolebindings", false),
        ("admin", "create", "rbac.authorization.k8s.io", "rolebindings", true),
        ("admin", "update", "batch", "jobs/status", false),
        ("admin", "delete", "core", "pods", true),
        ("admin", "update", "core", "resourcequotas", false),
        ("view", "get", "core", "secrets", false),
        ("view", "list", "core", "pods", true),
        ("view", "delete", "core", "pods", false),
    ];
    for (who, verb, group, resource, permitted) in rows {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let group = if group == "core" { "" } else { group };
        let review = json!({"spec": {"user": who, "resourceAttributes": {"namespace": "default", "verb": verb, "group": group, "resource": resource, "subresource": part}}});
        let answer =
            api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
        assert_eq!(answer["status"]["allowed"] == true, permitted, "{who} {verb} {resource}/{part}");
    }
}

#[tokio::test]
async fn a_role_of_an_older_version_is_brought_up_to_date_and_one_that_was_changed_since_is_not() {
    let api = begun().await;
    let path = format!("{ROLES}/edit");
    let older = json!({"metadata": {"name": "edit", "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}},
        "rules": [{"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]}]});
    api.send("PUT", &path, "application/json", &older.to_string()).await.expect(200);
    api.server.bootstrap().await.unwrap();
    let edit = api.get(&path).await.expect(200);
    assert!(
        edit.get("aggregationRule").is_some()
            && edit["rules"].as_array().is_none_or(|rules| rules.is_empty()),
        "{edit}"
    );
    let mut own = api.get(&format!("{ROLES}/system:monitoring")).await.expect(200);
    own["rules"] = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let path = format!("{ROLES}/system:monitoring");
    let changed = api.send("PUT", &path, "application/json", &own.to_string()).await.expect(200);
    api.server.bootstrap().await.unwrap();
    assert_eq!(api.get(&path).await.expect(200), changed);
}
