//! Claims, their templates, and classes.

use std::sync::Arc;

use lazaret_model::{
    Allocation, AllocationMode, ClaimConfig, ClaimSpec, ConfigSource, Constraint, ConstraintKind, Consumer,
    DerivedAttribute, DeviceClass, DeviceId, DeviceRequest, DeviceResult, Effect, ObjectKey, Opaque,
    Quantity, Request, RequestKind, ResourceClaim, ResultConfig, Text, Toleration, TolerationOperator, Uid,
};

use super::{Result, Version, each, limits, meta, required, some, texts};
use crate::{
    field::Path,
    last_published::{LAST_PUBLISHED, read_last_published},
    wire,
};

/// On claims that the scheduler makes for extended resources.
const EXTENDED_RESOURCE_ANNOTATION: &str = "resource.kubernetes.io/extended-resource-claim";
/// The API's limit on opaque parameters in their shortest form.
const PARAMETERS_BYTES_MAX: usize = 10 * 1024;

/// From what claims are made for pods.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ClaimTemplate {
    /// Where it is.
    pub key: ObjectKey,
    /// The incarnation.
    pub uid: Uid,
    /// The devices, constraints and configuration of the claims.
    pub spec: Arc<ClaimSpec>,
}

pub(crate) fn claim(wire: wire::ResourceClaim, version: Version) -> Result<ResourceClaim> {
    let mut metadata = wire.metadata.0;
    let annotation = metadata.annotations.0.get(EXTENDED_RESOURCE_ANNOTATION);
    let last_published = metadata.annotations.0.get(LAST_PUBLISHED);
    let (root, status) = (Path::ROOT, wire.status.0);
    let status_path = root.field("status");
    let allocation = status.allocation.map(|wire| allocation(wire, &status_path.field("allocation")));
    Ok(ResourceClaim {
        last_published: last_published.map(|text| read_last_published(&text.0)).unwrap_or_default(),
        extended_resource: annotation.is_some_and(|value| value.0 == "true"),
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        owner: meta::controller(metadata.owner_references.0),
        deleting: metadata.deletion_timestamp.is_some(),
        spec: Arc::new(spec(wire.spec.0, version, &root.field("spec"))?),
        allocation: allocation.transpose()?.map(Arc::new),
        reserved_for: each(status.reserved_for.0, &status_path.field("reservedFor"), consumer)?,
    })
}

pub(crate) fn template(wire: wire::ResourceClaimTemplate, version: Version) -> Result<ClaimTemplate> {
    let mut metadata = wire.metadata.0;
    let root = Path::ROOT;
    let path = root.field("spec");
    Ok(ClaimTemplate {
        key: meta::key(&mut metadata)?,
        uid: metadata.uid.0.into(),
        spec: Arc::new(spec(wire.spec.0.spec.0, version, &path.field("spec"))?),
    })
}

pub(crate) fn class(wire: wire::DeviceClass) -> Result<DeviceClass> {
    let mut metadata = wire.metadata.0;
    let spec = wire.spec.0;
    let path = Path::ROOT.field("spec");
    Ok(DeviceClass {
        name: meta::name(&mut metadata)?,
        selectors: each(spec.selectors.0, &path.field("selectors"), selector)?,
        config: each(spec.config.0, &path.field("config"), |config, path| opaque(config.opaque, path))?,
        extended_resource_name: spec.extended_resource_name.map(Text::from),
        created: metadata.creation_timestamp.map(|time| time.0),
    })
}

fn spec(wire: wire::ClaimSpec, version: Version, path: &Path<'_>) -> Result<ClaimSpec> {
    let devices = wire.devices.0;
    let path = path.field("devices");
    Ok(ClaimSpec {
        requests: each(devices.requests.0, &path.field("requests"), |wire, path| {
            request(wire, version, path)
        })?,
        constraints: each(devices.constraints.0, &path.field("constraints"), constraint)?,
        config: each(devices.config.0, &path.field("config"), |config, path| {
            Ok(ClaimConfig { requests: texts(config.requests.0), opaque: opaque(config.opaque, path)? })
        })?,
    })
}

fn request(mut wire: wire::Request, version: Version, path: &Path<'_>) -> Result<Request> {
    let name = required(std::mem::take(&mut wire.name.0), &path.field("name"))?;
    let first_available = std::mem::take(&mut wire.first_available.0);
    let exactly = wire.exactly.take();
    let kind = match (version, exactly, first_available) {
        (Version::V1Beta1, _, alternatives) if !alternatives.is_empty() => {
            if !wire.device_class_name.0.is_empty() {
                return Err(path.error("has either deviceClassName or firstAvailable, not both"));
            }
            first_of(alternatives, path)?
        }
        (Version::V1Beta1, _, _) if wire.device_class_name.0.is_empty() => RequestKind::Unknown,
        (Version::V1Beta1, _, _) => RequestKind::Exactly(device_request(wire, path)?),
        (_, None, alternatives) if alternatives.is_empty() => RequestKind::Unknown,
        (_, None, alternatives) => first_of(alternatives, path)?,
        (_, Some(exactly), alternatives) if alternatives.is_empty() => RequestKind::Exactly(device_request(
            wire::Request { name: Default::default(), ..*exactly },
            &path.field("exactly"),
        )?),
        (_, Some(_), _) => return Err(path.error("has either exactly or firstAvailable, not both")),
    };
    Ok(Request { name, kind })
}

fn first_of(alternatives: Vec<wire::Request>, path: &Path<'_>) -> Result<RequestKind> {
    let alternative = |wire: wire::Request, path: &Path<'_>| {
        required(wire.name.0.clone(), &path.field("name"))?;
        device_request(wire, path)
    };
    each(alternatives, &path.field("firstAvailable"), alternative).map(RequestKind::FirstAvailable)
}

fn device_request(wire: wire::Request, path: &Path<'_>) -> Result<DeviceRequest> {
    Ok(DeviceRequest {
        name: wire.name.0.into(),
        class: wire.device_class_name.0.into(),
        selectors: each(wire.selectors.0, &path.field("selectors"), selector)?,
        mode: mode(&wire.allocation_mode.0, wire.count.0, &path.field("count"))?,
        admin_access: wire.admin_access,
        tolerations: wire.tolerations.0.into_iter().map(toleration).collect(),
        capacity: wire.capacity.map(|capacity| amounts(capacity.requests.0)),
        derived_attributes: each(wire.derived_attributes.0, &path.field("derivedAttributes"), derived)?,
    })
}

fn mode(mode: &str, count: i64, path: &Path<'_>) -> Result<AllocationMode> {
    match (mode, count) {
        ("" | "ExactCount", 0) => Ok(AllocationMode::Exact(1)),
        ("" | "ExactCount", 1..) => Ok(AllocationMode::Exact(count)),
        ("" | "ExactCount", _) => Err(path.error(format!("must be greater than zero, not {count}"))),
        // A count beside it means nothing.
        ("All", _) => Ok(AllocationMode::All),
        (other, _) => Ok(AllocationMode::Unknown(other.into())),
    }
}

fn amounts(wire: impl IntoIterator<Item = (String, wire::Amount)>) -> Vec<(Text, Quantity)> {
    wire.into_iter().map(|(key, amount)| (key.into(), amount.0)).collect()
}

pub(super) fn selector(wire: wire::Selector, path: &Path<'_>) -> Result<Option<Text>> {
    let expression = |cel: String| required(cel, &path.field("cel").field("expression"));
    wire.cel.map(|cel| expression(cel.expression.0)).transpose()
}

fn derived(wire: wire::DerivedAttribute, path: &Path<'_>) -> Result<DerivedAttribute> {
    Ok(DerivedAttribute {
        name: required(wire.name.0, &path.field("name"))?,
        expression: required(wire.expression.0, &path.field("expression"))?,
    })
}

pub(super) fn toleration(wire: wire::Toleration) -> Toleration {
    let effect = wire.effect.0;
    Toleration {
        key: wire.key.0.into(),
        operator: match wire.operator.0.as_str() {
            "" | "Equal" => TolerationOperator::Equal,
            "Exists" => TolerationOperator::Exists,
            other => TolerationOperator::Unknown(other.into()),
        },
        value: wire.value.0.into(),
        effect: (!effect.is_empty()).then(|| Effect::from_name(&effect)),
        seconds: wire.toleration_seconds,
    }
}

fn constraint(wire: wire::Constraint, path: &Path<'_>) -> Result<Constraint> {
    let kind = match (wire.match_attribute, wire.distinct_attribute) {
        (Some(_), Some(_)) => {
            return Err(path.error("has either matchAttribute or distinctAttribute, not both"));
        }
        (Some(name), None) => ConstraintKind::Match(name.into()),
        (None, Some(name)) => ConstraintKind::Distinct(name.into()),
        (None, None) => ConstraintKind::Unknown,
    };
    Ok(Constraint { requests: texts(wire.requests.0), kind })
}

fn opaque(wire: Option<wire::Opaque>, path: &Path<'_>) -> Result<Option<Opaque>> {
    let Some(wire) = wire else { return Ok(None) };
    let path = path.field("opaque");
    let parameters = some(wire.parameters, &path.field("parameters"))?;
    limits::raw(Some(&parameters), PARAMETERS_BYTES_MAX, &path.field("parameters"))?;
    let parameters = parameters.0.get();
    if !parameters.starts_with('{') {
        return Err(path.field("parameters").error("must be an object"));
    }
    Ok(Some(Opaque {
        driver: required(wire.driver.0, &path.field("driver"))?,
        parameters: parameters.into(),
    }))
}

fn allocation(wire: wire::Allocation, path: &Path<'_>) -> Result<Allocation> {
    let devices = path.field("devices");
    Ok(Allocation {
        results: each(wire.devices.0.results.0, &devices.field("results"), device_result)?,
        config: each(wire.devices.0.config.0, &devices.field("config"), result_config)?,
        node_selector: wire.node_selector.map(meta::node_selector),
        timestamp: wire.allocation_timestamp.map(|time| time.0),
    })
}

fn device_result(wire: wire::DeviceResult, path: &Path<'_>) -> Result<DeviceResult> {
    Ok(DeviceResult {
        request: required(wire.request.0, &path.field("request"))?,
        device: DeviceId {
            driver: required(wire.driver.0, &path.field("driver"))?,
            pool: required(wire.pool.0, &path.field("pool"))?,
            device: required(wire.device.0, &path.field("device"))?,
        },
        admin_access: wire.admin_access.unwrap_or(false),
        tolerations: wire.tolerations.0.into_iter().map(toleration).collect(),
        binding_conditions: texts(wire.binding_conditions.0),
        binding_failure_conditions: texts(wire.binding_failure_conditions.0),
        share_id: wire.share_id.map(Text::from),
        consumed_capacity: amounts(wire.consumed_capacity.0),
        skip_node_operations: texts(wire.skip_node_operations.0),
    })
}

fn result_config(wire: wire::AllocationConfig, path: &Path<'_>) -> Result<ResultConfig> {
    Ok(ResultConfig {
        source: match wire.source.0.as_str() {
            "FromClass" => ConfigSource::Class,
            "FromClaim" => ConfigSource::Claim,
            other => {
                let message = format!("must be FromClass or FromClaim, not {other:?}");
                return Err(path.field("source").error(message));
            }
        },
        requests: texts(wire.requests.0),
        opaque: opaque(wire.opaque, path)?,
    })
}

fn consumer(wire: wire::Consumer, path: &Path<'_>) -> Result<Consumer> {
    Ok(Consumer {
        api_group: wire.api_group.0.into(),
        resource: required(wire.resource.0, &path.field("resource"))?,
        name: required(wire.name.0, &path.field("name"))?,
        uid: required(wire.uid.0, &path.field("uid"))?,
    })
}
