//! Questions that are asked by creating an object: who am I, may I, is this token good; and tokens themselves.

use lazaret_json::{Value, json};
use lazaret_kinds::{Access, Errors, FieldRequirement, User};

use super::create::place;

use crate::{
    ApiError, admission,
    auth::user_info,
    call::Call,
    input::{FieldValidation, read_message, read_object},
    negotiate, object,
    respond::Answer,
    selector::parse_fields,
};

pub(super) fn create(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let media = negotiate::body(call.content_type.as_deref())?;
    let incoming = read_object(&call.kind, &call.served, media, body, FieldValidation::of(&call.query))?;
    let mut review = incoming.object;
    review["kind"] = (*call.kind.kind).into();
    review["apiVersion"] = call.kind.api_version(&call.served.version).into();
    object::meta_mut(&mut review);
    check(call, &mut review)?;
    if &*call.kind.kind == "SelfSubjectReview" {
        // The answer says when it was given, as Kubernetes' does: a client can hold its clock against it.
        let now = call.with_context(|context| context.timestamp());
        review["metadata"] = json!({"creationTimestamp": now});
    }
    review["status"] = match &*call.kind.kind {
        "SelfSubjectReview" => json!({"userInfo": user_info(call.user)}),
        "SelfSubjectAccessReview" => decision(call, call.user, &review["spec"]),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            decision(call, &subject(&review["spec"]), &review["spec"])
        }
        "TokenReview" if review["spec"]["token"].as_str().is_none_or(str::is_empty) => {
            return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
        }
        "TokenReview" => call.server.review_token(&review["spec"]),
        "SelfSubjectRulesReview" => rules(call, review["spec"]["namespace"].as_str().unwrap_or_default())?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(Answer::value(201, &review).warn(incoming.warnings))
}

/// Holds a question about access against what its kind may ask: one thing, and within a namespace only about that.
fn check(call: &Call<'_>, review: &mut Value) -> Result<(), ApiError> {
    let mut errors = Errors::new();
    let local = &*call.kind.kind == "LocalSubjectAccessReview";
    match &*call.kind.kind {
        "SelfSubjectAccessReview" | "SubjectAccessReview" => {}
        "LocalSubjectAccessReview" => place(call, review)?,
        _ => return Ok(()),
    }
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_null() == path.is_null() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.invalid("spec", path.clone(), why);
    }
    if &*call.kind.kind != "SelfSubjectAccessReview" && is_empty(&spec["user"]) && is_empty(&spec["groups"]) {
        errors.invalid("spec.user", "", "at least one of user or group must be specified");
    }
    for name in ["fieldSelector", "labelSelector"] {
        let (selector, field) = (&resource[name], format!("spec.resourceAttributes.{name}"));
        let (raw, listed) = (!is_empty(&selector["rawSelector"]), !is_empty(&selector["requirements"]));
        if raw && listed {
            let why = "may not specified at the same time as requirements";
            errors.invalid(format!("{field}.rawSelector"), selector["rawSelector"].clone(), why);
        }
        if !selector.is_null() && !raw && !listed {
            let why = format!("when {field} is specified, requirements or rawSelector is required");
            errors.required(format!("{field}.requirements"), &why);
        }
    }
    if local && !resource.is_null() && resource["namespace"].as_str() != Some(&call.target.namespace) {
        let found = resource["namespace"].as_str().unwrap_or_default();
        errors.invalid("spec.resourceAttributes.namespace", found, "must match metadata.namespace");
    }
    if local && !path.is_null() {
        errors.invalid("spec.nonResourceAttributes", path.clone(), "disallowed on this kind of request");
    }
    if errors.is_empty() { Ok(()) } else { Err(ApiError::invalid(&call.kind, "", &errors)) }
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == "" || value.as_array().is_some_and(|list| list.is_empty())
}

/// All rules of the user in a namespace.
fn rules(call: &Call<'_>, namespace: &str) -> Result<Value, ApiError> {
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let Some(rules) = call.server.rules_of(call.user, namespace) else {
        let why = "this server's authorizer does not list rules: ask about each access";
        return Ok(
            json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true, "evaluationError": why}),
        );
    };
    let (paths, resources): (Vec<Value>, Vec<Value>) =
        rules.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

/// A token for a service account.
pub(super) async fn token(call: &Call<'_>, body: &[u8]) -> Result<Answer, ApiError> {
    let media = negotiate::body(call.content_type.as_deref())?;
    let mut request = read_message(media, body, "authentication/v1.TokenRequest")?;
    let name = &call.target.name;
    let account = call
        .server
        .get(&call.kind, &call.target.namespace, name)
        .ok_or_else(|| ApiError::not_found(&call.kind, name))?;
    let warnings = admission::create_subresource(call, &mut request, &account).await?;
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    let metadata = object::meta_mut(&mut request);
    metadata.insert("name", name.clone().into());
    metadata.insert("namespace", call.target.namespace.clone().into());
    let spec = request["spec"].clone();
    request["status"] = call.server.issue_token(&account, &spec).map_err(ApiError::bad_request)?;
    Ok(Answer::value(201, &request).warn(warnings))
}

fn subject(spec: &Value) -> User {
    let strings = |value: &Value| {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: strings(&spec["groups"]),
        extra: spec["extra"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.to_string(), strings(value)))
            .collect(),
    }
}

/// The requirements of a field selector in a review: as text, or one by one with one value each.
fn selected_fields(selector: &Value) -> Vec<FieldRequirement> {
    if let Some(text) = selector["rawSelector"].as_str().filter(|text| !text.is_empty()) {
        return parse_fields(text).unwrap_or_default();
    }
    let requirements = selector["requirements"].as_array().into_iter().flatten();
    let read = |requirement: &Value| {
        let equal = match requirement["operator"].as_str()? {
            "In" => true,
            "NotIn" => false,
            _ => return None,
        };
        let [value] = requirement["values"].as_array()?.as_slice() else { return None };
        Some(FieldRequirement {
            field: requirement["key"].as_str()?.to_owned(),
            value: value.as_str()?.to_owned(),
            equal,
        })
    };
    requirements.filter_map(read).collect()
}

fn decision(call: &Call<'_>, user: &User, spec: &Value) -> Value {
    let outcome = if let Some(attributes) = spec["resourceAttributes"].as_object() {
        let text = |name: &str| attributes.get(name).and_then(Value::as_str).unwrap_or_default();
        call.server.may(
            user,
            Access {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                namespace: text("namespace"),
                name: text("name"),
                fields: &selected_fields(&spec["resourceAttributes"]["fieldSelector"]),
            },
        )
    } else {
        let attributes = &spec["nonResourceAttributes"];
        call.server.may_path(
            user,
            attributes["verb"].as_str().unwrap_or_default(),
            attributes["path"].as_str().unwrap_or_default(),
        )
    };
    match outcome {
        Ok(()) => json!({"allowed": true}),
        Err(reason) if reason.is_empty() => json!({"allowed": false}),
        Err(reason) => json!({"allowed": false, "reason": reason}),
    }
}
