//! Kinds that definitions bring, from the first request to the last.

use crate::support::Api;
use http_body_util::BodyExt;
use lazaret_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

fn definition() -> Value {
    let spec = json!({"type": "object", "required": ["size"], "properties": {
        "size": {"type": "integer", "minimum": 1, "description": "How large it is."},
        "color": {"type": "string", "default": "grey", "enum": ["grey", "red"]},
        "replicas": {"type": "integer"},
        "port": {"x-kubernetes-int-or-string": true},
        "note": {"type": "string", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}},
    }});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}, "phase": {"type": "string"}}});
    let schema =
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": schema, "selectableFields": [{"jsonPath": ".spec.color"}],
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "priority": 1},
                        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                    ]},
                {"name": "v1alpha1", "served": true, "storage": false, "deprecated": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}},
            ],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

async fn with_widgets() -> Api {
    let api = Api::start().await;
    api.post(DEFINITIONS, &definition()).await.expect(201);
    api
}

fn condition(definition: &Value, name: &str) -> String {
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|known| known["type"] == name);
    found.map_or_else(String::new, |found| {
        format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
    })
}

#[tokio::test]
async fn a_definition_is_established_and_its_kind_is_discovered() {
    let api = with_widgets().await;
    let stored = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    assert_eq!(condition(&stored, "Established"), "True InitialNamesAccepted");
    assert_eq!(condition(&stored, "NamesAccepted"), "True NoConflicts");
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(stored["status"]["acceptedNames"]["listKind"], "WidgetList");
    let group = api.get("/apis/example.com").await.expect(200);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = api.get("/apis/example.com/v1").await.expect(200);
    let names: Vec<&str> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    let document = api.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["description"], "How large it is.");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    api.get("/apis/example.com/v2/widgets").await.expect(404);
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let api = with_widgets().await;
    let made = api
        .post(
            WIDGETS,
            &widget(
                "a",
                json!({"size": 2, "odd": 1, "free": {"x": {"y": 1}}, "note": null, "replicas": null}),
            ),
        )
        .await;
    assert_eq!(made.warnings(), [r#"299 - "unknown field \"spec.odd\"""#]);
    let made = made.expect(201);
    assert_eq!(made["spec"], json!({"size": 2, "color": "grey", "free": {"x": {"y": 1}}, "note": null}));
    assert_eq!(
        (&made["kind"], &made["apiVersion"], &made["metadata"]["generation"]),
        (&json!("Widget"), &json!("example.com/v1"), &json!(1))
    );
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let refused = api.post(&strict, &widget("b", json!({"size": 2, "odd": 1}))).await.expect(400);
    assert!(
        refused["message"].as_str().unwrap().contains(r#"strict decoding error: unknown field "spec.odd""#)
    );
    for (spec, field) in [
        (json!({}), "spec.size"),
        (json!({"size": 0}), "spec.size"),
        (json!({"size": "1"}), "spec.size"),
        (json!({"size": 1, "color": "blue"}), "spec.color"),
        (json!({"size": 1, "port": true}), "spec.port"),
        (json!({"size": 1, "replicas": -1}), "spec.replicas"),
        (json!({"size": 1, "parts": [{"name": "x"}, {"name": "x"}]}), "spec.parts[1]"),
    ] {
        let refused = api.post(WIDGETS, &widget("b", spec.clone())).await.expect(422);
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{spec}: {refused}");
    }
    let odd = json!({"metadata": {"name": "b", "labels": 3}, "spec": {"size": 1}});
    api.post(WIDGETS, &odd).await.expect(400);
}

#[tokio::test]
async fn status_scale_and_generation_are_kept_apart() {
    let api = with_widgets().await;
    let mut new = widget("a", json!({"size": 2}));
    new["status"] = json!({"phase": "sent along"});
    let made = api.post(WIDGETS, &new).await.expect(201);
    assert_eq!(made.get("status"), None, "a new object has no status");
    let one = format!("{WIDGETS}/a");
    let written = api
        .send(
            "PATCH",
            &format!("{one}/status"),
            MERGE,
            r#"{"spec":{"size":9},"status":{"phase":"on","replicas":2,"selector":"a=b"}}"#,
        )
        .await
        .expect(200);
    assert_eq!(
        (&written["spec"]["size"], &written["status"]["phase"], &written["metadata"]["generation"]),
        (&json!(2), &json!("on"), &json!(1))
    );
    api.send("PATCH", &format!("{one}/status"), MERGE, r#"{"status":{"replicas":"two"}}"#).await.expect(422);
    let written =
        api.send("PATCH", &one, MERGE, r#"{"spec":{"size":3},"status":{"phase":"off"}}"#).await.expect(200);
    assert_eq!((&written["status"]["phase"], &written["metadata"]["generation"]), (&json!("on"), &json!(2)));
    let scale =
        api.send("PATCH", &format!("{one}/scale"), MERGE, r#"{"spec":{"replicas":5}}"#).await.expect(200);
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["replicas"], &scale["status"]["selector"]),
        (&json!(5), &json!(2), &json!("a=b"))
    );
    assert_eq!(api.get(&one).await.expect(200)["spec"]["replicas"], 5);
    api.send("PATCH", &one, "application/strategic-merge-patch+json", "{}").await.expect(415);
    let patched = api
        .send(
            "PATCH",
            &one,
            "application/json-patch+json",
            r#"[{"op":"replace","path":"/spec/color","value":"red"}]"#,
        )
        .await;
    assert_eq!(patched.expect(200)["spec"]["color"], "red");
    let unconditional =
        api.send("PUT", &one, "application/json", &widget("a", json!({"size": 1})).to_string()).await;
    unconditional.expect(422);
}

#[tokio::test]
async fn apply_owns_items_of_keyed_lists() {
    let api = with_widgets().await;
    let one = format!("{WIDGETS}/a?fieldManager=");
    let parts = |parts: Value| widget("a", json!({"size": 1, "parts": parts})).to_string();
    api.send("PATCH", &format!("{one}x"), APPLY, &parts(json!([{"name": "p", "count": 1}])))
        .await
        .expect(201);
    let both = api
        .send("PATCH", &format!("{one}y"), APPLY, &parts(json!([{"name": "q", "count": 2}])))
        .await
        .expect(200);
    assert_eq!(both["spec"]["parts"], json!([{"name": "p", "count": 1}, {"name": "q", "count": 2}]));
    api.send("PATCH", &format!("{one}y"), APPLY, &parts(json!([{"name": "p", "count": 7}])))
        .await
        .expect(409);
    let less = api.send("PATCH", &format!("{one}x"), APPLY, &parts(json!([]))).await.expect(200);
    assert_eq!(less["spec"]["parts"], json!([{"name": "q", "count": 2}]));
}

#[tokio::test]
async fn lists_are_selected_and_shown_as_tables() {
    let api = with_widgets().await;
    for (name, color) in [("a", "red"), ("b", "grey")] {
        api.post(WIDGETS, &widget(name, json!({"size": 4, "color": color}))).await.expect(201);
    }
    let red = api.get("/apis/example.com/v1/widgets?fieldSelector=spec.color%3Dred").await.expect(200);
    assert_eq!((&red["kind"], red["items"].as_array().unwrap().len()), (&json!("WidgetList"), 1));
    api.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D4")).await.expect(400);
    let table = api.request("GET", WIDGETS, TABLE, "", Vec::new().into()).await.expect(200);
    let headings: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(headings, ["Name", "Size", "Phase", "Age"]);
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("a"), json!(4), Value::Null]);
    let old = api.get("/apis/example.com/v1alpha1/namespaces/default/widgets/a").await;
    assert_eq!(old.warnings(), [r#"299 - "example.com/v1alpha1 Widget is deprecated""#]);
    assert_eq!(old.expect(200)["spec"], json!({"size": 4}), "a version shows what its schema knows");
}

#[tokio::test]
async fn objects_go_with_their_definition_and_names_become_free() {
    let api = with_widgets().await;
    let mut other = definition();
    other["metadata"]["name"] = "wonders.example.com".into();
    other["spec"]["names"] = json!({"plural": "wonders", "kind": "Wonder", "shortNames": ["wd"]});
    api.post(DEFINITIONS, &other).await.expect(201);
    let stored = api.get(&format!("{DEFINITIONS}/wonders.example.com")).await.expect(200);
    assert_eq!(condition(&stored, "NamesAccepted"), "False ShortNamesConflict");
    api.get("/apis/example.com/v1/wonders").await.expect(404);

    api.post(WIDGETS, &widget("a", json!({"size": 1}))).await.expect(201);
    let mut kept = widget("b", json!({"size": 1}));
    kept["metadata"]["finalizers"] = json!(["example.com/wait"]);
    api.post(WIDGETS, &kept).await.expect(201);
    api.send("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), "", "").await.expect(200);
    let ending = api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(200);
    assert_eq!(condition(&ending, "Terminating"), "True InstanceDeletionInProgress");
    api.get(&format!("{WIDGETS}/a")).await.expect(404);
    api.post(WIDGETS, &widget("c", json!({"size": 1}))).await.expect(405);
    api.send("PATCH", &format!("{WIDGETS}/b"), MERGE, r#"{"metadata":{"finalizers":null}}"#)
        .await
        .expect(200);
    api.get(&format!("{DEFINITIONS}/widgets.example.com")).await.expect(404);
    api.get(WIDGETS).await.expect(404);
    let freed = api.get(&format!("{DEFINITIONS}/wonders.example.com")).await.expect(200);
    assert_eq!(condition(&freed, "Established"), "True InitialNamesAccepted");
    api.get("/apis/example.com/v1/wonders").await.expect(200);
}

#[tokio::test]
async fn another_server_over_the_same_store_serves_the_same_kinds() {
    let api = with_widgets().await;
    api.post(WIDGETS, &widget("a", json!({"size": 1}))).await.expect(201);
    let other = Api::over(api.server.shared_store());
    assert_eq!(other.get(&format!("{WIDGETS}/a")).await.expect(200)["spec"]["size"], 1);
    let changed = r#"[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/added","value":{"type":"string","default":"new"}}]"#;
    let definition = format!("{DEFINITIONS}/widgets.example.com");
    api.send("PATCH", &definition, "application/json-patch+json", changed).await.expect(200);
    let shown = other.get(&format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(shown["spec"]["added"], "new", "old objects are shown as today's schema has them");
}

#[tokio::test]
async fn definitions_that_cannot_be_served_are_refused_with_the_field() {
    let api = Api::start().await;
    let schema = "spec.versions[0].schema.openAPIV3Schema";
    for (pointer, value, field) in [
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec",
            json!({"properties": {}}),
            format!("{schema}.properties[spec].type"),
        ),
        (
            "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color/default",
            json!("blue"),
            format!("{schema}.properties[spec].properties[color].default"),
        ),
        ("/spec/versions/1/storage", json!(true), "spec.versions".into()),
        ("/spec/names/kind", json!("Wid get"), "spec.names.kind".into()),
        ("/spec/group", json!("example"), "spec.group".into()),
        (
            "/spec/versions/0/additionalPrinterColumns/0/jsonPath",
            json!("spec"),
            "spec.versions[0].additionalPrinterColumns[0].jsonPath".into(),
        ),
    ] {
        let mut wrong = definition();
        *wrong.pointer_mut(pointer).unwrap() = value;
        let refused = api.post(DEFINITIONS, &wrong).await.expect(422);
        let fields: Vec<&str> = refused["details"]["causes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|cause| cause["field"].as_str().unwrap())
            .collect();
        assert!(fields.contains(&field.as_str()), "{pointer}: {fields:?}");
    }
    let mut protected = definition();
    protected["metadata"]["name"] = "widgets.x.k8s.io".into();
    protected["spec"]["group"] = "x.k8s.io".into();
    api.post(DEFINITIONS, &protected).await.expect(422);
    protected["metadata"]["annotations"] =
        json!({"api-approved.kubernetes.io": "unapproved, experimental-only"});
    api.post(DEFINITIONS, &protected).await.expect(201);
}

#[tokio::test]
async fn rules_of_a_definition_are_kept_and_bad_ones_refused() {
    let api = Api::start().await;
    let with = |rules: Value| {
        let mut definition = definition();
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        schema["properties"]["spec"]["x-kubernetes-validations"] = rules;
        definition
    };
    let refused = api.post(DEFINITIONS, &with(json!([{"rule": "self.sise > 1"}]))).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("undefined field 'sise'"), "{refused}");
    let rules = json!([
        {"rule": "!has(self.replicas) || self.replicas <= self.size", "message": "there is no room for so many"},
        {"rule": "self.size >= oldSelf.size", "messageExpression": "'was ' + string(oldSelf.size)"},
    ]);
    api.post(DEFINITIONS, &with(rules)).await.expect(201);
    let refused = api.post(WIDGETS, &widget("a", json!({"size": 1, "replicas": 2}))).await.expect(422);
    assert_eq!(refused["details"]["causes"][0]["field"], "spec");
    assert!(refused["message"].as_str().unwrap().contains("there is no room for so many"));
    api.post(WIDGETS, &widget("a", json!({"size": 2, "replicas": 2}))).await.expect(201);
    let smaller = json!({"spec": {"size": 1, "replicas": 1}});
    let refused = api.patch(&format!("{WIDGETS}/a"), MERGE, &smaller).await.expect(422);
    assert!(refused["message"].as_str().unwrap().contains("was 2"), "{refused}");
    api.patch(&format!("{WIDGETS}/a"), MERGE, &json!({"spec": {"size": 3}})).await.expect(200);
}

/// Every field of the kinds for devices and of our own kinds is explained.
#[tokio::test]
async fn kubectl_has_something_to_explain() {
    fn unexplained(schema: &Value, path: &str, missing: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            unexplained(field, &path, missing);
            if field["description"].as_str().is_none_or(str::is_empty) {
                missing.push(path);
            }
        }
        if schema.get("items").is_some() {
            unexplained(&schema["items"], &format!("{path}[]"), missing);
        }
    }

    let api = Api::start().await;
    let definition = include_str!("../../../../../deploy/crds/lazaret.dev_taintreplacementpolicies.yaml");
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    api.send("POST", definitions, "application/yaml", definition).await.expect(201);
    for (document, ours) in [
        ("apis/resource.k8s.io/v1", "io.k8s.api.resource."),
        ("apis/lazaret.dev/v1alpha1", "dev.lazaret."),
        ("api/v1", "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"),
    ] {
        let document = api.get(&format!("/openapi/v3/{document}")).await.expect(200);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut missing = Vec::new();
        for (name, schema) in schemas.iter().filter(|(name, _)| name.starts_with(ours)) {
            unexplained(schema, name, &mut missing);
            assert!(schema["description"].is_string(), "{name}");
        }
        assert_eq!(missing, Vec::<String>::new());
        assert!(schemas.iter().any(|(name, _)| name.starts_with(ours)));
    }
}

#[tokio::test]
async fn rules_name_fields_that_cel_reserves_after_a_dot() {
    let api = Api::start().await;
    let text = json!({"type": "string"});
    let template = json!({
        "type": "object",
        "properties": {"metadata": {"type": "object", "properties": {"namespace": text, "package": text}}},
        "x-kubernetes-validations": [
            {"rule": "!has(self.metadata) || !has(self.metadata.namespace)"},
            {"rule": "!has(self.metadata) || !has(self.metadata.__package__) || self.metadata.package != 'x'"},
        ],
    });
    let definition = json!({
        "metadata": {"name": "jobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {"t": template}}}}}}],
        },
    });
    api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await.expect(201);
    let jobs = "/apis/example.com/v1/namespaces/default/jobs";
    for (name, metadata, code) in [
        ("a", json!({}), 201),
        ("b", json!({"namespace": "x"}), 422),
        ("c", json!({"package": "x"}), 422),
        ("d", json!({"package": "y"}), 201),
    ] {
        let job = json!({"metadata": {"name": name}, "spec": {"t": {"metadata": metadata}}});
        api.post(jobs, &job).await.expect(code);
    }
}

async fn metrics(api: &Api) -> String {
    let body = api.stream("/metrics").await.collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn series_of_a_kind_go_with_its_definition() {
    let api = with_widgets().await;
    api.post(WIDGETS, &widget("a", json!({"size": 1}))).await.expect(201);
    api.get(WIDGETS).await.expect(200);
    drop(api.stream(&format!("{WIDGETS}?watch=true")).await);
    let of_kind = |text: &str| text.lines().filter(|line| line.contains("widgets")).count();
    assert!(of_kind(&metrics(&api).await) > 40);
    api.send("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), "", "").await.expect(200);
    api.get(WIDGETS).await.expect(404);
    let text = metrics(&api).await;
    assert_eq!(of_kind(&text), 0, "{text}");
    assert!(text.contains(r#"resource="customresourcedefinitions""#), "{text}");
}

/// Beyond a limit kinds share one label.
#[tokio::test]
async fn series_of_many_kinds_are_counted_as_one() {
    let api = Api::start().await;
    for number in 0..205 {
        let mut one = definition();
        one["metadata"]["name"] = format!("kind{number}s.example.com").into();
        one["spec"]["names"] = json!({"plural": format!("kind{number}s"), "kind": format!("Kind{number}")});
        api.post(DEFINITIONS, &one).await.expect(201);
        api.get(&format!("/apis/example.com/v1/kind{number}s")).await.expect(200);
    }
    let text = metrics(&api).await;
    let named = |number: usize| text.contains(&format!("resource=\"kind{number}s\""));
    assert_eq!((0..205).filter(|number| named(*number)).count(), 200);
    assert!(text.contains(r#"group="other""#), "{text}");
}
