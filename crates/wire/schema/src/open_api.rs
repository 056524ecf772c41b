//! Fields as OpenAPI writes them, for documents of the server and for definitions of kinds.

use lazaret_json::{Value, json};

use crate::{
    limits::Limits,
    table::{Field, ListKind, Scalar, Schema, Type},
};

impl Scalar {
    /// The schema of a single value.
    #[must_use]
    pub fn open_api(self) -> Value {
        match self {
            Self::String | Self::Duration | Self::Quantity => json!({"type": "string"}),
            Self::Bytes => json!({"type": "string", "format": "byte"}),
            Self::Time | Self::MicroTime => json!({"type": "string", "format": "date-time"}),
            Self::IntOrString => json!({"type": "string", "format": "int-or-string"}),
            Self::Int32 => json!({"type": "integer", "format": "int32"}),
            Self::Int64 => json!({"type": "integer", "format": "int64"}),
            Self::Double => json!({"type": "number", "format": "double"}),
            Self::Bool => json!({"type": "boolean"}),
        }
    }
}

impl Field {
    /// Adds to the schema of its values the identity of list items, the default and the limits.
    pub fn decorate(&self, value: &mut Value, schema: &Schema) {
        if matches!(schema.get(self.ty), Type::List(_)) {
            match &self.list {
                ListKind::Atomic => value["x-kubernetes-list-type"] = "atomic".into(),
                ListKind::Set => value["x-kubernetes-list-type"] = "set".into(),
                ListKind::Map(keys) => {
                    value["x-kubernetes-list-type"] = "map".into();
                    value["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
        } else if self.atomic {
            value["x-kubernetes-map-type"] = "atomic".into();
        }
        if let Some(default) = &self.default {
            value["default"] = default.clone();
        }
        let Some(limits) = &self.limits else { return };
        limits.decorate(value);
        if let Some(items) = limits.items {
            let is_map = matches!(schema.get(self.ty), Type::Map(_));
            value[if is_map { "maxProperties" } else { "maxItems" }] = items.into();
        }
    }
}

impl Limits {
    /// Lengths of texts are left out: they count bytes here and characters there.
    fn decorate(&self, value: &mut Value) {
        if let Some(min) = self.min {
            value["minimum"] = min.into();
        }
        if let Some(max) = self.max {
            value["maximum"] = max.into();
        }
        if !self.values.is_empty() && !self.ratchet {
            value["enum"] = json!(self.values);
        }
    }
}
