//! Classic claims in pod templates, which Kubernetes' own types leave out.
//!
//! While an object is typed, an entry that names a classic claim, or has a template for one, names a claim or a template of `resource.k8s.io` with a slash in its name,
//! which none can have. Controllers compare, hash and copy such entries like any other. Every write has them as they were.

use alloc::{
    borrow::{Cow, ToOwned},
    format,
    string::{String, ToString},
};

use serde_json::Value;

const ENTRIES: &str = "resourceClaims";
const NAMED: &str = "cdi.k8s.io/claim/";
const MADE: &str = "cdi.k8s.io/template/";

/// An object as typed objects can hold it, from JSON to JSON. Most objects do not speak of claims at all, and are read once.
///
/// # Errors
/// When it is not JSON.
pub(crate) fn typed(text: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    if !text.contains(ENTRIES) {
        return Ok(Cow::Borrowed(text));
    }
    let mut object = serde_json::from_str(text)?;
    hide(&mut object);
    serde_json::to_string(&object).map(Cow::Owned)
}

fn hide(object: &mut Value) {
    for_each(object, &|entry| {
        if let Some(name) = entry["classicClaimName"].as_str() {
            let name = format!("{NAMED}{name}");
            replace(entry, "classicClaimName", "resourceClaimName", name.into());
        } else if !entry["template"].is_null() {
            let name = format!("{MADE}{}", entry["template"]);
            replace(entry, "template", "resourceClaimTemplateName", name.into());
        }
    });
}

/// Entries as the API has them.
pub(crate) fn show(object: &mut Value) {
    for_each(object, &|entry| {
        if let Some(name) = hidden(entry, "resourceClaimName", NAMED) {
            replace(entry, "resourceClaimName", "classicClaimName", name.into());
        } else if let Some(text) = hidden(entry, "resourceClaimTemplateName", MADE)
            && let Ok(template) = serde_json::from_str(&text)
        {
            replace(entry, "resourceClaimTemplateName", "template", template);
        }
    });
}

fn hidden(entry: &Value, field: &str, prefix: &str) -> Option<String> {
    entry[field].as_str()?.strip_prefix(prefix).map(ToOwned::to_owned)
}

fn replace(entry: &mut Value, old: &str, new: &str, value: Value) {
    if let Some(entry) = entry.as_object_mut() {
        entry.remove(old);
        entry.insert(new.to_string(), value);
    }
}

/// Each entry anywhere in an object, whose depth the parser limits: templates are in objects of seven kinds, at four depths.
fn for_each(value: &mut Value, change: &impl Fn(&mut Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Array(entries) if name == ENTRIES => {
                        entries.iter_mut().filter(|entry| entry.is_object()).for_each(change);
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                    Value::Array(_) | Value::Object(_) => for_each(field, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_each(item, change)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use serde_json::json;

    #[test]
    fn entries_survive_a_typed_template() {
        let entries = json!([
            {"name": "a", "classicClaimName": "shared"},
            {"name": "b", "template": {"spec": {"resourceClassName": "x", "parameters": {"memory": "2Gi"}}}},
            {"name": "c", "resourceClaimName": "today"},
            {"name": "d", "resourceClaimTemplateName": "t"},
        ]);
        let object = json!({"spec": {"containers": [], "resourceClaims": entries}});
        let typed: PodTemplateSpec = serde_json::from_str(&typed(&object.to_string()).unwrap()).unwrap();
        let mut back = json!({"spec": {"template": typed}});
        show(&mut back);
        assert_eq!(back["spec"]["template"]["spec"]["resourceClaims"], entries);
    }
}
