//! The rights of controllers: what each may do that others may not.

use lazaret_json::{Value, json};
use lazaret_memory::Memory;
use lazaret_server::{Rbac, Server, ServerOptions, User, controller_roles, controller_user};

use crate::support::Api;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn begun() -> Api {
    let options = ServerOptions { authorizer: Box::<Rbac>::default(), ..ServerOptions::default() };
    let server = Server::new(Memory::default(), options);
    server.bootstrap().await.unwrap();
    let user = User { name: "admin".into(), groups: vec!["system:masters".into()], ..User::default() };
    Api { server, user }
}

/// Whether a controller may do this: verb, group, resource with its subresource, namespace, name.
async fn may(api: &Api, controller: &str, asked: [&str; 5]) -> bool {
    let [verb, group, resource, namespace, name] = asked;
    let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
    let attributes = json!({"verb": verb, "group": group, "resource": resource, "subresource": part, "namespace": namespace, "name": name});
    let user = controller_user(controller);
    let review =
        json!({"spec": {"user": user.name, "groups": user.groups, "resourceAttributes": attributes}});
    let answer = api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
    answer["status"]["allowed"] == true
}

#[tokio::test]
async fn a_controller_may_do_its_own_work_and_not_that_of_another() {
    let api = begun().await;
    let rows = [
        ("job", ["create", "", "pods", "n", ""], true),
        ("job", ["patch", "", "nodes", "", "a"], false),
        ("job", ["get", "", "secrets", "n", "a"], false),
        ("device-taint-eviction", ["delete", "", "pods", "n", "a"], true),
        ("device-taint-eviction", ["create", "resource.k8s.io", "devicetaintrules", "", ""], false),
        ("device-taint-policies", ["create", "resource.k8s.io", "devicetaintrules", "", ""], true),
        ("device-taint-policies", ["delete", "", "pods", "n", "a"], false),
        ("default-scheduler", ["create", "", "pods/binding", "n", "a"], true),
        ("default-scheduler", ["create", "", "pods", "n", ""], false),
        ("device-health", ["get", "", "secrets", "kube-system", "lazaret-proof"], true),
        ("device-health", ["get", "", "secrets", "kube-system", "other"], false),
        ("device-health", ["get", "", "secrets", "n", "lazaret-proof"], false),
        ("device-health", ["impersonate", "", "serviceaccounts", "lazaret-repair", "a"], true),
        ("device-health", ["impersonate", "", "serviceaccounts", "kube-system", "a"], false),
        ("device-health", ["impersonate", "", "users", "", "admin"], false),
        ("device-health", ["create", "rbac.authorization.k8s.io", "clusterrolebindings", "", ""], false),
        ("garbage-collector", ["delete", "apps", "deployments", "n", "a"], true),
        ("garbage-collector", ["create", "", "pods", "n", ""], false),
        (
            "garbage-collector",
            ["bind", "rbac.authorization.k8s.io", "clusterroles", "", "cluster-admin"],
            false,
        ),
        ("namespace", ["deletecollection", "events.k8s.io", "events", "n", ""], true),
        ("namespace", ["patch", "", "pods", "n", "a"], false),
        ("", ["watch", "", "pods", "", ""], true),
        ("", ["create", "", "events", "n", ""], true),
        ("", ["delete", "", "pods", "n", "a"], false),
        ("nobody", ["watch", "", "pods", "", ""], false),
    ];
    for (controller, asked, permitted) in rows {
        assert_eq!(may(&api, controller, asked).await, permitted, "{controller}: {asked:?}");
    }
}

#[tokio::test]
async fn kinds_that_definitions_bring_are_collected_as_others_and_only_while_they_are_defined() {
    let api = begun().await;
    let asked = |verb| [verb, "example.com", "notes", "n", "a"];
    assert!(!may(&api, "garbage-collector", asked("delete")).await);
    let definition = json!({"metadata": {"name": "notes.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "notes", "singular": "note", "kind": "Note", "listKind": "NoteList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    for (controller, verb, permitted) in [
        ("garbage-collector", "delete", true),
        ("garbage-collector", "create", false),
        ("namespace", "deletecollection", true),
        ("", "watch", true),
        ("", "delete", false),
        ("job", "get", false),
    ] {
        assert_eq!(may(&api, controller, asked(verb)).await, permitted, "{controller} {verb}");
    }
    assert!(may(&api, "disruption", ["get", "example.com", "notes/scale", "n", "a"]).await);
    assert!(!may(&api, "garbage-collector", ["delete", "example.com", "notes/scale", "n", "a"]).await);
}

#[tokio::test]
async fn the_role_of_a_controller_is_that_of_this_version_unless_an_administrator_keeps_another() {
    let api = begun().await;
    let path = format!("{RBAC}/clusterroles/system:lazaret:job");
    let made = api.get(&path).await.expect(200);
    let mut other = made.clone();
    other["rules"] = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    api.send("PUT", &path, "application/json", &other.to_string()).await.expect(200);
    api.server.bootstrap().await.unwrap();
    assert_eq!(api.get(&path).await.expect(200)["rules"], made["rules"]);
    other["rules"] = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]);
    other["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = "false".into();
    other["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    let kept = api.send("PUT", &path, "application/json", &other.to_string()).await.expect(200);
    api.server.bootstrap().await.unwrap();
    assert_eq!(api.get(&path).await.expect(200), kept);
}

#[tokio::test]
async fn every_controller_of_the_table_has_a_role_that_is_bound_to_it_alone() {
    let api = begun().await;
    for role in controller_roles().iter().filter(|role| !role.may.is_empty()) {
        let name = controller_user(&role.name).name;
        let binding = api.get(&format!("{RBAC}/clusterrolebindings/{name}")).await.expect(200);
        assert_eq!(binding["roleRef"]["name"], name.as_str());
        let subjects: Vec<&Value> = binding["subjects"].as_array().unwrap().iter().collect();
        assert_eq!((subjects.len(), &subjects[0]["name"]), (1, &Value::from(name.as_str())));
    }
}
