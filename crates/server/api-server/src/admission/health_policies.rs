//! Health policies: nobody describes to a controller what they may not create themselves.

use lazaret_kinds::{Access, Described, FieldProblem, PolicyPlan, Scope, described_object};

use crate::{
    ApiError,
    auth::escalation,
    call::Call,
    kind_ref::KindRef,
    request::{Target, Verb},
};
use lazaret_json::Value;

/// Refuses a policy whose author may not create what it describes, or that names no service account as which it is created. Whoever leaves the spec as
/// it is describes nothing: they need no permission.
pub(super) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<(), ApiError> {
    let is_policy = call.kind.is("lazaret.dev", "devicehealthpolicies");
    if !is_policy || old.is_some_and(|old| old["spec"] == new["spec"]) {
        return Ok(());
    }
    let plan = PolicyPlan::of(new).ok_or_else(|| ApiError::internal("a valid policy cannot be read"))?;
    if let Some(why) = plan.account_refusal(&call.server.repair_namespaces()) {
        return Err(ApiError::forbidden(&call.kind, name, &why));
    }
    plan.objects().iter().try_for_each(|described| may_describe(call, name, described))
}

/// The same questions as if the author created the object.
fn may_describe(call: &Call<'_>, name: &str, described: &Described) -> Result<(), ApiError> {
    let field = &described.field;
    if described.is_policy() {
        return Err(ApiError::invalid_field(
            &call.kind,
            name,
            field,
            FieldProblem::Forbidden("a policy may not describe another DeviceHealthPolicy".into()),
        ));
    }
    let kinds = call.server.kinds();
    let kind =
        kinds.into_iter().find(|kind| *kind.group == *described.group() && *kind.kind == *described.kind);
    let is_cluster_wide = kind.as_ref().is_some_and(|kind| kind.scope == Scope::Cluster);
    let namespace = if is_cluster_wide { "" } else { described.namespace.as_str() };
    // Of a kind that is not served the resource is unknown: it takes the permission for all of its group.
    let resource = kind.as_ref().map_or("*", |kind| &*kind.plural);
    for verb in described.verbs {
        let access = Access {
            verb,
            group: described.group(),
            resource,
            subresource: "",
            namespace,
            name: "",
            fields: &[],
        };
        if call.server.may(call.user, access).is_err() {
            return Err(not_permitted(call, name, described, access));
        }
    }
    kind.map_or(Ok(()), |kind| may_grant(call, name, described, (&kind, namespace)))
}

/// Roles and bindings grant no more than their author holds.
fn may_grant(
    call: &Call<'_>,
    name: &str,
    described: &Described,
    (kind, namespace): (&KindRef, &str),
) -> Result<(), ApiError> {
    let target = Target {
        group: described.group().to_owned(),
        version: described.version().to_owned(),
        namespace: namespace.to_owned(),
        plural: kind.plural.to_string(),
        name: String::new(),
        subresource: String::new(),
    };
    let Some((kind, served)) = call.server.find(&target) else { return Ok(()) };
    let object = described_object(described).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let creation = Call { verb: Verb::Create, kind, served, ..call.on(target) };
    escalation::check(&creation, &object, None).map_err(|error| {
        ApiError::forbidden(&call.kind, name, &format!("{}: {}", described.field, error.message))
    })
}

fn not_permitted(call: &Call<'_>, name: &str, described: &Described, access: Access<'_>) -> ApiError {
    let Access { verb, group, resource, namespace, .. } = access;
    let place = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "{}: who describes a {} to a policy must be permitted to create it: user {:?} cannot {verb} resource {resource:?} in API group {group:?} {place}",
        described.field, described.kind, call.user.name
    );
    ApiError::forbidden(&call.kind, name, &why)
}
