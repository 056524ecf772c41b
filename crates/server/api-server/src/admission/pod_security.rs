//! Pod security: pods that the labels of their namespace do not allow are refused, warned of, or noted.

use std::collections::{BTreeMap, HashSet};

use lazaret_json::Value;
use lazaret_kinds::{
    Errors,
    pod_security::{Level, LevelVersion, Policy, details, reasons, template, violations},
};
use lazaret_storage::RangeOptions;

use crate::{ApiError, call::Call, object};

const LABEL_PREFIX: &str = "pod-security.kubernetes.io/";
/// Existing pods that are checked when a namespace comes to enforce more.
const PODS_CHECKED_MAX: usize = 3_000;

/// Whether a pod may be as it is; what its client is to be warned of.
pub(super) fn validate(
    call: &Call<'_>,
    name: &str,
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    if call.kind.is("", "pods") {
        let asked = ["", "resize", "ephemeralcontainers"].contains(&call.target.subresource.as_str());
        if !asked || old.is_some_and(|old| !is_significant(new, old)) {
            return Ok(Vec::new());
        }
        return policy(call).map_or(Ok(Vec::new()), |policy| evaluate(call, name, policy, new, true));
    }
    if !call.target.subresource.is_empty() {
        return Ok(Vec::new());
    }
    if call.kind.is("", "namespaces") {
        return Ok(old.map(|old| existing_pods(call, name, new, old)).unwrap_or_default());
    }
    let Some(pod) = template(&call.kind, new) else { return Ok(Vec::new()) };
    policy(call).map_or(Ok(Vec::new()), |policy| evaluate(call, name, policy, pod, false))
}

/// The levels of the namespace; `None` if it takes every pod.
fn policy(call: &Call<'_>) -> Option<Policy> {
    let namespaces = lazaret_kinds::find("", "namespaces")?;
    let namespace = call.server.get(namespaces, "", &call.target.namespace)?;
    let policy = Policy::of(&namespace["metadata"]["labels"], &mut Errors::new());
    (!policy.takes_all()).then_some(policy)
}

fn evaluate(
    call: &Call<'_>,
    name: &str,
    policy: Policy,
    pod: &Value,
    enforce: bool,
) -> Result<Vec<String>, ApiError> {
    let (annotations, spec) = (&pod["metadata"]["annotations"], &pod["spec"]);
    let found = |level: LevelVersion| violations(level, annotations, spec, call.server.features().release());
    if enforce {
        let wrong = found(policy.enforce);
        if !wrong.is_empty() {
            let why = format!("violates PodSecurity \"{}\": {}", policy.enforce, details(&wrong));
            return Err(ApiError::forbidden(&call.kind, name, &why));
        }
    }
    let wrong = found(policy.audit);
    if !wrong.is_empty() {
        // DEVIATION(policy-audit): there is no audit log to put it into.
        let violations = format!("would violate PodSecurity \"{}\": {}", policy.audit, details(&wrong));
        tracing::info!(target: "audit", violations, user = call.user.name, resource = %call.kind.plural, name, "audit");
    }
    let wrong = found(policy.warn);
    let warning = || format!("would violate PodSecurity \"{}\": {}", policy.warn, details(&wrong));
    Ok(if wrong.is_empty() { Vec::new() } else { vec![warning()] })
}

/// Whether other programs run in a pod after a change.
fn is_significant(new: &Value, old: &Value) -> bool {
    let images = |pod: &Value, field: &str| -> Vec<String> {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        containers.map(|one| one["image"].as_str().unwrap_or_default().to_owned()).collect()
    };
    ["containers", "initContainers", "ephemeralContainers"].iter().any(|field| {
        !new["spec"][*field].is(&old["spec"][*field]) && images(new, field) != images(old, field)
    })
}

/// A namespace comes to enforce more: of which of its pods to warn.
fn existing_pods(call: &Call<'_>, namespace: &str, new: &Value, old: &Value) -> Vec<String> {
    let labels = |namespace: &Value| namespace["metadata"]["labels"].clone();
    let asks = |labels: &Value| {
        labels.as_object().is_some_and(|all| all.iter().any(|(label, _)| label.starts_with(LABEL_PREFIX)))
    };
    if !asks(&labels(new)) {
        return Vec::new();
    }
    let of = |namespace: &Value| Policy::of(&labels(namespace), &mut Errors::new()).enforce;
    let (enforce, before) = (of(new), of(old));
    let looser = enforce.has_version_of(before) && enforce.level() <= before.level();
    if enforce == before || enforce.level() == Level::Privileged || looser {
        return Vec::new();
    }
    let Some(pods) = lazaret_kinds::find("", "pods") else { return Vec::new() };
    let range = call.store().range(object::key(pods, namespace, "").as_bytes(), &RangeOptions::default());
    let items = range.map(|range| range.items).unwrap_or_default();
    let pods: Vec<Value> = items.iter().map(|item| call.server.object_cache().get(item)).collect();
    warnings(call, namespace, enforce, &pods)
}

fn warnings(call: &Call<'_>, namespace: &str, enforce: LevelVersion, pods: &[Value]) -> Vec<String> {
    let mut by_reason: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in one_of_each_owner_first(pods).into_iter().take(PODS_CHECKED_MAX) {
        let release = call.server.features().release();
        let wrong = violations(enforce, &pod["metadata"]["annotations"], &pod["spec"], release);
        if wrong.is_empty() {
            continue;
        }
        let name = object::meta(pod, "name");
        let entry = by_reason.entry(reasons(&wrong)).or_insert_with(|| (name.to_owned(), 0));
        if name < entry.0.as_str() {
            name.clone_into(&mut entry.0);
        }
        entry.1 += 1;
    }
    let mut warnings = Vec::new();
    if pods.len() > PODS_CHECKED_MAX {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {PODS_CHECKED_MAX} of {} existing pods",
            pods.len()
        ));
    }
    if !by_reason.is_empty() {
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let mut each: Vec<String> = by_reason
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            _ => format!("{pod} (and {} other pods): {reasons}", count - 1),
        })
        .collect();
    each.sort();
    warnings.extend(each);
    warnings
}

/// Pods of one owner are alike.
fn one_of_each_owner_first(pods: &[Value]) -> Vec<&Value> {
    let mut seen = HashSet::new();
    let owner = |pod: &Value| {
        let owners = pod["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let mut owners = owners.filter(|owner| owner["controller"] == true);
        owners.next().and_then(|owner| owner["uid"].as_str()).map(str::to_owned)
    };
    let (first, rest): (Vec<&Value>, Vec<&Value>) =
        pods.iter().partition(|pod| owner(pod).is_none_or(|uid| seen.insert(uid)));
    first.into_iter().chain(rest).collect()
}
