//! A DisruptionGuard as it is written becomes one of the cores.

use lazaret_model::{
    Breaker, BreakerUnit, DisruptionGuard, Pause, Share, TAINT_APPROVALS, Text, WindowStatus,
    validate_qualified_name,
};

use crate::{
    FieldError,
    convert::{FromWire, Version, selector},
    decode::{parse, parse_quietly},
    field::Path,
    fields,
    taint_hold::{read_taint_approvals, taint_holds},
    time::parse_time,
    wire::{
        DisruptionGuardSpec, DisruptionGuardStatus, GuardBreaker, GuardWindowStatus, Nullable, ObjectMeta,
        Raw,
    },
};

/// Since when a breaker that was tripped is not, by a person's word.
const RESET: &str = "lazaret.dev/breaker-reset";

fields! {
    struct Guard {
        metadata: Nullable<ObjectMeta> = "metadata",
        spec: Nullable<DisruptionGuardSpec> = "spec",
        status: Nullable<DisruptionGuardStatus> = "status",
    }
}

/// A guard that cannot be read keeps every eviction from beginning, for somebody meant to keep some.
#[must_use]
pub fn guard_that_stops_everything(name: Text, why: &str) -> DisruptionGuard {
    let paused = Some(Pause { reason: why.into(), until: None });
    DisruptionGuard { name, paused, ..DisruptionGuard::default() }
}

/// Reads a guard.
///
/// # Errors
/// The field that cannot be understood.
pub fn read_guard(json: &str) -> Result<DisruptionGuard, FieldError> {
    let Guard { metadata, spec, status } = parse(json)?;
    let (metadata, mut spec, status) = (metadata.0, spec.0, status.0);
    let path = &Path::ROOT.field("spec");
    spec.check(path)?;
    let devices = spec.device_selector.take();
    let devices = devices.map(|wire| selector(wire, Version::V1Alpha3, &path.field("deviceSelector")));
    let rest = DisruptionGuard {
        selector: devices.transpose()?,
        name: metadata.name.0.into(),
        uid: metadata.uid.0.into(),
        generation: metadata.generation.0,
        // An annotation that is no instant resets nothing.
        reset_at: metadata.annotations.0.get(RESET).and_then(|text| parse_time(&text.0).ok()),
        status: FromWire::from_wire(status.breaker, &Path::ROOT.field("status").field("breaker"))?,
        window_status: window_status(&status.window.0),
        held: taint_holds(status.held.0),
        approvals: metadata
            .annotations
            .0
            .get(TAINT_APPROVALS)
            .map_or_else(Vec::new, |text| read_taint_approvals(&text.0)),
        preview: FromWire::from_wire(status.selected, &Path::ROOT.field("status").field("selected"))?,
        ..DisruptionGuard::default()
    };
    spec.into_model(rest, path)
}

/// Whether a window is open, if the status says so.
fn window_status(said: &GuardWindowStatus) -> Option<WindowStatus> {
    let closed = said.opens_at.filter(|_| !said.open.0).map(|at| WindowStatus::ClosedUntil(at.0));
    closed.or(said.open.0.then_some(WindowStatus::Open))
}

impl FromWire<GuardBreaker> for Breaker {
    fn from_wire(wire: GuardBreaker, path: &Path<'_>) -> Result<Self, FieldError> {
        let place = path.field("faultDomainAttribute");
        let of = match (wire.of.0.as_str(), wire.fault_domain_attribute) {
            ("FaultDomains", Some(attribute)) => {
                validate_qualified_name(&attribute).map_err(|error| place.error(error.to_string()))?;
                BreakerUnit::FaultDomains { attribute: attribute.into() }
            }
            ("FaultDomains", None) => return Err(place.error("is required with of FaultDomains")),
            (_, Some(_)) => return Err(place.error("needs of FaultDomains")),
            ("Nodes", None) => BreakerUnit::Nodes,
            (_, None) => BreakerUnit::Devices,
        };
        Ok(Self {
            max_out_of_service: FromWire::from_wire(wire.max_out_of_service, &path.field("maxOutOfService"))?,
            of,
            window_seconds: wire.window_seconds.0,
            reset_after_seconds: wire.reset_after_seconds.0,
        })
    }
}

/// A number, or a part of the whole as in `20%`.
impl FromWire<Raw> for Share {
    fn from_wire(wire: Raw, path: &Path<'_>) -> Result<Self, FieldError> {
        let text = wire.0.get();
        let percent = || -> Option<u64> { parse_quietly::<String>(text)?.strip_suffix('%')?.parse().ok() };
        let found = match text.parse() {
            Ok(count) => Some(Self::Count(count)),
            Err(_) => percent().filter(|percent| *percent <= 100).map(Self::Percent),
        };
        found.ok_or_else(|| path.error(format!("must be a number or a percentage like 20%, not {text}")))
    }
}
