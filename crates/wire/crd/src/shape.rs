//! The schema of a defined kind as a table of shapes, for what must know how objects are divided: server-side apply.

use std::{collections::BTreeMap, sync::Arc};

use lazaret_schema::{Field, Holder, ListKind, Scalar, Schema, StructType, Type, TypeId, builtin};

use crate::structural::{self, Additional, ListType, Structural};

/// A table with the type of the kind's objects, metadata included.
pub(crate) fn shape(root: &Structural) -> (Arc<Schema>, TypeId) {
    let mut table = Schema::default();
    let metadata = match builtin().find("meta/v1.ObjectMeta") {
        Some(id) => table.import(builtin(), id),
        None => table.add(Type::Any(Holder::Opaque)),
    };
    let text = table.add(Type::Scalar(Scalar::String));
    let anything = deduced(&mut table);
    let mut maker = SchemaBuilder { table, metadata, text, anything };
    let mut fields = maker.fields(root);
    fields.insert("metadata".into(), field(metadata, &Structural::default()));
    let object = StructType::of("", fields, root.preserve_unknown);
    let id = maker.table.add(Type::Struct(object));
    (Arc::new(maker.table), id)
}

/// A value without a schema is divided by its own type: objects by field, other values not at all.
fn deduced(table: &mut Schema) -> TypeId {
    let id = table.declare("deduced");
    table.define("deduced", Type::Map(id))
}

struct SchemaBuilder {
    table: Schema,
    metadata: TypeId,
    text: TypeId,
    anything: TypeId,
}

impl SchemaBuilder {
    fn ty(&mut self, schema: &Structural) -> TypeId {
        let scalar = |scalar| Type::Scalar(scalar);
        let ty = match schema.ty {
            _ if schema.int_or_string => scalar(Scalar::IntOrString),
            Some(structural::Type::String) => scalar(Scalar::String),
            Some(structural::Type::Integer) => scalar(Scalar::Int64),
            Some(structural::Type::Number) => scalar(Scalar::Double),
            Some(structural::Type::Boolean) => scalar(Scalar::Bool),
            Some(structural::Type::Array) => {
                let item = schema.items.as_ref().map_or(self.anything, |items| self.ty(items));
                Type::List(item)
            }
            Some(structural::Type::Object) => return self.object(schema),
            None => return self.anything,
        };
        self.table.add(ty)
    }

    fn object(&mut self, schema: &Structural) -> TypeId {
        let ty = match &schema.additional {
            Additional::Each(each) => Type::Map(self.ty(each)),
            Additional::Anything if schema.properties.is_empty() => Type::Map(self.anything),
            Additional::Nothing if schema.properties.is_empty() && !schema.embedded => return self.anything,
            Additional::Anything | Additional::Nothing => {
                let mut fields = self.fields(schema);
                if schema.embedded {
                    let plain = Structural::default();
                    fields.insert("apiVersion".into(), field(self.text, &plain));
                    fields.insert("kind".into(), field(self.text, &plain));
                    fields.insert("metadata".into(), field(self.metadata, &plain));
                }
                let open = schema.preserve_unknown || matches!(schema.additional, Additional::Anything);
                Type::Struct(StructType::of("", fields, open))
            }
        };
        self.table.add(ty)
    }

    fn fields(&mut self, schema: &Structural) -> BTreeMap<String, Field> {
        let one = |(name, schema): (&String, &Structural)| (name.clone(), field(self.ty(schema), schema));
        schema.properties.iter().map(one).collect()
    }
}

fn field(ty: TypeId, schema: &Structural) -> Field {
    Field {
        ty,
        optional: true,
        always: false,
        required: false,
        list: match &schema.list {
            ListType::Atomic => ListKind::Atomic,
            ListType::Set => ListKind::Set,
            ListType::Map(keys) => ListKind::Map(keys.clone()),
        },
        atomic: schema.atomic,
        granular: false,
        merge: None,
        replace: false,
        retain_keys: false,
        default: schema.default.clone(),
        limits: None,
    }
}
