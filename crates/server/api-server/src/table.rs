//! Objects as rows, the way `kubectl get` prints them, and objects without all but their metadata.

use lazaret_json::{Value, json};
use lazaret_kinds::{Context, Features, Kind, User};
use lazaret_storage::Item;

use crate::{call::Call, clock, object};

/// The inputs of rows outside a call.
pub(crate) struct Clock {
    features: Features,
    include: Include,
}

/// The part of the object that a row carries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Include {
    None,
    Metadata,
    Object,
}

impl Clock {
    pub(crate) fn new(call: &Call<'_>) -> Self {
        let include = match call.query.get("includeObject") {
            Some("None") => Include::None,
            Some("Object") => Include::Object,
            _ => Include::Metadata,
        };
        Self { features: call.server.features().clone(), include }
    }

    /// A table of one row.
    pub(crate) fn table_row(&self, kind: &Kind, object: &Value, columns: Value) -> Value {
        let metadata = json!({"resourceVersion": object::meta(object, "resourceVersion")});
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": [self.row(kind, object)]})
    }

    pub(crate) fn row(&self, kind: &Kind, object: &Value) -> Value {
        let user = User::default();
        let context = Context {
            now: clock::now(),
            features: &self.features,
            user: &user,
            verb: "get",
            version: &kind.hub().version,
            namespace: &|| None,
            lookup: &|_, _, _| None,
            may: &|_| false,
        };
        let mut cells = Vec::new();
        if kind.rules.leads_with_name() {
            cells.push(Value::from(object::meta(object, "name")));
        }
        cells.extend(kind.rules.cells(object, &context));
        match self.include {
            Include::None => json!({"cells": cells}),
            Include::Metadata => json!({"cells": cells, "object": metadata_of(object)}),
            Include::Object => {
                let mut whole = object.clone();
                whole["kind"] = (*kind.kind).into();
                whole["apiVersion"] = kind.api_version(&kind.hub().version).into();
                json!({"cells": cells, "object": whole})
            }
        }
    }
}

pub(crate) fn of_one(call: &Call<'_>, item: &Item) -> Value {
    Clock::new(call).table_row(&call.kind, &object::decode_whole(&item.value), column_definitions(&call.kind))
}

/// A table of one row of cells, of something that is no kind.
pub(crate) fn of_cells(revision: &str, columns: &[(&str, &str)], cells: &Value, metadata: &Value) -> Value {
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, kind)| {
            let format = if *name == "Name" { "name" } else { "" };
            json!({"name": name, "type": kind, "format": format, "description": "", "priority": 0})
        })
        .collect();
    let row = json!({"cells": cells, "object": metadata_of(&json!({"metadata": metadata}))});
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": revision}, "columnDefinitions": columns, "rows": [row]})
}

/// The columns of a kind, mostly with its name first.
pub(crate) fn column_definitions(kind: &Kind) -> Value {
    let mut columns = Vec::new();
    if kind.rules.leads_with_name() {
        columns.push(
            json!({"name": "Name", "type": "string", "format": "name", "description": "Name of the object.", "priority": 0}),
        );
    }
    for heading in kind.rules.headings() {
        columns.push(json!({"name": heading.name, "type": heading.kind, "format": heading.format, "description": heading.description, "priority": heading.priority}));
    }
    Value::Array(columns.into())
}

/// The object without all but its metadata.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}
