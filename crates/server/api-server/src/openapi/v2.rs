//! `/openapi/v2`: one document of all group versions, for clients that do not know version 3.
//!
//! It is made from the documents of version 3 on the first request, and cached until the definitions of kinds change.

use bytes::Bytes;
use lazaret_json::{Map, Value, json};

use super::{group_versions, of_version, v2_protobuf};
use crate::{ApiError, Server, discovery::fingerprint, respond::Answer};

pub(crate) const PATH: &str = "openapi/v2";

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The name of older clients for the same.
const PROTOBUF_BEFORE: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const ACCEPTED: &str = "application/json, application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// A schema of a defined kind may be nested this deep; what is below is left out.
const DEPTH_MAX: usize = 64;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DocumentForm {
    Json,
    Protobuf,
}

/// Answers on a thread of its own: to make the document takes some milliseconds, and as long as the definitions of kinds are.
#[allow(clippy::disallowed_methods, reason = "the task ends by itself")]
pub(crate) async fn answer(server: &Server, accept: Option<&str>) -> Result<Answer, ApiError> {
    let form = accepted(accept)?;
    let server = server.clone();
    let made = tokio::task::spawn_blocking(move || {
        server.openapi_cache().get(server.customs(), || encoded(&document(&server)))
    })
    .await;
    let made = made.map_err(ApiError::internal)?;
    let (body, content_type) = match form {
        DocumentForm::Json => (made.json, "application/json"),
        DocumentForm::Protobuf => (made.protobuf, PROTOBUF),
    };
    Ok(Answer { content_type, tag: Some(fingerprint(&body)), ..Answer::json(200, body) })
}

fn accepted(accept: Option<&str>) -> Result<DocumentForm, ApiError> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return Ok(DocumentForm::Json);
    };
    let form = |clause: &str| match clause.split(';').next().unwrap_or_default().trim() {
        "application/json" | "application/*" | "*/*" => Some(DocumentForm::Json),
        PROTOBUF | PROTOBUF_BEFORE => Some(DocumentForm::Protobuf),
        _ => None,
    };
    accept.split(',').find_map(form).ok_or_else(|| ApiError::not_acceptable(ACCEPTED))
}

/// The document as JSON and as protobuf.
fn encoded(document: &Value) -> (Bytes, Bytes) {
    (document.to_string().into(), v2_protobuf::encoded(document).into())
}

fn document(server: &Server) -> Value {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for (path, kinds) in group_versions(server) {
        let document = of_version(&path, &kinds);
        for (path, operations) in document["paths"].as_object().into_iter().flatten() {
            paths.insert(path.clone(), path_item(path, operations));
        }
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            if !definitions.contains_key(name) {
                definitions.insert(name.clone(), self::schema(schema, 0));
            }
        }
    }
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.37.0"}, "paths": paths,
        "definitions": definitions,
    })
}

fn path_item(path: &str, operations: &Value) -> Value {
    let mut item = Map::new();
    let variables: Vec<Value> = path
        .split('/')
        .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
        .map(|name| json!({"name": name, "in": "path", "required": true, "type": "string", "uniqueItems": true}))
        .collect();
    let operations = operations.as_object().into_iter().flatten();
    for (verb, described) in operations.filter(|(verb, _)| verb.as_str() != "parameters") {
        item.insert(verb.clone(), operation(described));
    }
    item.insert("parameters", variables.into());
    Value::Object(item)
}

fn operation(described: &Value) -> Value {
    let content = described["requestBody"]["content"].as_object();
    let media: Vec<&str> = content.into_iter().flatten().map(|(media, _)| media.as_str()).collect();
    let body = content.and_then(|content| content.values().next()).map(
        |body| json!({"name": "body", "in": "body", "required": true, "schema": schema(&body["schema"], 0)}),
    );
    let query = described["parameters"].as_array().into_iter().flatten().map(
        |parameter| json!({"name": parameter["name"], "in": "query", "type": parameter["schema"]["type"], "uniqueItems": true}),
    );
    let answered = &described["responses"]["200"]["content"]["application/json"]["schema"];
    json!({
        "operationId": described["operationId"], "tags": described["tags"],
        "consumes": if media.is_empty() { vec!["*/*"] } else { media },
        "produces": ["application/json"],
        "parameters": body.into_iter().chain(query).collect::<Vec<_>>(),
        "responses": {"200": {"description": "OK", "schema": schema(answered, 0)}},
        "x-kubernetes-action": described["x-kubernetes-action"],
        "x-kubernetes-group-version-kind": described["x-kubernetes-group-version-kind"],
    })
}

/// Keywords of a schema that version 2 knows as well, with simple values.
const KEPT: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "default",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "enum",
];

/// A schema of version 3 as one of version 2. Parts that version 2 does not have are left out, as in Kubernetes: clients then check less.
fn schema(described: &Value, depth: usize) -> Value {
    let mut out = Map::new();
    let Some(fields) = described.as_object().filter(|_| depth < DEPTH_MAX) else { return Value::Object(out) };
    let reference = described["allOf"][0]["$ref"].as_str().or(described["$ref"].as_str());
    if let Some(name) = reference.and_then(|reference| reference.strip_prefix("#/components/schemas/")) {
        out.insert("$ref", format!("#/definitions/{name}").into());
    }
    // A field that may be null, or of several types, is one of which nothing is known.
    let open = fields.get("nullable").is_some_and(|value| *value == true)
        || fields.get("x-kubernetes-int-or-string").is_some_and(|value| *value == true);
    // Where unknown fields are kept, naming some of them would forbid the others: clients of version 2 refuse what is not named.
    let keeps_unknown = described["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, value) in fields {
        match name.as_str() {
            "type" | "format" | "properties" | "items" | "additionalProperties" if open => {}
            "properties" | "items" if keeps_unknown => {}
            "properties" => {
                let below = value.as_object().into_iter().flatten();
                let below: Map =
                    below.map(|(name, value)| (name.clone(), schema(value, depth + 1))).collect();
                out.insert("properties", Value::Object(below));
            }
            "items" => {
                out.insert("items", schema(value, depth + 1));
            }
            "additionalProperties" if value.is_object() => {
                out.insert("additionalProperties", schema(value, depth + 1));
            }
            name if KEPT.contains(&name) || name.starts_with("x-kubernetes-") => {
                out.insert(name.to_owned(), value.clone());
            }
            _ => {}
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schemas_say_what_version_2_can_say() {
        for (described, expected) in [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "x", "default": {}}),
                json!({"$ref": "#/definitions/a.B", "description": "x", "default": {}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "nullable": true, "description": "x"}}, "anyOf": [{}]}),
                json!({"type": "object", "properties": {"a": {"description": "x"}}}),
            ),
            (
                json!({"type": "array", "items": {"type": "integer", "format": "int32"}, "x-kubernetes-list-type": "set"}),
                json!({"type": "array", "items": {"type": "integer", "format": "int32"}, "x-kubernetes-list-type": "set"}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {}}, "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            ),
        ] {
            assert_eq!(schema(&described, 0), expected);
        }
    }

    #[test]
    fn a_schema_that_is_nested_without_end_is_cut() {
        let nested = (0..1_000).fold(json!({}), |inner, _| json!({"items": inner}));
        let (mut depth, mut at) = (0, &schema(&nested, 0));
        while let Some(below) = at.get("items") {
            (depth, at) = (depth + 1, below);
        }
        assert_eq!(depth, DEPTH_MAX);
    }

    #[test]
    fn clients_of_every_age_get_their_form() {
        for (accept, expected) in [
            (None, Ok(DocumentForm::Json)),
            (Some("*/*"), Ok(DocumentForm::Json)),
            (Some("application/json"), Ok(DocumentForm::Json)),
            (Some(PROTOBUF), Ok(DocumentForm::Protobuf)),
            (Some(PROTOBUF_BEFORE), Ok(DocumentForm::Protobuf)),
            (Some("text/plain, application/json;q=0.5"), Ok(DocumentForm::Json)),
            (Some("text/plain"), Err(406)),
        ] {
            assert_eq!(accepted(accept).map_err(|error| error.code), expected, "{accept:?}");
        }
    }
}
