//! Taints, rules that set them, and patches.

use std::sync::Arc;

use lazaret_model::{
    AttrValue, DevicePatch, DeviceSelector, DeviceTaintRule, EvictionSpec, ResourceSlicePatch, Taint,
    V1ALPHA3_ONLY_DRIVER, Window, WindowError,
};

use super::{
    Result, Version, claim, each, each_value, from_wire::FromWire, meta, required, slice, some, superset,
};
use crate::{field::Path, review::read_review, wire, zones};

/// From the table of v1alpha3: limits, and conversions of types whose fields have the same names in the model.
#[allow(clippy::needless_update, reason = "some types of the model have fields that the table does not")]
mod from_table {
    use super::{
        super::{from_wire, limits},
        Path, Result, Version, wire,
    };

    include!(concat!(env!("OUT_DIR"), "/rule_impls.rs"));
}

pub(crate) fn rule(wire: wire::DeviceTaintRule, version: Version) -> Result<DeviceTaintRule> {
    let mut metadata = wire.metadata.0;
    let mut spec = wire.spec.0;
    let path = Path::ROOT.field("spec");
    let said_in = if restore(&mut spec, &metadata, version)? { Version::V1Alpha3 } else { version };
    spec.check(said_in, &path)?;
    let selector = spec.device_selector.map(|wire| selector(wire, said_in, &path.field("deviceSelector")));
    let mut taint = taint(spec.taint.0, said_in, &path.field("taint"))?;
    default_pace(&mut taint, version, &metadata);
    let review = read_review(&metadata.annotations.0);
    let is_compiled = metadata.owner_references.0.iter().any(is_policy);
    let expires_at = spec.expires_at.map(|time| time.0);
    if spec.eviction.is_some() || expires_at.is_some() {
        let said = eviction(spec.eviction.unwrap_or_default(), said_in, &path.field("eviction"))?;
        taint.eviction = Some(Arc::new(EvictionSpec { expires_at, ..said }));
    }
    let status = wire.status.0;
    let evictions = status.evictions.map(|count| count.into_model(&Path::ROOT.field("status")));
    Ok(DeviceTaintRule {
        name: meta::name(&mut metadata)?,
        uid: metadata.uid.0.into(),
        generation: metadata.generation.0,
        created: metadata.creation_timestamp.map(|time| time.0),
        selector: selector.transpose()?,
        taint,
        conditions: status.conditions.0.into_iter().map(meta::condition).collect(),
        evictions: evictions.transpose()?,
        evicting: status.evicting.0.into_iter().map(Into::into).collect(),
        effective_since: status.effective_since.map(|time| time.0),
        review,
        is_compiled,
    })
}

pub(crate) fn eviction(wire: wire::Eviction, version: Version, path: &Path<'_>) -> Result<EvictionSpec> {
    wire.check(version, path)?;
    wire.into_model(path)
}

/// Whether the controller of a rule is a DeviceTaintPolicy.
fn is_policy(owner: &wire::OwnerReference) -> bool {
    let group = owner.api_version.0.split_once('/').map_or("", |(group, _)| group);
    owner.controller.0 && owner.kind.0 == "DeviceTaintPolicy" && group == "lazaret.dev"
}

/// Brings back what a rule read in another version than v1alpha3 shows in an annotation; whether there was one.
fn restore(spec: &mut wire::RuleSpec, metadata: &wire::ObjectMeta, version: Version) -> Result<bool> {
    let hides = |selector: &wire::DeviceSelector| selector.driver.as_deref() == Some(V1ALPHA3_ONLY_DRIVER);
    let Some(mut said) = superset::annotated::<wire::RuleSpec>(metadata, version)? else {
        if spec.device_selector.as_ref().is_some_and(hides) {
            return Err(superset::error(&format!(
                "is required: driver {V1ALPHA3_ONLY_DRIVER} stands for fields that only v1alpha3 has"
            )));
        }
        return Ok(false);
    };
    if let (Some(selector), Some(mut said)) = (&mut spec.device_selector, said.device_selector.take()) {
        if hides(selector) {
            selector.driver = said.driver.take();
        }
        selector.restore(said);
    }
    spec.taint.0.restore(std::mem::take(&mut said.taint.0));
    spec.restore(said);
    Ok(true)
}

pub(crate) fn patch(wire: wire::ResourceSlicePatch, version: Version) -> Result<ResourceSlicePatch> {
    let mut metadata = wire.metadata.0;
    let patch = wire.spec.0.devices.0;
    let spec = Path::ROOT.field("spec");
    let path = spec.field("devices");
    let selector = match (patch.filter, patch.device_selector) {
        (Some(_), Some(_)) => return Err(path.error("has either filter or deviceSelector, not both")),
        (Some(wire), None) => Some(selector(wire, version, &path.field("filter"))?),
        (None, Some(wire)) => Some(selector(wire, version, &path.field("deviceSelector"))?),
        (None, None) => None,
    };
    let taints = each(patch.taints.0, &path.field("taints"), |wire, path| {
        let mut taint = taint(wire, version, path)?;
        default_pace(&mut taint, version, &metadata);
        Ok(taint)
    })?;
    Ok(ResourceSlicePatch {
        name: meta::name(&mut metadata)?,
        uid: metadata.uid.0.into(),
        generation: metadata.generation.0,
        selector,
        review: read_review(&metadata.annotations.0),
        patch: DevicePatch {
            priority: patch.priority.0,
            attributes: each_value(patch.attributes.0, &path.field("attributes"), nullable_attribute)?,
            capacity: each_value(patch.capacity.0, &path.field("capacity"), |wire, path| {
                slice::capacity(wire, path).map(Some)
            })?,
            taints,
        },
    })
}

/// An object with a UID was stored by a server, which has filled in the defaults of the version that it was written in.
pub(super) fn default_pace(taint: &mut Taint, version: Version, metadata: &wire::ObjectMeta) {
    if version == Version::V1Alpha3 && metadata.uid.0.is_empty() {
        taint.evictions_per_second.get_or_insert(Taint::EVICTIONS_PER_SECOND_DEFAULT);
    }
}

pub(super) fn taint(wire: wire::Taint, version: Version, path: &Path<'_>) -> Result<Taint> {
    wire.check(version, path)?;
    wire.into_model(path)
}

impl FromWire<wire::Window> for Window {
    fn from_wire(wire: wire::Window, path: &Path<'_>) -> Result<Self> {
        zones::window(&wire.start.0, &wire.duration.0, &wire.time_zone.0).map_err(|error| match error {
            WindowError::Start => path.field("start").error("must be a time as in 02:00 or Sat 02:00"),
            WindowError::Duration => path
                .field("duration")
                .error("must be a time as in 4h or 1h30m, not longer than until the next start"),
            WindowError::Zone => path
                .field("timeZone")
                .error("must be UTC, an offset as in +02:00 or a name as in Europe/Zurich"),
        })
    }
}

pub(crate) fn selector(
    wire: wire::DeviceSelector,
    version: Version,
    path: &Path<'_>,
) -> Result<DeviceSelector> {
    wire.check(version, path)?;
    let name =
        |text: Option<String>, field: &str| text.map(|text| required(text, &path.field(field))).transpose();
    Ok(DeviceSelector {
        class: name(wire.device_class_name, "deviceClassName")?,
        driver: name(wire.driver, "driver")?,
        pool: name(wire.pool, "pool")?,
        device: name(wire.device, "device")?,
        cel: each(wire.selectors.0, &path.field("selectors"), |wire, path| {
            some(claim::selector(wire, path)?, &path.field("cel"))
        })?,
    })
}

/// In a patch, `null: {}` stands for no value: the attribute is removed.
fn nullable_attribute(wire: wire::Attribute, path: &Path<'_>) -> Result<Option<AttrValue>> {
    let removes = wire.null.is_some();
    let value = slice::attribute(wire, path)?;
    if !removes {
        return Ok(Some(value));
    }
    if value == AttrValue::Unsupported { Ok(None) } else { Err(path.error("has more than one value")) }
}
