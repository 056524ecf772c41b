//! The documents that describe the API: complete, and without a reference to nowhere.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Api;
use lazaret_json::{Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Every document of version 3, by the path of its group version.
async fn documents(api: &Api) -> BTreeMap<String, Value> {
    let index = api.get("/openapi/v3").await.expect(200);
    let mut documents = BTreeMap::new();
    for (path, _) in index["paths"].as_object().unwrap() {
        let document = api.get(&format!("/openapi/v3/{path}")).await.expect(200);
        documents.insert(path.to_string(), document);
    }
    documents
}

async fn with_a_custom_kind() -> Api {
    let api = Api::start().await;
    let definition = json!({
        "metadata": {"name": "oxen.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "oxen", "kind": "Ox", "listKind": "Oxen"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}}],
        },
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    api
}

fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    if let Some(object) = value.as_object() {
        found.extend(object.get("$ref").and_then(Value::as_str));
        object.values().for_each(|below| references(below, found));
    }
    value.as_array().into_iter().flatten().for_each(|below| references(below, found));
}

fn operations(document: &Value) -> impl Iterator<Item = (String, String, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let operations = item.as_object().into_iter().flatten();
        let operations = operations.filter(|(method, _)| method.as_str() != "parameters");
        operations.map(move |(method, described)| (path.to_string(), method.to_string(), described))
    })
}

#[tokio::test]
async fn every_kind_that_can_be_listed_has_its_list_and_every_document_has_status() {
    let api = with_a_custom_kind().await;
    for (path, document) in documents(&api).await {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let kinds: BTreeMap<String, String> = schemas
            .iter()
            .flat_map(|(name, schema)| {
                let kinds = schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
                kinds.map(|kind| (kind["kind"].as_str().unwrap().to_owned(), name.to_string()))
            })
            .collect();
        for name in ["Status", "DeleteOptions"] {
            assert_eq!(kinds.get(name), Some(&format!("{META}{name}")), "{path}");
        }
        let resources = api.get(&format!("/{path}")).await.expect(200);
        for resource in resources["resources"].as_array().unwrap() {
            let verbs = resource["verbs"].as_array().unwrap();
            let kind = resource["kind"].as_str().unwrap();
            let plural = resource["name"].as_str().unwrap();
            if !verbs.iter().any(|verb| verb == "list") {
                continue;
            }
            let list = if kind == "Ox" { "Oxen".to_owned() } else { format!("{kind}List") };
            let name = kinds.get(&list).unwrap_or_else(|| panic!("{path}: no {list}"));
            assert_eq!(schemas.get(name).unwrap()["required"], json!(["items"]));
            let listed = &document["paths"][format!("/{path}/{plural}").as_str()]["get"];
            assert_eq!(listed["x-kubernetes-action"], "list", "{path} {plural}");
            let answer = &listed["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
            assert_eq!(answer.as_str().unwrap(), format!("#/components/schemas/{name}"));
        }
    }
}

#[tokio::test]
async fn no_reference_leads_nowhere_and_every_operation_has_a_name_of_its_own() {
    let api = with_a_custom_kind().await;
    let mut ids = BTreeMap::new();
    for (path, document) in documents(&api).await {
        let mut found = BTreeSet::new();
        references(&document, &mut found);
        for reference in found {
            let name = reference.strip_prefix("#/components/schemas/").unwrap();
            assert!(document["components"]["schemas"].get(name).is_some(), "{path}: {reference}");
        }
        for (at, method, described) in operations(&document) {
            let id = described["operationId"].as_str().unwrap().to_owned();
            let place = format!("{method} {at}");
            assert_eq!(ids.insert(id.clone(), place.clone()), None, "{id} is the name of {place} as well");
            let variables: Vec<&str> =
                at.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
            let declared = document["paths"][at.as_str()]["parameters"].as_array().into_iter().flatten();
            let declared: Vec<&str> = declared.map(|variable| variable["name"].as_str().unwrap()).collect();
            assert_eq!(declared, variables, "{at}");
        }
    }
    // As generators of clients know them from Kubernetes.
    for (id, place) in [
        ("listAppsV1NamespacedDeployment", "get /apis/apps/v1/namespaces/{namespace}/deployments"),
        ("listAppsV1DeploymentForAllNamespaces", "get /apis/apps/v1/deployments"),
        ("deleteCoreV1CollectionNamespacedPod", "delete /api/v1/namespaces/{namespace}/pods"),
        ("readCoreV1Node", "get /api/v1/nodes/{name}"),
        ("createCoreV1NamespacedPodEviction", "post /api/v1/namespaces/{namespace}/pods/{name}/eviction"),
        (
            "patchAppsV1NamespacedDeploymentScale",
            "patch /apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
        ),
        ("listRbacAuthorizationV1ClusterRole", "get /apis/rbac.authorization.k8s.io/v1/clusterroles"),
        (
            "replaceResourceV1NamespacedResourceClaimStatus",
            "put /apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}/status",
        ),
        (
            "createAuthorizationV1SelfSubjectAccessReview",
            "post /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        ),
    ] {
        assert_eq!(ids.get(id).map(String::as_str), Some(place), "{id}");
    }
}

#[tokio::test]
async fn a_deletion_answers_with_what_the_document_says() {
    let api = with_a_custom_kind().await;
    let all = documents(&api).await;
    let answer = |document: &str, path: &str| {
        let deleted = &all[document]["paths"][path]["delete"]["responses"]["200"];
        deleted["content"]["application/json"]["schema"]["$ref"].as_str().unwrap().to_owned()
    };
    let pod = answer("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}");
    assert!(pod.ends_with("io.k8s.api.core.v1.Pod"), "{pod}");
    let map = answer("api/v1", "/api/v1/namespaces/{namespace}/configmaps/{name}");
    assert!(map.ends_with("meta.v1.Status"), "{map}");
    let map = json!({"metadata": {"name": "m"}});
    api.post("/api/v1/namespaces/default/configmaps", &map).await.expect(201);
    let deleted = api.send("DELETE", "/api/v1/namespaces/default/configmaps/m", "", "").await.expect(200);
    assert_eq!(deleted["kind"], "Status");
}

#[tokio::test]
async fn the_document_of_version_2_has_the_same_kinds() {
    let api = with_a_custom_kind().await;
    let document = api.get("/openapi/v2").await.expect(200);
    let definitions = document["definitions"].as_object().unwrap();
    for name in ["io.k8s.api.core.v1.PodList", "com.example.v1.Oxen"] {
        let items = &definitions.get(name).unwrap_or_else(|| panic!("no {name}"))["properties"]["items"];
        assert!(items["items"]["$ref"].as_str().unwrap().starts_with("#/definitions/"), "{items}");
    }
    assert!(definitions.get(&format!("{META}Status")[..]).is_some());
    let defined = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList";
    assert!(definitions.get(defined).is_some());
    let listed = &document["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"];
    assert_eq!(listed["operationId"], "listCoreV1NamespacedPod");
    assert_eq!(listed["responses"]["200"]["schema"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodList");
    let limit = listed["parameters"].as_array().unwrap().iter().find(|known| known["name"] == "limit");
    assert_eq!(limit.unwrap()["type"], "integer");
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods"]["parameters"].is_array());
}
