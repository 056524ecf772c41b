//! DeviceIncident and DeviceSignal, to and from their JSON.

use lazaret_lifecycle::{
    Acts, Cost, Entry, Handled, Held, HeldReason, Incident, PersonAct, Report, Signal, Source, Stage, Stored,
    TaintKeyValue, Times,
};
use lazaret_model::{DeviceId, Text, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{FieldError, decode::parse_derived, format_time_precise, parse_time};

/// Entries of lists that are read; Lazaret writes fewer.
const LIST_MAX: usize = 256;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireIncident {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct WireDevice {
    driver: String,
    pool: String,
    device: String,
}

impl WireDevice {
    fn id(self) -> DeviceId {
        DeviceId::new(self.driver, self.pool, self.device)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    device: WireDevice,
    #[serde(rename = "hardwareID")]
    hardware_id: Option<String>,
    policy: String,
    rule: String,
    stage: String,
    taint_key: Option<String>,
    taint_value: String,
    cause: String,
    number: u32,
    opened_at: String,
    detected_at: Option<String>,
    acknowledged: Option<WireAct>,
    repaired: Option<WireAct>,
    abandoned: Option<WireAct>,
}

#[derive(Deserialize)]
struct WireAct {
    at: String,
    #[serde(default)]
    by: String,
    #[serde(default)]
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    device: Option<WireDevice>,
    stage: Option<String>,
    since: Option<String>,
    rule: Option<String>,
    taint_key: Option<String>,
    taint_value: Option<String>,
    #[serde(default)]
    waits_for: String,
    #[serde(default)]
    step: usize,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    tries: u32,
    #[serde(default)]
    enforced: bool,
    #[serde(default)]
    validated: bool,
    acknowledged_by: Option<String>,
    #[serde(default)]
    flaps: Vec<String>,
    #[serde(default)]
    timeline: Vec<WireEntry>,
    #[serde(default)]
    timeline_folded: u32,
    #[serde(default)]
    times: WireTimes,
    #[serde(default)]
    cost: WireCost,
    #[serde(default)]
    handled: WireHandled,
    held: Option<WireHeld>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireHeld {
    stage: String,
    rule: String,
    taint_key: Option<String>,
    #[serde(default)]
    taint_value: String,
    guard: String,
    reason: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct WireEntry {
    at: String,
    stage: String,
    #[serde(default)]
    cause: String,
    #[serde(default)]
    actor: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireTimes {
    detected: Option<String>,
    decided: Option<String>,
    drained: Option<String>,
    repaired: Option<String>,
    cleared: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireCost {
    pods_evicted: u64,
    namespaces: Vec<String>,
    out_of_service_seconds: i64,
    out_of_service_since: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireHandled {
    acknowledged: Option<String>,
    repaired: Option<String>,
    abandoned: Option<String>,
}

fn time(field: &str, text: &str) -> Result<Timestamp, FieldError> {
    parse_time(text).map_err(|message| FieldError { path: field.to_owned(), message })
}

/// An instant in a status: what cannot be read is not known.
fn maybe(text: Option<&String>) -> Option<Timestamp> {
    text.and_then(|text| parse_time(text).ok())
}

fn stage(field: &str, name: &str) -> Result<Stage, FieldError> {
    let unknown = || FieldError { path: field.to_owned(), message: format!("{name:?} is no stage") };
    Stage::from_name(name).ok_or_else(unknown)
}

/// Reads an incident. One without a status is as it was opened.
///
/// # Errors
/// The field that is wrong.
pub fn read_incident(json: &str) -> Result<Stored, FieldError> {
    let WireIncident { metadata, spec, status } = parse_derived(json)?;
    let opened = time("spec.openedAt", &spec.opened_at)?;
    let first = stage("spec.stage", &spec.stage)?;
    let policy = Text::from(spec.policy);
    let entry = Entry {
        at: opened,
        stage: first,
        cause: spec.cause.into(),
        actor: format!("policy {policy}").into(),
    };
    let detected = maybe(spec.detected_at.as_ref());
    let mut incident = Incident {
        number: 0,
        serial: spec.number,
        name: metadata.name.into(),
        device: spec.device.id(),
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
        is_validated: false,
        acknowledged_by: None,
        timeline: vec![entry],
        folded: 0,
        times: Times { detected, decided: Some(opened), ..Times::default() },
        cost: Cost::default(),
        handled: Handled::default(),
        held: None,
    };
    if let Some(status) = status.filter(|status| status.stage.is_some()) {
        add_status(&mut incident, status)?;
    }
    let act = |field: &str, act: Option<WireAct>| {
        act.map(|act| {
            let at = time(&format!("spec.{field}.at"), &act.at)?;
            Ok::<_, FieldError>(PersonAct { at, who: act.by.into(), why: act.reason.into() })
        })
        .transpose()
    };
    let acts = Acts {
        acknowledged: act("acknowledged", spec.acknowledged)?,
        repaired: act("repaired", spec.repaired)?,
        abandoned: act("abandoned", spec.abandoned)?,
    };
    let (uid, version) = (metadata.uid.into(), metadata.resource_version.into());
    Ok(Stored { uid, version, incident, acts })
}

fn add_status(incident: &mut Incident, status: Status) -> Result<(), FieldError> {
    incident.stage = stage("status.stage", status.stage.as_deref().unwrap_or_default())?;
    incident.since = maybe(status.since.as_ref()).unwrap_or(incident.since);
    if let Some(device) = status.device {
        incident.device = device.id();
    }
    if let Some(rule) = status.rule {
        incident.rule = rule.into();
    }
    if let Some(value) = status.taint_value {
        incident.taint = taint(status.taint_key, value);
    }
    incident.waits_for = status.waits_for.into();
    (incident.step, incident.attempts, incident.tries) = (status.step, status.attempts, status.tries);
    (incident.is_enforced, incident.is_validated) = (status.enforced, status.validated);
    incident.acknowledged_by = status.acknowledged_by.map(Text::from);
    incident.flaps = status.flaps.iter().take(LIST_MAX).filter_map(|at| parse_time(at).ok()).collect();
    let mut timeline = Vec::new();
    for entry in status.timeline.into_iter().take(lazaret_lifecycle::TIMELINE_MAX) {
        timeline.push(Entry {
            at: time("status.timeline.at", &entry.at)?,
            stage: stage("status.timeline.stage", &entry.stage)?,
            cause: entry.cause.into(),
            actor: entry.actor.into(),
        });
    }
    (incident.timeline, incident.folded) = (timeline, status.timeline_folded);
    let times = &status.times;
    incident.times = Times {
        detected: maybe(times.detected.as_ref()).or(incident.times.detected),
        decided: maybe(times.decided.as_ref()).or(incident.times.decided),
        drained: maybe(times.drained.as_ref()),
        repaired: maybe(times.repaired.as_ref()),
        cleared: maybe(times.cleared.as_ref()),
    };
    let mut namespaces: Vec<Text> =
        status.cost.namespaces.into_iter().take(lazaret_lifecycle::NAMESPACES_MAX).map(Text::from).collect();
    namespaces.sort();
    incident.cost = Cost {
        pods_evicted: status.cost.pods_evicted,
        namespaces,
        out_of_service_ms: status.cost.out_of_service_seconds.saturating_mul(1_000),
        out_since: maybe(status.cost.out_of_service_since.as_ref()),
    };
    incident.handled = Handled {
        acknowledged: maybe(status.handled.acknowledged.as_ref()),
        repaired: maybe(status.handled.repaired.as_ref()),
        abandoned: maybe(status.handled.abandoned.as_ref()),
    };
    incident.held = status.held.map(read_held).transpose()?.map(Box::new);
    Ok(())
}

fn read_held(held: WireHeld) -> Result<Held, FieldError> {
    let reason = HeldReason::from_name(&held.reason).ok_or_else(|| FieldError {
        path: "status.held.reason".to_owned(),
        message: format!("{:?} is no reason", held.reason),
    })?;
    Ok(Held {
        stage: stage("status.held.stage", &held.stage)?,
        rule: held.rule.into(),
        taint: taint(held.taint_key, held.taint_value),
        guard: held.guard.into(),
        reason,
        message: held.message.into(),
    })
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
            "stage": held.stage.name(), "rule": &*held.rule, "guard": &*held.guard,
            "taintKey": &*held.taint.key, "taintValue": &*held.taint.value,
            "reason": held.reason.name(), "message": &*held.message,
        })
    });
    json!({
        "device": device_json(&incident.device),
        "stage": incident.stage.name(),
        "since": format_time_precise(incident.since),
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
    })
}

#[derive(Deserialize)]
struct WireSignal {
    metadata: Metadata,
    spec: SignalSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SignalSpec {
    device: WireDevice,
    key: String,
    #[serde(default)]
    value: String,
    source: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    by: String,
    #[serde(default)]
    lasts: bool,
    at: Option<String>,
}

/// Reads a DeviceSignal.
///
/// # Errors
/// The field that is wrong.
pub fn read_signal(json: &str) -> Result<Report, FieldError> {
    let WireSignal { metadata, spec } = parse_derived(json)?;
    let created = metadata.creation_timestamp.as_ref();
    let source = Source::from_name(&spec.source)
        .filter(|source| matches!(source, Source::Person | Source::Alert))
        .ok_or_else(|| FieldError {
            path: "spec.source".to_owned(),
            message: "is Person or Alert: other signals are seen in the objects themselves".to_owned(),
        })?;
    let message = match (spec.message.is_empty(), spec.by.is_empty()) {
        (_, true) => spec.message,
        (true, false) => format!("reported by {}", spec.by),
        (false, false) => format!("{} (reported by {})", spec.message, spec.by),
    };
    Ok(Report {
        name: metadata.name.into(),
        uid: metadata.uid.into(),
        signal: Signal {
            device: spec.device.id(),
            key: spec.key.into(),
            value: spec.value.into(),
            source,
            at: maybe(spec.at.as_ref()).or(maybe(created)).unwrap_or(Timestamp::EPOCH),
            lasts: spec.lasts,
            message: message.into(),
        },
    })
}
