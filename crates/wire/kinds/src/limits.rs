//! Limits of fields as the tables have them, checked in the order of the fields' numbers.

use lazaret_json::Value;
use lazaret_model::{validate_dns_subdomain, validate_pool_name};
use lazaret_schema::{Companion, Field, Format, Limits, Type, TypeId, Words, builtin};

use crate::{
    Errors, FieldProblem,
    check::{
        POOL_BYTES_MAX, dns_label, driver, fully_qualified_name, label_name, label_value, name,
        not_supported, pool, subdomain,
    },
    path::Path,
    value::{some, text},
};

/// Objects of the tables that are nested deeper are not looked into. No type with limits refers to itself.
const DEPTH_MAX: usize = 16;

/// Checks an object of a type by its name, as in `resource/v1alpha3.DeviceTaint`, and the objects in it. `old` is the object before an update.
pub(crate) fn check(errors: &mut Errors, path: &Path<'_>, shape: &str, value: &Value, old: Option<&Value>) {
    if let Some(id) = builtin().find(shape) {
        Object { value, old }.check(errors, path, id, 0);
    }
}

struct Object<'a> {
    value: &'a Value,
    old: Option<&'a Value>,
}

impl Object<'_> {
    fn check(&self, errors: &mut Errors, path: &Path<'_>, id: TypeId, depth: usize) {
        let Some(shape) = builtin().get_struct(id).filter(|_| depth < DEPTH_MAX) else { return };
        for (name, field) in shape.numbered() {
            let path = path.field(name);
            let before = errors.len();
            if let Some(limits) = &field.limits {
                self.field(errors, &path, (name, field), limits);
            }
            if errors.len() == before {
                self.inside(errors, &path, (name, field), depth + 1);
            }
        }
    }

    /// Looks into a value that is an object, or a list of them.
    fn inside(&self, errors: &mut Errors, path: &Path<'_>, (name, field): (&str, &Field), depth: usize) {
        let value = match some(self.value, name) {
            Some(value) => value,
            None if field.required => &Value::Null,
            None => return,
        };
        match builtin().get(field.ty) {
            Type::Struct(_) => {
                let old = self.old.map(|old| &old[name]);
                Object { value, old }.check(errors, path, field.ty, depth);
            }
            Type::List(item) if builtin().get_struct(*item).is_some() => {
                for (at, value) in value.as_array().into_iter().flatten().enumerate() {
                    Object { value, old: None }.check(errors, &path.index(at), *item, depth);
                }
            }
            Type::Scalar(_) | Type::Any(_) | Type::List(_) | Type::Map(_) => {}
        }
    }

    fn field(&self, errors: &mut Errors, path: &Path<'_>, (name, field): (&str, &Field), limits: &Limits) {
        let found = some(self.value, name);
        let is_kept = limits.ratchet && self.old.is_some_and(|old| text(old, name) == text(self.value, name));
        if (found.is_some() || !field.optional) && !is_kept {
            words(errors, path, text(self.value, name), limits);
        }
        match found {
            Some(found) => {
                let before = errors.len();
                sizes(errors, path, found, field, limits);
                if let Some(other) = limits.needs.as_ref().filter(|other| !self.has(other))
                    && errors.len() == before
                {
                    errors.invalid(path, found.clone(), format!("needs {} {}", other.field, other.value));
                }
            }
            None if limits.present => errors.required(path, ""),
            None => {
                if let Some(other) = limits.required_with.as_ref().filter(|other| self.has(other)) {
                    errors.required(path, &format!("with {} {}", other.field, other.value));
                }
            }
        }
    }

    fn has(&self, other: &Companion) -> bool {
        text(self.value, &other.field) == other.value
    }
}

/// A number and its limits, or the length of a text or a list.
fn sizes(errors: &mut Errors, path: &Path<'_>, found: &Value, field: &Field, limits: &Limits) {
    let is_number = limits.min.is_some() || limits.max.is_some();
    if is_number && found.as_i64().is_none_or(|number| limits.is_exceeded_by(number)) {
        errors.invalid(path, found.clone(), permitted(found, limits));
    }
    if let Some(most) = limits.bytes {
        let is_json = matches!(builtin().get(field.ty), Type::Any(_));
        let bytes = found.as_str().filter(|_| !is_json).map_or_else(|| found.to_string().len(), str::len);
        if bytes > most {
            errors.push(path, FieldProblem::TooLong(most));
        }
    }
    if let Some(most) = limits.items {
        let count = found.as_array().map_or(0, Vec::len);
        if count > most {
            errors.push(path, FieldProblem::TooMany(count, most));
        }
    }
}

/// The numbers that are permitted.
fn permitted(found: &Value, limits: &Limits) -> String {
    let (min, max) = (limits.min.unwrap_or(i64::MIN), limits.max.unwrap_or(i64::MAX));
    match limits.words {
        Words::Range => format!("must be between {min} and {max}, inclusive"),
        Words::Positive => "must be greater than zero".into(),
        Words::Bound if found.as_i64().is_some_and(|number| number > max) => {
            format!("must be less than or equal to {max}")
        }
        Words::Bound => format!("must be greater than or equal to {min}"),
    }
}

/// A text that is one of several, or a name.
fn words(errors: &mut Errors, path: &Path<'_>, text: &str, limits: &Limits) {
    if text.is_empty() && limits.filled {
        return errors.required(path, "");
    }
    if !text.is_empty() && !limits.values.is_empty() && limits.values.iter().all(|known| known != text) {
        let known: Vec<&str> = limits.values.iter().map(String::as_str).collect();
        errors.push(path, not_supported(text, &known));
    }
    match limits.format {
        None => {}
        Some(Format::LabelName) => label_name(errors, path, text),
        Some(Format::LabelValue) => label_value(errors, path, text),
        Some(Format::QualifiedName) => fully_qualified_name(errors, path, text),
        Some(Format::Subdomain) => subdomain(errors, path, text),
        Some(Format::DnsLabel) => dns_label(errors, path, text),
        Some(Format::NodeName) => name(errors, path, text, validate_dns_subdomain),
        Some(Format::Driver) => driver(errors, path, text),
        Some(Format::AnyDriver) => {
            name(errors, path, text, |text| validate_dns_subdomain(&text.to_ascii_lowercase()));
        }
        Some(Format::Pool) => pool(errors, path, text),
        Some(Format::AnyPool) if text.len() > POOL_BYTES_MAX => {
            errors.push(path, FieldProblem::TooLong(POOL_BYTES_MAX));
        }
        Some(Format::AnyPool) => name(errors, path, text, validate_pool_name),
    }
}
