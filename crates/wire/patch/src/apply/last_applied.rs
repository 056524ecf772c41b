//! Objects that `kubectl apply` manages with and without `--server-side`. Without it, kubectl keeps what it applied in an annotation.
//!
//! The manager `kubectl` takes over what the annotation lists, and keeps the annotation up to date for the next plain apply. Any other
//! manager name opts out.

use lazaret_json::Value;
use lazaret_schema::{Schema, TypeId};

use super::{compare, request::ApplyRequest};
use crate::FieldSet;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const MANAGER: &str = "kubectl";
/// Bytes that the names and values of all annotations of an object may take together.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;

/// Fields that a plain `kubectl apply` set and that are still as it set them.
pub(super) fn unchanged_fields(
    schema: &Schema,
    ty: TypeId,
    live: &Value,
    request: &ApplyRequest<'_>,
) -> FieldSet {
    let applied = annotation(live).filter(|_| request.manager == MANAGER);
    let applied = applied.and_then(|text| serde_json::from_str::<Value>(text).ok());
    match applied {
        Some(mut applied) if applied["apiVersion"] == request.api_version => {
            (request.compared.0)(&mut applied);
            let since = compare::compare(schema, ty, &applied, live);
            FieldSet::of(schema, ty, &applied).difference(&since.changed).difference(&since.removed)
        }
        Some(_) | None => FieldSet::default(),
    }
}

/// Writes what the manager `kubectl` applied into the annotation, if the object has it.
pub fn note_last_applied(
    object: &mut Value,
    manager: &str,
    config: &Value,
    (api_version, kind): (&str, &str),
) {
    if manager != MANAGER || annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    config["apiVersion"] = api_version.into();
    config["kind"] = kind.into();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else { return };
    annotations.remove(ANNOTATION);
    let text = format!("{config}\n");
    let others: usize =
        annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
    if others + ANNOTATION.len() + text.len() <= ANNOTATION_BYTES_MAX {
        annotations.insert(ANNOTATION, text.into());
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"].get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use lazaret_json::json;

    use super::*;

    fn object(text: &str) -> Value {
        json!({"metadata": {"annotations": {ANNOTATION: text, "a": "b"}}})
    }

    #[test]
    fn the_annotation_follows_what_kubectl_applies() {
        let config =
            json!({"metadata": {"name": "x", "annotations": {ANNOTATION: "old"}}, "data": {"k": "v"}});
        let mut written = object("{}");
        note_last_applied(&mut written, MANAGER, &config, ("v1", "ConfigMap"));
        let text = annotation(&written).unwrap();
        let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "annotations": {}}, "data": {"k": "v"}});
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), wanted);
        assert!(text.ends_with("}\n"));

        let mut others = object("{}");
        note_last_applied(&mut others, "someone", &config, ("v1", "ConfigMap"));
        assert_eq!(others, object("{}"), "another manager leaves it alone");
        let mut bare = json!({"metadata": {"annotations": {"a": "b"}}});
        note_last_applied(&mut bare, MANAGER, &config, ("v1", "ConfigMap"));
        assert_eq!(bare, json!({"metadata": {"annotations": {"a": "b"}}}), "none is made");
    }

    #[test]
    fn an_annotation_that_would_not_fit_goes() {
        let config = json!({"data": {"k": "v".repeat(ANNOTATION_BYTES_MAX)}});
        let mut written = object("{}");
        note_last_applied(&mut written, MANAGER, &config, ("v1", "ConfigMap"));
        assert_eq!(written, json!({"metadata": {"annotations": {"a": "b"}}}));
    }
}
