//! The paths of a kind: its collection, each object and the parts that have an endpoint of their own.

use lazaret_json::{Map, Value, json};
use lazaret_kinds::{Kind, Scope, Served, Subresource, Verbs};

use super::names::{DELETE_OPTIONS, STATUS, schema_of};

/// A parameter of a query, and the type of its value.
type Parameter = (&'static str, &'static str);

const WRITTEN: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const PATCHED: &[Parameter] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
const DELETED: &[Parameter] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LISTED: &[Parameter] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

const OBJECT: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
const CUSTOM_OBJECT: &[&str] = &["application/json", "application/yaml"];
const PATCH: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const CUSTOM_PATCH: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Properties that operations of a kind in one version have in common.
pub(super) struct Paths<'a> {
    pub(super) kind: &'a Kind,
    pub(super) served: &'a Served,
    /// `apis/GROUP/VERSION`.
    pub(super) root: &'a str,
    /// Names of the schemas of an object and of a list.
    pub(super) one: &'a str,
    pub(super) list: &'a str,
}

/// One operation, as far as it differs from others.
struct PathOperation<'a> {
    /// The first and the last part of its name.
    verb: (&'static str, &'a str),
    action: &'static str,
    gvk: Value,
    takes: Option<&'a str>,
    gives: &'a str,
    query: &'static [Parameter],
}

impl Paths<'_> {
    /// Adds all of them.
    pub(super) fn add_to(&self, paths: &mut Map) {
        let collection = match self.kind.scope {
            Scope::Cluster => format!("/{}/{}", self.root, self.kind.plural),
            Scope::Namespaced => format!("/{}/namespaces/{{namespace}}/{}", self.root, self.kind.plural),
        };
        let mut operations = Map::new();
        if self.kind.verbs != Verbs::Ending {
            operations.insert("post", self.write("create", "post", ""));
        }
        if self.kind.verbs == Verbs::Create {
            paths.insert(collection.clone(), item(&collection, operations));
            return;
        }
        operations.insert("get", self.list(""));
        if self.kind.verbs != Verbs::OneByOne {
            operations.insert("delete", self.delete("deletecollection", STATUS));
        }
        paths.insert(collection.clone(), item(&collection, operations));
        if self.kind.scope == Scope::Namespaced {
            let everywhere = format!("/{}/{}", self.root, self.kind.plural);
            let mut operations = Map::new();
            operations.insert("get", self.list("ForAllNamespaces"));
            paths.insert(everywhere.clone(), item(&everywhere, operations));
        }
        let one = format!("{collection}/{{name}}");
        let mut operations = self.parts_of_object();
        let object = self.kind.returns_deleted(&self.served.version);
        let gives = if object { self.one } else { STATUS };
        operations.insert("delete", self.delete("delete", gives));
        paths.insert(one.clone(), item(&one, operations));
        for part in &self.kind.subresources {
            let operations = self.subresource(part);
            if !operations.is_empty() {
                let path = format!("{one}/{}", part.name);
                paths.insert(path.clone(), item(&path, operations));
            }
        }
    }

    fn parts_of_object(&self) -> Map {
        let mut operations = Map::new();
        operations.insert("get", self.read(""));
        operations.insert("put", self.write("replace", "put", ""));
        operations.insert("patch", self.write("patch", "patch", ""));
        operations
    }

    /// The operations of a part; none of one that is a stream and has no schema.
    fn subresource(&self, part: &Subresource) -> Map {
        let mut operations = Map::new();
        let schema = match part.takes {
            Some((group, version, kind)) => schema_of(group, version, kind),
            None if part.name == "log" => None,
            None => Some(self.one.to_owned()),
        };
        let Some(schema) = schema else { return operations };
        let gvk = part.takes.map_or_else(
            || self.gvk(),
            |(group, version, kind)| json!({"group": group, "version": version, "kind": kind}),
        );
        let name = capitalized(part.name);
        for (verb, method, action, id, query) in [
            ("get", "get", "get", "read", &[] as &[Parameter]),
            ("update", "put", "put", "replace", WRITTEN),
            ("patch", "patch", "patch", "patch", PATCHED),
            ("create", "post", "post", "create", WRITTEN),
        ] {
            if part.verbs.contains(&verb) {
                let takes = (verb != "get").then_some(schema.as_str());
                let verb = (id, name.as_str());
                let gvk = gvk.clone();
                let operation = PathOperation { verb, action, gvk, takes, gives: &schema, query };
                operations.insert(method, self.described(operation));
            }
        }
        operations
    }

    fn list(&self, everywhere: &str) -> Value {
        self.described(PathOperation {
            verb: ("list", everywhere),
            action: "list",
            gvk: self.gvk(),
            takes: None,
            gives: self.list,
            query: LISTED,
        })
    }

    fn read(&self, part: &str) -> Value {
        self.described(PathOperation {
            verb: ("read", part),
            action: "get",
            gvk: self.gvk(),
            takes: None,
            gives: self.one,
            query: &[],
        })
    }

    fn write(&self, verb: &'static str, action: &'static str, part: &str) -> Value {
        let query = if action == "patch" { PATCHED } else { WRITTEN };
        let takes = Some(self.one);
        self.described(PathOperation {
            verb: (verb, part),
            action,
            gvk: self.gvk(),
            takes,
            gives: self.one,
            query,
        })
    }

    fn delete(&self, action: &'static str, gives: &str) -> Value {
        let takes = Some(DELETE_OPTIONS);
        self.described(PathOperation {
            verb: ("delete", ""),
            action,
            gvk: self.gvk(),
            takes,
            gives,
            query: DELETED,
        })
    }

    fn gvk(&self) -> Value {
        json!({"group": self.kind.group, "version": self.served.version, "kind": self.kind.kind})
    }

    fn described(&self, operation: PathOperation<'_>) -> Value {
        let PathOperation { action, gvk, takes, gives, query, .. } = &operation;
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let mut described = json!({
            "operationId": self.id(&operation), "tags": [self.tag()],
            "parameters": query.iter().map(|(name, kind)| parameter(name, "query", kind)).collect::<Vec<_>>(),
            "x-kubernetes-group-version-kind": gvk, "x-kubernetes-action": action,
            "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference(gives)}}}},
        });
        if let Some(takes) = takes {
            let custom = self.kind.rules.document().is_some();
            let media = match (*action, custom) {
                ("patch", true) => CUSTOM_PATCH,
                ("patch", false) => PATCH,
                (_, true) => CUSTOM_OBJECT,
                (_, false) => OBJECT,
            };
            let content: Map = media
                .iter()
                .map(|media| ((*media).to_owned(), json!({"schema": reference(takes)})))
                .collect();
            described["requestBody"] = json!({"content": content});
        }
        described
    }

    /// `listAppsV1NamespacedDeployment`: what generators call the functions of a client.
    fn id(&self, operation: &PathOperation<'_>) -> String {
        let (verb, part) = operation.verb;
        let collection = if operation.action == "deletecollection" { "Collection" } else { "" };
        let everywhere = part == "ForAllNamespaces";
        let scope = match self.kind.scope {
            Scope::Namespaced if !everywhere => "Namespaced",
            Scope::Namespaced | Scope::Cluster => "",
        };
        let group: String = self.group().split('.').map(capitalized).collect();
        let version = capitalized(&self.served.version);
        format!("{verb}{group}{version}{collection}{scope}{}{part}", self.kind.kind)
    }

    /// `apps_v1`.
    fn tag(&self) -> String {
        let group: String = self
            .group()
            .split('.')
            .enumerate()
            .map(|(at, part)| if at == 0 { part.to_owned() } else { capitalized(part) })
            .collect();
        format!("{group}_{}", self.served.version)
    }

    /// The group as generators name it.
    fn group(&self) -> &str {
        match &*self.kind.group {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        }
    }
}

/// Operations of one path, and the variables in it.
fn item(path: &str, mut operations: Map) -> Value {
    let variables = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let variables: Vec<Value> = variables
        .map(|name| {
            let mut variable = parameter(name, "path", "string");
            variable["required"] = true.into();
            variable
        })
        .collect();
    if !variables.is_empty() {
        operations.insert("parameters", variables.into());
    }
    Value::Object(operations)
}

fn parameter(name: &str, place: &str, kind: &str) -> Value {
    json!({"name": name, "in": place, "schema": {"type": kind, "uniqueItems": true}})
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
