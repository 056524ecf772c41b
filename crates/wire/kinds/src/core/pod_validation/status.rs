//! Validation of the status of a pod.

use std::net::IpAddr;

use lazaret_json::Value;
use lazaret_model::validate_dns_subdomain;

use crate::{
    Errors, FieldProblem,
    check::{each_named, label_name, name},
    path::Path,
    value::{ByText, has, list, number, some, text},
};

/// A changed status.
pub(in crate::core) fn status(errors: &mut Errors, new: &Value, old: &Value) {
    let status = &new["status"];
    let path = Path::root("status");
    let nominated = text(status, "nominatedNodeName");
    if !nominated.is_empty() && nominated != text(&old["status"], "nominatedNodeName") {
        if !text(&old["spec"], "nodeName").is_empty() {
            let why = "may not be set on pods that are already bound to a node";
            errors.forbidden(path.field("nominatedNodeName"), why);
        }
        name(errors, &path.field("nominatedNodeName"), nominated, validate_dns_subdomain);
    }
    let quality = text(&old["status"], "qosClass");
    if !quality.is_empty() && text(status, "qosClass") != quality {
        errors.invalid(path.field("qosClass"), text(status, "qosClass"), crate::check::IMMUTABLE);
    }
    conditions(errors, &path, status);
    for (field, containers) in
        [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")]
    {
        check_not_restarted(
            errors,
            &path.field(field),
            (list(status, field), list(&old["status"], field)),
            &old["spec"],
            containers,
        );
    }
    addresses(errors, &path.field("podIPs"), status);
    let claims = ByText::of(list(&new["spec"], "resourceClaims"), "name");
    let statuses = path.field("resourceClaimStatuses");
    each_named(
        errors,
        &statuses,
        list(status, "resourceClaimStatuses"),
        usize::MAX,
        "name",
        |errors, path, entry| {
            let its_name = text(entry, "name");
            if !claims.has(its_name) {
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

fn conditions(errors: &mut Errors, path: &Path<'_>, status: &Value) {
    if number(status, "observedGeneration") < 0 {
        let generation = number(status, "observedGeneration");
        errors.invalid(path.field("observedGeneration"), generation, "must be a non-negative integer");
    }
    for (at, condition) in list(status, "conditions").iter().enumerate() {
        let path = path.field("conditions");
        let path = path.index(at);
        if number(condition, "observedGeneration") < 0 {
            let generation = number(condition, "observedGeneration");
            errors.invalid(path.field("observedGeneration"), generation, "must be a non-negative integer");
        }
        label_name(errors, &path.field("Type"), text(condition, "type"));
    }
}

/// A container that has ended for good stays so.
fn check_not_restarted(
    errors: &mut Errors,
    path: &Path<'_>,
    (new, old): (&[Value], &[Value]),
    spec: &Value,
    containers: &str,
) {
    let all_restart = restarts_all(spec);
    let ended =
        |status: &Value| status.pointer("/state/terminated").filter(|state| state.is_object()).cloned();
    let new = ByText::of(new, "name");
    let known = ByText::of(list(spec, containers), "name");
    for (at, before) in old.iter().enumerate() {
        let (its_name, Some(state)) = (text(before, "name"), ended(before)) else { continue };
        let revived = new.get(its_name).is_some_and(|now| ended(now).is_none());
        if revived && !all_restart && !may_restart(spec, known.get(its_name), number(&state, "exitCode")) {
            errors
                .forbidden(path.index(at).field("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether one container can make all of them start again.
fn restarts_all(spec: &Value) -> bool {
    let mut containers = ["containers", "initContainers"].into_iter().flat_map(|field| list(spec, field));
    let restarts = |rule: &Value| text(rule, "action") == "RestartAllContainers";
    containers.any(|container| list(container, "restartPolicyRules").iter().any(restarts))
}

fn may_restart(spec: &Value, container: Option<&Value>, exit_code: i64) -> bool {
    let Some(container) = container else { return false };
    let rules = |container| list(container, "restartPolicyRules");
    let matches = |rule: &Value| {
        let listed = list(&rule["exitCodes"], "values").iter().any(|code| code.as_i64() == Some(exit_code));
        listed == (text(&rule["exitCodes"], "operator") == "In")
    };
    let own = text(container, "restartPolicy");
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        _ if rules(container).iter().any(matches) => true,
        "Never" => false,
        "OnFailure" => exit_code != 0,
        _ => true,
    }
}

/// At most one address of each family.
fn addresses(errors: &mut Errors, path: &Path<'_>, status: &Value) {
    let mut families = [0, 0];
    for (at, address) in list(status, "podIPs").iter().enumerate() {
        match text(address, "ip").parse::<IpAddr>() {
            Ok(address) => families[usize::from(address.is_ipv6())] += 1,
            Err(_) => errors.invalid(path.index(at), text(address, "ip"), "must be a valid IP address"),
        }
    }
    if families.iter().any(|count| *count > 1) {
        let all = status["podIPs"].clone();
        errors.invalid(path, all, "may specify no more than one IP for each IP family");
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
    let known = ["containers", "initContainers"].map(|field| ByText::of(list(spec, field), "name"));
    for (at, mapping) in list(extended, "requestMappings").iter().enumerate() {
        let path = mappings.index(at);
        if !known.iter().any(|known| known.has(text(mapping, "containerName"))) {
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
