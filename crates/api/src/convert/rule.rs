//! Taints, rules that set them, and patches.

use std::sync::Arc;

use lazaret_model::{
    AttrValue, CapacityMode, DevicePatch, DeviceSelector, DeviceTaintRule, Effect, EvictionCount,
    EvictionMode, EvictionSpec, GroupMode, ResourceSlicePatch, Taint, Text, V1ALPHA3_ONLY_DRIVER, Window,
    WindowError,
};

use super::{Result, Version, claim, each, each_value, meta, required, slice, some, superset};
use crate::{field::Path, review::read_review, wire, zones};

pub(crate) fn rule(wire: wire::DeviceTaintRule, version: Version) -> Result<DeviceTaintRule> {
    let mut metadata = wire.metadata.0;
    let mut spec = wire.spec.0;
    let path = Path::ROOT.field("spec");
    let said_in = if restore(&mut spec, &metadata, version)? { Version::V1Alpha3 } else { version };
    let selector = spec.device_selector.map(|wire| selector(wire, said_in, &path.field("deviceSelector")));
    let mut taint = taint(spec.taint.0, said_in, &path.field("taint"))?;
    default_pace(&mut taint, version, &metadata);
    let review = read_review(&metadata.annotations.0);
    let is_compiled = metadata.owner_references.0.iter().any(is_policy);
    let expires_at = spec.expires_at.map(|time| time.0);
    if expires_at.is_some() {
        said_in.superset_only(&path.field("expiresAt"))?;
    }
    if spec.eviction.is_some() || expires_at.is_some() {
        let said = eviction(spec.eviction.unwrap_or_default(), said_in, &path.field("eviction"))?;
        taint.eviction = Some(Arc::new(EvictionSpec { expires_at, ..said }));
    }
    Ok(DeviceTaintRule {
        name: meta::name(&mut metadata)?,
        uid: metadata.uid.0.into(),
        generation: metadata.generation.0,
        created: metadata.creation_timestamp.map(|time| time.0),
        selector: selector.transpose()?,
        taint,
        conditions: wire.status.0.conditions.0.into_iter().map(meta::condition).collect(),
        evictions: wire.status.0.evictions.map(|count| EvictionCount {
            pods: u64::try_from(count.pods.0).unwrap_or(0),
            at_least: count.at_least.0,
            until: count.until.map(|time| time.0),
        }),
        review,
        is_compiled,
    })
}

/// Whether the controller of a rule is a DeviceTaintPolicy.
fn is_policy(owner: &wire::OwnerReference) -> bool {
    let group = owner.api_version.0.split_once('/').map_or("", |(group, _)| group);
    owner.controller.0 && owner.kind.0 == "DeviceTaintPolicy" && group == "lazaret.dev"
}

/// Brings back what a rule read in another version than v1alpha3 shows in an annotation; whether there was one.
fn restore(spec: &mut wire::RuleSpec, metadata: &wire::ObjectMeta, version: Version) -> Result<bool> {
    let hides = |selector: &wire::DeviceSelector| selector.driver.as_deref() == Some(V1ALPHA3_ONLY_DRIVER);
    let Some(said) = superset::annotated::<wire::RuleSpec>(metadata, version)? else {
        if spec.device_selector.as_ref().is_some_and(hides) {
            return Err(superset::error(&format!(
                "is required: driver {V1ALPHA3_ONLY_DRIVER} stands for fields that only v1alpha3 has"
            )));
        }
        return Ok(false);
    };
    let (eviction, expires_at) = (said.eviction, said.expires_at);
    if let (Some(selector), Some(said)) = (&mut spec.device_selector, said.device_selector) {
        if hides(selector) {
            selector.driver = said.driver;
        }
        selector.device_class_name = said.device_class_name;
        selector.selectors = said.selectors;
    }
    let (taint, said) = (&mut spec.taint.0, said.taint.0);
    taint.evictions_per_second = said.evictions_per_second;
    taint.description = said.description;
    taint.data = said.data;
    (spec.eviction, spec.expires_at) = (eviction, expires_at);
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
        selector,
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
    let effect = required(wire.effect.0, &path.field("effect"))?;
    if let Some(pace) = wire.evictions_per_second {
        let path = path.field("evictionsPerSecond");
        version.superset_only(&path)?;
        if pace < 1 {
            return Err(path.error(format!("must be greater than zero, not {pace}")));
        }
    }
    if let Some(description) = &wire.description {
        bounded(description.len(), Taint::DESCRIPTION_BYTES_MAX, version, &path.field("description"))?;
    }
    if let Some(data) = &wire.data {
        bounded(data.0.get().len(), Taint::DATA_BYTES_MAX, version, &path.field("data"))?;
    }
    Ok(Taint {
        key: required(wire.key.0, &path.field("key"))?,
        value: wire.value.0.into(),
        effect: Effect::from_name(&effect),
        time_added: wire.time_added.map(|time| time.0),
        evictions_per_second: wire.evictions_per_second,
        description: wire.description.map(Text::from),
        eviction: None,
    })
}

/// How pods leave because of a rule.
fn eviction(wire: wire::Eviction, version: Version, path: &Path<'_>) -> Result<EvictionSpec> {
    version.superset_only(path)?;
    let mode = match wire.mode.0.as_str() {
        "" => EvictionMode::default(),
        name => EvictionMode::from_name(name).ok_or_else(|| {
            let known: Vec<&str> = EvictionMode::ALL.iter().map(|mode| mode.name()).collect();
            path.field("mode").error(format!("must be one of {}, not {name}", known.join(", ")))
        })?,
    };
    let path_of_deadline = path.field("deadlineSeconds");
    match wire.deadline_seconds {
        Some(seconds) if !(0..=EvictionSpec::SECONDS_MAX).contains(&seconds) => {
            return Err(path_of_deadline
                .error(format!("must be from 0 to {}, not {seconds}", EvictionSpec::SECONDS_MAX)));
        }
        None if mode == EvictionMode::EvictThenDelete => {
            return Err(path_of_deadline.error("is required with mode EvictThenDelete"));
        }
        Some(_) | None => {}
    }
    let max_concurrent = wire.max_concurrent.map(|most| {
        let most = u32::try_from(most).ok().filter(|most| *most > 0);
        most.ok_or_else(|| path.field("maxConcurrent").error("must be a number from 1 to 4294967295"))
    });
    Ok(EvictionSpec {
        mode,
        deadline_seconds: wire.deadline_seconds,
        max_concurrent: max_concurrent.transpose()?,
        expires_at: None,
        windows: each(wire.windows.0, &path.field("windows"), window)?,
        groups: groups(&wire.groups.0, &path.field("groups"))?,
        capacity: capacity(&wire.capacity.0, &path.field("capacity"))?,
        capacity_timeout_seconds: wire
            .capacity_timeout_seconds
            .map(|seconds| capacity_timeout(seconds, &wire.capacity.0, path))
            .transpose()?,
    })
}

fn capacity(name: &str, path: &Path<'_>) -> Result<CapacityMode> {
    match name {
        "" => Ok(CapacityMode::default()),
        name => CapacityMode::from_name(name).ok_or_else(|| {
            let known = CapacityMode::ALL.map(CapacityMode::name).join(", ");
            path.error(format!("must be one of {known}, not {name}"))
        }),
    }
}

fn capacity_timeout(seconds: i64, capacity: &str, path: &Path<'_>) -> Result<i64> {
    let path = path.field("capacityTimeoutSeconds");
    if !(0..=EvictionSpec::SECONDS_MAX).contains(&seconds) {
        return Err(path.error(format!("must be from 0 to {}, not {seconds}", EvictionSpec::SECONDS_MAX)));
    }
    if capacity == CapacityMode::Wait.name() { Ok(seconds) } else { Err(path.error("needs capacity Wait")) }
}

fn groups(name: &str, path: &Path<'_>) -> Result<GroupMode> {
    match name {
        "" => Ok(GroupMode::default()),
        name => GroupMode::from_name(name).ok_or_else(|| {
            let known = GroupMode::ALL.map(GroupMode::name).join(", ");
            path.error(format!("must be one of {known}, not {name}"))
        }),
    }
}

fn window(wire: wire::Window, path: &Path<'_>) -> Result<Window> {
    zones::window(&wire.start.0, &wire.duration.0, &wire.time_zone.0).map_err(|error| match error {
        WindowError::Start => path.field("start").error("must be a time as in 02:00 or Sat 02:00"),
        WindowError::Duration => path
            .field("duration")
            .error("must be a time as in 4h or 1h30m, not longer than until the next start"),
        WindowError::Zone => {
            path.field("timeZone").error("must be UTC, an offset as in +02:00 or a name as in Europe/Zurich")
        }
    })
}

fn bounded(bytes: usize, bytes_max: usize, version: Version, path: &Path<'_>) -> Result<()> {
    version.superset_only(path)?;
    if bytes > bytes_max { Err(path.error(format!("is longer than {bytes_max} bytes"))) } else { Ok(()) }
}

fn selector(wire: wire::DeviceSelector, version: Version, path: &Path<'_>) -> Result<DeviceSelector> {
    if wire.device_class_name.is_some() {
        version.superset_only(&path.field("deviceClassName"))?;
    }
    if !wire.selectors.0.is_empty() {
        version.superset_only(&path.field("selectors"))?;
    }
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
