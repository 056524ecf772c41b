//! Objects that were made for incidents: rules, drains, Jobs and claims.

use lazaret_lifecycle::{Child, ChildKind, ChildTarget, JobResult, Owner, TaintKeyValue};
use lazaret_model::{ConditionStatus, DeviceId, DeviceTaintRule, Text};
use lazaret_runtime::{CLAIMS, INCIDENTS, JOBS, Model, Object, RULES, Resource, TAINT_POLICIES};

use lazaret_eviction::EVICTION_BLOCKED;
use serde::Deserialize;

use crate::{
    header::{Condition, Header},
    proof::Proofs,
};

/// Which kind of child objects of a resource are.
pub(super) fn kind(resource: &Resource) -> Option<ChildKind> {
    match *resource {
        resource if resource.plural == RULES.plural => Some(ChildKind::Rule),
        TAINT_POLICIES => Some(ChildKind::Drain),
        JOBS => Some(ChildKind::Job),
        CLAIMS => Some(ChildKind::Claim),
        _ => None,
    }
}

/// The child that an object is, if an incident owns it. A Job or a claim that this installation did not make is nobody's child, whatever it says.
pub(super) fn child(kind: ChildKind, object: &Object, proofs: &Proofs) -> Option<Child> {
    // Most objects belong to no incident: they are not worth reading.
    let needle = INCIDENTS.kind.as_bytes();
    memchr::memmem::find(object.json(), needle)?;
    let header = Header::read(object.json())?;
    let (name, uid) = header.controller(INCIDENTS)?;
    let needs_proof = match kind {
        ChildKind::Rule | ChildKind::Drain => None,
        ChildKind::Job => Some(JOBS.kind),
        ChildKind::Claim => Some(CLAIMS.kind),
    };
    if needs_proof.is_some_and(|kind| !proofs.has_made(kind, object.json(), &uid)) {
        return None;
    }
    let rule = || match object.model() {
        Ok(Model::Rule(rule)) => Some(rule),
        Ok(_) | Err(_) => None,
    };
    let target = match kind {
        ChildKind::Rule => {
            let rule = rule()?;
            let effect = rule.taint.effect.name().into();
            ChildTarget::Rule { device: device(rule), effect, taint: taint(rule), held: held(rule) }
        }
        ChildKind::Drain => {
            let rule = rule()?;
            let evicted = rule.evictions.map_or(0, |count| count.pods);
            let held = held(rule).filter(|held| !held.is_empty()).unwrap_or_else(|| blocked(rule));
            ChildTarget::Drain { device: device(rule), taint: taint(rule), evicted, held }
        }
        // A Job has ended when its pods have: until then its device and its node are not free for the next one.
        ChildKind::Job => {
            let ended = result(header.conditions()).filter(|_| !has_running_pods(object));
            ChildTarget::Job { result: ended }
        }
        ChildKind::Claim => ChildTarget::Claim,
    };
    Some(Child {
        namespace: object.key.namespace.clone(),
        name: object.key.name.clone(),
        uid: object.uid.clone(),
        owner: Owner { name, uid },
        target,
    })
}

/// The device that a rule names; parts that are missing are empty, which is no device.
fn device(rule: &DeviceTaintRule) -> DeviceId {
    let selector = rule.selector.clone().unwrap_or_default();
    DeviceId::new(
        selector.driver.unwrap_or_default(),
        selector.pool.unwrap_or_default(),
        selector.device.unwrap_or_default(),
    )
}

/// Why a rule has no effect yet, by the condition that says so; empty where that is not decided yet.
fn held(rule: &DeviceTaintRule) -> Option<Text> {
    rule.is_held().then(|| condition(rule, DeviceTaintRule::HELD).unwrap_or_default())
}

/// Why the pods of a policy stay.
fn blocked(rule: &DeviceTaintRule) -> Text {
    condition(rule, EVICTION_BLOCKED).unwrap_or_default()
}

/// The message of a condition that holds.
fn condition(rule: &DeviceTaintRule, kind: &str) -> Option<Text> {
    let said = rule.conditions.iter().find(|said| *said.kind == *kind)?;
    (said.status == ConditionStatus::True && !said.message.is_empty()).then(|| said.message.clone())
}

fn taint(rule: &DeviceTaintRule) -> TaintKeyValue {
    TaintKeyValue { key: rule.taint.key.clone(), value: rule.taint.value.clone() }
}

/// The counts of a Job's pods.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Job {
    status: Counts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Counts {
    active: Option<i64>,
    terminating: Option<i64>,
}

/// Whether pods of a Job run, or are stopping. They may where it cannot be read.
fn has_running_pods(job: &Object) -> bool {
    match serde_json::from_slice(job.json()) {
        Ok(Job { status }) => status.active.unwrap_or(0) + status.terminating.unwrap_or(0) > 0,
        Err(_) => true,
    }
}

fn result(conditions: &[Condition]) -> Option<JobResult> {
    let is = |kind: &str| conditions.iter().find(|one| one.kind == kind && one.status == "True");
    if is("Complete").is_some() {
        return Some(Ok(()));
    }
    let failed = is("Failed")?;
    let why = if failed.message.is_empty() { &failed.reason } else { &failed.message };
    Some(Err(why.clone()))
}
