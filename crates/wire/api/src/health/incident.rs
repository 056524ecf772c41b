//! DeviceIncident and DeviceSignal, to and from their JSON.

use lazaret_lifecycle::{
    Acts, Cost, DEMANDS_MAX, Demand, Entry, Handled, Held, HeldReason, Incident, PersonAct, Report, Signal,
    Source, Stage, Stored, TaintKeyValue, TaskObject, Times,
};
use lazaret_model::{DeviceId, Text, Timestamp};
use serde_json::{Value, json};

use crate::{
    FieldError,
    convert::FromWire,
    decode::parse,
    field::Path,
    fields, format_time_precise, parse_time,
    wire::{
        Act, DeviceIdentity, DeviceIncidentSpec, DeviceIncidentStatus, DeviceSignalSpec, IncidentDemand,
        IncidentHeld, IncidentTask, Instant, Nullable, ObjectMeta,
    },
};

/// The annotation that says until when a signal lasts that nobody ends. The receiver of alerts writes it.
const UNTIL: &str = "lazaret.dev/until";
/// Entries of lists that are read; Lazaret writes fewer.
const LIST_MAX: usize = 256;

fields! {
    struct WireIncident(false; "metadata", "spec") {
        metadata: ObjectMeta = "metadata",
        spec: DeviceIncidentSpec = "spec",
        status: Nullable<DeviceIncidentStatus> = "status",
    }

    struct WireSignal(false; "metadata", "spec") {
        metadata: ObjectMeta = "metadata",
        spec: DeviceSignalSpec = "spec",
    }
}

type Result<T> = std::result::Result<T, FieldError>;

fn device(wire: DeviceIdentity) -> DeviceId {
    DeviceId::new(wire.driver, wire.pool, wire.device)
}

fn instant(wire: Option<Instant>) -> Option<Timestamp> {
    wire.map(|at| at.0)
}

impl FromWire<String> for Stage {
    fn from_wire(wire: String, path: &Path<'_>) -> Result<Self> {
        Self::from_name(&wire).ok_or_else(|| path.error(format!("{wire:?} is no stage")))
    }
}

/// Reads an incident. One without a status is as it was opened.
///
/// # Errors
/// The field that is wrong.
pub fn read_incident(json: &str) -> Result<Stored> {
    let WireIncident { metadata, spec, status } = parse(json)?;
    let path = &Path::ROOT.field("spec");
    spec.check(path)?;
    let opened = spec.opened_at.0;
    let first = Stage::from_wire(spec.stage, &path.field("stage"))?;
    let policy = Text::from(spec.policy);
    let entry = Entry {
        at: opened,
        stage: first,
        cause: spec.cause.into(),
        actor: format!("policy {policy}").into(),
    };
    let mut incident = Incident {
        number: 0,
        serial: u32::from_wire(spec.number, &path.field("number"))?,
        name: metadata.name.0.into(),
        device: device(spec.device),
        hardware: spec.hardware_id.map(Text::from),
        policy,
        rule: spec.rule.into(),
        stage: first,
        since: opened,
        waits_for: Text::default(),
        step: 0,
        attempts: 0,
        tries: 0,
        taint: taint(spec.taint_key, spec.taint_value),
        is_enforced: false,
        flaps: Vec::new(),
        calm_since: None,
        gone_since: None,
        twin: None,
        is_validated: false,
        acknowledged_by: None,
        timeline: vec![entry],
        folded: 0,
        times: Times { detected: instant(spec.detected_at), decided: Some(opened), ..Times::default() },
        cost: Cost::default(),
        handled: Handled::default(),
        held: None,
        demands: Box::default(),
        task: None,
    };
    if !status.0.stage.0.is_empty() {
        add_status(&mut incident, status.0, &Path::ROOT.field("status"))?;
    }
    let act = |act: Act| PersonAct { at: act.at.0, who: act.by.0.into(), why: act.reason.0.into() };
    let acts = Acts {
        acknowledged: spec.acknowledged.map(act),
        repaired: spec.repaired.map(act),
        abandoned: spec.abandoned.map(act),
    };
    let (uid, version) = (metadata.uid.0.into(), metadata.resource_version.0.into());
    Ok(Stored { uid, version, incident, acts })
}

fn add_status(incident: &mut Incident, status: DeviceIncidentStatus, path: &Path<'_>) -> Result<()> {
    incident.stage = Stage::from_wire(status.stage.0, &path.field("stage"))?;
    incident.since = instant(status.since).unwrap_or(incident.since);
    if let Some(wire) = status.device {
        incident.device = device(wire);
    }
    if let Some(policy) = status.policy {
        incident.policy = policy.into();
    }
    if let Some(rule) = status.rule {
        incident.rule = rule.into();
    }
    if let Some(value) = status.taint_value {
        incident.taint = taint(status.taint_key, value);
    }
    incident.waits_for = status.waits_for.0.into();
    incident.step =
        usize::try_from(status.step.0).map_err(|_| path.field("step").error("must be 0 or more"))?;
    incident.attempts = u32::from_wire(status.attempts, &path.field("attempts"))?;
    incident.tries = u32::from_wire(status.tries, &path.field("tries"))?;
    (incident.is_enforced, incident.is_validated) = (status.enforced.0, status.validated.0);
    incident.acknowledged_by = status.acknowledged_by.map(Text::from);
    incident.flaps = status.flaps.0.into_iter().take(LIST_MAX).map(|at| at.0).collect();
    (incident.calm_since, incident.gone_since) = (instant(status.calm_since), instant(status.gone_since));
    incident.twin = status.same_identity_as.map(|wire| Box::new(device(wire)));
    let mut timeline = status.timeline.0;
    timeline.truncate(lazaret_lifecycle::TIMELINE_MAX);
    incident.timeline = FromWire::from_wire(timeline, &path.field("timeline"))?;
    incident.folded = u32::from_wire(status.timeline_folded, &path.field("timelineFolded"))?;
    let times = Times::from_wire(status.times, &path.field("times"))?;
    incident.times = Times {
        detected: times.detected.or(incident.times.detected),
        decided: times.decided.or(incident.times.decided),
        ..times
    };
    let cost = status.cost.0;
    let mut namespaces: Vec<Text> =
        cost.namespaces.0.into_iter().take(lazaret_lifecycle::NAMESPACES_MAX).map(Text::from).collect();
    namespaces.sort();
    incident.cost = Cost {
        pods_evicted: u64::from_wire(cost.pods_evicted, path)?,
        namespaces,
        out_of_service_ms: cost.out_of_service_seconds.0.saturating_mul(1_000),
        out_since: instant(cost.out_of_service_since),
    };
    incident.handled = FromWire::from_wire(status.handled, &path.field("handled"))?;
    incident.held = Option::<Held>::from_wire(status.held, &path.field("held"))?.map(Box::new);
    if let Some(held) = incident.held.as_mut().filter(|held| held.policy.is_empty()) {
        // An earlier version held what the policy of the incident wanted.
        held.policy = incident.policy.clone();
    }
    let demand = |wire: IncidentDemand| Demand {
        policy: wire.policy.0.into(),
        rule: wire.rule.0.into(),
        is_met: wire.met.0,
    };
    incident.demands = status.demands.0.into_iter().take(DEMANDS_MAX).map(demand).collect();
    let task = |task: IncidentTask| TaskObject {
        namespace: task.namespace.0.into(),
        name: task.name.0.into(),
        uid: task.uid.0.into(),
    };
    incident.task = status.task.map(|wire| Box::new(task(wire)));
    Ok(())
}

impl FromWire<IncidentHeld> for Held {
    fn from_wire(wire: IncidentHeld, path: &Path<'_>) -> Result<Self> {
        let unknown = || path.field("reason").error(format!("{:?} is no reason", wire.reason.0));
        Ok(Self {
            reason: HeldReason::from_name(&wire.reason.0).ok_or_else(unknown)?,
            stage: Stage::from_wire(wire.stage.0, &path.field("stage"))?,
            policy: wire.policy.map(Text::from).unwrap_or_default(),
            rule: wire.rule.0.into(),
            taint: taint(wire.taint_key, wire.taint_value.0),
            guard: wire.guard.0.into(),
            message: wire.message.0.into(),
        })
    }
}

/// A taint. Where no key is named it has the one that all had before it could be chosen.
fn taint(key: Option<String>, value: String) -> TaintKeyValue {
    TaintKeyValue {
        key: key.map_or_else(|| TaintKeyValue::KEY_DEFAULT.into(), Text::from),
        value: value.into(),
    }
}

fn device_json(device: &DeviceId) -> Value {
    json!({"driver": &*device.driver, "pool": &*device.pool, "device": &*device.device})
}

/// A new incident, as it was opened.
#[must_use]
pub fn incident_to_json(incident: &Incident) -> Value {
    let first = incident.timeline.first();
    let opened = first.map_or(incident.since, |entry| entry.at);
    let mut spec = json!({
        "device": device_json(&incident.device),
        "policy": &*incident.policy,
        "rule": &*incident.rule,
        "stage": first.map_or(incident.stage, |entry| entry.stage).name(),
        "taintKey": &*incident.taint.key,
        "taintValue": &*incident.taint.value,
        "cause": first.map_or("", |entry| &*entry.cause),
        "number": incident.serial,
        "openedAt": format_time_precise(opened),
    });
    if let Some(hardware) = &incident.hardware {
        spec["hardwareID"] = (&**hardware).into();
    }
    if let Some(detected) = incident.times.detected {
        spec["detectedAt"] = format_time_precise(detected).into();
    }
    json!({
        "apiVersion": "lazaret.dev/v1alpha1",
        "kind": "DeviceIncident",
        "metadata": {"name": &*incident.name, "labels": {"app.kubernetes.io/managed-by": "lazaret"}},
        "spec": spec,
    })
}

/// The status of an incident, for a merge: what is absent is null.
#[must_use]
pub fn incident_status_to_json(incident: &Incident) -> Value {
    let at = |time: Option<Timestamp>| time.map(format_time_precise);
    let entry = |entry: &Entry| {
        json!({
            "at": format_time_precise(entry.at), "stage": entry.stage.name(),
            "cause": &*entry.cause, "actor": &*entry.actor,
        })
    };
    let Times { detected, decided, drained, repaired, cleared } = incident.times;
    let whole = detected.zip(cleared).map(|(from, to)| to.millis_since(from) / 1_000);
    let Cost { pods_evicted, namespaces, out_of_service_ms, out_since } = &incident.cost;
    let handled = incident.handled;
    let held = incident.held.as_ref().map(|held| {
        json!({
            "stage": held.stage.name(), "policy": &*held.policy, "rule": &*held.rule,
            "guard": &*held.guard,
            "taintKey": &*held.taint.key, "taintValue": &*held.taint.value,
            "reason": held.reason.name(), "message": &*held.message,
        })
    });
    let demand = |one: &Demand| json!({"policy": &*one.policy, "rule": &*one.rule, "met": one.is_met});
    let task = incident
        .task
        .as_ref()
        .map(|task| json!({"namespace": &*task.namespace, "name": &*task.name, "uid": &*task.uid}));
    json!({
        "device": device_json(&incident.device),
        "stage": incident.stage.name(),
        "since": format_time_precise(incident.since),
        "policy": &*incident.policy,
        "rule": &*incident.rule,
        "taintKey": &*incident.taint.key,
        "taintValue": &*incident.taint.value,
        "waitsFor": &*incident.waits_for,
        "step": incident.step,
        "attempts": incident.attempts,
        "tries": incident.tries,
        "enforced": incident.is_enforced,
        "validated": incident.is_validated,
        "acknowledgedBy": incident.acknowledged_by.as_deref(),
        "flaps": incident.flaps.iter().map(|at| format_time_precise(*at)).collect::<Vec<_>>(),
        "calmSince": at(incident.calm_since),
        "goneSince": at(incident.gone_since),
        "sameIdentityAs": incident.twin.as_deref().map(device_json),
        "timeline": incident.timeline.iter().map(entry).collect::<Vec<_>>(),
        "timelineFolded": incident.folded,
        "times": {
            "detected": at(detected), "decided": at(decided), "drained": at(drained),
            "repaired": at(repaired), "cleared": at(cleared),
        },
        "timeToRecoverSeconds": whole,
        "cost": {
            "podsEvicted": pods_evicted,
            "namespaces": namespaces.iter().map(|name| &**name).collect::<Vec<_>>(),
            "outOfServiceSeconds": out_of_service_ms / 1_000,
            "outOfServiceSince": at(*out_since),
        },
        "handled": {
            "acknowledged": at(handled.acknowledged), "repaired": at(handled.repaired),
            "abandoned": at(handled.abandoned),
        },
        "held": held,
        "demands": incident.demands.iter().map(demand).collect::<Vec<_>>(),
        "task": task,
    })
}

/// Reads a DeviceSignal.
///
/// # Errors
/// The field that is wrong.
pub fn read_signal(json: &str) -> Result<Report> {
    let WireSignal { metadata, spec } = parse(json)?;
    let path = &Path::ROOT.field("spec");
    spec.check(path)?;
    let unknown = || path.field("source").error("is no source of signals");
    let source = Source::from_name(&spec.source).ok_or_else(unknown)?;
    let (message, by) = (spec.message.0, spec.by.0);
    let message = match (message.is_empty(), by.is_empty()) {
        (_, true) => message,
        (true, false) => format!("reported by {by}"),
        (false, false) => format!("{message} (reported by {by})"),
    };
    Ok(Report {
        name: metadata.name.0.into(),
        uid: metadata.uid.0.into(),
        // One that is no instant ends nothing.
        until: metadata.annotations.0.get(UNTIL).and_then(|text| parse_time(&text.0).ok()),
        signal: Signal {
            device: device(spec.device),
            key: spec.key.into(),
            value: spec.value.0.into(),
            source,
            at: instant(spec.at.or(metadata.creation_timestamp)).unwrap_or(Timestamp::EPOCH),
            lasts: spec.lasts.0,
            message: message.into(),
        },
    })
}
