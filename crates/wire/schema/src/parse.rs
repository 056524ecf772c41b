//! From the text of `tables/*.txt` to a [`Schema`].
//!
//! A type begins at the left margin: its name, then `atomic` if it is owned as a whole, `open` if it keeps fields that are not listed, `union` if
//! one of its fields is set. `NAME = TYPE FLAGS` is a name for a type with flags, in the fields below. Each indented line is a field:
//! JSON name, protobuf number (`-` for none), type, flags. `*T` is a T that may be absent, `[]T` a list, `{}T` a map by name. A
//! field called `inline` is a struct whose fields stand flat in JSON. Flags: `!` written even when zero, `required`, `atomic`,
//! `set`, `map(keys)`, `merge(key)`, `replace`, `retainKeys`, `default=JSON`, and the [`Limits`] of its values. A line that is indented by four
//! blanks describes the type or field above it ([`crate::Description`]).

use std::collections::BTreeMap;

use lazaret_json::Value;

use crate::{
    canonical::zero,
    limits::Limits,
    table::{Field, Holder, ListKind, Scalar, Schema, StructType, Type, TypeId},
};

/// Reads all tables. They are part of the program: a line that cannot be read is skipped here and fails a test below.
pub(crate) fn tables(tables: &[(&str, &str)]) -> Schema {
    let mut reader = SchemaReader::default();
    for (package, text) in tables {
        reader.table(package, text);
    }
    reader.finish()
}

#[derive(Default)]
struct SchemaReader {
    schema: Schema,
    structs: BTreeMap<String, StructType>,
    /// The type and flags that a name stands for.
    aliases: BTreeMap<String, String>,
    unread: Vec<String>,
}

impl SchemaReader {
    fn table(&mut self, package: &str, text: &str) {
        let mut current = String::new();
        let is_read = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("    ");
        for line in text.lines().filter(is_read) {
            if let Some(field) = line.strip_prefix("  ") {
                if self.field(package, &current, field).is_none() {
                    self.unread.push(format!("{current}: {field}"));
                }
                continue;
            }
            if let Some((name, meaning)) = line.split_once(" = ") {
                self.aliases.insert(format!("{package}.{name}"), meaning.to_owned());
                continue;
            }
            let (name, flags) = line.split_once(' ').unwrap_or((line, ""));
            current = format!("{package}.{name}");
            self.schema.declare(&current);
            let mut fresh = StructType { name: current.clone(), ..StructType::default() };
            for flag in flags.split_terminator(' ') {
                match flag {
                    "atomic" => fresh.atomic = true,
                    "open" => fresh.open = true,
                    "union" => fresh.union = true,
                    _ => self.unread.push(line.to_owned()),
                }
            }
            self.structs.insert(current.clone(), fresh);
        }
    }

    fn field(&mut self, package: &str, owner: &str, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        let (name, number, ty) = (words.next()?, words.next()?, words.next()?);
        let number = match number {
            "-" => None,
            digits => Some(digits.parse::<u32>().ok()?),
        };
        let (optional, ty) = (ty.starts_with('*'), ty.trim_start_matches('*'));
        let meaning = self.aliases.get(&format!("{package}.{ty}")).cloned();
        let mut meant = meaning.as_deref().unwrap_or(ty).split(' ');
        let id = self.type_of(package, meant.next()?)?;
        let owner = self.structs.get_mut(owner)?;
        if name == "inline" {
            // Structs embedded without a number of their own do not occur in protobuf.
            owner.inline.insert(number.unwrap_or(0), id);
            return Some(());
        }
        let mut field = Field {
            ty: id,
            optional,
            always: false,
            required: false,
            list: ListKind::Atomic,
            atomic: false,
            granular: false,
            merge: None,
            replace: false,
            retain_keys: false,
            default: None,
            limits: None,
        };
        for flag in meant.chain(words) {
            apply(flag, &mut field)?;
        }
        owner.listed.push(name.to_owned());
        if let Some(number) = number {
            owner.numbers.insert(number, name.to_owned());
        }
        owner.fields.insert(name.to_owned(), field);
        Some(())
    }

    fn type_of(&mut self, package: &str, text: &str) -> Option<TypeId> {
        if let Some(item) = text.strip_prefix("[]") {
            let item = self.type_of(package, item.trim_start_matches('*'))?;
            return Some(self.schema.add(Type::List(item)));
        }
        if let Some(value) = text.strip_prefix("{}") {
            let value = self.type_of(package, value.trim_start_matches('*'))?;
            return Some(self.schema.add(Type::Map(value)));
        }
        let ty = match text {
            "string" => Type::Scalar(Scalar::String),
            "int32" => Type::Scalar(Scalar::Int32),
            "int64" => Type::Scalar(Scalar::Int64),
            "bool" => Type::Scalar(Scalar::Bool),
            "double" => Type::Scalar(Scalar::Double),
            "bytes" => Type::Scalar(Scalar::Bytes),
            "quantity" => Type::Scalar(Scalar::Quantity),
            "time" => Type::Scalar(Scalar::Time),
            "microtime" => Type::Scalar(Scalar::MicroTime),
            "duration" => Type::Scalar(Scalar::Duration),
            "intorstring" => Type::Scalar(Scalar::IntOrString),
            "raw" => Type::Any(Holder::Raw),
            "json" | "fieldsv1" => Type::Any(Holder::Json),
            "wrapped" => Type::Any(Holder::StringList),
            "schema" => Type::Any(Holder::Schema),
            "schema-or-list" => Type::Any(Holder::SchemaOrList),
            "schema-or-bool" => Type::Any(Holder::SchemaOrBool),
            "schema-or-strings" => Type::Any(Holder::SchemaOrStrings),
            "opaque" => Type::Any(Holder::Opaque),
            reference if reference.starts_with(char::is_uppercase) => {
                return Some(self.schema.declare(&format!("{package}.{reference}")));
            }
            reference if reference.contains('.') => return Some(self.schema.declare(reference)),
            _ => return None,
        };
        Some(self.schema.add(ty))
    }

    /// Embedded structs lend their fields to the struct that embeds them; innermost first, so order does not matter.
    fn finish(mut self) -> Schema {
        let names: Vec<String> = self.structs.keys().cloned().collect();
        for name in &names {
            let flat = self.flattened(name, 0);
            if let Some(owner) = self.structs.get_mut(name) {
                let lent = flat.keys().filter(|name| !owner.fields.contains_key(*name));
                owner.listed.extend(lent.cloned());
                owner.fields = flat;
                owner.always = always_written(&self.schema, &owner.fields);
            }
        }
        for (name, content) in self.structs {
            self.schema.define(&name, Type::Struct(content));
        }
        self.schema
    }

    fn flattened(&self, name: &str, depth: usize) -> BTreeMap<String, Field> {
        let Some(owner) = self.structs.get(name).filter(|_| depth < 8) else { return BTreeMap::new() };
        let mut fields = owner.fields.clone();
        for embedded in owner.inline.values() {
            let Some((inner, _)) = self.schema.names().find(|(_, id)| id == embedded) else { continue };
            for (name, field) in self.flattened(inner, depth + 1) {
                fields.entry(name).or_insert(field);
            }
        }
        fields
    }
}

/// The fields that Go always writes, where a single value without meaning is not an error by its form.
fn always_written(schema: &Schema, fields: &BTreeMap<String, Field>) -> Vec<(String, Value)> {
    let single = [Scalar::String, Scalar::Int32, Scalar::Int64, Scalar::Bool];
    let zero_of = |field: &Field| match schema.get(field.ty) {
        ty @ Type::Scalar(scalar) if single.contains(scalar) => zero(ty),
        Type::Scalar(_) | Type::Any(_) | Type::Struct(_) | Type::List(_) | Type::Map(_) => None,
    };
    let written = fields.iter().filter(|(_, field)| field.always && !field.optional);
    written.filter_map(|(name, field)| Some((name.clone(), zero_of(field)?))).collect()
}

fn apply(flag: &str, field: &mut Field) -> Option<()> {
    match flag.split_once(['(', '=']) {
        Some(("map", keys)) => {
            field.list = ListKind::Map(keys.trim_end_matches(')').split(',').map(str::to_owned).collect());
        }
        Some(("merge", key)) => {
            let key = key.trim_end_matches(')');
            field.merge = Some((!key.is_empty()).then(|| key.to_owned()));
        }
        Some(("default", value)) => field.default = Some(serde_json::from_str(value).ok()?),
        Some(_) => return limit(flag, field),
        None => match flag {
            "!" => field.always = true,
            "required" => field.required = true,
            "atomic" => field.atomic = true,
            "granular" => field.granular = true,
            "set" => field.list = ListKind::Set,
            "replace" => field.replace = true,
            "retainKeys" => field.retain_keys = true,
            _ => return limit(flag, field),
        },
    }
    Some(())
}

fn limit(flag: &str, field: &mut Field) -> Option<()> {
    field.limits.get_or_insert_with(Box::<Limits>::default).take(flag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn every_line_of_every_table_is_understood() {
        let mut reader = SchemaReader::default();
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tables")).unwrap() {
            let path = entry.unwrap().path();
            let stem = path.file_stem().unwrap().to_string_lossy().replacen('_', "/", 1);
            reader.table(&stem, &std::fs::read_to_string(&path).unwrap());
        }
        assert_eq!(reader.unread, Vec::<String>::new());
        assert!(reader.structs.len() > 400, "only {} types", reader.structs.len());
    }

    #[test]
    fn every_reference_leads_to_a_type_and_every_list_key_to_a_field() {
        let schema = builtin();
        for (name, id) in schema.names() {
            let found =
                schema.get_struct(id).unwrap_or_else(|| panic!("{name} is referred to but not in a table"));
            for (field_name, field) in &found.fields {
                let Type::List(item) = schema.get(field.ty) else { continue };
                let (ListKind::Map(keys), Some(item)) = (&field.list, schema.get_struct(*item)) else {
                    continue;
                };
                for key in keys {
                    assert!(
                        item.fields.contains_key(key),
                        "{name}.{field_name}: no field {key} in {}",
                        item.name
                    );
                }
            }
        }
    }

    #[test]
    fn limits_are_about_fields_that_there_are_and_can_have_them() {
        let schema = builtin();
        for (name, id) in schema.names() {
            let fields = schema.get_struct(id).into_iter().flat_map(|found| &found.fields);
            for (field_name, field) in fields {
                let Some(limits) = &field.limits else { continue };
                let ty = schema.get(field.ty);
                let is = |scalars: &[Scalar]| matches!(ty, Type::Scalar(scalar) if scalars.contains(scalar));
                let has_number = limits.min.is_some() || limits.max.is_some();
                let is_text = limits.format.is_some() || !limits.values.is_empty();
                let has_pattern = limits.pattern.is_some();
                let numbers = [Scalar::Int32, Scalar::Int64, Scalar::IntOrString];
                assert!(!has_number || is(&numbers), "{name}.{field_name}");
                assert!(!is_text || is(&[Scalar::String]), "{name}.{field_name}");
                assert!(!has_pattern || is(&[Scalar::String, Scalar::IntOrString]), "{name}.{field_name}");
                assert!(limits.chars.is_none() || is(&[Scalar::String]), "{name}.{field_name}");
                assert!(
                    limits.items.is_none() || matches!(ty, Type::List(_) | Type::Map(_)),
                    "{name}.{field_name}"
                );
                assert!(
                    limits.bytes.is_none() || is(&[Scalar::String]) || *ty == Type::Any(Holder::Raw),
                    "{name}.{field_name}"
                );
                for other in limits.needs.iter().chain(&limits.required_with) {
                    let others = &schema.get_struct(id).unwrap().fields;
                    let known = others.get(&other.field).and_then(|field| field.limits.as_ref());
                    assert!(
                        known.is_some_and(|known| known.values.contains(&other.value)),
                        "{name}: {other:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_name_stands_for_a_type_with_flags() {
        let mut reader = SchemaReader::default();
        let text = "Stage = string enum(A,B)\nRule open\n  stage - *Stage required\n  rest - Else\nElse union\n  frob - Frob = 1\nOdd frob\n";
        reader.table("own/v1", text);
        assert_eq!(reader.unread, ["own/v1.Else: frob - Frob = 1", "Odd frob"]);
        let schema = reader.finish();
        let found = |name: &str| schema.get_struct(schema.find(name).unwrap()).unwrap();
        let rule = found("own/v1.Rule");
        assert!(rule.open && !rule.union && found("own/v1.Else").union);
        assert_eq!(rule.listed().map(|(name, _)| name).collect::<Vec<_>>(), ["stage", "rest"]);
        let stage = &rule.fields["stage"];
        assert_eq!(schema.get(stage.ty), &Type::Scalar(Scalar::String));
        assert!(stage.optional && stage.required);
        assert_eq!(stage.limits.as_ref().unwrap().values, ["A", "B"]);
        assert_eq!(schema.find("own/v1.Stage"), None);
    }

    #[test]
    fn fields_of_embedded_structs_stand_flat() {
        let schema = builtin();
        let volume = schema.get_struct(schema.find("core/v1.Volume").unwrap()).unwrap();
        assert!(volume.fields.contains_key("name") && volume.fields.contains_key("configMap"));
        let config_map = schema.get_struct(schema.find("core/v1.ConfigMapVolumeSource").unwrap()).unwrap();
        assert!(config_map.fields.contains_key("name") && config_map.fields.contains_key("items"));
    }
}
