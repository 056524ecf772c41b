//! Amounts of resources.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Container, PodSpec, ResourceRequirements},
    apimachinery::pkg::api::resource::Quantity as Wire,
};
use lazaret_model::Quantity;

use crate::{SpecError, pod};

pub(crate) type Resources = BTreeMap<String, Wire>;

/// The amount of one resource; nothing when there is none.
pub(crate) fn amount(of: Option<&Resources>, name: &str) -> Quantity {
    of.and_then(|of| of.get(name)).map_or_else(Quantity::zero, parse)
}

/// [`check`] has refused quantities that cannot be read before.
pub(crate) fn parse(wire: &Wire) -> Quantity {
    Quantity::parse(&wire.0).unwrap_or_default()
}

/// Whole units, rounded up; never less than nothing.
pub(crate) fn units(quantity: &Quantity) -> i64 {
    if quantity.is_negative() { 0 } else { quantity.value_i64_rounded_up().unwrap_or(i64::MAX) }
}

/// Thousandths, rounded up; never less than nothing.
pub(crate) fn milli(quantity: &Quantity) -> i64 {
    units(&quantity.mul_i64(1000))
}

pub(crate) fn requests(container: &Container) -> Option<&Resources> {
    container.resources.as_ref().and_then(|resources| resources.requests.as_ref())
}

pub(crate) fn limits(container: &Container) -> Option<&Resources> {
    container.resources.as_ref().and_then(|resources| resources.limits.as_ref())
}

/// Refuses a pod of which an amount cannot be read: no limit is taken for unlimited because of a typing error.
pub(crate) fn check(spec: &PodSpec) -> Result<(), SpecError> {
    let all = pod::long_running(spec).filter_map(|container| container.resources.as_ref());
    for resources in all.chain(&spec.resources) {
        let ResourceRequirements { limits, requests, .. } = resources;
        for (name, quantity) in limits.iter().chain(requests).flatten() {
            if Quantity::parse(&quantity.0).is_err() {
                return Err(SpecError::sandbox(format!(
                    "the amount {:?} of resource {name:?} cannot be read",
                    quantity.0
                )));
            }
        }
    }
    for (name, quantity) in spec.overhead.iter().flatten() {
        if Quantity::parse(&quantity.0).is_err() {
            return Err(SpecError::sandbox(format!(
                "the amount {:?} of overhead {name:?} cannot be read",
                quantity.0
            )));
        }
    }
    Ok(())
}
