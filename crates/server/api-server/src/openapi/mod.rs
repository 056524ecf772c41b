//! The OpenAPI document of each group version, made from the table of shapes.

pub(crate) mod cache;
mod names;
mod paths;
pub(crate) mod v2;
mod v2_protobuf;

use std::collections::BTreeSet;

use lazaret_json::{Map, Value, json};
use lazaret_kinds::{Kind, Served, Verbs};
use lazaret_schema::{Description, Field, Schema, Type, TypeId, builtin};

use self::{
    names::{list_name, schema_name, shape_name, shape_of},
    paths::Paths,
};
use crate::{ApiError, Server, kind_ref::KindRef, respond::Answer};

pub(crate) fn answer(server: &Server, path: &str) -> Result<Answer, ApiError> {
    let document = path.trim_start_matches("openapi/v3").trim_start_matches('/');
    let group_versions = group_versions(server);
    if document.is_empty() {
        let paths: Map = group_versions
            .iter()
            .map(|(path, _)| (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={}", env!("CARGO_PKG_VERSION"))})))
            .collect();
        return Ok(Answer::value(200, &json!({"paths": paths})));
    }
    let (path, kinds) =
        group_versions.into_iter().find(|(path, _)| path == document).ok_or_else(ApiError::no_such_path)?;
    Ok(Answer::value(200, &of_version(&path, &kinds)))
}

type Kinds = Vec<(KindRef, Served)>;

fn group_versions(server: &Server) -> Vec<(String, Kinds)> {
    let mut found: Vec<(String, Kinds)> = Vec::new();
    for kind in server.kinds() {
        for served in kind.versions.iter().filter(|served| server.serves(&kind, served)) {
            let path = if kind.group.is_empty() {
                format!("api/{}", served.version)
            } else {
                format!("apis/{}/{}", kind.group, served.version)
            };
            match found.iter_mut().find(|(known, _)| *known == path) {
                Some((_, kinds)) => kinds.push((kind.clone(), served.clone())),
                None => found.push((path, vec![(kind.clone(), served.clone())])),
            }
        }
    }
    found
}

fn of_version(path: &str, kinds: &Kinds) -> Value {
    let schema = builtin();
    let mut paths = Map::new();
    let mut schemas = Schemas { schema, done: BTreeSet::new(), out: Map::new() };
    for (kind, served) in kinds {
        let gvk = json!({"group": kind.group, "version": served.version, "kind": kind.kind});
        let name = schema_name(kind, served);
        match served.shape.builtin_name().and_then(|shape| Some((schema.find(shape)?, shape))) {
            Some((id, shape)) => schemas.top_level(id, shape, &gvk),
            None => schemas.custom(kind, &name, &gvk),
        }
        let list = list_name(kind, &name);
        if kind.verbs != Verbs::Create {
            schemas.list(kind, served, &name, &list);
        }
        for (group, version, taken) in kind.subresources.iter().filter_map(|part| part.takes) {
            schemas.known(group, version, taken, &[]);
        }
        Paths { kind, served, root: path, one: &name, list: &list }.add_to(&mut paths);
    }
    let version = kinds.first().map(|(kind, served)| (&*kind.group, &*served.version));
    schemas.known("meta", "v1", "Status", &[("", "v1")]);
    let everywhere = [("", "v1")].into_iter().chain(version.filter(|named| *named != ("", "v1")));
    schemas.known("meta", "v1", "DeleteOptions", &everywhere.collect::<Vec<_>>());
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.37.0"}, "paths": paths,
        "components": {"schemas": schemas.out},
    })
}

struct Schemas<'a> {
    schema: &'a Schema,
    done: BTreeSet<TypeId>,
    out: Map,
}

impl Schemas<'_> {
    fn top_level(&mut self, shape: TypeId, name: &str, gvk: &Value) {
        self.define(shape, name);
        if let Some(Value::Object(entry)) = self.out.get_mut(&shape_name(name)) {
            entry.insert("x-kubernetes-group-version-kind", json!([gvk]));
            if let Some(Value::Object(properties)) = entry.get_mut("properties") {
                for field in ["apiVersion", "kind"] {
                    let about = Description::of(name).field(field);
                    properties.insert(field, json!({"type": "string", "description": about}));
                }
            }
        }
    }

    /// A kind of the table that is taken or given beside the kinds of a document, under the group versions in which it is known. Without any, under its own.
    fn known(&mut self, group: &str, version: &str, kind: &str, under: &[(&str, &str)]) {
        let Some((id, shape)) = shape_of(group, version, kind) else { return };
        let named =
            |(group, version): &(&str, &str)| json!({"group": group, "version": version, "kind": kind});
        self.top_level(id, &shape, &named(&(group, version)));
        if let Some(Value::Object(entry)) =
            self.out.get_mut(&shape_name(&shape)).filter(|_| !under.is_empty())
        {
            let all: Vec<Value> = under.iter().map(named).collect();
            entry.insert("x-kubernetes-group-version-kind", all.into());
        }
    }

    /// The list of a kind.
    fn list(&mut self, kind: &Kind, served: &Served, one: &str, list: &str) {
        let Some(mut metadata) = self.schema.find("meta/v1.ListMeta").map(|id| self.value(id)) else {
            return;
        };
        let about = |field: &str| Description::of("meta/v1.Status").field(field);
        metadata["description"] = "Version of the list, and how to read on.".into();
        let items = json!({"allOf": [{"$ref": format!("#/components/schemas/{one}")}]});
        let entry = json!({
            "type": "object", "required": ["items"], "description": format!("Objects of the kind {}.", kind.kind),
            "properties": {
                "apiVersion": {"type": "string", "description": about("apiVersion")},
                "items": {"type": "array", "items": items, "description": "The objects."},
                "kind": {"type": "string", "description": about("kind")},
                "metadata": metadata,
            },
            "x-kubernetes-group-version-kind": [{"group": kind.group, "version": served.version, "kind": kind.list_kind}],
        });
        self.out.insert(list.to_owned(), entry);
    }

    /// The schema of a defined kind, as its author wrote it.
    fn custom(&mut self, kind: &Kind, name: &str, gvk: &Value) {
        let mut schema = kind.rules.document().cloned().unwrap_or_else(|| json!({"type": "object"}));
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        for field in ["apiVersion", "kind", "metadata"] {
            schema["properties"][field] = match self.schema.find("meta/v1.ObjectMeta") {
                Some(metadata) if field == "metadata" => self.value(metadata),
                _ => json!({"type": "string"}),
            };
            schema["properties"][field]["description"] = Description::of(name).field(field).into();
        }
        self.out.insert(name.to_owned(), schema);
    }

    fn define(&mut self, id: TypeId, name: &str) {
        if !self.done.insert(id) {
            return;
        }
        let Some(found) = self.schema.get_struct(id) else { return };
        let description = Description::of(name);
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (field_name, field) in &found.fields {
            let mut value = self.value(field.ty);
            decorate(&mut value, field, self.schema);
            if let Some(text) = description.field(field_name) {
                value["description"] = text.into();
            }
            properties.insert(field_name.clone(), value);
            if field.required || field.always && !field.optional {
                required.push(field_name.clone());
            }
        }
        let mut entry = json!({"type": "object", "properties": properties});
        if !required.is_empty() {
            entry["required"] = required.into();
        }
        if let Some(text) = description.itself() {
            entry["description"] = text.into();
        }
        if found.atomic {
            entry["x-kubernetes-map-type"] = "atomic".into();
        }
        self.out.insert(shape_name(name), entry);
    }

    fn value(&mut self, id: TypeId) -> Value {
        match self.schema.get(id) {
            Type::Struct(found) => {
                let name = found.name.clone();
                self.define(id, &name);
                json!({"allOf": [{"$ref": format!("#/components/schemas/{}", shape_name(&name))}]})
            }
            Type::List(item) => json!({"type": "array", "items": self.value(*item)}),
            Type::Map(value) => json!({"type": "object", "additionalProperties": self.value(*value)}),
            Type::Any(_) => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            Type::Scalar(scalar) => scalar.open_api(),
        }
    }
}

fn decorate(value: &mut Value, field: &Field, schema: &Schema) {
    field.decorate(value, schema);
    let mut strategies = Vec::new();
    if let Some(key) = &field.merge {
        strategies.push("merge");
        if let Some(key) = key {
            value["x-kubernetes-patch-merge-key"] = key.as_str().into();
        }
    }
    if field.replace {
        strategies.push("replace");
    }
    if field.retain_keys {
        strategies.push("retainKeys");
    }
    if !strategies.is_empty() {
        value["x-kubernetes-patch-strategy"] = strategies.join(",").into();
    }
}
