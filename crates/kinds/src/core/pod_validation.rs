//! What is wrong with a pod, a template of pods, or a change of either.

use std::collections::BTreeSet;

use lazaret_model::{validate_dns_label, validate_dns_subdomain};
use serde_json::Value;

use crate::{
    Errors, FieldProblem,
    check::{dns_label, each_named, label_name, label_value, name, not_supported},
    path::Path,
    value::{
        entries, has, is_filled, list, list_mut, number, put_or_remove, quantity, remove, same, some, text,
    },
};

const MIRROR: &str = "kubernetes.io/config.mirror";
/// What a pod may change of its spec, as refusals list it.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const SECONDS_MAX: i64 = i32::MAX as i64;

/// A new pod.
pub(super) fn create(errors: &mut Errors, pod: &Value) {
    let spec = &pod["spec"];
    let path = Path::root("spec");
    self::spec(errors, &path, spec);
    if is_filled(spec, "resourceClaims") && has(&pod["metadata"]["annotations"], MIRROR) {
        errors.forbidden("", "static pods do not support resource claims");
    }
    if is_filled(spec, "ephemeralContainers") {
        errors.forbidden(path.field("ephemeralContainers"), "cannot be set on create");
    }
    if is_filled(spec, "schedulingGates") && is_filled(spec, "nodeName") {
        errors.forbidden(path.field("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
}

/// A spec, in a pod or in a template.
pub(crate) fn spec(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    each_named(
        errors,
        &path.field("volumes"),
        list(spec, "volumes"),
        usize::MAX,
        "name",
        |errors, path, volume| {
            dns_label(errors, &path.field("name"), text(volume, "name"));
        },
    );
    resource_claims(errors, &path.field("resourceClaims"), list(spec, "resourceClaims"));
    if list(spec, "containers").is_empty() {
        errors.required(path.field("containers"), "");
    }
    let mut names = BTreeSet::new();
    for field in ["containers", "initContainers"] {
        let path = path.field(field);
        for (at, container) in list(spec, field).iter().enumerate() {
            let path = path.index(at);
            let name = text(container, "name");
            if !name.is_empty() && !names.insert(name) {
                errors.push(path.field("name"), FieldProblem::Duplicate(name.into()));
            }
            self::container(errors, &path, container, spec);
        }
    }
    choice(errors, path, spec, "restartPolicy", &["Always", "OnFailure", "Never"]);
    choice(errors, path, spec, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    choice(errors, path, spec, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    scheduling(errors, path, spec);
}

fn scheduling(errors: &mut Errors, path: &Path<'_>, spec: &Value) {
    for (key, value) in entries(spec, "nodeSelector") {
        label_name(errors, &path.field("nodeSelector"), key);
        label_value(errors, &path.field("nodeSelector"), value.as_str().unwrap_or_default());
    }
    for (field, valid) in
        [("serviceAccountName", true), ("nodeName", true), ("hostname", false), ("subdomain", false)]
    {
        let text = text(spec, field);
        if !text.is_empty() {
            let check = if valid { validate_dns_subdomain } else { validate_dns_label };
            name(errors, &path.field(field), text, check);
        }
    }
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        let seconds = number(spec, "terminationGracePeriodSeconds");
        errors.invalid(
            path.field("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than or equal to 0",
        );
    }
    if let Some(seconds) = some(spec, "activeDeadlineSeconds").and_then(Value::as_i64)
        && !(1..=SECONDS_MAX).contains(&seconds)
    {
        errors.invalid(
            path.field("activeDeadlineSeconds"),
            seconds,
            "must be between 1 and 2147483647, inclusive",
        );
    }
    let gates = list(spec, "schedulingGates");
    each_named(errors, &path.field("schedulingGates"), gates, usize::MAX, "name", |errors, path, gate| {
        label_name(errors, &path.field("name"), text(gate, "name"));
    });
    for (at, toleration) in list(spec, "tolerations").iter().enumerate() {
        self::toleration(errors, &path.field("tolerations").index(at), toleration);
    }
    if let Some(required) = spec
        .pointer("/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution")
        .filter(|required| !required.is_null())
    {
        let path = path.field("affinity");
        let path = path.field("nodeAffinity");
        let path = path.field("requiredDuringSchedulingIgnoredDuringExecution");
        crate::check::node_selector(errors, &path, required);
    }
}

fn toleration(errors: &mut Errors, path: &Path<'_>, toleration: &Value) {
    let (key, operator, effect) =
        (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
    if !key.is_empty() {
        label_name(errors, &path.field("key"), key);
    } else if operator != "Exists" {
        errors.invalid(
            path.field("operator"),
            operator,
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    match operator {
        "" | "Equal" => label_value(errors, &path.field("value"), text(toleration, "value")),
        "Exists" if is_filled(toleration, "value") => {
            errors.invalid(
                path.field("operator"),
                text(toleration, "value"),
                "value must be empty when `operator` is 'Exists'",
            );
        }
        "Exists" | "Lt" | "Gt" => {}
        other => errors.push(path.field("operator"), not_supported(other, &["Equal", "Exists"])),
    }
    if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
        errors.invalid(
            path.field("effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        );
    }
    if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
        errors.push(path.field("effect"), not_supported(effect, TAINT_EFFECTS));
    }
}

/// What a taint of a node does.
pub(super) const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn choice(errors: &mut Errors, path: &Path<'_>, holder: &Value, field: &str, known: &[&str]) {
    let chosen = text(holder, field);
    if !chosen.is_empty() && !known.contains(&chosen) {
        errors.push(path.field(field), not_supported(chosen, known));
    }
}

/// Claims of a pod: each has a name and exactly one source.
fn resource_claims(errors: &mut Errors, path: &Path<'_>, claims: &[Value]) {
    let mut names = BTreeSet::new();
    for (at, claim) in claims.iter().enumerate() {
        let path = path.index(at);
        let its_name = text(claim, "name");
        if its_name.is_empty() {
            errors.required(path.field("name"), "");
        } else if names.insert(its_name) {
            dns_label(errors, &path.field("name"), its_name);
        } else {
            errors.push(path.field("name"), FieldProblem::Duplicate(its_name.into()));
        }
        let sources: Vec<&str> = ["resourceClaimName", "resourceClaimTemplateName"]
            .into_iter()
            .filter(|field| has(claim, field))
            .collect();
        match sources.len() {
            0 => errors.invalid(
                path,
                claim.clone(),
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
            1 => {}
            _ => errors.invalid(
                path,
                claim.clone(),
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        }
        for source in sources {
            name(errors, &path.field(source), text(claim, source), validate_dns_subdomain);
        }
    }
}

fn container(errors: &mut Errors, path: &Path<'_>, container: &Value, spec: &Value) {
    match text(container, "name") {
        "" => errors.required(path.field("name"), ""),
        name => dns_label(errors, &path.field("name"), name),
    }
    let image = text(container, "image");
    if image.is_empty() {
        errors.required(path.field("image"), "");
    } else if image.trim() != image {
        errors.invalid(path.field("image"), image, "must not have leading or trailing whitespace");
    }
    choice(errors, path, container, "imagePullPolicy", &["Always", "IfNotPresent", "Never"]);
    choice(errors, path, container, "terminationMessagePolicy", &["FallbackToLogsOnError", "File"]);
    for (at, port) in list(container, "ports").iter().enumerate() {
        let path = path.field("ports");
        let path = path.index(at);
        let port_number = number(port, "containerPort");
        if !(1..=65_535).contains(&port_number) {
            errors.invalid(
                path.field("containerPort"),
                port_number,
                "must be between 1 and 65535, inclusive",
            );
        }
        choice(errors, &path, port, "protocol", &["SCTP", "TCP", "UDP"]);
    }
    for (at, variable) in list(container, "env").iter().enumerate() {
        if text(variable, "name").is_empty() {
            errors.required(path.field("env").index(at).field("name"), "");
        }
    }
    let volumes: BTreeSet<&str> = list(spec, "volumes").iter().map(|volume| text(volume, "name")).collect();
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = path.field("volumeMounts");
        let path = path.index(at);
        match text(mount, "name") {
            "" => errors.required(path.field("name"), ""),
            name if !volumes.contains(name) => {
                errors.push(path.field("name"), FieldProblem::NotFound(name.into()))
            }
            _ => {}
        }
        if text(mount, "mountPath").is_empty() {
            errors.required(path.field("mountPath"), "");
        }
    }
    resources(errors, &path.field("resources"), &container["resources"], list(spec, "resourceClaims"));
}

fn resources(errors: &mut Errors, path: &Path<'_>, resources: &Value, claims: &[Value]) {
    for field in ["limits", "requests"] {
        let path = path.field(field);
        for (resource, value) in entries(resources, field) {
            match quantity(value) {
                None => errors.invalid(path.key(resource), value.clone(), "must be a quantity"),
                Some(amount) if amount.is_negative() => {
                    errors.invalid(path.key(resource), value.clone(), "must be greater than or equal to 0");
                }
                Some(_) => {}
            }
        }
    }
    for (resource, value) in entries(resources, "requests") {
        let limit = resources["limits"].get(resource).and_then(quantity);
        if let (Some(request), Some(limit)) = (quantity(value), limit)
            && request > limit
        {
            errors.invalid(
                path.field("requests"),
                request.to_string(),
                format!("must be less than or equal to {resource} limit of {limit}"),
            );
        }
    }
    claim_references(errors, &path.field("claims"), list(resources, "claims"), claims);
}

/// A container uses claims of the pod, each as a whole or by its requests, and none twice.
fn claim_references(errors: &mut Errors, path: &Path<'_>, references: &[Value], claims: &[Value]) {
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (at, reference) in references.iter().enumerate() {
        let path = path.index(at);
        let (claim, request) = (text(reference, "name"), text(reference, "request"));
        if claim.is_empty() {
            errors.required(path, "");
            continue;
        }
        if !request.is_empty() {
            dns_label(errors, &path.field("request"), request);
        }
        let overlaps = if request.is_empty() {
            seen.iter().any(|(known, _)| *known == claim)
        } else {
            seen.contains(&(claim, "")) || seen.contains(&(claim, request))
        };
        if overlaps {
            errors.push(path, FieldProblem::Duplicate(claim.into()));
        }
        seen.insert((claim, request));
        if !claims.iter().any(|known| text(known, "name") == claim) {
            errors.push(path, FieldProblem::NotFound(claim.into()));
        }
    }
}

/// A changed pod: little of the spec may change.
pub(super) fn update(errors: &mut Errors, new: &Value, old: &Value) {
    let (spec, before) = (&new["spec"], &old["spec"]);
    if same(spec, before) {
        return;
    }
    let path = Path::root("spec");
    self::spec(errors, &path, spec);
    for field in ["containers", "initContainers"] {
        if list(spec, field).len() != list(before, field).len() {
            errors.forbidden(path.field(field), "pod updates may not add or remove containers");
            return;
        }
    }
    deadline(errors, &path, spec, before);
    let kept = |toleration: &Value| {
        list(spec, "tolerations").iter().any(|item| {
            let mut item = item.clone();
            put_or_remove(&mut item, "tolerationSeconds", toleration.get("tolerationSeconds").cloned());
            same(&item, toleration)
        })
    };
    if !list(before, "tolerations").iter().all(kept) {
        errors.forbidden(
            path.field("tolerations"),
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    for (at, gate) in list(spec, "schedulingGates").iter().enumerate() {
        if !list(before, "schedulingGates").iter().any(|known| same(known, gate)) {
            let path = path.field("schedulingGates");
            let why =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            errors.forbidden(path.index(at).field("name"), why);
        }
    }
    let gated = !list(before, "schedulingGates").is_empty();
    if gated {
        let lost =
            entries(before, "nodeSelector").any(|(key, value)| spec["nodeSelector"].get(key) != Some(value));
        if lost {
            errors.invalid(
                path.field("nodeSelector"),
                Value::Null,
                "only additions to spec.nodeSelector are allowed",
            );
        }
    }
    if !same(&unchangeable(spec, gated), &unchangeable(before, gated)) {
        errors.forbidden(path, format!("pod updates may not change fields other than {CHANGEABLE}"));
    }
}

fn deadline(errors: &mut Errors, path: &Path<'_>, spec: &Value, before: &Value) {
    const FIELD: &str = "activeDeadlineSeconds";
    let of = |spec: &Value| some(spec, FIELD).and_then(Value::as_i64);
    match (of(spec), of(before)) {
        (Some(new), Some(old)) if new > old => {
            errors.invalid(path.field(FIELD), new, "must be less than or equal to previous value");
        }
        (None, Some(_)) => {
            errors.invalid(
                path.field(FIELD),
                Value::Null,
                "must not update from a positive integer to nil value",
            );
        }
        _ => {}
    }
}

/// A spec without what may change.
fn unchangeable(spec: &Value, gated: bool) -> Value {
    let mut spec = spec.clone();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        remove(&mut spec, field);
    }
    for field in ["containers", "initContainers"] {
        list_mut(&mut spec, field).iter_mut().for_each(|container| remove(container, "image"));
    }
    if gated {
        remove(&mut spec, "nodeSelector");
        if let Some(affinity) = spec.get_mut("affinity") {
            remove(affinity, "nodeAffinity");
        }
    }
    spec
}

/// A changed status.
pub(super) fn status(errors: &mut Errors, new: &Value, old: &Value) {
    let status = &new["status"];
    let path = Path::root("status");
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() {
        name(errors, &path.field("nominatedNodeName"), nominated, validate_dns_subdomain);
    }
    let quality = text(&old["status"], "qosClass");
    if !quality.is_empty() && text(status, "qosClass") != quality {
        errors.invalid(path.field("qosClass"), text(status, "qosClass"), crate::check::IMMUTABLE);
    }
    let claims = list(&new["spec"], "resourceClaims");
    let statuses = path.field("resourceClaimStatuses");
    each_named(
        errors,
        &statuses,
        list(status, "resourceClaimStatuses"),
        usize::MAX,
        "name",
        |errors, path, entry| {
            let its_name = text(entry, "name");
            if !claims.iter().any(|claim| text(claim, "name") == its_name) {
                errors.invalid(
                    path.field("name"),
                    its_name,
                    "must match the name of an entry in `spec.resourceClaims`",
                );
            }
            if has(entry, "resourceClaimName") {
                name(
                    errors,
                    &path.field("resourceClaimName"),
                    text(entry, "resourceClaimName"),
                    validate_dns_subdomain,
                );
            }
        },
    );
    if let Some(extended) = some(status, "extendedResourceClaimStatus") {
        extended_claim(errors, &path.field("extendedResourceClaimStatus"), extended, &new["spec"]);
    }
}

fn extended_claim(errors: &mut Errors, path: &Path<'_>, extended: &Value, spec: &Value) {
    match text(extended, "resourceClaimName") {
        "" => errors.required(path.field("resourceClaimName"), ""),
        claim => name(errors, &path.field("resourceClaimName"), claim, validate_dns_subdomain),
    }
    let mappings = path.field("requestMappings");
    if list(extended, "requestMappings").is_empty() {
        errors.required(mappings, "at least one request mapping is required");
    }
    for (at, mapping) in list(extended, "requestMappings").iter().enumerate() {
        let path = mappings.index(at);
        let known = ["containers", "initContainers"].iter().any(|field| {
            list(spec, field)
                .iter()
                .any(|container| text(container, "name") == text(mapping, "containerName"))
        });
        if !known {
            let container = text(mapping, "containerName");
            errors.push(path.field("containerName"), FieldProblem::NotFound(container.into()));
        }
        for field in ["resourceName", "requestName"] {
            if text(mapping, field).is_empty() {
                errors.required(path.field(field), "");
            }
        }
    }
}
