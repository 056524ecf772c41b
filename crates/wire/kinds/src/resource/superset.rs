//! Fields that only v1alpha3 has, in versions that do not know them: shown as JSON in an annotation, brought back by a write that carries it.

use lazaret_json::{Map, Value};
use lazaret_model::{V1ALPHA3_FIELDS_ANNOTATION as ANNOTATION, V1ALPHA3_ONLY_DRIVER};
use lazaret_schema::{StructType, TypeId, builtin, check};

use crate::{
    Errors,
    value::{field_mut, put, put_or_remove, remove, some, take, text},
};

/// The annotation with what is shown in it is not larger than what its fields may hold: 32 expressions, description and data of a taint, or the
/// taints of a slice.
const ANNOTATION_BYTES_MAX: usize = 1 << 20;

/// The fields of a kind that only v1alpha3 has: the difference of its tables in v1 and in v1alpha3.
#[derive(Debug)]
pub(super) struct Superset {
    /// The kind in v1alpha3.
    shape: Option<TypeId>,
    /// Fields by the part of the spec that they are in; the spec itself has no name.
    parts: Vec<(&'static str, Vec<&'static str>)>,
    /// Fields of the status, which no client brings back.
    status: Vec<&'static str>,
    /// The names of all fields by which stored bytes are known to have something to hide.
    pub(super) fields: Vec<&'static str>,
}

impl Superset {
    /// Of a kind by its name.
    pub(super) fn of(kind: &str) -> Self {
        let find = |version: &str| builtin().find(&format!("resource/{version}.{kind}"));
        let of = |version: &str| find(version).and_then(|id| builtin().get_struct(id));
        let below = |holder: Option<&'static StructType>, name: &str| {
            holder.and_then(|holder| builtin().get_struct(holder.fields.get(name)?.ty))
        };
        let (narrow, wide) = (of("v1"), of("v1alpha3"));
        let (narrow_spec, wide_spec) = (below(narrow, "spec"), below(wide, "spec"));
        let names = wide_spec.into_iter().flat_map(|spec| spec.fields.keys()).map(String::as_str);
        let inner = names.map(|name| (name, added(below(narrow_spec, name), below(wide_spec, name))));
        let parts: Vec<_> = [("", added(narrow_spec, wide_spec))]
            .into_iter()
            .chain(inner)
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        let status = added(below(narrow, "status"), below(wide, "status"));
        let fields = parts.iter().flat_map(|(_, fields)| fields).chain(&status).copied().collect();
        Self { shape: find("v1alpha3"), parts, status, fields }
    }

    /// Whether an object has something that only v1alpha3 shows.
    pub(super) fn is_used(&self, object: &Value) -> bool {
        let has = |holder: &Value, fields: &[&str]| fields.iter().any(|field| some(holder, field).is_some());
        self.parts.iter().any(|(name, fields)| has(part(&object["spec"], name), fields))
            || has(&object["status"], &self.status)
    }

    /// Moves what only v1alpha3 shows into the annotation.
    pub(super) fn hide(&self, object: &mut Value) {
        if let Some(status) = object.get_mut("status") {
            self.status.iter().for_each(|field| remove(status, field));
        }
        let Some(spec) = object.get_mut("spec") else { return };
        let mut hidden = Value::Object(Map::new());
        for (name, fields) in &self.parts {
            let Some(holder) = part_mut(spec, name) else { continue };
            for field in fields {
                if let Some(value) = take(holder, field) {
                    put(at(&mut hidden, name), field, value);
                }
            }
        }
        if let (Some(selector), Some(shown)) = (spec.get_mut(SELECTOR), hidden.get_mut(SELECTOR)) {
            put_or_remove(shown, "driver", some(selector, "driver").cloned());
            put(selector, "driver", V1ALPHA3_ONLY_DRIVER);
        }
        if hidden.as_object().is_some_and(|parts| !parts.is_empty()) {
            put(field_mut(field_mut(object, "metadata"), "annotations"), ANNOTATION, hidden.to_string());
        }
    }

    /// Brings back what only v1alpha3 shows, in the parts that are still there: from the annotation, or else as it is stored. An annotation that
    /// is not understood stays, for [`validate`] to refuse.
    pub(super) fn restore(&self, object: &mut Value, old: Option<&Value>) {
        if let (Some(status), Some(old)) = (object.get_mut("status"), old) {
            for field in &self.status {
                if let Some(kept) = some(&old["status"], field) {
                    put(status, field, kept.clone());
                }
            }
        }
        let said = self.annotated(object);
        if said.is_some() {
            forget_annotation(object);
        }
        let Some(source) = said.as_ref().or_else(|| old.map(|old| &old["spec"])) else { return };
        let Some(spec) = object.get_mut("spec") else { return };
        if let Some(selector) =
            spec.get_mut(SELECTOR).filter(|selector| selector["driver"] == V1ALPHA3_ONLY_DRIVER)
        {
            put_or_remove(selector, "driver", some(&source[SELECTOR], "driver").cloned());
        }
        for (name, fields) in &self.parts {
            let Some(holder) = part_mut(spec, name).filter(|holder| holder.is_object()) else { continue };
            for field in fields {
                if let Some(value) = some(part(source, name), field) {
                    put(holder, field, value.clone());
                }
            }
        }
    }

    /// The fields in the annotation, in their places in a spec: only if it has nothing else and each is of its type.
    fn annotated(&self, object: &Value) -> Option<Value> {
        let json = some(&object["metadata"]["annotations"], ANNOTATION)?.as_str()?;
        if json.len() > ANNOTATION_BYTES_MAX {
            return None;
        }
        let said = lazaret_schema::parse_json(json.as_bytes()).ok()?.value;
        let known = |name: &str, field: &str| {
            let listed = |(part, fields): &(&str, Vec<&str>)| *part == name && fields.contains(&field);
            self.parts.iter().any(listed) || (name, field) == (SELECTOR, "driver")
        };
        let well_placed = said.as_object()?.iter().all(|(name, value)| match value.as_object() {
            _ if known("", name) => true,
            Some(fields) => fields.keys().all(|field| known(name, field)),
            None => false,
        });
        let mut whole = Value::Object(Map::new());
        put(&mut whole, "spec", said);
        let well_typed = check(builtin(), self.shape?, &mut whole, None, false).is_empty();
        (well_placed && well_typed).then(|| take(&mut whole, "spec")).flatten()
    }
}

/// Refuses what [`Superset::restore`] could not make sense of: nothing of a rule is ever lost silently.
pub(super) fn validate(errors: &mut Errors, object: &Value) {
    if some(&object["metadata"]["annotations"], ANNOTATION).is_some() {
        errors.invalid(
            format!("metadata.annotations[{ANNOTATION}]"),
            "<value omitted>",
            "must be the JSON that a read in another version than v1alpha3 shows; in v1alpha3, write the fields themselves",
        );
    }
    if text(&object["spec"][SELECTOR], "driver") == V1ALPHA3_ONLY_DRIVER {
        errors.invalid(
            "spec.deviceSelector.driver",
            V1ALPHA3_ONLY_DRIVER,
            format!(
                "stands for fields that only v1alpha3 has: keep the annotation {ANNOTATION} that was read with it, or write v1alpha3"
            ),
        );
    }
}

const SELECTOR: &str = "deviceSelector";

/// Fields of a type that another version of it does not have; none of a type that the other version does not know at all.
fn added(narrow: Option<&StructType>, wide: Option<&'static StructType>) -> Vec<&'static str> {
    let Some((narrow, wide)) = narrow.zip(wide) else { return Vec::new() };
    wide.fields.keys().filter(|name| !narrow.fields.contains_key(*name)).map(String::as_str).collect()
}

fn part<'a>(spec: &'a Value, name: &str) -> &'a Value {
    if name.is_empty() { spec } else { &spec[name] }
}

fn part_mut<'a>(spec: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    if name.is_empty() { Some(spec) } else { spec.get_mut(name) }
}

/// A part to be filled, made if need be.
fn at<'a>(spec: &'a mut Value, name: &str) -> &'a mut Value {
    if name.is_empty() { spec } else { field_mut(spec, name) }
}

fn forget_annotation(object: &mut Value) {
    let metadata = field_mut(object, "metadata");
    let annotations = field_mut(metadata, "annotations");
    remove(annotations, ANNOTATION);
    if annotations.as_object().is_some_and(Map::is_empty) {
        remove(metadata, "annotations");
    }
}
