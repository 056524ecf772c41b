//! Amounts of resources, and claims that containers use.

use std::collections::BTreeSet;

use lazaret_json::Value;
use lazaret_model::Quantity;

use crate::{
    Errors, FieldProblem,
    check::dns_label,
    classic,
    path::Path,
    resource_names::{container_resource, is_huge_pages, is_integer, is_overcommittable, resource},
    value::{ByText, entries, quantity, text},
};

const SIZE_OF_PAGES: &str = "hugepages-";

/// Limits and requests of a container.
pub(crate) fn of_container(errors: &mut Errors, path: &Path<'_>, resources: &Value) {
    check(errors, path, resources, container_resource);
}

/// The name of a resource in the limits of a pod. Whether a pod can have it is checked with those of its containers.
pub(super) fn of_pod(errors: &mut Errors, path: &Path<'_>, name: &str) {
    resource(errors, path, name);
}

/// Limits and requests, whose names satisfy `named`.
pub(super) fn check(
    errors: &mut Errors,
    path: &Path<'_>,
    resources: &Value,
    named: fn(&mut Errors, &Path<'_>, &str),
) {
    for field in ["limits", "requests"] {
        let path = path.field(field);
        for (resource, value) in entries(resources, field) {
            let path = path.key(resource);
            named(errors, &path, resource);
            amount(errors, &path, resource, value);
        }
    }
    for (resource, value) in entries(resources, "requests") {
        let limit = resources["limits"].get(resource).and_then(quantity);
        let divisible = is_overcommittable(resource);
        match (quantity(value), limit) {
            (Some(request), Some(limit)) if request != limit && !divisible => errors.invalid(
                path.field("requests"),
                request.to_string(),
                format!("must be equal to {resource} limit of {limit}"),
            ),
            (Some(request), Some(limit)) if request > limit => errors.invalid(
                path.field("requests"),
                request.to_string(),
                format!("must be less than or equal to {resource} limit of {limit}"),
            ),
            (Some(_), None) if !divisible => {
                errors.required(path.field("limits"), "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let asks =
        |resource: &str| ["limits", "requests"].iter().any(|field| resources[*field].get(resource).is_some());
    let huge = |field: &str| entries(resources, field).any(|(resource, _)| is_huge_pages(resource));
    if (huge("limits") || huge("requests")) && !asks("cpu") && !asks("memory") {
        errors.forbidden(path, "HugePages require cpu or memory");
    }
}

/// One amount of a resource.
fn amount(errors: &mut Errors, path: &Path<'_>, resource: &str, value: &Value) {
    let Some(amount) = quantity(value) else {
        errors.invalid(path, value.clone(), "must be a quantity");
        return;
    };
    if amount.is_negative() {
        errors.invalid(path, value.clone(), "must be greater than or equal to 0");
    }
    if is_integer(resource) && !amount.is_integer() {
        errors.invalid(path, value.clone(), "must be an integer");
    }
    if resource.starts_with(SIZE_OF_PAGES) && !is_whole_pages(resource, &amount) {
        errors.invalid(path, value.clone(), format!("is not positive integer multiple of {resource}"));
    }
}

/// Whether an amount of memory in large pages is a number of them.
fn is_whole_pages(resource: &str, amount: &Quantity) -> bool {
    let size = resource.strip_prefix(SIZE_OF_PAGES).and_then(|size| Quantity::parse(size).ok());
    let size = size.filter(Quantity::is_integer).and_then(|size| size.value_i64_rounded_up());
    match (size, amount.value_i64_rounded_up()) {
        (Some(size), Some(amount)) if size > 0 => amount % size == 0,
        _ => false,
    }
}

/// A container uses claims of the pod, each as a whole or by its requests, and none twice.
pub(super) fn claim_references(
    errors: &mut Errors,
    path: &Path<'_>,
    references: &[Value],
    claims: &ByText<'_>,
) {
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
            if claims.get(claim).is_some_and(classic::is_classic) {
                errors.forbidden(path.field("request"), "a classic claim has no requests");
            }
        }
        let overlaps = if request.is_empty() {
            seen.range((claim, "")..).next().is_some_and(|(known, _)| *known == claim)
        } else {
            seen.contains(&(claim, "")) || seen.contains(&(claim, request))
        };
        if overlaps {
            errors.push(path, FieldProblem::Duplicate(claim.into()));
        }
        seen.insert((claim, request));
        if !claims.has(claim) {
            errors.push(path, FieldProblem::NotFound(claim.into()));
        }
    }
}
