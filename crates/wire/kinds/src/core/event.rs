//! Events: one store, two forms. The stored one is that of the core group; `events.k8s.io` names some fields otherwise.

use lazaret_json::Value;

use crate::{
    Ceiling, Column, Context, Errors, Rules,
    kind::since,
    value::{has, number, put, remove, some, take, text},
};

const NOTE_BYTES_MAX: usize = 1024;
const DEFAULT_NAMESPACE: &str = "default";

/// The names of the same fields in the core group and in `events.k8s.io`.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Either group writes records of owners in its own words, into the one object.
const OTHER_NAMES: &[(&str, &[(&str, &str)])] = &[("events.k8s.io/v1", RENAMED)];

/// Events of the core group.
#[derive(Debug)]
pub(crate) struct CoreEvent;

/// Events of `events.k8s.io`.
#[derive(Debug)]
pub(crate) struct NewEvent;

impl Rules for CoreEvent {
    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Events)
    }

    fn may_exceed_limits(&self) -> bool {
        true
    }

    fn other_names(&self) -> &'static [(&'static str, &'static [(&'static str, &'static str)])] {
        OTHER_NAMES
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        check_namespace(errors, object, "involvedObject.namespace");
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        if let Some(inner) = field.strip_prefix("involvedObject.") {
            return involved(object, inner);
        }
        match field {
            "reason" | "reportingComponent" | "type" => Some(text(object, field).into()),
            "source" => {
                let component = text(&object["source"], "component");
                let reporter = text(object, "reportingComponent");
                Some(if component.is_empty() { reporter } else { component }.into())
            }
            _ => None,
        }
    }

    fn leads_with_name(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        cells(object, context)
    }
}

impl Rules for NewEvent {
    fn ceiling(&self) -> Option<Ceiling> {
        Some(Ceiling::Events)
    }

    fn may_exceed_limits(&self) -> bool {
        true
    }

    fn other_names(&self) -> &'static [(&'static str, &'static [(&'static str, &'static str)])] {
        OTHER_NAMES
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        check_namespace(errors, object, "regarding.namespace");
        let zero = |field: &str| text(object, field).is_empty();
        if zero("eventTime") {
            errors.required("eventTime", "");
        }
        for (field, shown) in [
            ("reportingComponent", "reportingController"),
            ("reportingInstance", "reportingInstance"),
            ("action", "action"),
            ("reason", "reason"),
        ] {
            if zero(field) {
                errors.required(shown, "");
            }
        }
        if text(object, "message").len() > NOTE_BYTES_MAX {
            errors.invalid("message", "", format!("can have at most {NOTE_BYTES_MAX} characters"));
        }
        if !["Normal", "Warning"].contains(&text(object, "type")) {
            errors.invalid("type", text(object, "type"), "has invalid value: use Normal or Warning");
        }
        for (stored, shown) in RENAMED.iter().filter(|(_, shown)| shown.starts_with("deprecated")) {
            if has(object, stored) && object[*stored] != lazaret_json::json!({}) {
                errors.invalid(*shown, object[*stored].clone(), "needs to be unset");
            }
        }
    }

    fn to_version(&self, object: &mut Value, _version: &str) {
        rename(object, RENAMED.iter().copied());
    }

    fn from_version(&self, object: &mut Value, _version: &str, _old: Option<&Value>) {
        rename(object, RENAMED.iter().map(|(stored, shown)| (*shown, *stored)));
    }

    fn differs_in(&self, _object: &Value, _version: &str) -> bool {
        true
    }

    fn select(&self, object: &Value, field: &str) -> Option<String> {
        if let Some(inner) = field.strip_prefix("regarding.") {
            return involved(object, inner);
        }
        match field {
            "reason" | "type" => Some(text(object, field).into()),
            "reportingController" => Some(text(object, "reportingComponent").into()),
            _ => None,
        }
    }

    fn leads_with_name(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        cells(object, context)
    }
}

fn rename<'a>(object: &mut Value, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        match take(object, from) {
            Some(value) => put(object, to, value),
            None => remove(object, from),
        }
    }
}

fn involved(object: &Value, field: &str) -> Option<String> {
    let known = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    known.contains(&field).then(|| text(&object["involvedObject"], field).into())
}

/// An event is where its object is; what has no namespace is reported in the default one.
fn check_namespace(errors: &mut Errors, object: &Value, path: &str) {
    let its = text(&object["metadata"], "namespace");
    let involved = text(&object["involvedObject"], "namespace");
    let fits = if involved.is_empty() {
        ["", DEFAULT_NAMESPACE, "kube-system"].contains(&its)
    } else {
        involved == its
    };
    if !fits {
        errors.invalid(path, involved, "does not match event.namespace");
    }
}

const COLUMNS: &[Column] = &[
    Column::text("Last Seen"),
    Column::text("Type"),
    Column::text("Reason"),
    Column::text("Object"),
    Column::wide("Subobject"),
    Column::wide("Source"),
    Column::text("Message"),
    Column::wide("First Seen"),
    Column::wide("Count"),
    Column::wide("Name"),
];

fn cells(event: &Value, context: &Context<'_>) -> Vec<Value> {
    let ago = |value: &Value, field: &str| {
        Some(text(value, field)).filter(|time| !time.is_empty()).map(|time| since(Some(time), context))
    };
    let unknown = || "<unknown>".to_owned();
    let first = ago(event, "firstTimestamp").or_else(|| ago(event, "eventTime")).unwrap_or_else(unknown);
    let mut last = ago(event, "lastTimestamp").unwrap_or_else(|| first.clone());
    let mut count = number(event, "count").max(1);
    if let Some(series) = some(event, "series") {
        last = ago(series, "lastObservedTime").unwrap_or_else(unknown);
        count = number(series, "count");
    }
    let object = &event["involvedObject"];
    let kind = text(object, "kind").to_lowercase();
    let target = match text(object, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        last.into(),
        text(event, "type").into(),
        text(event, "reason").into(),
        target.into(),
        text(object, "fieldPath").into(),
        source(event).into(),
        text(event, "message").trim().into(),
        first.into(),
        count.into(),
        text(&event["metadata"], "name").into(),
    ]
}

/// The component that reported it, and its host.
fn source(event: &Value) -> String {
    let of = |holder: &Value, component: &str, host: &str| {
        [text(holder, component), text(holder, host)]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match of(&event["source"], "component", "host") {
        said if said.is_empty() => of(event, "reportingComponent", "reportingInstance"),
        said => said,
    }
}
