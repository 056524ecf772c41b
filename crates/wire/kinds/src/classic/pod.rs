//! Classic claims of pods: an entry with a `template`, or one that names a claim by `classicClaimName`. The enhancement calls that
//! `resourceClaimName`, which names a claim of `resource.k8s.io` today: a node that does not know classic claims must not take one for the other.
//!
//! The enhancement writes a template without `spec`, and the claims of a container as names alone. Both become what is stored: a template
//! with metadata and spec, and references by `name`.

use lazaret_classic::{ClaimSpec, Pod, PodClaim, PodClaimSource, Template};
use lazaret_json::{Map, Value};
use lazaret_model::ObjectKey;
use std::sync::Arc;

use super::{FEATURE, MODES, errors::add};
use crate::{
    Errors, Features, Kind,
    check::not_supported,
    path::Path,
    value::{entries, field_mut, has, is_filled, list, list_mut, put, take, text},
};

const CLAIM_NAME: &str = "classicClaimName";
const SPEC_FIELDS: &[&str] = &["resourceClassName", "parameters", "allocationMode"];
const CONTAINERS: &[&str] = &["initContainers", "containers", "ephemeralContainers"];

/// Whether an entry of `spec.resourceClaims` means a classic claim.
pub(crate) fn is_classic(entry: &Value) -> bool {
    has(entry, "template") || has(entry, CLAIM_NAME)
}

/// Brings the pods in an object, as the enhancement writes their claims, into the form that is stored.
pub fn convert_pods(kind: &Kind, object: &mut Value) {
    convert(kind, object, |template| !has(template, "spec"));
}

/// The same for the result of a patch. A patch that `kubectl apply` makes of the enhancement's form puts the spec of a template beside the one that is
/// stored, which it replaces.
pub fn convert_patched_pods(kind: &Kind, object: &mut Value) {
    convert(kind, object, |_| true);
}

fn convert(kind: &Kind, object: &mut Value, may_be_flat: impl Fn(&Value) -> bool) {
    let steps: &[&str] = match (&*kind.group, &*kind.plural) {
        ("", "pods") => &["spec"],
        ("", "podtemplates") => &["template", "spec"],
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs") => &["spec", "template", "spec"],
        ("batch", "cronjobs") => &["spec", "jobTemplate", "spec", "template", "spec"],
        _ => return,
    };
    let found = steps.iter().try_fold(&*object, |value, step| value.get(step));
    if !found.is_some_and(|spec| spec.is_object() && is_filled(spec, "resourceClaims")) {
        return;
    }
    let spec = steps.iter().fold(object, |value, step| field_mut(value, step));
    for entry in list_mut(spec, "resourceClaims") {
        if entry.get("template").is_some_and(|template| is_flat(template) && may_be_flat(template)) {
            convert_template(field_mut(entry, "template"));
        }
    }
    for field in CONTAINERS {
        for container in list_mut(spec, field) {
            let names = container.get("resources").map_or(&[][..], |resources| list(resources, "claims"));
            if !names.iter().any(Value::is_string) {
                continue;
            }
            for claim in list_mut(field_mut(container, "resources"), "claims") {
                if let Value::String(name) = claim {
                    let name = Value::String(name.clone());
                    *claim = Value::Object(Map::from_iter([("name", name)]));
                }
            }
        }
    }
}

/// A template whose spec stands in the template itself.
fn is_flat(template: &Value) -> bool {
    template.is_object() && SPEC_FIELDS.iter().any(|field| has(template, field))
}

fn convert_template(template: &mut Value) {
    let fields: Vec<(&str, Value)> =
        SPEC_FIELDS.iter().filter_map(|field| Some((*field, take(template, field)?))).collect();
    put(template, "spec", Value::Object(Map::from_iter(fields)));
}

/// A new pod with classic claims is refused while they are off. One that is there already is left alone.
pub(crate) fn check_feature(errors: &mut Errors, spec: &Value, features: &Features) {
    if features.is_on(FEATURE) {
        return;
    }
    for (at, _) in list(spec, "resourceClaims").iter().enumerate().filter(|(_, entry)| is_classic(entry)) {
        let path = Path::root("spec");
        let path = path.field("resourceClaims");
        errors.forbidden(path.index(at), format!("the feature gate {FEATURE} is off"));
    }
}

/// An entry that means a classic claim, apart from its name. `pod`: the name of the pod, empty in a template.
pub(crate) fn check_pod_claim(errors: &mut Errors, path: &Path<'_>, pod: &str, entry: &Value) {
    for field in
        ["resourceClaimName", "resourceClaimTemplateName"].into_iter().filter(|field| has(entry, field))
    {
        errors.forbidden(path.field(field), "may not be set together with `classicClaimName` or `template`");
    }
    let mode = text(&entry["template"]["spec"], "allocationMode");
    if !mode.is_empty() && !MODES.contains(&mode) {
        let path = path.field("template");
        let path = path.field("spec");
        return errors.push(path.field("allocationMode"), not_supported(mode, MODES));
    }
    let claim = PodClaim { name: text(entry, "name").into(), source: source(entry) };
    let key = ObjectKey { name: pod.into(), ..ObjectKey::default() };
    let found = lazaret_classic::validate_pod_claims(&Pod { key, claims: vec![claim], ..Pod::default() });
    let known: Vec<String> = errors.list().iter().map(|error| error.path.clone()).collect();
    let place = |at: &str| format!("{path}{}", at.strip_prefix("spec.resourceClaims[0]").unwrap_or_default());
    // The error in the name of an entry is already reported.
    let found = found.into_iter().filter(|error| !known.contains(&place(&error.path)));
    add(errors, found.collect(), place);
}

fn source(entry: &Value) -> Option<PodClaimSource> {
    let template = entry.get("template").filter(|template| template.is_object()).map(template);
    let name = has(entry, CLAIM_NAME).then(|| text(entry, CLAIM_NAME).into());
    match (name, template) {
        (Some(name), Some(template)) => Some(PodClaimSource::Both(name, template)),
        (Some(name), None) => Some(PodClaimSource::Named(name)),
        (None, Some(template)) => Some(PodClaimSource::Template(template)),
        (None, None) => None,
    }
}

fn template(template: &Value) -> Arc<Template> {
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    let map = |field: &str| {
        let text = |value: &Value| value.as_str().unwrap_or_default().into();
        entries(metadata, field).map(|(key, value)| (key.as_str().into(), text(value))).collect()
    };
    let others = metadata.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let others =
        others.filter(|field| !["labels", "annotations"].contains(field) && is_filled(metadata, field));
    let parameters = spec.get("parameters").filter(|value| !value.is_null());
    Arc::new(Template {
        labels: map("labels"),
        annotations: map("annotations"),
        other_metadata: others.map(Into::into).collect(),
        spec: Arc::new(ClaimSpec {
            class_name: text(spec, "resourceClassName").into(),
            parameters: parameters.map(|value| value.to_string().into()).unwrap_or_default(),
            ..ClaimSpec::default()
        }),
    })
}
